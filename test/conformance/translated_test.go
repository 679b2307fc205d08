package conformance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// ask returns a chat request for the model of x with further members.
func (x providerFormat) ask(members ...string) string {
	return node(append([]string{`"model":"` + x.model + `"`, `"messages":[{"role":"user","content":"x"}]`}, members...)...)
}

// TestResponsesOfEveryProtocolHaveTheFields reads what clients of the chat
// protocol get from providers of each other one.
func TestResponsesOfEveryProtocolHaveTheFields(t *testing.T) {
	g, _ := start(t)
	for _, x := range providerFormats {
		called := g.do(t, "POST", chatStream.path, x.ask(), x.to(newProvider(t, speaks(true)))...).wantOK(t).object(t)
		said := g.do(t, "POST", chatStream.path, x.ask(), x.to(newProvider(t, speaks(false)))...).wantOK(t).object(t)
		for _, s := range []shape{
			has("S-133", `0`, "choices", 0, "index"),
			has("S-133", `null`, "choices", 0, "logprobs"),
			has("S-134", `"Hello"`, "choices", 0, "message", "content"),
			has("S-134", `"assistant"`, "choices", 0, "message", "role"),
			has("S-141", `"chat.completion"`, "object"),
			has("S-143", `7`, "usage", "prompt_tokens"),
			has("S-143", `2`, "usage", "completion_tokens"),
			has("S-143", `9`, "usage", "total_tokens"),
			has("S-105 S-276", `null`, "choices", 0, "message", "reasoning_content"),
			has("S-105 S-137", `null`, "choices", 0, "message", "content_blocks"),
		} {
			prove(t, s.of, fmt.Sprint(x.name, " ", s.path), func(t *testing.T) {
				for _, got := range []map[string]any{called, said} {
					if v, err := json.Marshal(at(got, s.path...)); err != nil || string(v) != s.want {
						t.Errorf("%v = %s (%v), want %s", s.path, v, err, s.want)
					}
				}
			})
		}
		prove(t, "S-133", x.name+" ends with stop", func(t *testing.T) {
			choice, _ := at(said, "choices", 0).(map[string]any)
			if _, ok := choice["logprobs"]; !ok {
				t.Errorf("choice = %v, want it with logprobs", choice)
			}
			if at(said, "choices", 0, "finish_reason") != "stop" || at(called, "choices", 0, "finish_reason") != "tool_calls" {
				t.Errorf("finish reasons = %v and %v", at(said, "choices", 0, "finish_reason"), at(called, "choices", 0, "finish_reason"))
			}
		})
		prove(t, "S-135", x.name+" calls a tool", func(t *testing.T) {
			want := `[{"function":{"arguments":"{\"q\":1}","name":"look"},"id":"call_1","type":"function"}]`
			if v, _ := json.Marshal(at(called, "choices", 0, "message", "tool_calls")); string(v) != want {
				t.Errorf("tool calls = %s, want %s", v, want)
			}
		})
		prove(t, "S-135", x.name+" calls a tool in a stream", func(t *testing.T) {
			got := g.do(t, "POST", chatStream.path, x.ask(`"stream":true`), x.to(newProvider(t, speaks(true)))...).wantOK(t)
			var calls []string
			for line := range strings.SplitSeq(string(got.body), "\n") {
				var chunk any
				json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &chunk)
				if call := at(chunk, "choices", 0, "delta", "tool_calls", 0); at(call, "id") != nil {
					calls = append(calls, fmt.Sprint(at(call, "id"), " ", at(call, "type"), " ", at(call, "function", "name")))
				}
			}
			if !slices.Equal(calls, []string{"call_1 function look"}) {
				t.Errorf("calls begin with %q, want the id, the type and the name of one: %s", calls, got.body)
			}
		})
		prove(t, "S-132 S-139 S-140 S-044", x.name+" has an id, a model and a time", func(t *testing.T) {
			id, _ := said["id"].(string)
			model, _ := said["model"].(string)
			if id == "" || model == "" || !regexp.MustCompile(`^\d{10}$`).MatchString(fmt.Sprint(said["created"])) {
				t.Errorf("id %q, model %q, created %v", id, model, said["created"])
			}
		})
		if x.made != "" {
			prove(t, "S-139", x.name+" says when the provider made it", func(t *testing.T) {
				if called["created"] != json.Number(x.made) || said["created"] != json.Number(x.made) {
					t.Errorf("created %v and %v, want the provider's %s", called["created"], said["created"], x.made)
				}
			})
		}
	}
	g.proveEndings(t)
}

// proveEndings proves what answers of other protocols have that end in another way than
// with one text or one call.
func (g *gateway) proveEndings(t *testing.T) {
	ask := func(t *testing.T, x providerFormat, response string, more ...string) map[string]any {
		t.Helper()
		p := newProvider(t, says(200, "application/json", response))
		return g.do(t, "POST", chatStream.path, x.ask(more...), x.to(p)...).wantOK(t).object(t)
	}
	messages := func(content, reason string) string {
		return `{"id":"m","type":"message","role":"assistant","model":"m","content":[` + content + `],"stop_reason":"` + reason + `","stop_sequence":null,"usage":{"input_tokens":7,"output_tokens":2}}`
	}
	candidates := func(second string) string {
		one := func(index, reason string) string {
			return `{"index":` + index + `,"content":{"role":"model","parts":[{"text":"Hello"}]},"finishReason":"` + reason + `"}`
		}
		return `{"candidates":[` + one("0", "STOP") + `,` + one("1", second) + `],"usageMetadata":{"promptTokenCount":7,"candidatesTokenCount":2,"totalTokenCount":9}}`
	}
	const text = `{"type":"text","text":"Hello"}`
	for reason, want := range map[string]string{"max_tokens": "length", "refusal": "content_filter", "stop_sequence": "stop", "model_context_window_exceeded": "length"} {
		prove(t, "S-133", "messages that end with "+reason, func(t *testing.T) {
			if got := at(ask(t, providerFormats[0], messages(text, reason)), "choices", 0, "finish_reason"); got != want {
				t.Errorf("finish reason %v, want %s", got, want)
			}
		})
	}
	for reason, want := range map[string]string{"MAX_TOKENS": "length", "SAFETY": "content_filter"} {
		prove(t, "S-133", "a second choice that ends with "+reason, func(t *testing.T) {
			got := ask(t, providerFormats[2], candidates(reason), `"n":2`)
			if index := fmt.Sprint(at(got, "choices", 1, "index")); index != "1" || at(got, "choices", 1, "finish_reason") != want {
				t.Errorf("the second choice has the index %s and ends with %v, want 1 and %s", index, at(got, "choices", 1, "finish_reason"), want)
			}
		})
	}
	prove(t, "S-135", "two calls in one message", func(t *testing.T) {
		call := func(id, name string) string {
			return `{"type":"tool_use","id":"` + id + `","name":"` + name + `","input":{"q":1}}`
		}
		got := ask(t, providerFormats[0], messages(call("call_1", "look")+","+call("call_2", "find"), "tool_use"))
		if one, two := at(got, "choices", 0, "message", "tool_calls", 0, "function", "name"), at(got, "choices", 0, "message", "tool_calls", 1, "function", "name"); one != "look" || two != "find" {
			t.Errorf("calls of %v and %v, want look and find", one, two)
		}
	})
	prove(t, "S-135", "calls to which the provider gives no id", func(t *testing.T) {
		const call = `{"functionCall":{"name":"look","args":{}}}`
		got := ask(t, providerFormats[2], `{"candidates":[{"index":0,"content":{"role":"model","parts":[`+call+`,`+call+`]},"finishReason":"STOP"}]}`)
		one, _ := at(got, "choices", 0, "message", "tool_calls", 0, "id").(string)
		two, _ := at(got, "choices", 0, "message", "tool_calls", 1, "id").(string)
		if one == "" || two == "" || one == two {
			t.Errorf("ids %q and %q, want one for each call", one, two)
		}
	})
}

func TestFunctionsOfOldClientsAreCalledEverywhere(t *testing.T) {
	g, _ := start(t)
	for _, x := range providerFormats {
		prove(t, "S-136 S-285 S-286", x.name, func(t *testing.T) {
			p := newProvider(t, speaks(true))
			body := x.ask(`"functions":[{"name":"look","parameters":{"type":"object","properties":{"q":{"type":"integer"}}}}]`, `"function_call":"auto"`)
			got := g.do(t, "POST", chatStream.path, body, x.to(p)...).wantOK(t).object(t)
			want := `{"arguments":"{\"q\":1}","name":"look"}`
			if v, _ := json.Marshal(at(got, "choices", 0, "message", "function_call")); string(v) != want || at(got, "choices", 0, "finish_reason") != "function_call" {
				t.Errorf("function call = %s, finish %v, want %s", v, at(got, "choices", 0, "finish_reason"), want)
			}
			if in := p.only(t); !strings.Contains(string(in.body), `"look"`) {
				t.Errorf("the provider got %s, want the function", in.body)
			}
			alone := x.ask(`"functions":[{"name":"look","parameters":{"type":"object","properties":{"q":{"type":"integer"}}}}]`)
			got = g.do(t, "POST", chatStream.path, alone, x.to(p)...).wantOK(t).object(t)
			if v, _ := json.Marshal(at(got, "choices", 0, "message", "function_call")); string(v) != want || at(got, "choices", 0, "message", "tool_calls") != nil {
				t.Errorf("functions without function_call are answered with %v, want the function call %s", at(got, "choices", 0, "message"), want)
			}
			stream := string(g.do(t, "POST", chatStream.path, strings.Replace(alone, "{", `{"stream":true,`, 1), x.to(p)...).wantOK(t).body)
			if !strings.Contains(stream, `"function_call":{"name":"look"`) || strings.Contains(stream, "tool_calls") || !strings.Contains(stream, `"finish_reason":"function_call"`) {
				t.Errorf("functions are called in a stream by %s, want a function call", stream)
			}
		})
	}
}

// Reasoning and content blocks come when strict compliance is off, by header or
// by config, and not else.
func TestStrictComplianceDecidesAboutReasoning(t *testing.T) {
	g, _ := start(t)
	thinks := `"thinking":{"type":"enabled","budget_tokens":2048}`
	for _, x := range providerFormats {
		for _, tt := range []struct {
			of, name string
			header   []string
			member   string // of a config
			shown    bool
		}{
			{"S-276 S-105", "hidden by default", nil, "", false},
			{"S-276 S-105", "hidden by the header", []string{"x-gateway-strict-vendora-compliance", "true"}, "", false},
			{"S-274 S-276 S-105 S-137", "shown by the header", []string{"x-gateway-strict-vendora-compliance", "false"}, "", true},
			{"S-274 S-276 S-105 S-137", "shown by the config", nil, `"strict_vendora_compliance":false`, true},
			{"S-276 S-105", "hidden by the config", nil, `"strict_vendora_compliance":true`, false},
			{"S-276 S-105 S-436", "hidden by the header before the config", []string{"x-gateway-strict-vendora-compliance", "true"}, `"strict_vendora_compliance":false`, false},
			{"S-276 S-105 S-436", "shown by the header before the config", []string{"x-gateway-strict-vendora-compliance", "false"}, `"strict_vendora_compliance":true`, true},
		} {
			prove(t, tt.of, x.name+" "+tt.name, func(t *testing.T) {
				p := newProvider(t, speaks(true))
				header := x.to(p, tt.header...)
				if tt.member != "" {
					header = append(x.configured(p, tt.member), tt.header...)
				}
				got := g.do(t, "POST", chatStream.path, x.ask(thinks), header...).wantOK(t).object(t)
				message := at(got, "choices", 0, "message")
				blocks, _ := json.Marshal(at(message, "content_blocks"))
				text := strings.Contains(string(blocks), `"type":"text"`) && strings.Contains(string(blocks), `"text":"Hello"`)
				if shown := at(message, "reasoning_content") == "because"; shown != tt.shown || text != tt.shown {
					t.Errorf("message = %v, want reasoning and blocks: %t", message, tt.shown)
				}
				stream := g.do(t, "POST", chatStream.path, x.ask(thinks, `"stream":true`), header...).wantOK(t)
				if p := gathered(stream.body); (p.thinking == "because") != tt.shown || (p.blocks > 0) != tt.shown || p.text != "Hello" {
					t.Errorf("the stream says %+v, want reasoning and blocks: %t", p, tt.shown)
				}
			})
		}
	}
}

// configured are the headers of a request for p by a config.
func (x providerFormat) configured(p *provider, members ...string) []string {
	list := append([]string{`"provider":"` + x.provider + `"`, `"custom_host":"` + p.root + `"`, `"cloud_b_project_id":"p-1"`, `"cloud_b_region":"europe-west4"`, `"cloud_a_region":"eu-west-1"`}, members...)
	if x.provider != "oracle" {
		list = append(list, `"api_key":"`+credential+`"`)
	}
	return []string{"x-gateway-api-key", bootstrapKey, "x-gateway-config", node(list...)}
}

// TestStreamsOfEveryProviderAreOfOneKind asks every provider that converses.
func TestStreamsOfEveryProviderAreOfOneKind(t *testing.T) {
	g, _ := start(t)
	p := newProvider(t, speaks(true))
	var list []struct {
		ID         string
		Operations []string
	}
	out, _, _ := command(t, "providers", "--json")
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatal(err)
	}
	needed := []string{"x-gateway-deployment-id", "d-1", "x-gateway-tenant", "t-1", "x-gateway-base-model", "b-1"} // by single rows
	asked := 0
	for _, row := range list {
		talks := slices.ContainsFunc(row.Operations, func(op string) bool {
			return slices.Contains([]string{"chat", "messages", "generate", "converse", "cohere.chat", "ollama.chat", "oracle.chat", "responses"}, op)
		})
		if !talks {
			continue
		}
		asked++
		prove(t, "S-472 S-270 S-271 S-289", row.ID, func(t *testing.T) {
			x := providerFormat{provider: row.ID, model: "m-1"}
			got := g.do(t, "POST", chatStream.path, x.ask(`"stream":true`, `"stream_options":{"include_usage":true}`), x.to(p, needed...)...).wantOK(t)
			checkStream(t, string(got.body), "chat.completion.chunk")
			if said := gathered(got.body); said.text != "Hello" || said.usage != "[7,2,9]" || said.finish == "" {
				t.Errorf("the stream says %+v", said)
			}
			whole := g.do(t, "POST", chatStream.path, x.ask(), x.to(p, needed...)...).wantOK(t).object(t)
			if at(whole, "object") != "chat.completion" || at(whole, "choices", 0, "message", "content") != "Hello" {
				t.Errorf("the complete response is %v", whole)
			}
		})
	}
	if asked < 105 {
		t.Errorf("%d providers converse, want more", asked)
	}
}

func TestStreamsOfEveryProtocolSayTheSame(t *testing.T) {
	g, _ := start(t)
	for _, x := range providerFormats {
		prove(t, "S-141 S-270 S-271 S-272 S-472", x.name, func(t *testing.T) {
			p := newProvider(t, speaks(true))
			got := g.do(t, "POST", chatStream.path, x.ask(`"stream":true`, `"stream_options":{"include_usage":true}`), x.to(p)...).wantOK(t)
			checkStream(t, string(got.body), "chat.completion.chunk")
			want := pieces{text: "Hello", name: "look", arguments: `{"q":1}`, finish: "tool_calls", usage: "[7,2,9]"}
			if said := gathered(got.body); said != want {
				t.Errorf("the stream says %+v, want %+v", said, want)
			}
			for _, options := range []string{`null`, `{}`, `{"include_usage":false}`} {
				if without := gathered(g.do(t, "POST", chatStream.path, x.ask(`"stream":true`, `"stream_options":`+options), x.to(p)...).wantOK(t).body); without.usage != "" {
					t.Errorf("with stream_options %s, usage %s was not asked for", options, without.usage)
				}
			}
			if without := gathered(g.do(t, "POST", chatStream.path, x.ask(`"stream":true`), x.to(p)...).wantOK(t).body); without.usage != "" {
				t.Errorf("usage %s was not asked for", without.usage)
			}
			g.do(t, "POST", chatStream.path, x.ask(`"stream_options":{"include_usage":true}`), x.to(p)...).refused(t, http.StatusBadRequest)
		})
		if x.dated {
			prove(t, "S-139", x.name+" says in a stream when the provider made it", func(t *testing.T) {
				got := g.do(t, "POST", chatStream.path, x.ask(`"stream":true`), x.to(newProvider(t, speaks(true)))...).wantOK(t)
				if chunks := strings.Count(string(got.body), `"created":`); chunks < 3 || strings.Count(string(got.body), `"created":`+x.made+`,`) != chunks {
					t.Errorf("the stream is %s, want every chunk to be of %s", got.body, x.made)
				}
			})
		}
	}
}

// TestContextErrorsKeepTheirStatus has each protocol refuse what is too long
// for the model, with truncation disabled.
func TestContextErrorsKeepTheirStatus(t *testing.T) {
	g, _ := start(t)
	const message = "Input tokens exceed the configured limit of 272000 tokens."
	for _, tt := range []struct{ provider, path, body, error string }{
		{"openai", "/v1/responses", `{"model":"m","input":"x","truncation":"disabled"}`, `{"error":{"message":"` + message + `","type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}`},
		{"openai", chatStream.path, modelRoutes[0].body, `{"error":{"message":"` + message + `","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`},
		{"anthropic", "/v1/responses", `{"model":"m","input":"x","truncation":"disabled"}`, `{"type":"error","error":{"type":"invalid_request_error","message":"` + message + `"}}`},
		{"anthropic", chatStream.path, modelRoutes[0].body, `{"type":"error","error":{"type":"invalid_request_error","message":"` + message + `"}}`},
		{"google", chatStream.path, modelRoutes[0].body, `{"error":{"code":400,"message":"` + message + `","status":"INVALID_ARGUMENT"}}`},
		{"bedrock", chatStream.path, modelRoutes[0].body, `{"message":"` + message + `"}`},
		{"cohere", chatStream.path, modelRoutes[0].body, `{"id":"1","message":"` + message + `"}`},
		{"oracle", chatStream.path, modelRoutes[0].body, `{"code":"400","message":"` + message + `"}`},
	} {
		prove(t, "S-475", tt.provider+" on "+tt.path, func(t *testing.T) {
			p := newProvider(t, says(http.StatusBadRequest, "application/json", tt.error))
			for _, body := range []string{tt.body, strings.Replace(tt.body, "{", `{"stream":true,`, 1)} {
				p.forget()
				got := g.do(t, "POST", tt.path, body, providerFormat{provider: tt.provider}.to(p)...)
				e := at(got.object(t), "error")
				if said, _ := at(e, "message").(string); got.status != 400 || !strings.HasSuffix(said, message) || at(e, "source") != "provider" {
					t.Errorf("%s: status %d: %s, want the provider's 400 and message", body, got.status, got.body)
				}
			}
			if tt.path == "/v1/responses" && tt.provider == "openai" && p.only(t).field(t, "truncation") != `"disabled"` {
				t.Error("truncation did not reach the provider")
			}
		})
	}
}
