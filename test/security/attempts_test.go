package security

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/testing/waittest"
)

// failing is a provider that fails at once and asks to be tried again at once.
func failing(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Retry-After-Ms", "0")
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusServiceUnavailable)
	io.WriteString(w, `{"error":{"message":"no"}}`)
}

// breaking is a provider whose streams break after their first event.
func breaking(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	first, _, _ := strings.Cut(chatStream, "\n\n")
	io.WriteString(w, first+"\n\n")
	http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// newSilent starts a provider that answers nothing until its client leaves.
func newSilent(t *testing.T) *provider {
	return newProvider(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
}

// targetAt is a leaf at a provider of the suite.
func targetAt(p *provider, more string) string {
	return fmt.Sprintf(`{"provider":"openai-compatible","custom_host":%q,"api_key":"k"%s}`, p.url, more)
}

func TestOneRequestMakesABoundedNumberOfAttempts(t *testing.T) {
	t.Parallel()
	g, _ := start(t)
	const retry = `,"retry":{"attempts":5,"use_retry_after_headers":true}`
	fallback := func(targets string) string { return `{"strategy":{"mode":"fallback"},"targets":[` + targets + `]}` }
	for _, tt := range []struct {
		name, body string
		config     func(p *provider) string
		handler    http.HandlerFunc
		status     int
	}{
		{"a hundred fallbacks", chatBody, func(p *provider) string { return fallback(repeated(100, always(targetAt(p, "")))) }, failing, 503},
		{"fallbacks with retries", chatBody, func(p *provider) string { return fallback(repeated(20, always(targetAt(p, retry)))) }, failing, 503},
		{"fallbacks in fallbacks with retries", chatBody, func(p *provider) string {
			return fallback(repeated(10, always(fallback(repeated(10, always(targetAt(p, retry)))))))
		}, failing, 503},
		{"hedges in fallbacks", chatBody, func(p *provider) string {
			return fallback(repeated(10, always(`{"strategy":{"mode":"fallback"},"hedge":{"delay_ms":1,"max":10},"targets":[`+repeated(10, always(targetAt(p, "")))+`]}`)))
		}, failing, 503},
		{"balanced targets in fallbacks", chatBody, func(p *provider) string {
			return fallback(repeated(50, always(`{"strategy":{"mode":"loadbalance"},"targets":[`+repeated(3, always(targetAt(p, "")))+`]}`)))
		}, failing, 503},
		{"a stream that falls back", strings.Replace(chatBody, "{", `{"stream":true,`, 1), func(p *provider) string { return fallback(repeated(100, always(targetAt(p, "")))) }, failing, 503},
		{"a stream that breaks and goes on", strings.Replace(chatBody, "{", `{"stream":true,`, 1), func(p *provider) string {
			return strings.Replace(fallback(repeated(100, always(targetAt(p, "")))), "{", `{"stream_continuation":true,`, 1)
		}, breaking, 200},
	} {
		attack(t, "exhaustion", "attempts: "+tt.name, func(t *testing.T) {
			p := newProvider(t, tt.handler)
			r := g.as(t, rootKey, "POST", "/v1/chat/completions", tt.body, "x-gateway-config", tt.config(p))
			if n := len(p.seen()); n != 32 {
				t.Errorf("the provider received %d requests, want 32", n)
			}
			if r.status != tt.status {
				t.Fatalf("status %d, want %d: %.300s", r.status, tt.status, r.body)
			}
			if tt.status == 503 {
				r.refused(t, 503, "32 attempts", "limits.attempts", "attempts_exhausted")
			}
		})
	}
	attack(t, "exhaustion", "attempts: a fallback within the limit serves", func(t *testing.T) {
		bad, good := newProvider(t, failing), newProvider(t, nil)
		g.as(t, rootKey, "POST", "/v1/chat/completions", chatBody, "x-gateway-config", fallback(repeated(20, always(targetAt(bad, "")))+","+targetAt(good, ""))).ok(t)
	})
	attack(t, "exhaustion", "attempts: a hedge that was begun serves although none is left", func(t *testing.T) {
		bad := newProvider(t, failing)
		slow := newProvider(t, func(w http.ResponseWriter, r *http.Request) {
			waittest.Until(t, "the other target has used up the attempts", func() bool { return len(bad.seen()) >= 31 })
			respondChat(w, r)
		})
		config := `{"strategy":{"mode":"fallback"},"hedge":{"delay_ms":1,"max":1},"targets":[` + targetAt(slow, "") + `,` + fallback(repeated(50, always(targetAt(bad, "")))) + `]}`
		g.as(t, rootKey, "POST", "/v1/chat/completions", chatBody, "x-gateway-config", config).ok(t)
		if n := len(bad.seen()) + len(slow.seen()); n != 32 {
			t.Errorf("%d attempts, want 32", n)
		}
	})
}

func TestAttemptLimitIsReportedInEveryDialect(t *testing.T) {
	t.Parallel()
	g, _ := start(t)
	for _, tt := range []struct{ name, path, body, want string }{
		{"chat", "/v1/chat/completions", chatBody, `"error":{"message":`},
		{"messages", "/v1/messages", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`, `"type":"error"`},
		{"responses", "/v1/responses", `{"model":"m","input":"hi"}`, `"error":{`},
		{"gemini", "/v1beta/models/m:generateContent", `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`, `"status":"UNAVAILABLE"`},
		{"converse", "/model/m/converse", `{"messages":[{"role":"user","content":[{"text":"hi"}]}]}`, `"message":`},
	} {
		attack(t, "exhaustion", "attempts told in the dialect "+tt.name, func(t *testing.T) {
			p := newProvider(t, failing)
			config := `{"strategy":{"mode":"fallback"},"targets":[` + repeated(60, always(targetAt(p, ""))) + `]}`
			g.as(t, rootKey, "POST", tt.path, tt.body, "x-gateway-config", config).refused(t, 503, "32 attempts", "limits.attempts", tt.want)
			if n := len(p.seen()); n != 32 {
				t.Errorf("the provider received %d requests, want 32", n)
			}
		})
	}
}

func TestAttemptLimitIsASetting(t *testing.T) {
	g := launch(t, options{settings: "version: 1\nlimits: {attempts: 3}\n"})
	p := newProvider(t, failing)
	config := `{"strategy":{"mode":"fallback"},"targets":[` + repeated(60, always(targetAt(p, ""))) + `]}`
	attack(t, "exhaustion", "attempts: limited by the setting, config sent inline", func(t *testing.T) {
		g.as(t, rootKey, "POST", "/v1/chat/completions", chatBody, "x-gateway-config", config).refused(t, 503, "3 attempts", "limits.attempts")
		if n := len(p.seen()); n != 3 {
			t.Errorf("the provider received %d requests, want 3", n)
		}
	})
	attack(t, "exhaustion", "attempts: explained before they are made", func(t *testing.T) {
		r := g.as(t, rootKey, "POST", "/v1/explain", `{"config":`+config+`,"request":{"body":`+chatBody+`}}`).ok(t)
		if !strings.Contains(string(r.body), `"attempt_limit":3`) {
			t.Errorf("explain does not name the limit: %.400s", r.body)
		}
	})
	attack(t, "exhaustion", "attempts: inputs that are sent one by one", func(t *testing.T) {
		p.reset()
		bedrock := fmt.Sprintf(`{"provider":"bedrock","custom_host":%q,"cloud_a_access_key_id":"a","cloud_a_secret_access_key":"b","cloud_a_region":"us-east-1"}`, p.root)
		body := `{"model":"amazon.titan-embed-text-v2:0","input":[` + repeated(200, always(`"a"`)) + `]}`
		g.as(t, rootKey, "POST", "/v1/embeddings", body, "x-gateway-config", bedrock).refused(t, 400, "200 inputs", "3 attempts", "limits.attempts")
		if n := len(p.seen()); n != 0 {
			t.Errorf("the provider received %d requests, want none", n)
		}
	})
	attack(t, "exhaustion", "attempts: inputs whose parameters multiply", func(t *testing.T) {
		bedrock := fmt.Sprintf(`{"provider":"bedrock","custom_host":%q,"cloud_a_access_key_id":"a","cloud_a_secret_access_key":"b","cloud_a_region":"us-east-1"}`, p.root)
		body := `{"model":"amazon.titan-embed-text-v2:0","input":["a","b","c"],"x":"` + strings.Repeat("x", 30<<20) + `"}`
		grown := g.peakMemory(t, func() {
			if r := g.as(t, rootKey, "POST", "/v1/embeddings", body, "x-gateway-config", bedrock); r.status != 413 {
				t.Errorf("status %d, want 413: %.300s", r.status, r.body)
			}
		})
		if grown > 400<<20 {
			t.Errorf("memory grew by %d MB", grown>>20)
		}
	})
}
