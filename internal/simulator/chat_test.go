package simulator_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/simulator"
	"modelgate/internal/testing/recorder"
)

const sayIt = "echo: Say it"

func TestChatEchoesTheLastUserMessage(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	for _, tt := range []struct{ name, content, want string }{
		{"a text", `"Hé, \"you\" \ud83d\ude00\n"`, "Hé, \"you\" 😀\n"},
		{"parts", `[{"type":"text","text":"one "},{"type":"image_url","image_url":{"url":"data:x"}},{"type":"text","text":"two"}]`, "one two"},
		{"a text longer than the default answer", `"` + strings.Repeat("long ", 100) + `"`, strings.Repeat("long ", 100)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body := `{"model":"sim-1","messages":[{"role":"user","content":"before"},{"role":"assistant","content":"x"},{"role":"user","content":` + tt.content + `}]}`
			c := h.mustPost("/v1/chat/completions", body).mustDecode(t)
			if got := c.Choices[0].Message.Content; !strings.HasPrefix(got, "echo: "+tt.want) {
				t.Errorf("content = %q, want it to begin with %q", got, "echo: "+tt.want)
			}
			s := gather(t, h.mustPost("/chat/completions", `{"stream":true,`+body[1:]).body)
			if s.text[0] != c.Choices[0].Message.Content {
				t.Errorf("the stream says %q, the body %q", s.text[0], c.Choices[0].Message.Content)
			}
		})
	}
}

func TestChatUsageIsTheSameStreamedAndPlain(t *testing.T) {
	const tools = `,"tools":[{"type":"function","function":{"name":"weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}}]`
	for _, tt := range []struct{ name, extra string }{
		{"plain", ""}, {"two choices", `,"n":2`}, {"short", `,"max_tokens":3`}, {"tools", tools}, {"two choices of tools", tools + `,"n":2`},
		{"a format", `,"response_format":{"type":"json_object"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := mustServe(t, simulator.Options{})
			body := strings.TrimSuffix(plain("sim-1"), "}") + tt.extra + "}"
			c := h.mustPost("/v1/chat/completions", body).mustDecode(t)
			s := gather(t, h.mustPost("/v1/chat/completions", `{"stream":true,"stream_options":{"include_usage":true},`+body[1:]).body)
			if s.usage == nil || *s.usage != *c.Usage {
				t.Fatalf("usage of the stream = %+v, of the body %+v", s.usage, c.Usage)
			}
			if c.Usage.Prompt+c.Usage.Completion != c.Usage.Total || c.Usage.Completion == 0 || c.Usage.Prompt == 0 {
				t.Errorf("usage %+v does not add up", *c.Usage)
			}
			if err := h.sim.Wait(t.Context(), 2); err != nil {
				t.Fatal(err)
			}
			want := recorder.Tokens{Requests: 2, Prompt: 2 * c.Usage.Prompt, Completion: 2 * c.Usage.Completion}
			if got := h.sim.Served().Models["sim-1"]; got != want {
				t.Errorf("served %+v, want %+v", got, want)
			}
		})
	}
}

func TestChatStreamHasTheFramesOfAProvider(t *testing.T) {
	h := mustServe(t, simulator.Options{Tokens: 10})
	a := h.mustPost("/v1/chat/completions", streamBody("sim-1"))
	list := events(a.body)
	s := gather(t, a.body)
	// role, ten tokens, finish, usage, [DONE]
	if len(list) != 14 || !s.roleAt1 || s.finish[0] != "stop" || !s.done || list[13].data != "[DONE]" {
		t.Fatalf("frames: %+v", list)
	}
	for i, e := range list[:13] {
		c := mustParse(t, e.data)
		if !e.ended || c.Object != "chat.completion.chunk" || c.Model != "sim-1" || !strings.HasPrefix(c.ID, "chatcmpl-") {
			t.Errorf("frame %d is %q", i, e.data)
		}
	}
	if c := mustParse(t, list[12].data); len(c.Choices) != 0 || c.Usage == nil || c.Usage.Completion != 10 {
		t.Errorf("usage frame = %q", list[12].data)
	}
	if got := a.Header.Get("Content-Type"); got != "text/event-stream; charset=utf-8" {
		t.Errorf("content type = %q", got)
	}
	without := gather(t, h.mustPost("/v1/chat/completions", `{"stream":true,`+plain("sim-1")[1:]).body)
	if without.usage != nil || without.frames != 12 {
		t.Errorf("without include_usage: usage %v, %d frames, want none and 12", without.usage, without.frames)
	}
}

func TestChatResponsesAreDeterministic(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	one, two := h.mustPost("/v1/chat/completions", plain("sim-1")), h.mustPost("/v1/chat/completions", plain("sim-1"))
	other := h.mustPost("/v1/chat/completions", plain("sim-2"))
	if one.body != two.body || mustParse(t, one.body).ID == mustParse(t, other.body).ID {
		t.Errorf("equal bodies: %q and %q; another: %q", one.body, two.body, other.body)
	}
	if a, b := one.Header.Get("X-Simulator-Request"), two.Header.Get("X-Simulator-Request"); a == b || a == "" {
		t.Errorf("request numbers %q and %q, want two", a, b)
	}
}

func TestChatLengthIsWhatWasAskedFor(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	for _, tt := range []struct {
		name, model, extra string
		tokens             int
		finish             string
	}{
		{"default", "sim-1", "", 64, "stop"},
		{"tokens", "sim-1+tokens=2000", "", 2000, "stop"},
		{"fewer tokens than the echo", "sim-1+tokens=2", "", 2, "stop"},
		{"max_tokens", "sim-1", `,"max_tokens":5`, 5, "length"},
		{"max_completion_tokens", "sim-1", `,"max_completion_tokens":7`, 7, "length"},
		{"a limit that does not bind", "sim-1", `,"max_tokens":5000`, 64, "stop"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := h.mustPost("/v1/chat/completions", strings.TrimSuffix(plain(tt.model), "}")+tt.extra+"}").mustDecode(t)
			if got := len(c.Choices[0].Message.Content); got != tt.tokens*4 || c.Usage.Completion != tt.tokens || *c.Choices[0].Finish != tt.finish {
				t.Errorf("%d bytes, %d tokens, %s; want %d tokens of 4 bytes, %s", got, c.Usage.Completion, *c.Choices[0].Finish, tt.tokens, tt.finish)
			}
		})
	}
}

func TestChatCallsTools(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	const tools = `"tools":[{"type":"function","function":{"name":"weather","parameters":{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"}}}}},` +
		`{"type":"function","function":{"name":"time","parameters":{"type":"object","properties":{"zone":{"enum":["UTC","CET"]}}}}}]`
	const weather, clock = `weather{"city":"Say it","days":1}`, `time{"zone":"UTC"}`
	for _, tt := range []struct{ name, extra, want, finish string }{
		{"several at once", tools, weather + clock, "tool_calls"},
		{"one at a time", tools + `,"parallel_tool_calls":false`, weather, "tool_calls"},
		{"the chosen one", tools + `,"tool_choice":{"type":"function","function":{"name":"time"}}`, clock, "tool_calls"},
		{"none", tools + `,"tool_choice":"none"`, "", "stop"},
		{"functions", `"functions":[{"name":"old","parameters":{"type":"object","properties":{"a":{"type":"boolean"}}}}]`, `old{"a":true}`, "function_call"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body := `{` + tt.extra + `,` + plain("sim-1")[1:]
			c := h.mustPost("/v1/chat/completions", body).mustDecode(t).Choices[0]
			var got strings.Builder
			for _, call := range c.Message.Calls {
				got.WriteString(call.Function.Name + call.Function.Arguments)
			}
			if c.Message.Call != nil {
				got.WriteString(c.Message.Call.Name + c.Message.Call.Arguments)
			}
			if got.String() != tt.want || *c.Finish != tt.finish {
				t.Errorf("calls %q, %s; want %q, %s", got.String(), *c.Finish, tt.want, tt.finish)
			}
			s := gather(t, h.mustPost("/v1/chat/completions", `{"stream":true,`+body[1:]).body)
			if got := s.names[0] + s.args[0] + s.names[1] + s.args[1]; got != tt.want || s.finish[0] != tt.finish {
				t.Errorf("stream: calls %q, %s; want %q, %s", got, s.finish[0], tt.want, tt.finish)
			}
		})
	}
	t.Run("not after a result", func(t *testing.T) {
		body := `{` + tools + `,"model":"m","messages":[{"role":"user","content":"Say it"},{"role":"tool","tool_call_id":"call_sim1","content":"rain"}]}`
		if c := h.mustPost("/v1/chat/completions", body).mustDecode(t).Choices[0]; !strings.HasPrefix(c.Message.Content, sayIt) {
			t.Errorf("content = %q, want a text", c.Message.Content)
		}
	})
}

func TestChatHonoursFormatChoicesAndLogprobs(t *testing.T) {
	h := mustServe(t, simulator.Options{})
	t.Run("json_schema", func(t *testing.T) {
		const format = `{"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"type":"object","$defs":{"p":{"type":"object","properties":{"name":{"type":"string"}}}},"properties":{"people":{"type":"array","items":{"$ref":"#/$defs/p"}},"kind":{"type":["string","null"],"enum":["a","b"]}}}}},`
		c := h.mustPost("/v1/chat/completions", format+plain("sim-1")[1:]).mustDecode(t)
		if got := c.Choices[0].Message.Content; got != `{"kind":"a","people":[{"name":"Say it"}]}` {
			t.Errorf("content = %s", got)
		}
	})
	t.Run("n", func(t *testing.T) {
		c := h.mustPost("/v1/chat/completions", `{"n":3,`+plain("sim-1")[1:]).mustDecode(t)
		s := gather(t, h.mustPost("/v1/chat/completions", `{"n":3,`+streamBody("sim-1")[1:]).body)
		if len(c.Choices) != 3 || c.Choices[1].Message.Content == c.Choices[2].Message.Content || c.Usage.Completion != 3*64 {
			t.Errorf("choices = %+v, usage = %+v", c.Choices, c.Usage)
		}
		for i, ch := range c.Choices {
			if s.text[i] != ch.Message.Content || s.finish[i] != "stop" {
				t.Errorf("choice %d: stream says %q, body %q", i, s.text[i], ch.Message.Content)
			}
		}
	})
	t.Run("logprobs", func(t *testing.T) {
		c := h.mustPost("/v1/chat/completions", `{"logprobs":true,"top_logprobs":2,`+plain("sim-1")[1:]).mustDecode(t).Choices[0]
		var text strings.Builder
		for _, p := range c.Logprobs.Content {
			text.WriteString(p.Token)
			if len(p.Top) != 2 || len(p.Bytes) != len(p.Token) {
				t.Errorf("token %+v", p)
			}
		}
		if text.String() != c.Message.Content {
			t.Errorf("tokens say %q, the message %q", text.String(), c.Message.Content)
		}
	})
}

func TestChatRefusesWhatAProviderRefuses(t *testing.T) {
	h := mustServe(t, simulator.Options{MaxBody: 4096})
	for _, tt := range []struct {
		name, body   string
		status       int
		param, about string
	}{
		{"no JSON", `{"model":"m","messages":[`, 400, "", "JSON"},
		{"two values", plain("m") + "{}", 400, "", "byte"},
		{"an array", `[]`, 400, "", "JSON"},
		{"nothing", ``, 400, "", "JSON"},
		{"no model", `{"messages":[{"role":"user","content":"x"}]}`, 400, "model", "model"},
		{"a model that is not a string", `{"model":5,"messages":[{"role":"user","content":"x"}]}`, 400, "model", "string"},
		{"no messages", `{"model":"m"}`, 400, "messages", "messages"},
		{"empty messages", `{"model":"m","messages":[]}`, 400, "messages", "at least one"},
		{"messages that are not an array", `{"model":"m","messages":"x"}`, 400, "messages", "array"},
		{"a message that is not an object", `{"model":"m","messages":["x"]}`, 400, "messages", "objects"},
		{"options of a stream that is not asked for", `{"stream_options":{"include_usage":true},` + plain("m")[1:], 400, "stream_options", "only allowed when stream is enabled"},
		{"stream that is not a boolean", `{"stream":"yes",` + plain("m")[1:], 400, "stream", "boolean"},
		{"too many choices", `{"n":129,` + plain("m")[1:], 400, "n", "128"},
		{"too many logprobs", `{"top_logprobs":21,` + plain("m")[1:], 400, "top_logprobs", "20"},
		{"too large", plain(strings.Repeat("m", 5000)), 413, "", "larger"},
		{"an unknown fault", plain("m+nonsense=3"), 400, "model", `"nonsense"`},
		{"a fault with a bad value", plain("m+status=9"), 400, "model", "status=429"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := h.mustPost("/v1/chat/completions", tt.body)
			e := a.mustDecode(t).Error
			if e == nil || a.StatusCode != tt.status || e.Type != "invalid_request_error" || !strings.Contains(e.Message, tt.about) {
				t.Fatalf("status %d, body %s; want %d about %q", a.StatusCode, a.body, tt.status, tt.about)
			}
			if got := deref(e.Param); got != tt.param {
				t.Errorf("param = %q, want %q", got, tt.param)
			}
			if !json.Valid([]byte(a.body)) || !strings.Contains(a.body, `"code":`) {
				t.Errorf("body = %s", a.body)
			}
		})
	}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func TestKeyIsTakenFromWhereClientsPutIt(t *testing.T) {
	h := mustServe(t, simulator.Options{Key: "sk-right"})
	for _, tt := range []struct {
		name, path, header, value string
		want                      int
	}{
		{"bearer", "", "Authorization", "Bearer sk-right", 200},
		{"x-api-key", "", "X-Api-Key", "sk-right", 200},
		{"api-key", "", "Api-Key", "sk-right", 200},
		{"query", "?key=sk-right", "X-None", "", 200},
		{"none", "", "X-None", "", 401},
		{"wrong", "", "Authorization", "Bearer sk-wrong", 401},
		{"basic", "", "Authorization", "Basic sk-right", 401},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := h.mustPost("/v1/chat/completions"+tt.path, plain("sim-1"), tt.header, tt.value)
			if a.StatusCode != tt.want {
				t.Fatalf("status = %d, want %d", a.StatusCode, tt.want)
			}
			if code := a.mustDecode(t); tt.want == http.StatusUnauthorized && deref(code.Error.Code) != "invalid_api_key" {
				t.Errorf("body = %s", a.body)
			}
		})
	}
}
