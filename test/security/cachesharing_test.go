package security

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// numberedResponses gives each response another number. It waits until as many requests have
// arrived as await names.
type numberedResponses struct {
	mu      sync.Mutex
	calls   int           // guarded by mu
	waiting int           // requests that have not arrived; guarded by mu
	all     chan struct{} // closed when waiting is zero; guarded by mu
}

func (n *numberedResponses) await(requests int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waiting, n.all = requests, make(chan struct{})
}

func (n *numberedResponses) arrive() (number int, all <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls++
	if n.waiting--; n.waiting == 0 {
		close(n.all)
	}
	return n.calls, n.all
}

func (n *numberedResponses) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	number, all := n.arrive()
	select {
	case <-all:
	case <-time.After(30 * time.Second):
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	body := chatResponse
	w.Header().Set("Content-Type", "application/json")
	if sent, _ := io.ReadAll(r.Body); strings.Contains(string(sent), `"stream":true`) {
		w.Header().Set("Content-Type", "text/event-stream")
		body = chatStream
	}
	io.WriteString(w, strings.ReplaceAll(body, `"hi"`, fmt.Sprintf(`"answer %d."`, number)))
}

// Workspaces of one organisation and of two send equal requests with the same credential
// to the same host. They share no call in flight and no cached response.
func TestTenantsShareNoCachedResponse(t *testing.T) {
	t.Parallel()
	responses := new(numberedResponses)
	responses.await(1)
	w := newTenants(t, options{}, responses.ServeHTTP)
	for _, mode := range []string{"simple", "semantic"} {
		for _, stream := range []string{"false", "true"} {
			body := fmt.Sprintf(`{"model":"gpt-4o","stream":%s,"messages":[{"role":"user","content":"How tall is the tower (%s)?"}]}`, stream, mode)
			config := fmt.Sprintf(`{"provider":"openai","api_key":"sk-of-everybody","custom_host":%q,"cache":{"mode":%q}}`, w.provider.url, mode)
			askAll := func(status string) (texts [3]string) {
				var wg sync.WaitGroup
				for i, n := range w.all {
					wg.Go(func() {
						got := w.as(t, n.key, "POST", "/v1/chat/completions", body, "x-gateway-config", config)
						_, text, ok := strings.Cut(string(got.body), `"answer `)
						texts[i], _, _ = strings.Cut(text, ".")
						if s := got.header.Get("X-Gateway-Cache-Status"); !ok || s == "" || !strings.Contains(status, s) {
							t.Errorf("%s: %d %s %s, want %s", n.name, got.status, s, got.body, status)
						}
					})
				}
				wg.Wait()
				return texts
			}
			var first [3]string
			attack(t, "isolation", "equal requests of three tenants in flight, "+mode+", stream "+stream, func(t *testing.T) {
				responses.await(len(w.all))
				first = askAll("MISS, SEMANTIC MISS")
				if first[0] == first[1] || first[1] == first[2] || first[0] == first[2] {
					t.Errorf("the tenants received responses %q, want one of its own for each", first)
				}
			})
			attack(t, "isolation", "cached responses of three tenants, "+mode+", stream "+stream, func(t *testing.T) {
				if second := askAll("HIT, SEMANTIC HIT"); second != first {
					t.Errorf("the tenants received responses %q, want %q as before", second, first)
				}
			})
		}
	}
}
