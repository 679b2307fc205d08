package server

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"modelgate/internal/identity/access"
	"modelgate/internal/limits/quota"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/snapshot"
	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

// unreachableCounters cannot be read either.
type unreachableCounters struct{ brokenCounters }

func (*unreachableCounters) Read(context.Context, time.Time, []*quota.Limit) ([]quota.State, error) {
	return nil, errors.New("connection refused")
}

// TestCountersOfDeletedKeysAreRemoved uses two keys, of which the snapshot has one, as
// the other was deleted.
func TestCountersOfDeletedKeysAreRemoved(t *testing.T) {
	budget := func(key string) *quota.Limit {
		return &quota.Limit{Counter: "key/" + key + "/cost/", Measure: quota.Cost, Max: 100}
	}
	for name, counters := range map[string]quota.Store{"memory": new(quota.Memory), "guard": &quota.Guard{Store: new(unreachableCounters)}} {
		used := func(key string) int64 {
			states, err := counters.Read(t.Context(), time.Now(), []*quota.Limit{budget(key)})
			if err != nil {
				t.Fatal(err)
			}
			return states[0].Used
		}
		u := &unusedCounters{snapshot: new(snapshot.Holder), counters: counters, db: new(store.DB), logger: slog.New(slog.DiscardHandler)}
		for _, key := range []string{"deleted", "kept"} {
			v, err := counters.Reserve(t.Context(), time.Now(), []quota.Claim{{Limit: budget(key), Amount: 5, Least: 5}})
			if err != nil || v.Refused >= 0 {
				t.Fatalf("%s: %+v, %v", name, v, err)
			}
			counters.Settle(time.Now(), v.Grants, quota.Use{Cost: 5})
		}
		u.remove(t.Context(), time.Now())
		if got := used("deleted"); got != 5 {
			t.Errorf("%s: without a snapshot, %d is used, want 5", name, got)
		}
		publish(t, u.snapshot, budget("kept"))
		u.remove(t.Context(), time.Now())
		if gone, kept := used("deleted"), used("kept"); gone != 0 || kept != 5 {
			t.Errorf("%s: %d is used of the deleted key and %d of the other, want 0 and 5", name, gone, kept)
		}
	}
}

func publish(t *testing.T, h *snapshot.Holder, l *quota.Limit) {
	t.Helper()
	s, err := snapshot.Build(snapshot.Input{Keys: []*access.Identity{{KeyID: "kept", Limits: []*quota.Limit{l}}}})
	if err != nil {
		t.Fatal(err)
	}
	h.Publish(s)
}

func TestSpendOfDeletedObjectsIsRemovedHourlyOrUntilNoneIsLeft(t *testing.T) {
	db := storetest.Open(t, "file:"+t.TempDir()+"/modelgate.db")
	u := &unusedCounters{snapshot: new(snapshot.Holder), db: db, logger: slog.New(slog.DiscardHandler)}
	at, now := int64(64), time.Now()
	revoked := revokedKeys(t, db, spendAtOnce+1)
	spend := func(keys ...string) {
		t.Helper()
		spent := make(map[reqlog.SpendOwner]*reqlog.Spend)
		for _, k := range keys {
			spent[reqlog.SpendOwner{Organisation: store.DefaultOrganisation, Workspace: store.DefaultWorkspace, KeyID: k}] = &reqlog.Spend{Attempts: 1}
		}
		_, err := db.AddSpend(t.Context(), store.LedgerCount{Spans: []store.LedgerSpan{{Segment: "s", From: at, To: at + 1}}, Spent: spent}, now, now.Add(-time.Hour))
		if at++; err != nil {
			t.Fatal(err)
		}
	}
	check := func(when string, after time.Duration, want int) {
		t.Helper()
		u.remove(t.Context(), now.Add(after))
		left, err := db.SpendingAfter(t.Context(), store.KeyBudget, "", spendAtOnce+1)
		if err != nil || len(left) != want {
			t.Errorf("%s: %d rows are left, want %d: %v", when, len(left), want, err)
		}
	}
	spend(revoked...)
	check("at first", 0, 1)
	check("a minute later", time.Minute, 0)
	spend(revoked[0])
	check("within the hour", 2*time.Minute, 1)
	check("after an hour", 62*time.Minute, 0)
}

// revokedKeys adds n revoked keys and returns their ids.
func revokedKeys(t *testing.T, db *store.DB, n int) (ids []string) {
	t.Helper()
	err := db.Update(t.Context(), nil, func(tx *store.Tx) error {
		for range n {
			id := reqlog.NewID(time.Now()).String()
			err := tx.CreateKey(t.Context(), store.Key{
				ID: id, Type: access.WorkspaceService, Organisation: store.DefaultOrganisation, Workspace: store.DefaultWorkspace,
				Name: id, Hash: access.HashKey(id), Status: store.KeyRevoked, CreatedAt: time.Now(), UpdatedAt: time.Now(),
			})
			if err != nil {
				return err
			}
			ids = append(ids, id)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return ids
}
