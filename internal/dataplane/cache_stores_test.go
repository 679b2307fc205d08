package dataplane_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"modelgate/api"
	"modelgate/internal/store"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/quotatest"
	"modelgate/internal/testing/storetest"
	"modelgate/internal/testing/waittest"
)

// cacheStore is a store of cached responses, and how gateways that share it start.
type cacheStore struct {
	name  string
	redis *quotatest.Redis
	o     gatewaytest.Options
}

func cacheStores(t *testing.T) []cacheStore {
	redis := quotatest.NewRedis(t)
	t.Setenv("CACHE_REDIS", redis.URL())
	const master = "the master key of a test of cache stores"
	return []cacheStore{
		{"sqlite", nil, gatewaytest.Options{Data: t.TempDir(), MasterKey: master, Settings: "cache: {store: sqlite, deadline: 5s}\n"}},
		{"redis", redis, gatewaytest.Options{Database: storetest.Postgres(t), MasterKey: master, Settings: "cache: {store: redis, url: '${CACHE_REDIS}', deadline: 5s}\n"}},
	}
}

// countingUpstream is a provider that several gateways call, and the config of a
// cached target there.
func countingUpstream(t *testing.T) (*countingModel, string) {
	model := new(countingModel)
	up := httptest.NewServer(model)
	t.Cleanup(up.Close)
	return model, fmt.Sprintf(`{"provider":"openai-compatible","api_key":"sk-one","custom_host":%q,"cache":{"mode":"simple"}}`, up.URL+"/v1")
}

func TestStoredResponsesAreServedByOtherGatewaysByteForByte(t *testing.T) {
	for _, s := range cacheStores(t) {
		t.Run(s.name, func(t *testing.T) {
			model, config := countingUpstream(t)
			g := gatewaytest.New(t, s.o)
			fresh := make(map[string]gatewaytest.Response)
			for _, tt := range cachedCalls {
				fresh[tt.name] = cachedPost(g, tt.path, tt.body, config)
				if r := fresh[tt.name]; r.Status != 200 || r.Header.Get(api.HeaderCacheStatus) != "MISS" {
					t.Fatalf("%s: %d %s %s", tt.name, r.Status, r.Header.Get(api.HeaderCacheStatus), r.Body)
				}
				g.Entry(fresh[tt.name])
			}
			g.Stop() // another gateway, or the next start
			before := model.calls.Load()
			g = gatewaytest.New(t, s.o)
			for _, tt := range cachedCalls {
				first, second := fresh[tt.name], cachedPost(g, tt.path, tt.body, config)
				if got := second.Header.Get(api.HeaderCacheStatus); got != "HIT" {
					t.Errorf("%s: %s, want HIT", tt.name, got)
				}
				if !bytes.Equal(second.Body, first.Body) || second.Status != first.Status || second.Err != nil {
					t.Errorf("%s: cached: %d %v\n%s\nfirst: %d\n%s", tt.name, second.Status, second.Err, second.Body, first.Status, first.Body)
				}
				for _, name := range []string{"Content-Type", api.HeaderProvider, api.HeaderModel, api.HeaderOptionIndex, api.HeaderParams} {
					if first.Header.Get(name) != second.Header.Get(name) {
						t.Errorf("%s: %s: %q, first %q", tt.name, name, second.Header.Get(name), first.Header.Get(name))
					}
				}
			}
			if n := model.calls.Load() - before; n != 0 {
				t.Errorf("the provider was called %d times", n)
			}
		})
	}
}

func TestInvalidationsApplyToOtherGatewaysAndLaterOnes(t *testing.T) {
	for _, s := range cacheStores(t) {
		t.Run(s.name, func(t *testing.T) {
			_, config := countingUpstream(t)
			const path, body = "/chat/completions", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
			ask := func(g *gatewaytest.Gateway, namespace string) (string, string) {
				t.Helper()
				res := cachedPost(g, path, body, config, api.HeaderCacheNamespace, namespace)
				if res.Status != 200 {
					t.Fatalf("%d %s", res.Status, res.Body)
				}
				g.Entry(res)
				return res.Header.Get(api.HeaderCacheStatus), string(res.Body)
			}
			first := gatewaytest.New(t, s.o)
			_, a := ask(first, "a")
			_, b := ask(first, "b")
			first.Stop()
			restore := copyCache(t, s) // what somebody puts back later
			one := gatewaytest.New(t, s.o)
			two := one
			if s.redis != nil {
				two = gatewaytest.New(t, s.o)
			}
			for _, g := range []*gatewaytest.Gateway{one, two} {
				if status, got := ask(g, "a"); status != "HIT" || got != a {
					t.Errorf("before: %s %s", status, got)
				}
			}
			if res := one.Post("/cache/invalidate", `{"namespace":"a"}`, api.HeaderProvider, ""); res.Status != 200 {
				t.Fatalf("%d %s", res.Status, res.Body)
			}
			status, again := ask(one, "a")
			if status != "MISS" || again == a {
				t.Errorf("after the invalidation: %s %s", status, again)
			}
			waittest.Until(t, "the other gateway serves the new response", func() bool {
				_, got := ask(two, "a")
				return got != a
			})
			if status, got := ask(two, "b"); status != "HIT" || got != b {
				t.Errorf("the other namespace: %s %s", status, got)
			}
			one.Stop()
			two.Stop()
			restore()
			late := gatewaytest.New(t, s.o)
			if status, got := ask(late, "b"); status != "HIT" || got != b {
				t.Fatalf("the copy was not put back: %s", status)
			}
			if _, got := ask(late, "a"); got == a {
				t.Error("an invalidated response that was put back is served")
			}
		})
	}
}

// copyCache returns a function that puts back what is stored now.
func copyCache(t *testing.T, s cacheStore) func() {
	t.Helper()
	if s.redis != nil {
		names := strings.SplitSeq(redisReply(t, s, "KEYS *entry:*\r\n"), "\r\n")
		for n := range names {
			if strings.Contains(n, "entry:") {
				redisReply(t, s, "COPY "+n+" copy-of-"+n+"\r\n")
			}
		}
		return func() {
			redisReply(t, s, `EVAL "for _, k in ipairs(redis.call('KEYS', 'copy-of-*')) do redis.call('COPY', k, string.sub(k, 9), 'REPLACE') end" 0`+"\r\n")
		}
	}
	path := filepath.Join(s.o.Data, "cache.db")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		os.Remove(path + "-wal")
		os.Remove(path + "-shm")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func redisReply(t *testing.T, s cacheStore, line string) string {
	t.Helper()
	response, err := s.redis.Command(line)
	if err != nil || strings.HasPrefix(response, "-") {
		t.Fatalf("%s: %s %v", line, response, err)
	}
	return response
}

func TestWithoutItsDataKeyNothingOfAnOrganisationIsServed(t *testing.T) {
	s := cacheStores(t)[0]
	model, config := countingUpstream(t)
	const path, body = "/chat/completions", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
	g := gatewaytest.New(t, s.o)
	g.Entry(cachedPost(g, path, body, config))
	g.Stop()
	if content, err := os.ReadFile(filepath.Join(s.o.Data, "cache.db")); err != nil || !bytes.Contains(content, []byte("entries")) || bytes.Contains(content, []byte("call 1")) {
		t.Errorf("the file has the response: %v", err)
	}
	db, err := store.Open(t.Context(), "file:"+filepath.Join(s.o.Data, "modelgate.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(t.Context(), nil, func(tx *store.Tx) error {
		all, err := tx.Organisations(t.Context())
		if err != nil || len(all) != 1 || all[0].DataKey == "" {
			return fmt.Errorf("organisations: %d, %w", len(all), err)
		}
		all[0].DataKey = ""
		return tx.UpdateOrganisation(t.Context(), all[0])
	})
	if err != nil {
		t.Fatal(err)
	}
	db.Close()
	g = gatewaytest.New(t, s.o)
	if res := cachedPost(g, path, body, config); res.Header.Get(api.HeaderCacheStatus) != "MISS" || model.calls.Load() != 2 {
		t.Errorf("%s after %d calls", res.Header.Get(api.HeaderCacheStatus), model.calls.Load())
	}
}

// Whatever happens to its store, a request gets its own response, soon.
func TestNoOutageOfACacheStoreFailsARequest(t *testing.T) {
	for _, s := range cacheStores(t) {
		t.Run(s.name, func(t *testing.T) {
			model, config := countingUpstream(t)
			model.serve = func(w http.ResponseWriter, body string) {
				w.Header().Set("Content-Type", "application/json")
				_, text, _ := strings.Cut(body, "question ")
				text, _, _ = strings.Cut(text, `"`)
				fmt.Fprintf(w, `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"answer %s"},"finish_reason":"stop"}]}`, text)
			}
			o := s.o
			o.Settings = strings.Replace(o.Settings, "5s", "100ms", 1)
			g := gatewaytest.New(t, o)
			ask := func(i int) {
				t.Helper()
				began := time.Now()
				res := cachedPost(g, "/chat/completions", fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"question %d"}]}`, i), config)
				if res.Status != 200 || !strings.Contains(string(res.Body), fmt.Sprintf(`"answer %d"`, i)) {
					t.Errorf("question %d: %d %s", i, res.Status, res.Body)
				}
				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("a request took %v", took)
				}
			}
			all := func() {
				for i := range 40 {
					ask(i % 20)
				}
			}
			up := func() string {
				res, err := http.Get(g.AdminURL + "/metrics")
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				b, _ := io.ReadAll(res.Body)
				_, value, _ := strings.Cut(string(b), "\nmodelgate_cache_store_up ")
				return value[:1]
			}
			all()
			for _, outage := range cacheOutages(t, s) {
				t.Log(outage.name)
				outage.begin()
				all()
				if outage.reported {
					waittest.Until(t, outage.name+" is reported", func() bool { all(); return up() == "0" })
					if !strings.Contains(g.Log.String(), "cache store unavailable; requests call their providers") {
						t.Errorf("%s is not in the log", outage.name)
					}
				}
				outage.end()
				all()
				waittest.Until(t, "the store is used again after: "+outage.name, func() bool {
					ask(0)
					return up() == "1" && cachedPost(g, "/chat/completions", `{"model":"m","messages":[{"role":"user","content":"question 0"}]}`, config).Header.Get(api.HeaderCacheStatus) == "HIT"
				})
			}
		})
	}
}

type cacheOutage struct {
	name       string
	reported   bool
	begin, end func()
}

func cacheOutages(t *testing.T, s cacheStore) []cacheOutage {
	nothing := func() {}
	if s.redis == nil {
		path := filepath.Join(s.o.Data, "cache.db")
		return []cacheOutage{
			{"a damaged file", false, func() {
				info, err := os.Stat(path)
				if err == nil {
					err = os.WriteFile(path, bytes.Repeat([]byte{0xff}, int(info.Size())+1<<16), 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}, nothing},
			{"a removed file", false, func() { os.Remove(path) }, nothing},
		}
	}
	return []cacheOutage{
		{"a paused Redis", true, func() { s.redis.Pause(t, true) }, func() { s.redis.Pause(t, false) }},
		{"a killed Redis", true, s.redis.Kill, func() { s.redis.Start(t) }},
		{"a flushed Redis", false, func() { redisReply(t, s, "FLUSHALL\r\n") }, nothing},
		{"a key of another type", false, func() {
			redisReply(t, s, `EVAL "for _, k in ipairs(redis.call('KEYS', '*entry:*')) do redis.call('DEL', k) redis.call('RPUSH', k, 'x') end" 0`+"\r\n")
		}, func() { redisReply(t, s, "FLUSHALL\r\n") }},
	}
}
