package store_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

var tenTries = store.AttemptLimit{ID: "pair", Free: 10, Wait: time.Minute, MaxWait: time.Hour, Forget: time.Hour}

func TestParallelAttemptsOfSeveralNodesAreReservedOnce(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		nodes := []*store.DB{open(), open(), open()}
		now := time.UnixMilli(1_000_000_000)
		address := store.AttemptLimit{ID: "address", Free: 50, Wait: time.Second, MaxWait: time.Minute, Forget: time.Minute}
		var allowed atomic.Int64
		var all sync.WaitGroup
		for i := range 120 {
			all.Go(func() {
				wait, err := nodes[i%len(nodes)].ReserveAttempt(t.Context(), now, address, tenTries)
				if err != nil {
					t.Error(err)
				}
				if wait == 0 {
					allowed.Add(1)
				}
			})
		}
		all.Wait()
		if n := allowed.Load(); n != tenTries.Free {
			t.Errorf("%d of 120 parallel attempts were allowed, want %d", n, tenTries.Free)
		}
		// The refused ones counted nothing for the address either.
		for range address.Free - tenTries.Free {
			if wait, err := nodes[0].ReserveAttempt(t.Context(), now, address); wait != 0 || err != nil {
				t.Fatalf("an attempt of the address waits %s, %v", wait, err)
			}
		}
		if wait, err := nodes[1].ReserveAttempt(t.Context(), now, address); wait == 0 || err != nil {
			t.Errorf("the address has more than its attempts, %v", err)
		}
	})
}

func TestWaitGrowsWithEachAttemptAndIsForgotten(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db, now, limit := open(), time.UnixMilli(1_000_000_000), tenTries
		limit.Forget = 24 * time.Hour
		reserve := func() time.Duration {
			t.Helper()
			wait, err := db.ReserveAttempt(t.Context(), now, limit)
			if err != nil {
				t.Fatal(err)
			}
			return wait
		}
		for i := range limit.Free {
			if wait := reserve(); wait != 0 {
				t.Fatalf("attempt %d waits %s", i+1, wait)
			}
		}
		for i, want := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute, 32 * time.Minute, time.Hour} {
			if wait := reserve(); wait != want {
				t.Fatalf("wait %d is %s, want %s", i+1, wait, want)
			}
			if now = now.Add(want); reserve() != 0 {
				t.Fatalf("after the wait of %s the attempt is refused", want)
			}
		}
		now = now.Add(20 * 24 * time.Hour)
		for i := range limit.Free {
			if wait := reserve(); wait != 0 {
				t.Fatalf("attempt %d after 20 days waits %s", i+1, wait)
			}
		}
	})
}

func TestAReleasedAttemptIsNotCounted(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db, now := open(), time.UnixMilli(1_000_000_000)
		for i := range 3 * tenTries.Free {
			if wait, err := db.ReserveAttempt(t.Context(), now, tenTries); wait != 0 || err != nil {
				t.Fatalf("attempt %d waits %s, %v", i+1, wait, err)
			}
			if err := db.ReleaseAttempt(t.Context(), now, tenTries); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestAttemptStateIsBounded(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db, now := open(), time.UnixMilli(1_000_000_000)
		attacked := store.AttemptLimit{ID: "attacked", Free: 2, Wait: time.Hour, MaxWait: time.Hour, Forget: time.Hour}
		for range attacked.Free {
			if _, err := db.ReserveAttempt(t.Context(), now, attacked); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 40 {
			random := store.AttemptLimit{ID: fmt.Sprint("random", i), Free: 10, Wait: time.Minute, MaxWait: time.Hour, Forget: time.Minute}
			if _, err := db.ReserveAttempt(t.Context(), now, random); err != nil {
				t.Fatal(err)
			}
		}
		rows := func() int {
			t.Helper()
			n, err := db.CountAttempts(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		if err := db.TrimAttempts(t.Context(), now, 10); err != nil || rows() != 10 {
			t.Errorf("%d limits are left of 41, want 10; %v", rows(), err)
		}
		if wait, err := db.ReserveAttempt(t.Context(), now, attacked); wait == 0 || err != nil {
			t.Errorf("random attempts removed the count of the account that is attacked, %v", err)
		}
		if err := db.TrimAttempts(t.Context(), now.Add(time.Minute), 10); err != nil || rows() != 1 {
			t.Errorf("%d limits are left a minute later, want 1; %v", rows(), err)
		}
	})
}

func TestKnownAddressesAreBoundedAndExpire(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db, now := open(), time.UnixMilli(1_000_000_000_000)
		err := db.Update(t.Context(), nil, func(tx *store.Tx) error {
			u := store.User{ID: "ann", Email: "ann@example.com", Status: store.Active, Role: "member", CreatedAt: now, UpdatedAt: now}
			if err := tx.CreateUser(t.Context(), store.DefaultOrganisation, u); err != nil {
				return err
			}
			for i := range 25 {
				if err := tx.RememberAddress(t.Context(), "ann", fmt.Sprint("192.0.2.", i), now.Add(time.Duration(i)*time.Second)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			user, address string
			later         time.Duration
			want          bool
		}{
			{"ann", "192.0.2.24", time.Minute, true},
			{"ann", "192.0.2.5", time.Minute, true},
			{"ann", "192.0.2.4", time.Minute, false}, // of 20 that are remembered the 21st
			{"ann", "192.0.2.24", 91 * 24 * time.Hour, false},
			{"bob", "192.0.2.24", time.Minute, false},
			{"", "192.0.2.24", time.Minute, false},
		} {
			if got, err := db.IsKnownAddress(t.Context(), tt.user, tt.address, now.Add(tt.later)); got != tt.want || err != nil {
				t.Errorf("%q at %s after %s: known = %t, %v; want %t", tt.user, tt.address, tt.later, got, err, tt.want)
			}
		}
	})
}
