package conformance

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const silentBody = `{"model":"m","max_tokens":100,"stream":true,"messages":[{"role":"user","content":"x"}]}`

// silent sends its headers, and the rest once the client has those of the gateway.
func silent(read <-chan struct{}, rest string) behaviour {
	return func(w http.ResponseWriter, r *http.Request, _ received) {
		w.Header().Set("Content-Type", "text/event-stream")
		http.NewResponseController(w).Flush()
		select {
		case <-read:
		case <-r.Context().Done():
		case <-time.After(patience / 2):
		}
		io.WriteString(w, rest)
	}
}

func TestHeadersOfSilentStreamsAreSentEarly(t *testing.T) {
	g := launchFor(t, "version: 1\ntimeouts: {keep_alive: 500ms}\n", "MODELGATE_TRUSTED_HOSTS=127.0.0.1")
	failing := newProvider(t, withStatuses(503))
	direct := func(p *provider) []string { return of("openai-compatible", p) }
	for _, tt := range []struct {
		name, path string
		header     func(p *provider) []string
	}{
		{"/v1/chat/completions", "/v1/chat/completions", direct},
		{"/v1/messages", "/v1/messages", direct},
		{"the last target of a fallback", "/v1/chat/completions", func(p *provider) []string {
			return []string{"x-gateway-api-key", bootstrapKey, "x-gateway-config", tree(fallback, leaf(failing), leaf(p))}
		}},
	} {
		prove(t, "M-202", tt.name, func(t *testing.T) {
			read := make(chan struct{})
			p := newProvider(t, silent(read, chatEvents+done))
			res, err := client.Do(g.request(t, "POST", tt.path, strings.NewReader(silentBody), append(tt.header(p), "Content-Type", "application/json")...))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			r := bufio.NewReader(res.Body)
			for range 2 { // one for each silence
				if line, err := r.ReadString('\n'); err != nil || !strings.HasPrefix(line, ":") {
					t.Errorf("the client has %q, %v; want a comment while the provider is silent", line, err)
				}
				r.ReadString('\n')
			}
			close(read)
			rest, err := io.ReadAll(r)
			if res.StatusCode != http.StatusOK || err != nil || !strings.Contains(string(rest), "data: ") {
				t.Errorf("status %d, %v: %s", res.StatusCode, err, rest)
			}
		})
	}
	never := make(chan struct{})
	var calls atomic.Int64
	broken := silentFor("data: " + refusal + "\n\n")
	brokenOnce := func(w http.ResponseWriter, r *http.Request, in received) {
		if calls.Add(1) == 1 {
			broken(w, r, in)
			return
		}
		streams(chatEvents+done)(w, r, in)
	}
	for _, tt := range []struct {
		name   string
		first  behaviour
		config func(first, second *provider) string
		status int
	}{
		{"another target may follow", broken, func(a, b *provider) string { return tree(fallback, leaf(a), leaf(b)) }, 200},
		{"a retry may follow", brokenOnce, func(a, _ *provider) string { return leaf(a, `"retry":{"attempts":1}`) }, 200},
		{"the request has a timeout", silent(never, ""), func(a, _ *provider) string { return leaf(a, `"request_timeout":1500`) }, 408},
		{"a guardrail may deny the text", silentFor(chatEvents + done), func(a, _ *provider) string {
			return leaf(a, `"output_guardrails":[{"default.contains":{"words":["never said"],"operator":"any"},"deny":true}]`)
		}, 446},
	} {
		prove(t, "M-202", tt.name, func(t *testing.T) {
			p := fleet(t, tt.first, streams(chatEvents+done))
			got := g.do(t, "POST", "/v1/chat/completions", silentBody, "x-gateway-api-key", bootstrapKey, "x-gateway-config", tt.config(p[0], p[1]))
			if got.status != tt.status || strings.Contains(string(got.body), "said by the provider") {
				t.Errorf("status %d, want %d without the failure, which headers sent early would prevent: %.300s", got.status, tt.status, got.body)
			}
		})
	}
}

// silentFor sends its headers, and the rest after a time that is longer than headers
// wait if nothing holds them back.
func silentFor(rest string) behaviour {
	return func(w http.ResponseWriter, r *http.Request, in received) {
		w.Header().Set("Content-Type", "text/event-stream")
		http.NewResponseController(w).Flush()
		after(1500*time.Millisecond, func(w http.ResponseWriter, _ *http.Request, _ received) { io.WriteString(w, rest) })(w, r, in)
	}
}
