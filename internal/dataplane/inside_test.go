package dataplane_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

// insides are errors in responses with the status 200, by the protocol of the provider.
var insides = []struct {
	name, target, body string
	status             int
	said               string // in the message for the client
}{
	{"a code", "chat", `{"error":{"message":"slow down","code":429}}`, 429, "slow down"},
	{"a type", "chat", `{"error":{"message":"slow down","type":"rate_limit_exceeded","code":null}}`, 429, "slow down"},
	{"an exhausted quota", "chat", `{"error":{"message":"no credit left","type":"insufficient_quota","code":"insufficient_quota"}}`, 429, "no credit left"},
	{"a word", "chat", `{"error":"slow down"}`, 502, "slow down"},
	{"vLLM's form", "chat", `{"object":"error","message":"too long","type":"BadRequestError","code":400}`, 400, "too long"},
	{"an error of a choice", "chat", `{"id":"g","choices":[{"index":0,"message":{"role":"assistant","content":"Ha"},"finish_reason":"error","error":{"code":503,"message":"Provider returned error","metadata":{"raw":"{\"error\":{\"message\":\"slow down\"}}"}}}]}`, 503, "slow down"},
	{"no choices", "chat", `{"id":"g","object":"chat.completion","choices":[]}`, 502, "choices"},
	{"overloaded", "messages", `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, 529, "Overloaded"},
	{"a rate limit", "messages", `{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}`, 429, "slow down"},
	{"exhausted", "gemini", `{"error":{"code":429,"message":"slow down","status":"RESOURCE_EXHAUSTED"}}`, 429, "slow down"},
	{"a status alone", "gemini", `{"error":{"message":"slow down","status":"UNAVAILABLE"}}`, 503, "slow down"},
	{"a code and a message", "chat", `{"code":429,"message":"slow down"}`, 429, "slow down"},
	{"a code as text", "chat", `{"status":"error","code":"1302","msg":"slow down"}`, 502, "slow down"},
	{"a detail", "chat", `{"detail":"slow down"}`, 502, "slow down"},
	{"MiniMax's form", "chat", `{"choices":null,"base_resp":{"status_code":1002,"status_msg":"slow down"}}`, 429, "slow down"},
	{"nothing but usage", "chat", `{"id":"g","usage":{"prompt_tokens":3,"completion_tokens":0}}`, 502, ""},
	{"no content", "messages", `{"type":"message","role":"assistant","content":[],"stop_reason":null}`, 502, "neither content"},
	{"no candidates", "gemini", `{"candidates":[],"usageMetadata":{"promptTokenCount":3}}`, 502, ""},
	{"a list", "gemini", `[{"error":{"code":429,"message":"slow down"}}]`, 429, "slow down"},
	{"no output", "converse", `{"output":null}`, 502, "neither content"},
	{"a message alone", "converse", `{"message":"slow down"}`, 502, "slow down"},
	{"throttling", "converse", `{"__type":"ThrottlingException","message":"slow down"}`, 429, "slow down"},
}

// TestErrorsInsideOfResponsesAreErrors has each client get the errors complete and as the
// first event of a stream.
func TestErrorsInsideOfResponsesAreErrors(t *testing.T) {
	t.Parallel()
	for _, client := range clientFormats {
		for _, in := range insides {
			if client.name == "responses" && (strings.Contains(in.body, `"choices"`) || in.name == "nothing but usage") {
				continue // to whom the target speaks another protocol
			}
			t.Run(client.name+"/"+in.target+"/"+in.name, func(t *testing.T) {
				t.Parallel()
				res, e := translated(t, client, in.target, rawComplete(in.body), false)
				if h := client.readResponse(t, res); res.Status != in.status || !strings.Contains(h.end, "error body") || !strings.Contains(string(res.Body), in.said) {
					t.Errorf("status %d, end %s: %s; want %d with %q", res.Status, h.end, res.Body, in.status, in.said)
				}
				if in.said != "" { // otherwise the gateway's words are those of the error
					recorded(t, e, map[string]any{"status": in.status, "error.source": "provider"})
				}
				if in.target == "converse" || in.name == "no choices" { // whose streams are binary; usual in the first event
					return
				}
				event, rest := "data: "+in.body+"\n\n", messageDelta("hello")
				switch {
				case in.said != "slow down" && in.status == 502 && in.target == "chat":
					rest = done // an event without choices may precede a response
				case in.said == "" || in.name == "no content":
					rest = ""
				}
				if in.target == "messages" {
					event = "event: error\n" + event
				}
				if in.name == "no content" {
					event = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
				}
				res, _ = translated(t, client, in.target, sseOf(event, rest), true)
				if h := client.readResponse(t, res); res.Status != in.status || !strings.Contains(h.end, "error body") || !strings.Contains(string(res.Body), in.said) {
					t.Errorf("as the first event: status %d, end %s: %s; want %d with %q", res.Status, h.end, res.Body, in.status, in.said)
				}
			})
		}
	}
}

// An error inside of a response is retried and fallen back from as its status would be, and
// is not cached.
func TestErrorsInsideOfResponsesAreFailedAttempts(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{false, true} {
		var calls atomic.Int32
		g := gatewaytest.New(t, gatewaytest.Options{Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, kind := `{"error":{"message":"slow down","code":429}}`, "application/json"
			if calls.Add(1)%3 == 0 {
				body = `{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}]}`
			}
			if stream {
				body, kind = "data: "+body+"\n\ndata: [DONE]\n\n", "text/event-stream"
			}
			w.Header().Set("Content-Type", kind)
			w.Write([]byte(body))
		})})
		body := plainChat
		if stream {
			body = streamChat
		}
		const cached = `{"provider":"@simulator","cache":{"mode":"simple"},"retry":{"attempts":2,"on_status_codes":[429]}}`
		res := g.Post("/chat/completions", body, "x-gateway-config", cached, "x-gateway-provider", "")
		if n := calls.Load(); res.Status != 200 || n != 3 || !strings.Contains(string(res.Body), "hello") {
			t.Errorf("stream %t: status %d after %d calls: %s; want 200 after 3", stream, res.Status, n, res.Body)
		}
		const alone = `{"provider":"@simulator","cache":{"mode":"simple"}}`
		body = strings.Replace(body, `"content":"`, `"content":"again `, 1)
		for range 2 {
			if res := g.Post("/chat/completions", body, "x-gateway-config", alone, "x-gateway-provider", ""); res.Status != 429 {
				t.Errorf("stream %t: status %d: %s; want 429, not a cached response", stream, res.Status, res.Body)
			}
		}
		if n := calls.Load(); n != 5 {
			t.Errorf("stream %t: %d calls; want 5", stream, n)
		}
	}
}

// TestFinishReasonsOfFailuresAreNotACleanEnd has providers end with reasons that mean failure
// or that nobody knows.
func TestFinishReasonsOfFailuresAreNotACleanEnd(t *testing.T) {
	t.Parallel()
	chat := func(reason string) (plain, stream string) {
		return `{"id":"c","model":"served","choices":[{"index":0,"message":{"role":"assistant","content":"Ha"},"finish_reason":"` + reason + `"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`,
			providerChoice(0, "Ha", "") + providerChoice(0, "", reason) + done
	}
	gemini := func(reason string) (plain, stream string) {
		plain = `{"candidates":[{"index":0,"content":{"role":"model","parts":[{"text":"Ha"}]},"finishReason":"` + reason + `"}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":2,"totalTokenCount":5}}`
		return plain, "data: " + plain + "\n\n"
	}
	clean := []string{`"stop"`, `"end_turn"`, `"completed"`, `"STOP"`}
	for _, tt := range []struct {
		target  string
		form    func(string) (string, string)
		failed  bool
		reasons []string
	}{
		{"chat", chat, true, []string{"error", "insufficient_system_resource", "network_error", "abort"}},
		{"chat", chat, false, []string{"of_the_future"}},
		{"gemini", gemini, true, []string{"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE"}},
		{"gemini", gemini, false, []string{"RECITATION", "OTHER", "OF_THE_FUTURE"}},
	} {
		for _, client := range clientFormats[:5] {
			if !translates(client.name, tt.target) {
				continue // passes as it is
			}
			for _, reason := range tt.reasons {
				t.Run(client.name+"/"+tt.target+"/"+reason, func(t *testing.T) {
					t.Parallel()
					plain, stream := tt.form(reason)
					res, e := translated(t, client, tt.target, rawComplete(plain), false)
					h := client.readResponse(t, res)
					if tt.failed && (res.Status < 500 || !strings.Contains(h.message, reason)) || !tt.failed && res.Status != 200 {
						t.Errorf("status %d: %s; want an error with the reason: %t", res.Status, res.Body, tt.failed)
					}
					if at(e, "usage.prompt_tokens") != 3.0 || at(e, "usage.completion_tokens") != 2.0 {
						t.Errorf("recorded usage %v, want that of the provider", e["usage"])
					}
					for _, word := range clean {
						if strings.Contains(string(res.Body), word) {
							t.Errorf("%s is reported as a clean end: %s", reason, res.Body)
						}
					}
					res, _ = translated(t, client, tt.target, sseOf(stream), true)
					if h := client.readResponse(t, res); tt.failed && h.end != "error" && h.end != "error body" || !tt.failed && h.end != "done" {
						t.Errorf("as a stream: end %s: %s; want an error: %t", h.end, res.Body, tt.failed)
					}
				})
			}
		}
	}
}
