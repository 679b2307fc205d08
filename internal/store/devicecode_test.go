package store_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

func TestADeviceCodeIsSpentOnceOverNodes(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		nodes := []*store.DB{open(), open()}
		now := time.UnixMilli(1_000_000_000)
		d := store.DeviceCode{Hash: "h", UserCodeHash: "u", Status: store.DevicePending, Interval: 5, CreatedAt: now, EndsAt: now.Add(time.Minute)}
		if err := nodes[0].AddDeviceCode(t.Context(), d, 1); err != nil {
			t.Fatal(err)
		}
		more := d
		more.Hash, more.UserCodeHash = "other", "other"
		if err := nodes[1].AddDeviceCode(t.Context(), more, 1); apierr.From(err).Kind != apierr.RateLimited {
			t.Errorf("more device codes than may wait: %v", err)
		}
		update := func(db *store.DB, f func(tx *store.Tx) error) error { return db.Update(t.Context(), nil, f) }
		spend := func(db *store.DB) error {
			return update(db, func(tx *store.Tx) error { return tx.SpendDeviceCode(t.Context(), "h", now) })
		}
		if err := spend(nodes[0]); !apierr.IsNotFound(err) {
			t.Errorf("spending a code that nobody approved: %v", err)
		}
		for i, want := range []bool{true, false} { // two people decide
			err := update(nodes[i], func(tx *store.Tx) error {
				return tx.DecideDeviceCode(t.Context(), "h", store.DeviceApproved, "session", now)
			})
			if (err == nil) != want {
				t.Errorf("decision %d: %v", i, err)
			}
		}
		for i, want := range []bool{false, true} { // two polls, one on each node
			if _, early, err := nodes[i].PollDeviceCode(t.Context(), "h", now.Add(time.Duration(i)*time.Second)); early != want || err != nil {
				t.Errorf("poll %d: early %t, %v", i, early, err)
			}
		}
		var spent atomic.Int64
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() {
				err := spend(nodes[i%2])
				if err == nil {
					spent.Add(1)
				} else if !apierr.IsNotFound(err) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if n := spent.Load(); n != 1 {
			t.Errorf("the code was spent %d times", n)
		}
	})
}
