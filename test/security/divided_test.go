package security

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// dividedRequests are requests whose message has the parts A and B, which a provider reads one after
// the other.
var dividedRequests = []struct{ name, path, body string }{
	{"two parts of chat", "/v1/chat/completions", `{"model":"gpt-4o","messages":[{"role":"user","content":[{"type":"text","text":"A"},{"type":"text","text":"B"}]}]}`},
	{"two parts of a chat stream", "/v1/chat/completions", `{"model":"gpt-4o","stream":true,"messages":[{"role":"user","content":[{"type":"text","text":"A"},{"type":"text","text":"B"}]}]}`},
	{"parts around an image of chat", "/v1/chat/completions", `{"model":"gpt-4o","messages":[{"role":"user","content":[{"type":"text","text":"A"},{"type":"image_url","image_url":{"url":"https://pictures.example/a.png"}},{"type":"text","text":"B"}]}]}`},
	{"three parts of chat", "/v1/chat/completions", `{"model":"gpt-4o","messages":[{"role":"user","content":[{"type":"text","text":"so "},{"type":"text","text":"A"},{"type":"text","text":""},{"type":"text","text":"B"}]}]}`},
	{"two parts of messages", "/v1/messages", `{"model":"gpt-4o","max_tokens":10,"messages":[{"role":"user","content":[{"type":"text","text":"A"},{"type":"text","text":"B"}]}]}`},
	{"two parts of responses", "/v1/responses", `{"model":"gpt-4o","input":[{"role":"user","content":[{"type":"input_text","text":"A"},{"type":"input_text","text":"B"}]}]}`},
	{"two parts of gemini", "/v1beta/models/gpt-4o:generateContent", `{"contents":[{"role":"user","parts":[{"text":"A"},{"text":"B"}]}]}`},
	{"two parts of converse", "/model/gpt-4o/converse", `{"messages":[{"role":"user","content":[{"text":"A"},{"text":"B"}]}]}`},
}

// dividedEarlier are requests whose texts a guardrail reads with the scope all.
var dividedEarlier = []struct{ name, path, body string }{
	{"two messages of chat", "/v1/chat/completions", `{"model":"gpt-4o","messages":[{"role":"user","content":"A"},{"role":"user","content":"B"}]}`},
	{"two messages of messages", "/v1/messages", `{"model":"gpt-4o","max_tokens":10,"messages":[{"role":"user","content":"A"},{"role":"user","content":"B"}]}`},
	{"two messages of responses", "/v1/responses", `{"model":"gpt-4o","input":[{"role":"user","content":"A"},{"role":"user","content":"B"}]}`},
	{"two messages of gemini", "/v1beta/models/gpt-4o:generateContent", `{"contents":[{"role":"user","parts":[{"text":"A"}]},{"role":"user","parts":[{"text":"B"}]}]}`},
	{"two messages of converse", "/model/gpt-4o/converse", `{"messages":[{"role":"user","content":[{"text":"A"}]},{"role":"user","content":[{"text":"B"}]}]}`},
	{"two system prompts of messages", "/v1/messages", `{"model":"gpt-4o","max_tokens":10,"system":[{"type":"text","text":"A"},{"type":"text","text":"B"}],"messages":[{"role":"user","content":"x"}]}`},
	{"two system prompts of chat", "/v1/chat/completions", `{"model":"gpt-4o","messages":[{"role":"system","content":"A"},{"role":"system","content":"B"},{"role":"user","content":"x"}]}`},
	{"two earlier parts of chat", "/v1/chat/completions", `{"model":"gpt-4o","messages":[{"role":"user","content":[{"type":"text","text":"A"},{"type":"text","text":"B"}]},{"role":"assistant","content":"x"},{"role":"user","content":"x"}]}`},
}

// divided returns a body with a text divided between A and B.
func divided(body, text string) string {
	half := len(text) / 2
	return strings.NewReplacer(`"A"`, fmt.Sprintf("%q", "see "+text[:half]), `"B"`, fmt.Sprintf("%q", text[half:]+" there")).Replace(body)
}

// A word that is divided between the parts of a message, or between messages that a provider merges, is
// read as a whole.
func TestDividedTextIsReadTogether(t *testing.T) {
	t.Parallel()
	g := startRanked(t)
	for _, r := range dividedRequests {
		for _, text := range []string{forbidden, redacted} {
			attack(t, "injection", text+" is divided between "+r.name, func(t *testing.T) {
				if got := g.send(t, "POST", r.path, divided(r.body, text), ""); got.status != 446 || len(g.provider.seen()) > 0 {
					t.Errorf("status %d, want 446: %.300s", got.status, got.body)
				}
			})
		}
		t.Run("harmless "+r.name, func(t *testing.T) {
			g.send(t, "POST", r.path, strings.ReplaceAll(strings.ReplaceAll(r.body, `"A"`, `"a `+redacted+`, blue"`), `"B"`, `" bird"`), "").ok(t)
			if g.provider.got(redacted) || !g.provider.got("a [bird], blue") || !g.provider.got(`" bird"`) {
				t.Errorf("the provider received %s", g.provider.seen()[0].body)
			}
		})
	}
	all := `,"input_guardrails":[{"deny":true,"default.contains":{"words":["Kestrel"],"operator":"none","scope":"all"}}]`
	for _, r := range dividedEarlier {
		attack(t, "injection", "a text is divided between "+r.name, func(t *testing.T) {
			if got := g.send(t, "POST", r.path, divided(r.body, "Kestrel"), all); got.status != 446 {
				t.Errorf("status %d, want 446: %.300s", got.status, got.body)
			}
			g.send(t, "POST", r.path, divided(r.body, "Buzzard"), all).ok(t)
		})
	}
	half := len(withheld) / 2
	g.provider.reset()
	for name, body := range map[string]string{
		"messages": `{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"an %s"},{"type":"text","text":"%s"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`,
		"gemini":   `{"candidates":[{"content":{"role":"model","parts":[{"text":"an %s"},{"text":"%s"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":1,"totalTokenCount":2}}`,
	} {
		provider := map[string]string{"messages": "anthropic", "gemini": "google"}[name]
		p := newProvider(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, fmt.Sprintf(body, withheld[:half], withheld[half:]))
		})
		for _, path := range []string{"/v1/chat/completions", "/v1/messages"} {
			attack(t, "injection", "a text is divided between two parts of a response of "+name+" to "+path, func(t *testing.T) {
				got := g.as(t, g.key, "POST", path, `{"model":"m","max_tokens":10,"messages":[{"role":"user","content":"x"}]}`, "x-gateway-config", fmt.Sprintf(`{"provider":%q,"custom_host":%q,"api_key":%q}`, provider, p.url, clientKey))
				if got.status != 446 {
					t.Errorf("status %d, want 446: %.300s", got.status, got.body)
				}
			})
		}
	}
}

// A client may read a stream in the charset that its content type names: a guardrail that denies
// reads it in UTF-8 only, so it denies others.
func TestNoCharsetOfAStreamPassesTheGuardrailsOfAnOrganisation(t *testing.T) {
	t.Parallel()
	g := startRanked(t)
	const utf7 = "+AE8-sprey"
	text := utf7
	g.reply.Store(&text)
	respond := g.provider.server.Config.Handler
	var named atomic.Pointer[string]
	p := newProvider(t, func(w http.ResponseWriter, r *http.Request) {
		respond.ServeHTTP(&inCharset{w, *named.Load()}, r)
	})
	send := func(path, body, charset string) response {
		named.Store(&charset)
		p.reset()
		return g.do(t, "POST", path, body, toCustomHost(g.key, p)...)
	}
	for _, r := range clientRequests {
		if !strings.HasSuffix(r.name, "stream") || strings.HasPrefix(r.name, "pass") {
			continue
		}
		for _, charset := range []string{"utf-7", "utf-16", "UTF-16LE", "utf-32", "ibm037"} {
			attack(t, "injection", "a text in "+charset+" passes a guardrail in a "+r.name, func(t *testing.T) {
				got := send(r.path, r.body, charset)
				kind := strings.ToLower(got.header.Get("Content-Type")) // of a translated stream, the gateway's
				if got.status != 446 && (r.name == "chat stream" || strings.Contains(kind, strings.ToLower(charset))) {
					t.Errorf("status %d and the type %s, want 446: %.300s", got.status, kind, got.body)
				}
			})
		}
		for _, charset := range []string{"", "utf-8", "UTF8", "iso-8859-1"} {
			send(r.path, r.body, charset).ok(t)
		}
	}
}

// inCharset names a charset in the type of a stream.
type inCharset struct {
	http.ResponseWriter
	charset string
}

func (w *inCharset) Write(b []byte) (int, error) {
	if h := w.Header(); h.Get("Content-Type") == "text/event-stream" && w.charset != "" {
		h.Set("Content-Type", "text/event-stream; charset="+w.charset)
	}
	return w.ResponseWriter.Write(b)
}

// Nor does dividing it between the content blocks of a stream.
func TestTextDividedBetweenBlocksOfAStreamIsReadTogether(t *testing.T) {
	t.Parallel()
	g := startRanked(t)
	var blocks atomic.Pointer[[]string]
	p := newProvider(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		event := func(kind, more string) { fmt.Fprintf(w, "event: %s\ndata: {\"type\":%[1]q%s}\n\n", kind, more) }
		event("message_start", `,"message":{"id":"m","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":1,"output_tokens":1}}`)
		for i, text := range *blocks.Load() {
			event("content_block_start", fmt.Sprintf(`,"index":%d,"content_block":{"type":"text","text":""}`, i))
			event("content_block_delta", fmt.Sprintf(`,"index":%d,"delta":{"type":"text_delta","text":%q}`, i, text))
			event("content_block_stop", fmt.Sprintf(`,"index":%d`, i))
		}
		event("message_delta", `,"delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}`)
		event("message_stop", "")
	})
	send := func(t *testing.T, path string, texts ...string) response {
		t.Helper()
		blocks.Store(&texts)
		return g.as(t, g.key, "POST", path, `{"model":"m","max_tokens":10,"stream":true,"messages":[{"role":"user","content":"x"}]}`, "x-gateway-config", fmt.Sprintf(`{"provider":"anthropic","custom_host":%q,"api_key":%q}`, p.url, clientKey))
	}
	for _, texts := range [][]string{{"an " + withheld[:3], withheld[3:] + " there"}, {withheld[:1], withheld[1:4], withheld[4:]}, {"so", " an " + withheld[:5], withheld[5:]}, {"a " + redacted[:2], redacted[2:]}} {
		for _, path := range []string{"/v1/messages", "/v1/chat/completions"} {
			attack(t, "injection", fmt.Sprintf("%q are blocks of a stream of %s", texts, path), func(t *testing.T) {
				got := send(t, path, texts...)
				if redacts := strings.Contains(string(got.body), "[bird]"); got.status != 446 && !redacts || strings.Contains(string(got.body), fmt.Sprintf("%q", texts[len(texts)-1])) {
					t.Errorf("status %d, want 446 or the text without it: %.600s", got.status, got.body)
				}
			})
		}
	}
	got := send(t, "/v1/messages", "an "+redacted, " here ", "and there").ok(t)
	for _, want := range []string{"an [bird]", " here ", "and there"} {
		if !strings.Contains(string(got.body), want) {
			t.Errorf("a harmless stream lacks %q: %s", want, got.body)
		}
	}
}
