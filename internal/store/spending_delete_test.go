package store_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"modelgate/internal/records/reqlog"
	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
	"modelgate/internal/testing/waittest"
)

// Ids of users and policies have 36 characters.
const (
	leaver  = "0196a000-0000-7000-8000-000000000001"
	stayer  = "0196a000-0000-7000-8000-000000000002"
	ended   = "0196a000-0000-7000-8000-000000000003"
	lasting = "0196a000-0000-7000-8000-000000000004"
)

// mustAddOwners creates two of each object that spends, of which mustDeleteOwners
// deletes the first.
func mustAddOwners(t *testing.T, db *store.DB) {
	t.Helper()
	mustAddUser(t, db, leaver, "ann@example.com")
	mustAddUser(t, db, stayer, "bob@example.com")
	err := db.Update(t.Context(), nil, func(tx *store.Tx) error {
		ctx, now := t.Context(), time.Now()
		first, second := inDefault("first"), inDefault("second")
		first.ID, first.UserID, second.ID, second.UserID = "k1", leaver, "k2", stayer
		other := store.Integration{ID: "i2", Organisation: store.DefaultOrganisation, Slug: "other", Name: "Other",
			Provider: "openai", GlobalEnabled: true, Status: store.Active, CreatedAt: now, UpdatedAt: now}
		return errors.Join(tx.CreateKey(ctx, first), tx.CreateKey(ctx, second), addEntry(t, tx), tx.CreateIntegration(ctx, other),
			tx.CreateProvider(ctx, store.Provider{ID: "p2", Organisation: store.DefaultOrganisation, Workspace: store.DefaultWorkspace,
				Integration: "i2", Slug: "second", Name: "Second", Status: store.Active, CreatedAt: now, UpdatedAt: now}),
			tx.CreatePolicy(ctx, usagePolicy(ended)), tx.CreatePolicy(ctx, usagePolicy(lasting)))
	})
	if err != nil {
		t.Fatal(err)
	}
}

func usagePolicy(id string) store.Policy {
	return store.Policy{ID: id, Organisation: store.DefaultOrganisation, Kind: store.UsagePolicy, Name: id, Type: "cost",
		Settings: store.PolicySettings{Value: "1"}, Status: store.Active, CreatedAt: time.UnixMilli(1), UpdatedAt: time.UnixMilli(1)}
}

func mustDeleteOwners(t *testing.T, db *store.DB) {
	t.Helper()
	err := db.Update(t.Context(), nil, func(tx *store.Tx) error {
		ctx, policy := t.Context(), usagePolicy(ended)
		policy.Status = store.Archived
		return errors.Join(tx.RevokeKey(ctx, "k1"), tx.RemoveUser(ctx, store.DefaultOrganisation, leaver, time.Now()),
			tx.ArchiveIntegration(ctx, "i1", time.Now()), tx.UpdatePolicy(ctx, policy))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// spenders returns the kinds and ids that have total spend, sorted.
func spenders(t *testing.T, db *store.DB) (list []string) {
	t.Helper()
	for _, kind := range append([]string{store.PolicySpend}, store.BudgetKinds...) {
		found, err := db.SpendingAfter(t.Context(), kind, "", 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range found {
			list = append(list, kind+" "+s.ID)
		}
	}
	slices.Sort(list)
	return list
}

func TestSpendOfDeletedOwnersIsDeleted(t *testing.T) {
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		db := storetest.Open(t, dsn)
		mustAddOwners(t, db)
		at := int64(64)
		use := func() {
			t.Helper()
			one := &reqlog.Spend{Attempts: 1, Cost: 7}
			now := time.Now()
			_, err := db.AddSpend(t.Context(), store.LedgerCount{
				Spans:    []store.LedgerSpan{{Segment: "s", From: at, To: at + 1}},
				Spent:    map[reqlog.SpendOwner]*reqlog.Spend{owner("k1", "stored"): one, owner("k2", "second"): one, owner("bootstrap", ""): one},
				Counters: map[string]*reqlog.Spend{ended + "/-/0/a": one, lasting + "/-/0/a": one},
			}, now, now.Add(-time.Hour))
			if at++; err != nil {
				t.Fatal(err)
			}
		}
		remove := func(most int) (more bool) {
			t.Helper()
			more, err := db.DeleteSpendingOfDeleted(t.Context(), most)
			if err != nil {
				t.Fatal(err)
			}
			return more
		}
		use()
		all := spenders(t, db)
		if len(all) != 12 {
			t.Fatalf("%q spent, want two of each kind, the workspace and the bootstrap key", all)
		}
		if more := remove(100); more || !slices.Equal(spenders(t, db), all) {
			t.Errorf("with no owner deleted %q are left, want %q", spenders(t, db), all)
		}
		mustDeleteOwners(t, db)
		revision, err := db.Revision(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		left := []string{"grant " + store.GrantID("i2", store.DefaultWorkspace), "key bootstrap", "key k2", "policy " + lasting + "/-/0/a",
			"provider p2", "user " + store.UserID(store.DefaultOrganisation, stayer), "workspace " + store.DefaultWorkspace}
		if !remove(2) {
			t.Error("after two of five nothing more is left")
		}
		if got := spenders(t, db); len(got) != 10 {
			t.Errorf("after at most two deletions %q are left", got)
		}
		if remove(100) || !slices.Equal(spenders(t, db), left) {
			t.Errorf("%q are left, want %q", spenders(t, db), left)
		}
		// A request that was in flight is counted, for those that live too, and its rows go later.
		use()
		if got := mustSpending(t, db, store.KeyBudget, "k1", "k2"); got["k1"].Cost != 7 || got["k2"].Cost != 14 {
			t.Errorf("keys spent %+v, want 7 since the deletion and 14", got)
		}
		if remove(100) || !slices.Equal(spenders(t, db), left) {
			t.Errorf("after late requests %q are left, want %q", spenders(t, db), left)
		}
		mustRevision(t, db, revision)
		// The grants of an archived workspace go, and its own total stays.
		storetest.Exec(t, dsn, `UPDATE workspaces SET status = 'archived' WHERE id = '`+store.DefaultWorkspace+`'`)
		if remove(100) || !slices.Equal(spenders(t, db), left[1:]) {
			t.Errorf("of an archived workspace %q are left, want %q", spenders(t, db), left[1:])
		}
	})
}

func TestSpendIsCountedWhileOwnersAreDeleted(t *testing.T) {
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		db := storetest.Open(t, dsn)
		mustAddOwners(t, db)
		mustDeleteOwners(t, db)
		ctx, stop := context.WithCancel(t.Context())
		removed := make(chan error)
		go func() {
			var err error
			for err == nil && ctx.Err() == nil {
				_, err = db.DeleteSpendingOfDeleted(t.Context(), 100)
			}
			removed <- err
		}()
		for i := range int64(100) {
			one := &reqlog.Spend{Attempts: 1, Cost: 1}
			_, err := spend(t, db, "s", i, i+1, map[reqlog.SpendOwner]*reqlog.Spend{owner("k1", "stored"): one, owner("k2", "second"): one})
			if err != nil {
				t.Fatal(err)
			}
		}
		stop()
		if err := waittest.Receive(t, removed, "the end of removals"); err != nil {
			t.Fatal(err)
		}
		if got := mustSpending(t, db, store.KeyBudget, "k2")["k2"].Cost; got != 100 {
			t.Errorf("the other key spent %d, want 100", got)
		}
	})
}

func TestSpendOfAUserWhoIsInAnotherOrganisationIsDeleted(t *testing.T) {
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		db := storetest.Open(t, dsn)
		mustAddUser(t, db, stayer, "bob@example.com")
		storetest.Exec(t, dsn, `INSERT INTO organisations (id, slug, name, owner_id, settings, data_key, status, created_at, updated_at)
			SELECT 'b/c', 'b', 'B', owner_id, settings, data_key, status, created_at, updated_at FROM organisations`)
		storetest.Exec(t, dsn, `INSERT INTO organisation_members (organisation_id, user_id, role, created_at, updated_at) VALUES ('b/c', '`+stayer+`', 'member', 1, 1)`)
		here, there := store.UserID(store.DefaultOrganisation, stayer), store.UserID("b/c", stayer)
		for _, id := range []string{here, there, "short"} {
			storetest.Exec(t, dsn, `INSERT INTO spending (kind, id, attempts, cost, tokens, unknown, unpriced) VALUES ('user', '`+id+`', 1, 1, 1, 0, 0)`)
		}
		check := func(want ...string) {
			t.Helper()
			if _, err := db.DeleteSpendingOfDeleted(t.Context(), 100); err != nil {
				t.Fatal(err)
			}
			slices.Sort(want)
			if got := spenders(t, db); !slices.Equal(got, want) {
				t.Errorf("%q are left, want %q", got, want)
			}
		}
		check("user "+here, "user "+there, "user short")
		err := db.Update(t.Context(), nil, func(tx *store.Tx) error {
			return tx.RemoveUser(t.Context(), store.DefaultOrganisation, stayer, time.Now())
		})
		if err != nil {
			t.Fatal(err)
		}
		check("user "+there, "user short")
	})
}

func TestTotalsOfTokensAreNotKept(t *testing.T) {
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		db := storetest.Open(t, dsn)
		mustAddUser(t, db, stayer, "bob@example.com")
		storetest.Exec(t, dsn, `INSERT INTO spending (kind, id, attempts, cost, tokens, unknown, unpriced) VALUES ('key', 'jwt:of an earlier version', 1, 1, 1, 0, 0)`)
		_, err := spend(t, db, "s", 64, 65, map[reqlog.SpendOwner]*reqlog.Spend{owner("jwt:bob@example.com", ""): {Cost: 7}, owner("bootstrap", ""): {Cost: 7}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.DeleteSpendingOfDeleted(t.Context(), 100); err != nil {
			t.Fatal(err)
		}
		want := []string{"key bootstrap", "user " + store.UserID(store.DefaultOrganisation, stayer), "workspace " + store.DefaultWorkspace}
		if got := spenders(t, db); !slices.Equal(got, want) {
			t.Errorf("%q are kept, want %q", got, want)
		}
	})
}

func TestAlertsOfArchivedPoliciesAreDeleted(t *testing.T) {
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		db := storetest.Open(t, dsn)
		err := db.Update(t.Context(), nil, func(tx *store.Tx) error {
			return errors.Join(tx.CreatePolicy(t.Context(), usagePolicy(ended)), tx.CreatePolicy(t.Context(), usagePolicy(lasting)))
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{ended, lasting} {
			if ok, err := db.RecordPolicyAlert(t.Context(), store.PolicyWarning{Policy: id, Counter: "-/0/a", Event: store.AlertThreshold}, &store.Audit{ID: id, Organisation: store.DefaultOrganisation, Time: time.Now()}); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
		alerts := func(id string) int {
			t.Helper()
			list, err := db.PolicyAlerts(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			return len(list)
		}
		for i, status := range []string{store.Active, store.Archived} {
			want := 1 - i
			p := usagePolicy(ended)
			p.Status = status
			err := db.Update(t.Context(), nil, func(tx *store.Tx) error { return tx.UpdatePolicy(t.Context(), p) })
			if _, more := db.DeleteSpendingOfDeleted(t.Context(), 100); err != nil || more != nil {
				t.Fatal(err, more)
			}
			if alerts(ended) != want || alerts(lasting) != 1 {
				t.Errorf("%s: %d alerts are left, want %d; of the other %d", status, alerts(ended), want, alerts(lasting))
			}
		}
	})
}
