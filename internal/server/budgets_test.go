package server_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/model/catalog"
	"modelgate/internal/records/ledger"
	"modelgate/internal/records/logstore"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/server"
	"modelgate/internal/store"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/storetest"
	"modelgate/internal/testing/waittest"
)

// priced are settings by which a request with thrifty costs 6 + 8 × 4 thousand
// nano-dollars, for 14 tokens.
const (
	priced  = "prices:\n  - {provider: openai-compatible, model: \"sim-1*\", input: 1, output: 4}\n"
	thrifty = `{"model":"sim-1+tokens=8","messages":[{"role":"user","content":"Hello"}]}`
)

// mustSpent returns what was spent with a key.
func mustSpent(t *testing.T, db *store.DB, key string) reqlog.Spend {
	t.Helper()
	got, err := db.Spending(t.Context(), store.KeyBudget, key)
	if err != nil {
		t.Fatal(err)
	}
	return got[key]
}

func times(n int64) reqlog.Spend {
	return reqlog.Spend{Attempts: n, Cost: catalog.NanoDollars(38_000 * n), Tokens: 14 * n}
}

func TestNodesOfOneDatabaseCountTogether(t *testing.T) {
	t.Parallel()
	dsn := storetest.Postgres(t)
	db := storetest.Open(t, dsn)
	here := gatewaytest.New(t, gatewaytest.Options{Database: dsn, Settings: priced})
	there := gatewaytest.New(t, gatewaytest.Options{Database: dsn, Settings: priced})
	key, k := mustPoor(t, db, 140)
	send := func(g *gatewaytest.Gateway) gatewaytest.Response {
		return g.Do(g.Request("POST", "/chat/completions", thrifty, "x-gateway-api-key", key.Reveal()))
	}
	ask := func(g *gatewaytest.Gateway) int { return send(g).Status }
	sent := int64(0)
	for _, g := range []*gatewaytest.Gateway{here, there} {
		waitStatus(t, "the key counts", 200, func() gatewaytest.Response { return send(g) })
		sent++
	}
	for range 2 {
		for _, g := range []*gatewaytest.Gateway{here, there} {
			if ask(g) == 200 {
				sent++
			}
		}
	}
	waittest.Until(t, "both nodes' requests are counted", func() bool { return mustSpent(t, db, k.ID) == times(sent) })
	for range 6 {
		if ask(here) == 200 {
			sent++
		}
	}
	for _, g := range []*gatewaytest.Gateway{here, there} {
		waittest.Until(t, "the budget is used up on every node", func() bool {
			got := ask(g)
			if got == 200 {
				sent++
			}
			return got == 412
		})
	}
	waittest.Until(t, "all is counted", func() bool { return mustSpent(t, db, k.ID) == times(sent) })
}

// mustPoor makes a key with a budget of n tokens.
func mustPoor(t *testing.T, db *store.DB, tokens int) (secret.String, store.Key) {
	t.Helper()
	key, k, err := server.CreateKey(t.Context(), db, store.Key{
		Name: "poor", Scopes: []access.Scope{access.ScopeAll}, UsageLimits: fmt.Appendf(nil, `{"type":"tokens","credit_limit":%d,"base":0}`, tokens),
	})
	if err != nil {
		t.Fatal(err)
	}
	return key, k
}

func TestABudgetActsWithinASecond(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	g := gatewaytest.New(t, gatewaytest.Options{Data: data, Settings: priced})
	key, _ := mustPoor(t, storetest.Open(t, "file:"+filepath.Join(data, "modelgate.db")), 10)
	ask := func() int {
		return g.Do(g.Request("POST", "/chat/completions", thrifty, "x-gateway-api-key", key.Reveal())).Status
	}
	waittest.Until(t, "the key counts", func() bool { return ask() == 200 })
	began := time.Now()
	waittest.Until(t, "its budget is used up", func() bool { return ask() == 412 })
	t.Logf("it took %s", time.Since(began))
}

func TestSpendingWaitsForADatabaseThatIsAway(t *testing.T) {
	t.Parallel()
	pg := storetest.NewServer(t)
	g := gatewaytest.New(t, gatewaytest.Options{Database: pg.DSN(), MasterKey: master, Settings: priced})
	for range 3 {
		g.Post("/chat/completions", thrifty)
	}
	db := storetest.Open(t, pg.DSN())
	waittest.Until(t, "it is counted", func() bool { return mustSpent(t, db, "bootstrap") == times(3) })
	pg.Stop()
	for range 5 {
		if res := g.Post("/chat/completions", thrifty); res.Status != 200 {
			t.Fatalf("a request while the database is away: %d %s", res.Status, res.Body)
		}
	}
	waittest.Until(t, "metrics tell what waits", func() bool {
		list := requestLabels(t, g)
		return list["modelgate_ledger_uncounted_attempts"] == "5" && list["modelgate_ledger_uncounted_seconds"] != "0"
	})
	pg.Start(t)
	db = storetest.Open(t, pg.DSN())
	waittest.Until(t, "what waited is counted", func() bool { return mustSpent(t, db, "bootstrap") == times(8) })
}

func TestFeaturesThatAreOffCountAndRefuseNothing(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	g := gatewaytest.New(t, gatewaytest.Options{Data: data, Settings: priced, Off: route.DisabledFeatures{route.UsageLimits: true}})
	db := storetest.Open(t, "file:"+filepath.Join(data, "modelgate.db"))
	key, k := mustPoor(t, db, 10)
	k.Status = store.KeyExhausted // by an earlier start
	err := db.Update(t.Context(), nil, func(tx *store.Tx) error {
		w, err := tx.Workspace(t.Context(), store.DefaultOrganisation, store.DefaultWorkspace)
		b := store.BudgetHolder{BudgetRef: store.BudgetRef{Kind: store.WorkspaceBudget, ID: w.ID}, UsageLimits: []byte("[]"), Exhausted: true}
		return errors.Join(err, tx.UpdateKey(t.Context(), k), tx.PutBudget(t.Context(), b))
	})
	if err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "the key is let through", func() bool {
		return g.Do(g.Request("POST", "/chat/completions", thrifty, "x-gateway-api-key", key.Reveal())).Status == 200
	})
	waittest.Until(t, "it is counted", func() bool { return mustSpent(t, db, k.ID) == times(1) })
}

// mustSettle waits until the ledger holds the settlements and rows of n attempts.
func mustSettle(t *testing.T, data string, n int) {
	t.Helper()
	waittest.Until(t, "the attempts are settled", func() bool {
		settled, rows := 0, 0
		err := ledger.Each(server.LedgerDir(data), func(r ledger.Record) {
			if r.Settle != nil {
				settled++
			}
			if r.Row != nil {
				rows++
			}
		})
		return err == nil && settled >= n && rows >= n
	})
}

// TestReplayCountsNothingTwice puts the segments of a gateway that has ended back
// in their place, replays them, and starts again.
func TestReplayCountsNothingTwice(t *testing.T) {
	t.Parallel()
	data, saved := t.TempDir(), t.TempDir()
	g := gatewaytest.New(t, gatewaytest.Options{Data: data, Settings: priced})
	for range 5 {
		g.Post("/chat/completions", thrifty)
	}
	mustSettle(t, data, 5)
	if err := os.CopyFS(saved, os.DirFS(server.LedgerDir(data))); err != nil {
		t.Fatal(err)
	}
	g.Stop()
	for range 2 {
		if err := os.RemoveAll(server.LedgerDir(data)); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(server.LedgerDir(data), os.DirFS(saved)); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.RemoveAll(filepath.Join(data, "logs.db")), os.RemoveAll(filepath.Join(data, "logs.db-wal")), os.RemoveAll(filepath.Join(data, "logs.db-shm"))); err != nil {
			t.Fatal(err)
		}
		done, err := server.ReplayLedger(t.Context(), data, logstore.Options{Path: filepath.Join(data, "logs.db")})
		if err != nil || done.Added != 5 {
			t.Fatalf("ReplayLedger = %+v, %v; want five rows", done, err)
		}
		g = gatewaytest.New(t, gatewaytest.Options{Data: data, Settings: priced})
		g.Stop()
	}
	db := storetest.Open(t, "file:"+filepath.Join(data, "modelgate.db"))
	if got := mustSpent(t, db, "bootstrap"); got != times(5) {
		t.Errorf("spent %+v, want %+v", got, times(5))
	}
}

func TestReplayLeavesWhatWasNotCountedToTheNextStart(t *testing.T) {
	t.Parallel()
	data, fresh := t.TempDir(), t.TempDir()
	g := gatewaytest.New(t, gatewaytest.Options{Data: data, Settings: priced})
	for range 5 {
		g.Post("/chat/completions", thrifty)
	}
	mustSettle(t, data, 5)
	if err := os.CopyFS(server.LedgerDir(fresh), os.DirFS(server.LedgerDir(data))); err != nil {
		t.Fatal(err)
	}
	if done, err := server.ReplayLedger(t.Context(), fresh, logstore.Options{Path: filepath.Join(fresh, "logs.db")}); err != nil || done.Added != 5 {
		t.Fatalf("ReplayLedger = %+v, %v; want five rows", done, err)
	}
	gatewaytest.New(t, gatewaytest.Options{Data: fresh, Settings: priced}).Stop()
	db := storetest.Open(t, "file:"+filepath.Join(fresh, "modelgate.db"))
	if got := mustSpent(t, db, "bootstrap"); got != times(5) {
		t.Errorf("spent %+v, want %+v", got, times(5))
	}
}
