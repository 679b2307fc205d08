package security

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"modelgate/internal/testing/waittest"
)

// manyEntries returns settings with n provider entries at p, which list no models.
func manyEntries(p *provider, n int, more string) string {
	var s strings.Builder
	s.WriteString("version: 1\n" + more + "providers:\n")
	for i := range n {
		fmt.Fprintf(&s, "  - {slug: p%02d, provider: openai-compatible, custom_host: %q}\n", i, p.url)
	}
	return s.String()
}

// listModels sends GET /v1/models and fails unless that many providers are
// reported as failed.
func listModels(t *testing.T, g *gateway, failed int) {
	t.Helper()
	r := g.as(t, rootKey, "GET", "/v1/models", "").ok(t)
	if n := strings.Count(string(r.body), `"@p`) - strings.Count(string(r.body), `"id":"@p`); n != failed {
		t.Errorf("%d failed providers, want %d: %.300s", n, failed, r.body)
	}
}

// allowance returns how often a provider that fails may be asked since a time:
// at once, and again every ten seconds.
func allowance(since time.Time) int { return 1 + int(time.Since(since)/(10*time.Second)) }

func TestListingModelsAsksABoundedNumberOfProviders(t *testing.T) {
	attack(t, "exhaustion", "model lists: no more providers than attempts", func(t *testing.T) {
		p := newProvider(t, failing)
		g := launch(t, options{settings: manyEntries(p, 20, "limits: {attempts: 3}\n")})
		listModels(t, g, 20)
		if n := len(p.seen()); n != 3 {
			t.Errorf("one request asked %d providers, want 3", n)
		}
	})
	attack(t, "exhaustion", "model lists: eight providers at a time", func(t *testing.T) {
		p := newSilent(t)
		g := launch(t, options{settings: manyEntries(p, 20, "")})
		listModels(t, g, 20)
		if n := len(p.seen()); n != 8 {
			t.Errorf("%d providers that don't answer were asked within one deadline, want 8", n)
		}
	})
}

func TestListingModelsSparesBrokenProviders(t *testing.T) {
	t.Parallel()
	attack(t, "exhaustion", "model lists: a broken provider is asked once in ten seconds", func(t *testing.T) {
		p := newProvider(t, failing)
		g := launch(t, options{settings: manyEntries(p, 1, "")})
		began := time.Now()
		for range 20 {
			listModels(t, g, 1)
		}
		if n, most := len(p.seen()), allowance(began); n == 0 || n > most {
			t.Errorf("the provider was asked %d times, want 1 to %d", n, most)
		}
	})
	attack(t, "exhaustion", "model lists: many requests at a time share one response", func(t *testing.T) {
		p := newSilent(t)
		g := launch(t, options{settings: manyEntries(p, 1, "")})
		began := time.Now()
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() { listModels(t, g, 1) })
		}
		wg.Wait()
		if n, most := len(p.seen()), allowance(began); n == 0 || n > most {
			t.Errorf("the provider was asked %d times, want 1 to %d", n, most)
		}
	})
	attack(t, "exhaustion", "model lists: a client that leaves at once", func(t *testing.T) {
		p := newSilent(t)
		g := launch(t, options{settings: manyEntries(p, 1, "")})
		began := time.Now()
		g.leaveListing(t, p)
		listModels(t, g, 1)
		if n, most := len(p.seen()), allowance(began); n == 0 || n > most {
			t.Errorf("the provider was asked %d times, want 1 to %d", n, most)
		}
	})
	attack(t, "exhaustion", "model lists: a client that leaves spoils no list of others", func(t *testing.T) {
		response := make(chan struct{})
		p := newProvider(t, func(w http.ResponseWriter, r *http.Request) {
			<-response
			io.WriteString(w, `{"data":[{"id":"m"}]}`)
		})
		g := launch(t, options{settings: manyEntries(p, 1, "")})
		g.leaveListing(t, p)
		close(response)
		listModels(t, g, 0)
	})
}

// leaveListing sends GET /v1/models and leaves when p is asked for its list.
func (g *gateway) leaveListing(t *testing.T, p *provider) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "GET", g.url+"/models", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("x-gateway-api-key", rootKey)
	var wg sync.WaitGroup
	wg.Go(func() {
		if res, err := http.DefaultClient.Do(req); err == nil {
			res.Body.Close()
		}
	})
	waittest.Until(t, "the provider is asked", func() bool { return len(p.seen()) > 0 })
	cancel()
	wg.Wait()
}
