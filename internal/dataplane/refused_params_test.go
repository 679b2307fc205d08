package dataplane_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// thinkMembers ask for thinking in each protocol, with the client's name for it.
var thinkMembers = map[string]struct{ members, name string }{
	"chat":      {`"reasoning_effort":"high"`, "reasoning_effort"},
	"messages":  {`"max_tokens":9000,"thinking":{"type":"enabled","budget_tokens":2000}`, "thinking"},
	"responses": {`"reasoning":{"effort":"high"}`, "reasoning.effort"},
	"gemini":    {`"generationConfig":{"thinkingConfig":{"thinkingLevel":"high"}}`, "generationConfig.thinkingConfig.thinkingLevel"},
	"converse":  {`"additionalModelRequestFields":{"thinking":{"type":"enabled","budget_tokens":2000}}`, "additionalModelRequestFields.thinking"},
}

// A provider that refuses the effort of a model is asked a second time without it; later
// requests for the model are sent without it at once.
func TestRefusedEffortIsLeftOutAndRemembered(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		status int
		answer string // of a provider that refuses
	}{
		{"ollama", 400, `{"error":{"message":"\"m\" does not support thinking","type":"invalid_request_error","param":null,"code":null}}`},
		{"cerebras", 400, `{"message":"property 'reasoning_effort' is unsupported","type":"invalid_request_error","param":"validation_error","code":"wrong_api_format"}`},
		{"openai", 400, `{"error":{"message":"Unrecognized request argument supplied: reasoning_effort","type":"invalid_request_error","param":null,"code":null}}`},
		{"a code", 400, `{"error":{"message":"This parameter cannot be used.","type":"invalid_request_error","param":"reasoning_effort","code":"unsupported_parameter"}}`},
		{"mistral", 422, `{"object":"error","message":{"detail":[{"type":"extra_forbidden","loc":["body","reasoning_effort"],"msg":"Extra inputs are not permitted","input":"high"}]}}`},
		{"an error inside", 200, `{"error":{"message":"m does not support reasoning_effort","code":400}}`},
	} {
		for _, client := range clientFormats[:5] {
			if client.name == "responses" {
				continue // this host has an endpoint of its own for them
			}
			for _, stream := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %s stream %t", tt.name, client.name, stream), func(t *testing.T) {
					g, up := newWatched(t, func(_, body string) (int, string) {
						if strings.Contains(body, "reasoning_effort") {
							return tt.status, tt.answer
						}
						return 0, ""
					})
					asks := thinkMembers[client.name]
					for i, calls := range []int{2, 1, 1} {
						res := client.withMembers(asks.members).send(t, g, "@host", "m", stream)
						h, sent := client.readResponse(t, res), up.took()
						if h.end != "complete" && h.end != "done" || h.text == "" || len(sent) != calls {
							t.Errorf("request %d: called %d times, want %d; the client read %+v", i, len(sent), calls, h)
						}
						if said := res.Header.Get("X-Gateway-Params"); !strings.Contains(said, asks.name+";dropped") || strings.Contains(said, "adapted") {
							t.Errorf("request %d: announced %q, want %s;dropped", i, said, asks.name)
						}
					}
					other := client.withMembers(asks.members).send(t, g, "@host", "other", stream)
					if sent := up.took(); len(sent) != 2 || other.Status != 200 {
						t.Errorf("another model: status %d, called %d times, want 2", other.Status, len(sent))
					}
				})
			}
		}
	}
}

// The members of an object that the error does not name stay, and forwarded bodies
// keep the rest of their bytes.
func TestOnlyTheRefusedParameterIsLeftOut(t *testing.T) {
	t.Parallel()
	g, up := newWatched(t, func(path, body string) (int, string) {
		switch {
		case strings.HasSuffix(path, "/responses") && strings.Contains(body, `"effort"`):
			return 400, `{"error":{"message":"Unsupported parameter: 'reasoning.effort' is not supported with this model.","type":"invalid_request_error","param":"reasoning.effort","code":"unsupported_parameter"}}`
		case strings.Contains(body, "reasoning_effort"):
			return 400, `{"error":{"message":"reasoning_effort is not supported","type":"invalid_request_error","param":"reasoning_effort","code":null}}`
		case strings.Contains(body, `"output_config"`):
			return 400, `{"type":"error","error":{"type":"invalid_request_error","message":"This model does not support the effort parameter."}}`
		}
		return 0, ""
	})
	for _, tt := range []struct{ path, target, body, want string }{
		{"/responses", "@host", `{"model":"a", "reasoning": {"effort":"high", "summary":"auto"}, "input":"hello"}`, `{"model":"a", "reasoning": {"summary":"auto"}, "input":"hello"}`},
		{"/chat/completions", "@host", `{"model":"b", "reasoning_effort":"high", "messages":[ {"role":"user","content":"hello"} ]}`, `{"model":"b", "messages":[ {"role":"user","content":"hello"} ]}`},
		{"/messages", "@messages", `{"model":"c", "max_tokens":9, "output_config":{"effort":"low"}, "messages":[ {"role":"user","content":"hello"} ]}`, `{"model":"c", "max_tokens":9, "messages":[ {"role":"user","content":"hello"} ]}`},
	} {
		res := g.Post(tt.path, tt.body, "x-gateway-provider", tt.target)
		if sent := up.took(); res.Status != 200 || !slices.Equal(sent, []string{tt.body, tt.want}) {
			t.Errorf("%s: status %d, sent %q, want %q: %s", tt.path, res.Status, sent, tt.want, res.Body)
		}
	}
}

// Errors about something else are the client's, after one call.
func TestOtherErrorsAreNotRepeated(t *testing.T) {
	t.Parallel()
	const body = `{"model":"m","reasoning_effort":"high","messages":[{"role":"user","content":"hello"}]}`
	for _, tt := range []struct {
		name, body string
		status     int
		answer     string
		headers    []string
	}{
		{"a value", body, 400, `{"error":{"message":"Unsupported value: 'reasoning_effort' does not support 'high' with this model. Supported values are: 'low'.","code":"unsupported_value"}}`, nil},
		{"another parameter", body, 400, `{"error":{"message":"Unsupported parameter: 'temperature' is not supported with this model.","code":"unsupported_parameter"}}`, nil},
		{"a longer name", body, 400, `{"error":{"message":"messages.1.thinking: Extra inputs are not permitted; reasoning_effort_level is not supported"}}`, nil},
		{"another status", body, 403, `{"error":{"message":"reasoning_effort is not supported"}}`, nil},
		{"not sent", strings.Replace(body, `"reasoning_effort":"high",`, "", 1), 400, `{"error":{"message":"reasoning_effort is not supported"}}`, nil},
		{"refuse", body, 400, `{"error":{"message":"reasoning_effort is not supported"}}`, []string{"x-gateway-config", `{"provider":"@host","on_unsupported":"refuse"}`}},
	} {
		g, up := newWatched(t, func(string, string) (int, string) { return tt.status, tt.answer })
		for range 2 {
			res := g.Post("/chat/completions", tt.body, append([]string{"x-gateway-provider", "@host"}, tt.headers...)...)
			if sent := up.took(); res.Status != tt.status || len(sent) != 1 {
				t.Errorf("%s: status %d after %d calls, want %d after one: %s", tt.name, res.Status, len(sent), tt.status, res.Body)
			}
		}
	}
}

// A refusal that the repetition does not cure is not remembered, and repetitions end.
func TestRepetitionsEnd(t *testing.T) {
	t.Parallel()
	g, up := newWatched(t, func(string, string) (int, string) {
		return 400, `{"error":{"message":"thinking is not supported by this model"}}`
	})
	for range 2 {
		res := g.Post("/chat/completions", `{"model":"m","reasoning_effort":"high","thinking":{"type":"enabled"},"messages":[{"role":"user","content":"hello"}]}`, "x-gateway-provider", "@host")
		if sent := up.took(); res.Status != 400 || len(sent) != 2 {
			t.Errorf("status %d after %d calls, want 400 after 2: %q", res.Status, len(sent), sent)
		}
	}
}

// Models that are known to refuse an effort get none.
func TestKnownModelsWithoutAnEffortGetNone(t *testing.T) {
	t.Parallel()
	g, up := newWatched(t, nil)
	for _, tt := range []struct {
		target, model string
		effort        string // that is sent; empty for none
	}{
		{"@chat", "gpt-4o", ""}, {"@chat", "gpt-4.1", ""}, {"@chat", "gpt-3.5-turbo", ""},
		{"@grok", "grok-4-fast-reasoning", ""}, {"@grok", "grok-3", ""}, {"@grok", "grok-code-fast-1", ""}, {"@grok", "grok-4.20-0309-reasoning", ""},
		{"@grok", "grok-4.3", "high"}, {"@grok", "grok-3-mini", "high"}, {"@grok", "grok-4.6", "high"},
		{"@chat", "our-deployment", "high"},
	} {
		for _, client := range clientFormats[:5] {
			asks := thinkMembers[client.name]
			if client.name == "messages" || client.name == "converse" { // whose budget is a medium effort
				asks.members = strings.Replace(asks.members, "2000", "20000", 1)
				asks.members = strings.Replace(asks.members, "9000", "40000", 1)
			}
			res := client.withMembers(asks.members).send(t, g, tt.target, tt.model, false)
			sent := up.took()
			if len(sent) != 1 || res.Status != 200 {
				t.Errorf("%s to %s: status %d after %d calls: %s", client.name, tt.model, res.Status, len(sent), res.Body)
				continue
			}
			has := strings.Contains(sent[0], `"reasoning_effort":"`+tt.effort+`"`) || strings.Contains(sent[0], `"effort":"`+tt.effort+`"`)
			said := strings.Contains(res.Header.Get("X-Gateway-Params"), asks.name+";dropped")
			if tt.effort == "" && (strings.Contains(sent[0], "effort") || !said) || tt.effort != "" && (!has || said) {
				t.Errorf("%s to %s: sent %s, announced %q, want effort %q", client.name, tt.model, sent[0], res.Header.Get("X-Gateway-Params"), tt.effort)
			}
		}
	}
}
