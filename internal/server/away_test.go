package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/server"
	"modelgate/internal/store"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/storetest"
	"modelgate/internal/testing/waittest"
)

const (
	master    = "the master key of a whole test"
	simulated = `{"targets":[{"provider":"@simulator"}],"strategy":{"mode":"single"}}`
)

// saveConfig saves a config by the control plane and returns the response.
func saveConfig(g *gatewaytest.Gateway, slug string) gatewaytest.Response {
	return g.Post("/configs", `{"name":"`+slug+`","config":`+simulated+`}`)
}

func slugOf(t *testing.T, res gatewaytest.Response) string {
	t.Helper()
	var out struct{ Data struct{ Slug string } }
	if err := json.Unmarshal(res.Body, &out); err != nil || res.Status != 200 || out.Data.Slug == "" {
		t.Fatalf("saving a config: %d %s", res.Status, res.Body)
	}
	return out.Data.Slug
}

// useConfig asks for a completion by a saved config.
func useConfig(g *gatewaytest.Gateway, slug string) int {
	return g.Post("/chat/completions", chat, "x-gateway-provider", "", "x-gateway-config", slug).Status
}

func TestAChangeCountsAtOnceHereAndSoonElsewhere(t *testing.T) {
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		here := gatewaytest.New(t, gatewaytest.Options{Database: dsn})
		there := gatewaytest.New(t, gatewaytest.Options{Database: dsn})
		best := time.Hour // of up to twenty: a loaded machine makes some slow
		for i := 0; i < 20 && (i < 2 || best > time.Second); i++ {
			slug := slugOf(t, saveConfig(here, "config"))
			began := time.Now()
			if got := useConfig(here, slug); got != 200 {
				t.Errorf("the next request on the same node: %d, want 200", got)
			}
			if got := useConfig(here, slug); got != 200 {
				t.Errorf("a request after it: %d", got)
			}
			waittest.Until(t, "the other node has the config", func() bool { return useConfig(there, slug) == 200 })
			best = min(best, time.Since(began))
		}
		if best > time.Second {
			t.Errorf("a change counted on the other node after %v at best, want a second", best)
		}
	})
}

// traffic sends requests without a pause until it is stopped, and counts those
// that did not succeed.
func traffic(t *testing.T, g *gatewaytest.Gateway) (stop func() (sent int, failed []string)) {
	t.Helper()
	end := make(chan struct{})
	var sent int
	var failed []string
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-end:
				return
			default:
			}
			req := g.Request("POST", "/chat/completions", chat)
			res, err := http.DefaultTransport.RoundTrip(req)
			sent++
			if err != nil {
				failed = append(failed, err.Error())
				continue
			}
			body, _ := io.ReadAll(res.Body)
			res.Body.Close()
			if res.StatusCode != 200 {
				failed = append(failed, string(body))
			}
		}
	})
	return func() (int, []string) { close(end); wg.Wait(); return sent, failed }
}

func mustServeOn(t *testing.T, stop func() (int, []string)) {
	t.Helper()
	if sent, failed := stop(); len(failed) > 0 || sent == 0 {
		t.Errorf("%d of %d requests failed in the meantime: %.300q", len(failed), sent, failed)
	}
}

// refusesChanges wants a change to be refused as one to a database that is away.
func refusesChanges(t *testing.T, g *gatewaytest.Gateway) {
	t.Helper()
	res := saveConfig(g, "in the meantime")
	if res.Status != 503 || !bytes.Contains(res.Body, []byte(`"errorCode":"AB04"`)) || !bytes.Contains(res.Body, []byte(`"code":"database_unavailable"`)) {
		t.Errorf("a change in the meantime: %d %s, want 503 database_unavailable", res.Status, res.Body)
	}
}

// isReady reports whether a gateway has started: its listeners accept requests a moment before.
func isReady(t *testing.T, g *gatewaytest.Gateway) bool {
	t.Helper()
	res, err := http.Get(g.Root + "/ready")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	return res.StatusCode == 200
}

// readiness returns what /ready says.
func readiness(t *testing.T, g *gatewaytest.Gateway) string {
	t.Helper()
	res, err := http.Get(g.Root + "/ready")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != 200 {
		t.Fatalf("/ready: %d %s, %v", res.StatusCode, body, err)
	}
	return string(body)
}

func isDegraded(t *testing.T, g *gatewaytest.Gateway) func() bool {
	return func() bool { return strings.Contains(readiness(t, g), "degraded") }
}

func TestRequestsAreServedWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	pg := storetest.NewServer(t)
	g := gatewaytest.New(t, gatewaytest.Options{Database: pg.DSN()})
	slug := slugOf(t, saveConfig(g, "before"))
	waittest.Until(t, "the config counts", func() bool { return useConfig(g, slug) == 200 })
	stop := traffic(t, g)
	pg.Stop()
	waittest.Until(t, "readiness says degraded", isDegraded(t, g))
	refusesChanges(t, g)
	if got := useConfig(g, slug); got != 200 {
		t.Errorf("a saved config in the meantime: %d, want 200", got)
	}
	pg.Start(t)
	waittest.Until(t, "readiness says ready", func() bool { return !isDegraded(t, g)() })
	after := slugOf(t, saveConfig(g, "after"))
	if got := useConfig(g, after); got != 200 {
		t.Errorf("a config saved after: %d, want 200", got)
	}
	mustServeOn(t, stop)
}

func TestRequestsAreServedWhileTheDatabaseIsReadOnly(t *testing.T) {
	t.Parallel()
	dsn := storetest.Postgres(t)
	g := gatewaytest.New(t, gatewaytest.Options{Database: dsn})
	slug := slugOf(t, saveConfig(g, "before"))
	waittest.Until(t, "the config counts", func() bool { return useConfig(g, slug) == 200 })
	stop := traffic(t, g)
	set := func(on string) {
		t.Helper()
		storetest.Exec(t, dsn, `ALTER DATABASE CURRENT SET default_transaction_read_only = `+on)
		storetest.Exec(t, dsn, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
	}
	set("on")
	refusesChanges(t, g)
	if got := useConfig(g, slug); got != 200 {
		t.Errorf("a saved config in the meantime: %d, want 200", got)
	}
	if res := g.Get("/configs"); res.Status != 200 || !bytes.Contains(res.Body, []byte(slug)) {
		t.Errorf("reading in the meantime: %d %s", res.Status, res.Body)
	}
	mustServeOn(t, stop)
}

func TestRequestsAreServedWhileTheDatabaseDoesNotAnswer(t *testing.T) {
	t.Parallel()
	relay, dsn := storetest.NewRelay(t, storetest.Postgres(t))
	g := gatewaytest.New(t, gatewaytest.Options{Database: dsn})
	relay.Delay(50 * time.Millisecond)
	slug := slugOf(t, saveConfig(g, "slowly"))
	waittest.Until(t, "the config counts", func() bool { return useConfig(g, slug) == 200 })
	stop := traffic(t, g)
	relay.Pause(true)
	waittest.Until(t, "readiness says degraded", isDegraded(t, g))
	mustServeOn(t, stop)
	relay.Pause(false)
	relay.Delay(0)
	waittest.Until(t, "readiness says ready", func() bool { return !isDegraded(t, g)() })
}

// failingModule is a WebAssembly module that writes the verdict false.
const failingModule = "AGFzbQEAAAABDAJgBH9/f38Bf2AAAAJEAhZ3YXNpX3NuYXBzaG90X3ByZXZpZXcxB2ZkX3JlYWQAABZ3YXNpX3NuYXBzaG90X3ByZXZpZXcxCGZkX3dyaXRlAAADAgEBBQMBAAEHEwIGbWVtb3J5AgAGX3N0YXJ0AAIKDwENAEEBQQBBAUEQEAEaCwtXAQBBAAtRQAAAABEAAAAAEAAAYOoAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAHsidmVyZGljdCI6ZmFsc2V9"

func TestAStartNeedsNoDatabaseThatWasThereBefore(t *testing.T) {
	t.Parallel()
	pg := storetest.NewServer(t)
	data := t.TempDir()
	o := gatewaytest.Options{Database: pg.DSN(), Data: data, MasterKey: master}
	g := gatewaytest.New(t, o)
	slug := slugOf(t, saveConfig(g, "before"))
	db := storetest.Open(t, pg.DSN())
	key, _, err := server.CreateKey(t.Context(), db, store.Key{Name: "stored"})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(g *gatewaytest.Gateway, provider string) int {
		return g.Post("/chat/completions", chat, "x-gateway-api-key", key.Reveal(), "x-gateway-provider", provider).Status
	}
	mustStoreProvider(t, db, g.Upstream)
	waittest.Until(t, "the stored key and provider count", func() bool { return ask(g, "@stored") == 200 })
	if res := g.Post("/guardrail-modules", `{"name":"m","slug":"fails","workspace_id":"default","code":"`+failingModule+`"}`); res.Status != 200 {
		t.Fatalf("%d %s", res.Status, res.Body)
	}
	made := g.Post("/guardrails", `{"name":"g","workspace_id":"default","checks":[{"id":"default.wasm","parameters":{"module":"fails"}}],"actions":{"deny":true}}`).JSON(t)
	guarded := func(g *gatewaytest.Gateway) int {
		return g.Post("/chat/completions", chat, "x-gateway-provider", "", "x-gateway-config", fmt.Sprintf(`{"provider":"@simulator","input_guardrails":[%q]}`, made["slug"])).Status
	}
	waittest.Until(t, "the stored module runs", func() bool { return guarded(g) == 446 })
	g.Stop()
	pg.Stop()

	text, err := os.ReadFile(filepath.Join(data, "state.sealed"))
	if err != nil || !secret.IsSealed(string(text)) {
		t.Fatalf("the copy of the state: %.40q, %v; want it sealed", text, err)
	}
	alone := gatewaytest.New(t, o)
	waittest.Until(t, "the gateway has started", func() bool { return isReady(t, alone) })
	if !isDegraded(t, alone)() {
		t.Error("readiness does not say that the database is away")
	}
	if got := useConfig(alone, slug); got != 200 {
		t.Errorf("a saved config without the database: %d, want 200", got)
	}
	if got := guarded(alone); got != 446 {
		t.Errorf("a request that a stored module denies, without the database: %d, want 446", got)
	}
	refusesChanges(t, alone)
	pg.Start(t)
	waittest.Until(t, "readiness says ready", func() bool { return !isDegraded(t, alone)() })
	slugOf(t, saveConfig(alone, "after"))
	if got := ask(alone, "@simulator"); got != 200 {
		t.Errorf("the stored key: %d, want 200", got)
	}
	alone.Stop()
	pg.Stop()

	for name, o := range map[string]server.Options{
		"without a master key": {Data: data},
		"another master key":   {Data: data, MasterKey: secret.New(strings.Repeat("other", 5))},
		"no copy yet":          {Data: t.TempDir(), MasterKey: secret.New(master)},
	} {
		o.Listen, o.Database = "127.0.0.1:0", secret.New(pg.DSN())
		s, err := server.New(t.Context(), o)
		if err == nil {
			s.Close()
			t.Errorf("%s: the start succeeded", name)
		} else if strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "cannot be reached") {
			t.Errorf("%s: New() = %v, want one line", name, err)
		}
	}
}

// mustStoreProvider makes the entry @stored of the first workspace, whose
// integration has the simulator's credential.
func mustStoreProvider(t *testing.T, db *store.DB, host string) {
	t.Helper()
	box, err := secret.NewBox(secret.New(master))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	integration := store.Integration{ID: "i1", Organisation: store.DefaultOrganisation, Slug: "sim", Name: "Sim", Provider: "openai-compatible",
		Sealed:        box.Seal(store.Secrets{Key: secret.New(gatewaytest.SimulatorKey)}.Text()),
		Configuration: store.IntegrationSettings{CustomHost: host}, AllowAllModels: true, GlobalEnabled: true,
		Status: store.Active, CreatedAt: now, UpdatedAt: now}
	entry := store.Provider{ID: "p1", Organisation: store.DefaultOrganisation, Workspace: store.DefaultWorkspace, Integration: "i1",
		Slug: "stored", Name: "Stored", Status: store.Active, CreatedAt: now, UpdatedAt: now}
	err = db.Update(t.Context(), nil, func(tx *store.Tx) error {
		if err := tx.CreateIntegration(t.Context(), integration); err != nil {
			return err
		}
		return tx.CreateProvider(t.Context(), entry)
	})
	if err != nil {
		t.Fatal(err)
	}
}
