package store_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"modelgate/internal/identity/access"
	"modelgate/internal/model/catalog"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/store"
	"modelgate/internal/store/publication"
	"modelgate/internal/testing/storetest"
)

func owner(key, slug string) reqlog.SpendOwner {
	return reqlog.SpendOwner{Organisation: store.DefaultOrganisation, Workspace: store.DefaultWorkspace, KeyID: key, Slug: slug}
}

// spend counts one part of a segment.
func spend(t testing.TB, db *store.DB, segment string, from, to int64, spent map[reqlog.SpendOwner]*reqlog.Spend) (map[store.BudgetRef]reqlog.Spend, error) {
	t.Helper()
	now := time.Now()
	return db.AddSpend(t.Context(), store.LedgerCount{Spans: []store.LedgerSpan{{Segment: segment, From: from, To: to}}, Spent: spent}, now, now.Add(-time.Hour))
}

func mustSpending(t testing.TB, db *store.DB, kind string, ids ...string) map[string]reqlog.Spend {
	t.Helper()
	got, err := db.Spending(t.Context(), kind, ids...)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestSpendingCountsForEachOwner(t *testing.T) {
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		db := storetest.Open(t, dsn)
		long := strings.Repeat("s", 120)
		err := db.Update(t.Context(), nil, func(tx *store.Tx) error {
			if err := addEntry(t, tx); err != nil {
				return err
			}
			p, err := tx.Provider(t.Context(), store.DefaultOrganisation, "", "p1")
			if err != nil {
				return err
			}
			p.ID, p.Slug = "p2", long
			return tx.CreateProvider(t.Context(), p)
		})
		if err != nil {
			t.Fatal(err)
		}
		revision, err := db.Revision(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		one := reqlog.Spend{Attempts: 1, Cost: 7, Tokens: 3, Unknown: 1, Unpriced: 2}
		raised, err := spend(t, db, "s1", 64, 100, map[reqlog.SpendOwner]*reqlog.Spend{
			owner("k1", "stored"): &one, owner("k2", ""): &one, owner("k2", "of-a-file"): &one, owner("k1", long): &one,
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(raised) != 6 {
			t.Errorf("raised %v, want two keys, a workspace, two providers and a grant", raised)
		}
		grant := store.GrantID("i1", store.DefaultWorkspace)
		for kind, want := range map[string]map[string]int64{
			store.KeyBudget: {"k1": 2, "k2": 2}, store.WorkspaceBudget: {store.DefaultWorkspace: 4},
			store.ProviderBudget: {"p1": 1, "p2": 1}, store.GrantBudget: {grant: 2},
		} {
			got := mustSpending(t, db, kind, "k1", "k2", "k3", store.DefaultWorkspace, "p1", "p2", grant)
			for id, n := range want {
				w := reqlog.Spend{Attempts: n, Cost: catalog.NanoDollars(7 * n), Tokens: 3 * n, Unknown: n, Unpriced: 2 * n}
				if got[id] != w {
					t.Errorf("%s %s spent %+v, want %+v", kind, id, got[id], w)
				}
				delete(got, id)
			}
			if len(got) > 0 {
				t.Errorf("%s: further %v", kind, got)
			}
		}
		mustRevision(t, db, revision)
	})
}

func TestAPartOfASegmentIsCountedOnce(t *testing.T) {
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		db := storetest.Open(t, dsn)
		spent := map[reqlog.SpendOwner]*reqlog.Spend{owner("k", ""): {Attempts: 1, Cost: 5}}
		for _, tt := range []struct {
			from, to int64
			want     error
		}{{64, 100, nil}, {64, 100, store.ErrAlreadyCounted}, {64, 120, store.ErrAlreadyCounted}, {100, 120, nil}, {100, 120, store.ErrAlreadyCounted}} {
			if _, err := spend(t, db, "s", tt.from, tt.to, spent); !errors.Is(err, tt.want) {
				t.Errorf("Spend %d to %d = %v, want %v", tt.from, tt.to, err, tt.want)
			}
		}
		if got := mustSpending(t, db, store.KeyBudget, "k")["k"]; got.Cost != 10 {
			t.Errorf("the key spent %d, want 10", got.Cost)
		}
		marks, err := db.LedgerMarks(t.Context(), []string{"s", "other"})
		if err != nil || !maps.Equal(marks, map[string]int64{"s": 120}) {
			t.Errorf("LedgerMarks = %v, %v", marks, err)
		}
		// Marks are forgotten when they are old.
		now := time.Now().Add(2 * time.Hour)
		if _, err := db.AddSpend(t.Context(), store.LedgerCount{Spans: []store.LedgerSpan{{Segment: "t", From: 64, To: 90}}, Spent: spent}, now, now.Add(-time.Hour)); err != nil {
			t.Fatal(err)
		}
		if marks, err := db.LedgerMarks(t.Context(), []string{"s", "t"}); err != nil || !maps.Equal(marks, map[string]int64{"t": 90}) {
			t.Errorf("LedgerMarks = %v, %v", marks, err)
		}
	})
}

func TestSpendingEndsAtTheLargestNumber(t *testing.T) {
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		db := storetest.Open(t, dsn)
		for i := range int64(3) {
			if _, err := spend(t, db, "s", i, i+1, map[reqlog.SpendOwner]*reqlog.Spend{owner("k", ""): {Cost: math.MaxInt64 - 1, Tokens: math.MaxInt64 - 1}}); err != nil {
				t.Fatal(err)
			}
		}
		if got := mustSpending(t, db, store.KeyBudget, "k")["k"]; got.Cost != math.MaxInt64 || got.Tokens != math.MaxInt64 {
			t.Errorf("spent %+v, want the largest numbers", got)
		}
	})
}

// TestNodesThatCountAtOnceLoseNothing has several nodes count for the same keys,
// in another order each.
func TestNodesThatCountAtOnceLoseNothing(t *testing.T) {
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		const nodes, rounds, keys = 4, 20, 30
		var ids []string
		for i := range keys {
			ids = append(ids, fmt.Sprintf("k%d", i))
		}
		var wg sync.WaitGroup
		for n := range nodes {
			db := storetest.Open(t, dsn)
			wg.Go(func() {
				for r := range int64(rounds) {
					spent := make(map[reqlog.SpendOwner]*reqlog.Spend)
					for _, id := range ids {
						spent[owner(id, "")] = &reqlog.Spend{Attempts: 1, Cost: 3}
					}
					if _, err := spend(t, db, fmt.Sprint("node", n), r, r+1, spent); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		got := mustSpending(t, storetest.Open(t, dsn), store.KeyBudget, ids...)
		for _, id := range ids {
			if got[id].Cost != 3*nodes*rounds {
				t.Errorf("%s spent %d, want %d", id, got[id].Cost, 3*nodes*rounds)
			}
		}
	})
}

func TestManyOwnersAreCountedAtOnce(t *testing.T) {
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		db := storetest.Open(t, dsn)
		spent := make(map[reqlog.SpendOwner]*reqlog.Spend)
		var ids []string
		for i := range 2500 {
			ids = append(ids, fmt.Sprintf("k%04d", i))
			spent[owner(ids[i], "")] = &reqlog.Spend{Attempts: 1, Cost: 2}
		}
		began := time.Now()
		raised, err := spend(t, db, "s", 64, 65, spent)
		if err != nil || len(raised) != 2501 {
			t.Fatalf("raised %d, %v; want 2500 keys and a workspace", len(raised), err)
		}
		t.Logf("2501 counters took %s", time.Since(began))
		if got := mustSpending(t, db, store.KeyBudget, ids...); len(got) != 2500 {
			t.Errorf("%d keys spent, want 2500", len(got))
		}
	})
}

func TestBudgetsAreFoundAndChanged(t *testing.T) {
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		db := storetest.Open(t, dsn)
		mustAddUser(t, db, "u1", "ann@example.com")
		at := time.UnixMilli(5000).UTC()
		k, other := inDefault("first"), inDefault("second")
		k.ID, k.UserID, other.ID = "k1", "u1", "k2"
		k.UsageLimits = []byte(`{"type":"cost"}`)
		grant := store.GrantID("i1", store.DefaultWorkspace)
		err := db.Update(t.Context(), nil, func(tx *store.Tx) error {
			if err := addEntry(t, tx); err != nil {
				return err
			}
			err := errors.Join(tx.CreateKey(t.Context(), k), tx.CreateKey(t.Context(), other))
			p, err2 := tx.Provider(t.Context(), store.DefaultOrganisation, "", "p1")
			p.UsageLimits = []byte(`{"type":"tokens"}`)
			err = errors.Join(err, err2, tx.UpdateProvider(t.Context(), p))
			g := store.IntegrationWorkspace{Integration: "i1", Workspace: store.DefaultWorkspace, Enabled: true, UsageLimits: []byte(`[{"type":"cost"}]`), Status: store.Active}
			err = errors.Join(err, tx.PutIntegrationWorkspace(t.Context(), g))
			u := store.User{ID: "u1", UsageLimits: []byte(`{"type":"cost"}`), UpdatedAt: at}
			err = errors.Join(err, tx.SetUserLimits(t.Context(), store.DefaultOrganisation, u))
			w, err2 := tx.Workspace(t.Context(), store.DefaultOrganisation, store.DefaultWorkspace)
			w.UsageLimits = []byte(`[{"type":"cost"}]`)
			return errors.Join(err, err2, tx.UpdateWorkspace(t.Context(), w))
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := spend(t, db, "s", 64, 65, map[reqlog.SpendOwner]*reqlog.Spend{owner("k1", "stored"): {Attempts: 1, Cost: 9}, owner("k2", ""): {Attempts: 1}}); err != nil {
			t.Fatal(err)
		}
		refs := []store.BudgetRef{{Kind: store.KeyBudget, ID: "k1"}, {Kind: store.KeyBudget, ID: "k2"}, {Kind: store.KeyBudget, ID: "none"},
			{Kind: store.WorkspaceBudget, ID: store.DefaultWorkspace}, {Kind: store.ProviderBudget, ID: "p1"}, {Kind: store.GrantBudget, ID: grant},
			{Kind: store.UserBudget, ID: store.UserID(store.DefaultOrganisation, "u1")}}
		found, err := db.Budgets(t.Context(), refs)
		if err != nil || len(found) != 5 {
			t.Fatalf("Budgets = %+v, %v; want five: a key has none", found, err)
		}
		for _, b := range found {
			if b.Spent.Cost != 9 || b.Exhausted || !b.ResetAt.IsZero() || b.Organisation != store.DefaultOrganisation || (b.Workspace == store.DefaultWorkspace) != (b.Kind != store.UserBudget) || b.Name == "" {
				t.Errorf("found %+v", b)
			}
		}
		err = db.ChangeBudgets(t.Context(), refs, func(b *store.BudgetHolder) (bool, []*store.Audit) {
			b.Exhausted, b.ResetAt = true, at
			return true, []*store.Audit{{ID: b.Kind, Organisation: b.Organisation, Workspace: b.Workspace, Time: at, Action: "budget_exhausted"}}
		})
		if err != nil {
			t.Fatal(err)
		}
		p, err := publication.Load(t.Context(), db, nil)
		if err != nil || !p.Exhausted[store.DefaultWorkspace] || p.Providers[0].Row.Status != store.Exhausted || len(p.Users) != 1 || !p.Users[0].Exhausted {
			t.Errorf("published %v and %v, %v; want what is exhausted", p.Exhausted, p.Providers, err)
		}
		if !slices.ContainsFunc(p.Identities, func(id *access.Identity) bool { return id.KeyID == "k1" }) {
			t.Error("the key k1 is not published")
		}
		for _, id := range p.Identities {
			if id.Exhausted != (id.KeyID == "k1") {
				t.Errorf("the key %s is exhausted: %t", id.KeyID, id.Exhausted)
			}
		}
		due, err := db.BudgetsDue(t.Context(), at, 10)
		if err != nil || len(due) != 5 || !due[0].Exhausted || !due[0].ResetAt.Equal(at) {
			t.Errorf("BudgetsDue = %+v, %v; want all five", due, err)
		}
		if due, err := db.BudgetsDue(t.Context(), at.Add(-1), 10); err != nil || len(due) != 0 {
			t.Errorf("BudgetsDue before = %+v, %v", due, err)
		}
		for _, kind := range store.BudgetKinds {
			first, err := db.BudgetsAfter(t.Context(), kind, "", 10)
			if err != nil || len(first) != 1 {
				t.Fatalf("BudgetsAfter of %s = %+v, %v", kind, first, err)
			}
			if rest, err := db.BudgetsAfter(t.Context(), kind, first[0].ID, 10); err != nil || len(rest) != 0 {
				t.Errorf("BudgetsAfter of %s and %s = %+v, %v", kind, first[0].ID, rest, err)
			}
		}
		rows, _, err := db.Audits(t.Context(), store.AuditQuery{Organisation: store.DefaultOrganisation, From: at.Add(-1), To: at.Add(time.Second), Action: "budget_exhausted"}, store.Page{})
		if err != nil || len(rows) != 5 {
			t.Errorf("%d rows in the audit log, %v; want five", len(rows), err)
		}
		before, err := db.Revision(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := db.ChangeBudgets(t.Context(), refs, func(*store.BudgetHolder) (bool, []*store.Audit) { return false, nil }); err != nil {
			t.Fatal(err)
		}
		mustRevision(t, db, before)
		if !slices.ContainsFunc(rows, func(a store.Audit) bool { return a.ID == store.GrantBudget }) {
			t.Error("the grant has no row in the audit log")
		}
	})
}
