package security

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// TestTranslatedRequestsStayWithinTheMemoryOfBodies sends bodies of many small
// parts to a provider of another dialect: decoded they take many times their size.
func TestTranslatedRequestsStayWithinTheMemoryOfBodies(t *testing.T) {
	const requests, memory = 8, 64 << 20
	p := newProvider(t, nil)
	g := launch(t, options{
		settings: fmt.Sprintf("version: 1\nlimits: {body_memory: %d}\nproviders:\n  - {slug: claude, provider: anthropic, api_key: \"${STORED_KEY}\", custom_host: \"%s\"}\n", memory, p.url),
		env:      []string{"STORED_KEY=" + storedKey},
	})
	ask := func(messages string) response {
		return g.do(t, "POST", "/v1/chat/completions", `{"model":"m","max_tokens":9,"messages":[`+messages+`]}`, "x-gateway-api-key", rootKey, "x-gateway-provider", "@claude")
	}
	small := strings.Repeat(`{"role":"user","content":"a"},`, 200_000)
	for name, body := range map[string]string{
		"messages": strings.TrimSuffix(small, ","),
		"parts":    `{"role":"user","content":[` + strings.TrimSuffix(strings.Repeat(`{"type":"text","text":"a"},`, 200_000), ",") + `]}`,
	} {
		attack(t, "exhaustion", "bodies of many small parts are translated: "+name, func(t *testing.T) {
			var mu sync.Mutex
			refused := 0
			rose := g.peakMemory(t, func() {
				var wg sync.WaitGroup
				for range requests {
					wg.Go(func() {
						got := ask(body)
						mu.Lock()
						defer mu.Unlock()
						if got.status == http.StatusServiceUnavailable && strings.Contains(string(got.body), "body_memory_full") {
							refused++
						}
					})
				}
				wg.Wait()
			})
			if refused != requests {
				t.Errorf("%d of %d requests were refused because of the memory of bodies", refused, requests)
			}
			if rose > 3*memory {
				t.Errorf("memory rose by %d MB with %d MB for bodies", rose>>20, memory>>20)
			}
		})
	}
	attack(t, "exhaustion", "a long text that looks like many parts is served", func(t *testing.T) {
		ask(`{"role":"user","content":"` + strings.Repeat(`{[,\"`, 1<<20) + `"}`)
		if len(p.seen()) != 1 {
			t.Errorf("the provider received %d requests, want 1", len(p.seen()))
		}
	})
}

// The members of a JSON object are found by an index, which takes many times the memory
// of the shortest members.
func TestBodiesOfManyMembersCostLittleMemory(t *testing.T) {
	g, p := launch(t, options{}), newProvider(t, nil)
	const members = 3_000_000
	var b strings.Builder
	b.WriteString(chatBody[:len(chatBody)-1])
	for i := range members {
		fmt.Fprintf(&b, `,"%x":1`, i)
	}
	body := b.String() + "}"
	attack(t, "exhaustion", "a body of three million members is read", func(t *testing.T) {
		peak := g.peakMemory(t, func() {
			g.do(t, "POST", "/v1/chat/completions", body, toCustomHost(rootKey, p)...).refused(t, 400, "at most 1024 members")
		})
		if limit := int64(3 * len(body)); peak > limit {
			t.Errorf("the body of %d bytes took %d bytes, want at most %d", len(body), peak, limit)
		}
	})
	attack(t, "exhaustion", "a thousand members are served", func(t *testing.T) {
		few := strings.Join(strings.SplitN(body, ",", 1001)[:1000], ",") + "}"
		g.do(t, "POST", "/v1/chat/completions", few, toCustomHost(rootKey, p)...).ok(t)
	})
}
