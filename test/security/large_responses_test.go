package security

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// TestLargeResponsesOfProvidersStayWithinBodyMemory has one ordinary key send
// many requests at once to a host of its own, which answers with as much as a
// response may have.
func TestLargeResponsesOfProvidersStayWithinBodyMemory(t *testing.T) {
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
	ask := func(provider, route, text string) response {
		return g.do(t, "POST", route, `{"model":"m/m","max_tokens":9,"messages":[{"role":"user","content":"`+text+`"}]}`,
			"x-gateway-api-key", key, "x-gateway-provider", provider, "authorization", "Bearer "+clientKey, "x-gateway-custom-host", p.url)
	}
	for _, tt := range []struct{ name, provider, route, text string }{
		{"jobs", "replicate", "/v1/chat/completions", "long"},
		{"translated responses", "openai", "/v1/messages", "long"},
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

// TestResponsesOfSmallPartsStayWithinTheMemoryOfBodies has a host of a client response
// with many small parts: decoded they take many times their size.
func TestResponsesOfSmallPartsStayWithinTheMemoryOfBodies(t *testing.T) {
	const requests, parts, memory = 8, 200_000, 64 << 20
	text := strings.TrimSuffix(strings.Repeat(`{"type":"text","text":"a"},`, parts), ",")
	fewer := strings.TrimSuffix(strings.Repeat(`{"type":"text","text":"a"},`, parts/5), ",") // too many for a stream only
	calls := strings.TrimSuffix(strings.Repeat(`{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}},`, parts), ",")
	refusal := make(chan struct{})
	p := newProvider(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case strings.Contains(string(body), "short"):
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"type":"message","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn"}`)
		case strings.Contains(string(body), "fewer"):
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"type":"message","content":[`+fewer+`],"stop_reason":"end_turn"}`)
		case strings.Contains(string(body), "one event"):
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[`+calls+`]}}]}`+"\n\n")
		case strings.Contains(string(body), "unfinished event"):
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "data: "+strings.Repeat("x", 15<<20))
			w.(http.Flusher).Flush()
			select { // the event does not end while a further one is read
			case <-r.Context().Done():
			case <-refusal:
			}
		default:
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"type":"message","content":[`+text+`],"stop_reason":"end_turn"}`)
		}
	})
	g := launch(t, options{settings: fmt.Sprintf("version: 1\nlimits: {body_memory: %d}\nupstream: {trusted_hosts: [127.0.0.1]}\n", memory)})
	key := g.key(t, rootKey, "default", []string{"completions.write"}, "")
	ask := func(provider, route, text, more string) response {
		return g.do(t, "POST", route, `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"`+text+`"}]`+more+`}`,
			"x-gateway-api-key", key, "x-gateway-provider", provider, "authorization", "Bearer "+clientKey, "x-gateway-custom-host", p.url)
	}
	for _, tt := range []struct{ name, provider, route, text, more string }{
		{"complete", "anthropic", "/v1/chat/completions", "long", ""},
		{"complete, for a client that wants a stream", "anthropic", "/v1/chat/completions", "long", `,"stream":true`},
		{"one event of a stream", "openai", "/v1/messages", "one event", `,"stream":true`},
		{"one event of a stream, for a client that wants none", "openai", "/v1/messages", "one event", ""},
		{"events that do not end", "openai", "/v1/chat/completions", "unfinished event", `,"stream":true`},
	} {
		attack(t, "exhaustion", "responses of many small parts: "+tt.name, func(t *testing.T) {
			var refused atomic.Int32
			rose := g.peakMemory(t, func() {
				var wg sync.WaitGroup
				for range requests {
					wg.Go(func() {
						if got := ask(tt.provider, tt.route, tt.text, tt.more); strings.Contains(string(got.body), "body_memory_full") {
							if refused.Add(1) == 1 && tt.text == "unfinished event" {
								close(refusal)
							}
						}
					})
				}
				wg.Wait()
			})
			if refused.Load() == 0 {
				t.Error("no request was refused because of the memory of bodies")
			}
			if rose > 4*memory {
				t.Errorf("memory rose by %d MB with %d MB for bodies", rose>>20, memory>>20)
			}
		})
	}
	attack(t, "exhaustion", "a response counts as what it becomes", func(t *testing.T) {
		ask("anthropic", "/v1/chat/completions", "fewer", "").ok(t)
		if got := ask("anthropic", "/v1/chat/completions", "fewer", `,"stream":true`); !strings.Contains(string(got.body), "body_memory_full") {
			t.Errorf("as a stream: status %d: %.300s, want a refusal", got.status, got.body)
		}
	})
	attack(t, "exhaustion", "a response of ordinary size is served after it", func(t *testing.T) {
		ask("anthropic", "/v1/chat/completions", "short", "").ok(t)
	})
}
