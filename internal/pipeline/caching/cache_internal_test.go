package caching

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"modelgate/api"
	"modelgate/config"
	"modelgate/internal/base/bytepool"
	"modelgate/internal/base/secret"
	"modelgate/internal/cache/filecache"
	"modelgate/internal/cache/rediscache"
	"modelgate/internal/cache/respcache"
	"modelgate/internal/dialect/chat"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/identity/access"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/provider"
	"modelgate/internal/testing/quotatest"
)

// echoHandler responds with the tenant of the request and its body.
type echoHandler struct{ calls int }

func (h *echoHandler) Handle(_ context.Context, r *exchange.Request, _ *exchange.Trail) (*exchange.Response, error) {
	h.calls++
	text := fmt.Sprintf("%s %s %q %q %s", r.Identity.Organisation, r.Identity.Workspace, r.Cache.Namespace, r.Metadata, r.Received.Body.Bytes())
	body := fmt.Sprintf(`{"choices":[{"index":0,"message":{"content":%q},"finish_reason":"stop"}]}`, text)
	tap := chat.Dialect{}.NewTap(api.Chat)
	tap.Body([]byte(body))
	return &exchange.Response{Status: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Attempt: new(exchange.Attempt), Tap: tap, Bytes: []byte(body), Length: -1}, nil
}

func TestTenantsNeverShareAnEntry(t *testing.T) {
	t.Run("memory", func(t *testing.T) { sendAsTenants(t, respcache.NewMemory(0), 20_000) })
	file, err := filecache.Open(t.Context(), filecache.Options{Path: filepath.Join(t.TempDir(), "cache.db"), Size: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	redis, err := rediscache.Open(t.Context(), rediscache.Options{URL: secret.New(quotatest.NewRedis(t).URL()), Size: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	for name, backend := range map[string]respcache.Backend{"sqlite": file, "redis": redis} {
		t.Run(name, func(t *testing.T) {
			store := respcache.NewShared(respcache.SharedOptions{Backend: backend, Keys: newOrganisationKeys(t), MaxResponse: 1 << 20, Deadline: time.Minute})
			defer store.Close()
			sendAsTenants(t, store, 5_000)
			if s := store.Stats(); s.Rejected != 0 || s.Reads.Failed != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// organisationKeys are data keys that are made on demand.
type organisationKeys struct {
	box  *secret.Box
	made sync.Map
}

func newOrganisationKeys(t *testing.T) *organisationKeys {
	box, err := secret.NewBox(secret.New("the master key of a test of tenants"))
	if err != nil {
		t.Fatal(err)
	}
	return &organisationKeys{box: box}
}

func (k *organisationKeys) Current(organisation string) *secret.DataKey {
	key, _ := k.made.Load(organisation)
	dk, _ := key.(*secret.DataKey)
	return dk
}

func (k *organisationKeys) Create(_ context.Context, organisation string) (*secret.DataKey, error) {
	key, err := k.box.DataKey(organisation, k.box.NewDataKey(organisation))
	k.made.Store(organisation, key)
	return key, err
}

// sendAsTenants sends random requests of 1,000 tenants, each of which must get its own
// response.
func sendAsTenants(t *testing.T, store respcache.Store, requests int) {
	pool := bytepool.New(1 << 30)
	next := new(echoHandler)
	cache := &Cache{Store: store}
	h := &cacheHandler{cache: cache, bounds: &exchange.Bounds{Pool: pool}, next: next, options: config.Cache{Mode: config.CacheSimple}}
	target := &provider.Target{Spec: &provider.Spec{ID: "p"}}
	random := rand.New(rand.NewPCG(1, 2))
	// Names that concatenate to the same text.
	name := func(n int) string { return "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"[:n] }
	hits := 0
	for range requests {
		tenant := random.IntN(1000)
		id := &access.Identity{Organisation: name(1 + tenant%32), Workspace: name(1 + tenant/32)}
		body, err := pool.Get(0)
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"%s"}]}`, name(random.IntN(3)))
		body.Fill(func(dst []byte) []byte { return append(dst, text...) })
		r := &exchange.Request{
			Identity:  id,
			Client:    chat.Dialect{},
			Dialect:   api.DialectChat,
			Operation: api.Chat,
			Leaves:    []exchange.Leaf{{Target: target}},
			Time:      time.Now(),
			Received:  exchange.Received{Method: http.MethodPost, Path: "/chat/completions", Body: body, Doc: new(jsonedit.Doc)},
		}
		if err := r.Received.Doc.Scan(body.Bytes()); err != nil {
			t.Fatal(err)
		}
		switch random.IntN(3) {
		case 0:
			r.Cache.Namespace = name(1 + random.IntN(2))
		case 1:
			r.Metadata = map[string]string{name(1 + random.IntN(2)): name(random.IntN(2))}
		}
		var trail exchange.Trail
		res, err := h.Handle(t.Context(), r, &trail)
		if err != nil {
			t.Fatal(err)
		}
		want, _ := new(echoHandler).Handle(t.Context(), r, nil)
		if string(res.Bytes) != string(want.Bytes) {
			t.Fatalf("the response %s\nanswers %s", res.Bytes, want.Bytes)
		}
		if trail.Cache == exchange.CacheHit {
			hits++
		}
		res.Close()
		body.Release()
	}
	if hits == 0 || next.calls == requests {
		t.Error("nothing was cached")
	}
}

func BenchmarkCacheKey(b *testing.B) {
	body := fmt.Appendf(nil, `{"model":"m","messages":[{"role":"user","content":"%04096d"}],"temperature":0.5,"stream":false}`, 0)
	r := &exchange.Request{Identity: &access.Identity{Organisation: "0198", Workspace: "0199"}, Client: chat.Dialect{}, Received: exchange.Received{Doc: new(jsonedit.Doc), Header: http.Header{"Content-Type": {"application/json"}}}}
	if err := r.Received.Doc.Scan(body); err != nil {
		b.Fatal(err)
	}
	h, leaf := new(cacheHandler), &exchange.Leaf{Target: &provider.Target{Spec: &provider.Spec{ID: "openai"}}}
	b.ReportAllocs()
	for b.Loop() {
		h.cacheKey(r, leaf)
	}
}
