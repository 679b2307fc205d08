package dataplane_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"modelgate/internal/simulator"
	"modelgate/internal/testing/gatewaytest"
)

// watched is a simulator that keeps the bodies of requests, and may refuse some.
type watched struct {
	sim    http.Handler
	refuse func(path, body string) (status int, answer string) // status 0 accepts

	mu     sync.Mutex
	bodies []string
}

func newWatched(t *testing.T, refuse func(path, body string) (int, string)) (*gatewaytest.Gateway, *watched) {
	t.Helper()
	w := &watched{sim: simulator.New(simulator.Options{}), refuse: refuse}
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: w, Settings: `providers:
  - {slug: chat, provider: openai, custom_host: SIMULATOR, api_key: "${PAIR_KEY}"}
  - {slug: grok, provider: x-ai, custom_host: SIMULATOR, api_key: "${PAIR_KEY}"}
  - {slug: host, provider: openai-compatible, custom_host: SIMULATOR, api_key: "${PAIR_KEY}"}
  - {slug: messages, provider: anthropic, custom_host: SIMULATOR, api_key: "${PAIR_KEY}"}
  - {slug: gemini, provider: google, custom_host: SIMULATOR, api_key: "${PAIR_KEY}"}
  - {slug: converse, provider: bedrock, custom_host: SIMULATOR, api_key: "${PAIR_KEY}"}
`})
	return g, w
}

func (u *watched) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	u.mu.Lock()
	u.bodies = append(u.bodies, string(body))
	u.mu.Unlock()
	if u.refuse != nil {
		if status, answer := u.refuse(r.URL.Path, string(body)); status != 0 {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			fmt.Fprint(w, answer)
			return
		}
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	u.sim.ServeHTTP(w, r)
}

// took returns the bodies since the last call.
func (u *watched) took() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	list := u.bodies
	u.bodies = nil
	return list
}

// withMembers is a client of a protocol whose requests have further members.
func (g clientFormat) withMembers(members string) clientFormat {
	g.body = strings.Replace(g.body, `"max_tokens":100,`, "", 1)
	g.body = "{" + members + "," + g.body[1:]
	return g
}

// limitMembers asks for a number of output tokens, in each protocol.
var limitMembers = map[string]struct{ members, name string }{
	"chat":      {`"max_tokens":%d`, "max_tokens"},
	"messages":  {`"max_tokens":%d`, "max_tokens"},
	"responses": {`"max_output_tokens":%d`, "max_output_tokens"},
	"gemini":    {`"generationConfig":{"maxOutputTokens":%d,"temperature":1}`, "generationConfig.maxOutputTokens"},
	"converse":  {`"inferenceConfig":{"maxTokens":%d,"temperature":1}`, "inferenceConfig.maxTokens"},
}

// Agents ask models that they do not know for as many tokens as others have;
// providers refuse more than the model has.
func TestOutputLimitIsReducedToThatOfTheModel(t *testing.T) {
	t.Parallel()
	g, up := newWatched(t, nil)
	for _, tt := range []struct {
		target, model string
		limit         int
	}{
		{"@chat", "gpt-4o", 16384},
		{"@chat", "gpt-4.1-mini", 32768},
		{"@chat", "gpt-4-turbo", 4096},
		{"@chat", "gpt-3.5-turbo", 4096},
		{"@converse", "us.amazon.nova-pro-v1:0", 10000},
		{"@gemini", "gemini-2.0-flash", 8192},
		{"@gemini", "gemini-2.5-flash", 65536},
		{"@messages", "claude-3-5-haiku-20241022", 8192},
	} {
		for _, client := range clientFormats[:5] {
			for _, stream := range []bool{false, true} {
				asks := limitMembers[client.name]
				for _, n := range []int{tt.limit + 1, 1 << 20} {
					res := client.withMembers(fmt.Sprintf(asks.members, n)).send(t, g, tt.target, tt.model, stream)
					sent := up.took()
					want := fmt.Sprintf("%s;clamped=%d", asks.name, tt.limit)
					if tt.target == "@messages" && client.name != "messages" {
						want = fmt.Sprintf(`%s;adapted="%d"`, asks.name, tt.limit)
					}
					if said := res.Header.Get("X-Gateway-Params"); res.Status != 200 || !strings.Contains(said, want) {
						t.Errorf("%s to %s %s, %d tokens, stream %t: status %d, announced %q, want 200 and %q: %.300s\nsent %q", client.name, tt.target, tt.model, n, stream, res.Status, said, want, res.Body, sent)
					}
				}
				res := client.withMembers(fmt.Sprintf(asks.members, tt.limit)).send(t, g, tt.target, tt.model, stream)
				sent := up.took()
				if said := res.Header.Get("X-Gateway-Params"); res.Status != 200 || strings.Contains(said, asks.name) || len(sent) != 1 || !strings.Contains(sent[0], fmt.Sprint(tt.limit)) {
					t.Errorf("%s to %s %s, as many as it has: status %d, announced %q, want 200 and nothing: sent %q", client.name, tt.target, tt.model, res.Status, said, sent)
				}
			}
		}
	}
}

// A body that is forwarded is changed in the limit alone.
func TestReducingTheOutputLimitKeepsTheRestOfTheBody(t *testing.T) {
	t.Parallel()
	g, up := newWatched(t, nil)
	const rest = `"messages": [ {"role":"user","content":"hello"} ], "model":"gpt-4o"}`
	g.Post("/chat/completions", `{ "max_completion_tokens" : 99999, `+rest, "x-gateway-provider", "@chat")
	if sent, want := up.took(), `{ "max_completion_tokens" : 16384, `+rest; len(sent) != 1 || sent[0] != want {
		t.Errorf("sent %q, want %q", sent, want)
	}
	// A renamed limit is reduced too.
	const long = `{"model":"o3","max_tokens":200000,"messages":[{"role":"user","content":"hello"}]}`
	res := g.Post("/chat/completions", long, "x-gateway-provider", "@chat")
	if sent := up.took(); len(sent) != 1 || !strings.Contains(sent[0], `"max_completion_tokens":100000`) || strings.Contains(sent[0], "max_tokens\":2") {
		t.Errorf("sent %q, want 100000 as max_completion_tokens; status %d: %s", sent, res.Status, res.Body)
	}
}

// Models that no table has are asked for what the client asks for, and a beta flag
// raises the limit of some.
func TestUnknownOutputLimitIsNotReduced(t *testing.T) {
	t.Parallel()
	g, up := newWatched(t, nil)
	for _, tt := range []struct{ path, target, model, beta string }{
		{"/chat/completions", "@chat", "our-deployment", ""},
		{"/chat/completions", "@host", "gpt-4o", ""},
		{"/chat/completions", "@chat", "gpt-7", ""},
		{"/messages", "@messages", "claude-opus-7", ""},
		{"/messages", "@messages", "claude-3-7-sonnet", "output-128k-2025-02-19"},
	} {
		headers := []string{"x-gateway-provider", tt.target}
		if tt.beta != "" {
			headers = append(headers, "anthropic-beta", tt.beta)
		}
		res := g.Post(tt.path, fmt.Sprintf(`{"model":%q,"max_tokens":128001,"messages":[{"role":"user","content":"hello"}]}`, tt.model), headers...)
		if sent := up.took(); len(sent) == 0 || !strings.Contains(sent[0], "128001") {
			t.Errorf("%s %s: status %d, sent %q, want 128001 tokens", tt.target, tt.model, res.Status, sent)
		}
	}
}

// Models that decide how much to think reject a budget, wherever they are served.
func TestBudgetBecomesAdaptiveThinking(t *testing.T) {
	t.Parallel()
	g, up := newWatched(t, nil)
	asks := map[string]struct{ members, name, effort string }{
		"chat":      {`"max_tokens":9000,"thinking":{"type":"enabled","budget_tokens":8000}`, "thinking", "medium"},
		"messages":  {`"max_tokens":9000,"thinking":{"type":"enabled","budget_tokens":1024}`, "thinking", "low"},
		"responses": {`"max_output_tokens":9000,"reasoning":{"effort":"high"}`, "", "high"},
		"gemini":    {`"generationConfig":{"maxOutputTokens":30000,"thinkingConfig":{"thinkingBudget":20000,"includeThoughts":true}}`, "generationConfig.thinkingConfig.thinkingBudget", "high"},
		"converse":  {`"inferenceConfig":{"maxTokens":9000},"additionalModelRequestFields":{"thinking":{"type":"enabled","budget_tokens":8000}}`, "additionalModelRequestFields.thinking", "medium"},
	}
	for _, target := range []struct{ slug, model, own string }{
		{"@messages", "claude-opus-4-8", "messages"},
		{"@messages", "claude-sonnet-5", "messages"},
		{"@converse", "global.anthropic.claude-opus-4-7-v1:0", "converse messages"},
		{"@converse", "arn:aws:bedrock:eu-west-1:123456789012:inference-profile/eu.anthropic.claude-opus-4-8-v1:0", "converse messages"},
	} {
		for _, client := range clientFormats[:5] {
			if strings.Contains(target.own, client.name) {
				continue // what it sends is forwarded
			}
			for _, stream := range []bool{false, true} {
				ask := asks[client.name]
				res := client.withMembers(ask.members).send(t, g, target.slug, target.model, stream)
				sent := strings.Join(up.took(), "")
				if res.Status != 200 || !strings.Contains(sent, `"type":"adaptive"`) || strings.Contains(sent, "budget_tokens") || !strings.Contains(sent, `"effort":"`+ask.effort+`"`) {
					t.Errorf("%s to %s, stream %t: status %d, sent %s, want adaptive thinking with effort %s: %.300s", client.name, target.model, stream, res.Status, sent, ask.effort, res.Body)
				}
				if said := res.Header.Get("X-Gateway-Params"); !strings.Contains(said, ask.name+`;adapted="adaptive"`) && ask.name != "" {
					t.Errorf("%s to %s, stream %t: announced %q, want %s", client.name, target.model, stream, said, ask.name)
				}
			}
		}
	}
}

// A budget of zero turns thinking off, and a model that thinks by a budget gets it.
func TestBudgetIsKeptWhereTheModelHasOne(t *testing.T) {
	t.Parallel()
	g, up := newWatched(t, nil)
	for _, tt := range []struct {
		model  string
		budget int
		want   string
	}{
		{"us.anthropic.claude-opus-4-8-v1:0", 0, `"thinking":{"type":"disabled"}`},
		{"us.anthropic.claude-sonnet-4-5-20250929-v1:0", 0, `"thinking":{"type":"disabled"}`},
		{"us.anthropic.claude-sonnet-4-5-20250929-v1:0", 2000, `"thinking":{"type":"enabled","budget_tokens":2000}`},
	} {
		client := clientFormats[3].withMembers(fmt.Sprintf(`"generationConfig":{"maxOutputTokens":9000,"thinkingConfig":{"thinkingBudget":%d}}`, tt.budget))
		res := client.send(t, g, "@converse", tt.model, false)
		if sent := strings.Join(up.took(), ""); res.Status != 200 || !strings.Contains(sent, tt.want) {
			t.Errorf("%s, a budget of %d: status %d, sent %s, want %s", tt.model, tt.budget, res.Status, sent, tt.want)
		}
	}
}
