package quotatest

import (
	"context"
	"testing"
	"time"

	"modelgate/internal/limits/quota"
)

// FollowRequest checks that a budget has a request once at any time: while it is settled,
// after the ledger has counted it and a snapshot has the new total, and after the
// correction, which follows later; and that a settlement which makes its counter, as the
// store has lost it, counts in addition to what the ledger had counted.
func FollowRequest(t *testing.T, s Subject) {
	t.Helper()
	now, store := time.Now(), s.Open(nodeName(0))
	stores := []quota.Store{store}
	if s.Shared {
		stores = append(stores, s.Open(nodeName(1)))
	}
	snapshot := func(counted int64) *quota.Limit {
		return &quota.Limit{Counter: s.Prefix + "-once", Measure: quota.Cost, Max: 1000, Counted: counted}
	}
	spend := func(l *quota.Limit, cost int64) {
		v, err := store.Reserve(context.Background(), now, []quota.Claim{{Limit: l, Amount: 100, Least: 100}})
		if err != nil || v.Refused >= 0 {
			t.Fatal(v, err)
		}
		store.Settle(now, v.Grants, quota.Use{Cost: cost})
		s.flush(store)
	}
	correct := func(total, settled int64) {
		if err := store.Correct(context.Background(),
			[]quota.Correction{{Counter: snapshot(0).Counter, Total: total, Settled: settled}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		name    string
		do      func()
		counted int64 // of the snapshot
		want    int64
	}{
		{"settled", func() { spend(snapshot(0), 55) }, 0, 55},
		{"counted by the ledger", func() {}, 55, 55},
		{"the next is settled", func() { spend(snapshot(55), 30) }, 55, 85},
		{"corrected", func() { correct(55, 55) }, 55, 85},
		{"a snapshot from before", func() {}, 0, 85},
		{"the next is counted", func() {}, 85, 85},
		{"corrected again", func() { correct(85, 30) }, 85, 85},
		{"counted by another node", func() {}, 125, 125},
	} {
		step.do()
		for i, store := range stores {
			got, err := store.Read(context.Background(), now, []*quota.Limit{snapshot(step.counted)})
			if err != nil || got[0].Used != step.want || got[0].Held != 0 {
				t.Errorf("%s: node %d has %+v (%v), want %d used", step.name, i, got, err, step.want)
			}
		}
	}

	lost := &quota.Limit{Counter: s.Prefix + "-lost", Measure: quota.Cost, Max: 1000, Counted: 400}
	store.Settle(now, []quota.Grant{{Limit: lost, Amount: 100, Lease: quota.GenerationAt(now)}}, quota.Use{Cost: 50})
	s.flush(store)
	for i, store := range stores {
		if got, err := store.Read(context.Background(), now, []*quota.Limit{lost}); err != nil || got[0].Used != 450 {
			t.Errorf("settled in a new counter: node %d has %+v (%v), want 450 used", i, got, err)
		}
	}
}
