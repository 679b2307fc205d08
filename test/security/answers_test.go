package security

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// TestLargeAnswersOfProvidersStayWithinTheMemoryOfBodies has one ordinary key send
// many requests at once to a host of its own, which answers with as much as an
// answer may have.
func TestLargeAnswersOfProvidersStayWithinTheMemoryOfBodies(t *testing.T) {
	const requests, size, memory = 12, 40 << 20, 64 << 20
	block := strings.Repeat(" ", 1<<20)
	p := newProvider(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), "short") {
			io.WriteString(w, `{"id":"p1","status":"succeeded","output":["hi"],"urls":{"get":"https://x/v1/predictions/p1"}}`)
			return
		}
		if strings.Contains(string(body), "events") {
			w.Header().Set("Content-Type", "text/event-stream")
			event := `data: {"choices":[{"index":0,"delta":{"content":"` + strings.Repeat("x", 64<<10) + `"}}]}` + "\n\n"
			for range size / len(event) {
				io.WriteString(w, event)
			}
			return
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, "{")
		for range size / len(block) {
			io.WriteString(w, block)
		}
		io.WriteString(w, "}")
	})
	g := launch(t, options{settings: fmt.Sprintf("version: 1\nlimits: {body_memory: %d}\n", memory)})
	key := g.key(t, rootKey, "default", []string{"completions.write"}, "")
	ask := func(provider, route, text string) reply {
		return g.do(t, "POST", route, `{"model":"m/m","max_tokens":9,"messages":[{"role":"user","content":"`+text+`"}]}`,
			"x-gateway-api-key", key, "x-gateway-provider", provider, "authorization", "Bearer "+clientKey, "x-gateway-custom-host", p.url)
	}
	for _, tt := range []struct{ name, provider, route, text string }{
		{"jobs", "replicate", "/v1/chat/completions", "long"},
		{"translated answers", "openai", "/v1/messages", "long"},
		{"streams read for a client that wants no stream", "openai", "/v1/messages", "events"},
	} {
		attack(t, "exhaustion", "many large answers at once: "+tt.name, func(t *testing.T) {
			var mu sync.Mutex
			refused := 0
			rose := g.peakMemory(t, func() {
				var wg sync.WaitGroup
				for range requests {
					wg.Go(func() {
						got := ask(tt.provider, tt.route, tt.text)
						mu.Lock()
						defer mu.Unlock()
						if got.status == http.StatusServiceUnavailable && strings.Contains(string(got.body), "body_memory_full") {
							refused++
						}
					})
				}
				wg.Wait()
			})
			if refused < requests {
				t.Errorf("%d of %d requests were refused because of the memory of bodies", refused, requests)
			}
			if rose > 4*memory {
				t.Errorf("memory rose by %d MB with %d MB for bodies", rose>>20, memory>>20)
			}
		})
	}
	attack(t, "exhaustion", "a job of ordinary size is served after it", func(t *testing.T) {
		ask("replicate", "/v1/chat/completions", "short").ok(t)
	})
}
