package quota_test

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"modelgate/internal/limits/quota"
	"modelgate/internal/testing/quotatest"
)

var start = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func perMinute(name string, n int64) *quota.Limit {
	return &quota.Limit{Counter: name, Max: n, Window: time.Minute}
}

func reserve(t *testing.T, s quota.Store, now time.Time, claims ...quota.Claim) quota.Verdict {
	t.Helper()
	v, err := s.Reserve(context.Background(), now, claims)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestRequestsBeyondALimitAreRefusedAmongMany(t *testing.T) {
	var m quota.Memory
	a, b := perMinute("a", 100), perMinute("b", 1000)
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			list := []quota.Claim{{Limit: a, Amount: 1, Least: 1}, {Limit: b, Amount: 1, Least: 1}}
			if i%2 == 0 {
				list[0], list[1] = list[1], list[0]
			}
			for range 50 {
				v, _ := m.Reserve(context.Background(), start, list)
				if v.Refused < 0 {
					admitted.Add(1)
					m.Settle(start, v.Grants, quota.Use{Requests: 1})
				}
			}
		})
	}
	wg.Wait()
	if n := admitted.Load(); n != 100 {
		t.Errorf("%d of 100 allowed requests were admitted", n)
	}
	states, _ := m.Read(context.Background(), start, []*quota.Limit{a, b})
	if states[0].Used != 100 || states[1].Used != 100 || states[0].Held+states[1].Held != 0 {
		t.Errorf("the counters are at %+v", states)
	}
	if v := reserve(t, &m, start.Add(time.Minute), quota.Claim{Limit: a, Amount: 1, Least: 1}); v.Refused >= 0 {
		t.Error("the next window is closed")
	}
}

func TestUnusedReservationsAreReturned(t *testing.T) {
	var m quota.Memory
	tokens := &quota.Limit{Counter: "t", Measure: quota.Tokens, Max: 1000, Window: time.Minute}
	first := reserve(t, &m, start, quota.Claim{Limit: tokens, Amount: 900, Least: 900})
	if v := reserve(t, &m, start, quota.Claim{Limit: tokens, Amount: 200, Least: 200}); v.Refused != 0 || v.States[0].Left(tokens) != 100 {
		t.Errorf("while 900 are held 200 got %+v", v)
	}
	if v := reserve(t, &m, start, quota.Claim{Limit: tokens, Amount: 200, Least: 1}); v.Refused >= 0 || v.Grants[0].Amount != 100 {
		t.Errorf("a claim that takes what is left got %+v", v)
	}
	m.Settle(start, first.Grants, quota.Use{Tokens: 50})
	if v := reserve(t, &m, start, quota.Claim{Limit: tokens, Amount: 850, Least: 850}); v.Refused >= 0 {
		t.Errorf("of 1000, 50 used and 100 held, 850 got %+v", v)
	}
}

func TestUseCountsInTheWindowOfItsReservation(t *testing.T) {
	var m quota.Memory
	l := &quota.Limit{Counter: "t", Measure: quota.Tokens, Max: 10, Window: time.Minute}
	v := reserve(t, &m, start.Add(59*time.Second), quota.Claim{Limit: l, Amount: 10, Least: 10})
	next := start.Add(61 * time.Second)
	if v := reserve(t, &m, next, quota.Claim{Limit: l, Amount: 10, Least: 10}); v.Refused >= 0 {
		t.Fatal("the next window has less than its limit")
	}
	m.Settle(next, v.Grants, quota.Use{Tokens: 9})
	if got, _ := m.Read(context.Background(), next, []*quota.Limit{l}); got[0].Used != 0 || got[0].Held != 10 {
		t.Errorf("a late settlement changed the next window: %+v", got[0])
	}
}

func TestClockSetBackOpensNoWindowTwice(t *testing.T) {
	var m quota.Memory
	l := perMinute("k", 1)
	reserve(t, &m, start, quota.Claim{Limit: l, Amount: 1, Least: 1})
	reserve(t, &m, start.Add(time.Minute), quota.Claim{Limit: l, Amount: 1, Least: 1})
	if v := reserve(t, &m, start, quota.Claim{Limit: l, Amount: 1, Least: 1}); v.Refused != 0 {
		t.Error("setting the clock back by a minute admitted a request again")
	}
	if v := reserve(t, &m, start.Add(-24*time.Hour), quota.Claim{Limit: l, Amount: 1, Least: 1}); v.Refused >= 0 {
		t.Error("a clock that was a day fast blocks the key for a day")
	}
}

func TestBudgetsFollowTheLedger(t *testing.T) {
	var m quota.Memory
	l := &quota.Limit{Counter: "b", Measure: quota.Cost, Max: 1100, Base: 100, Counted: 300}
	v := reserve(t, &m, start, quota.Claim{Limit: l, Amount: 500, Least: 500})
	if v.Refused >= 0 || v.States[0].Used != 200 {
		t.Fatalf("a budget starts at what the ledger counted: %+v", v)
	}
	m.Settle(start, v.Grants, quota.Use{Cost: 400})
	check := func(used int64) {
		t.Helper()
		if got, _ := m.Read(context.Background(), start, []*quota.Limit{l}); got[0].Used != used || got[0].Held != 0 {
			t.Errorf("the budget is at %+v, want %d used", got[0], used)
		}
	}
	check(600)
	m.Correct(context.Background(), []quota.Correction{{Counter: "b", Total: 700, Settled: 400}})
	check(600) // what was settled is now counted
	m.Correct(context.Background(), []quota.Correction{{Counter: "b", Total: 900}})
	check(800) // of other nodes
	if v := reserve(t, &m, start, quota.Claim{Limit: l, Amount: 300, Least: 201}); v.Refused != 0 {
		t.Errorf("201 of 200 left got %+v", v)
	}
}

func TestMemoryCountsARequestOnce(t *testing.T) {
	quotatest.FollowRequest(t, quotatest.Subject{Open: func(string) quota.Store { return new(quota.Memory) }})
}

func TestWindowsAreAlignedToUTC(t *testing.T) {
	var m quota.Memory
	for window, end := range map[time.Duration]string{
		time.Second:        "2026-05-01T12:00:01Z",
		time.Hour:          "2026-05-01T13:00:00Z",
		24 * time.Hour:     "2026-05-02T00:00:00Z",
		7 * 24 * time.Hour: "2026-05-04T00:00:00Z", // a Monday
	} {
		l := &quota.Limit{Counter: window.String(), Max: 1, Window: window}
		states, _ := m.Read(context.Background(), start, []*quota.Limit{l})
		if got := states[0].Reset.Format(time.RFC3339); got != end {
			t.Errorf("a window of %v ends at %s, want %s", window, got, end)
		}
	}
}

func TestMemoryFollowsTheReference(t *testing.T) {
	quotatest.Follow(t, quotatest.Subject{Open: func(string) quota.Store { return new(quota.Memory) }}, 200, 300)
}

func TestMemoryHoldsLimitsAmongManyRequests(t *testing.T) {
	quotatest.Hold(t, quotatest.Subject{Open: func(string) quota.Store { return new(quota.Memory) }}, true)
}

func TestCounterIsKeptWhileAClockMayBeSetBack(t *testing.T) {
	var m quota.Memory
	l := perMinute("k", 1)
	reserve(t, &m, start, quota.Claim{Limit: l, Amount: 1, Least: 1})
	for i := range 1000 { // removes old counters
		reserve(t, &m, start.Add(61*time.Second), quota.Claim{Limit: perMinute(fmt.Sprint(i), 1), Amount: 1, Least: 1})
	}
	if v := reserve(t, &m, start, quota.Claim{Limit: l, Amount: 1, Least: 1}); v.Refused != 0 {
		t.Error("a removed counter admitted a request again")
	}
}

func TestCountersOfEndedPeriodsAreRemoved(t *testing.T) {
	var m quota.Memory
	ctx := context.Background()
	for i := range 2000 {
		l := &quota.Limit{Counter: fmt.Sprint("policy/p/2026-05/", i), Max: 10, Resets: start.Add(time.Hour), Final: i%2 == 0}
		if v, _ := m.Reserve(ctx, start, []quota.Claim{{Limit: l, Amount: 5, Least: 5}}); v.Refused >= 0 {
			t.Fatal("a fresh counter is full")
		}
	}
	later := start.Add(3 * time.Hour)
	for i := range 2000 { // new counters make their shards remove old ones
		l := &quota.Limit{Counter: fmt.Sprint("new/", i), Max: 10}
		m.Reserve(ctx, later, []quota.Claim{{Limit: l, Amount: 1, Least: 1}})
	}
	if n := m.Len(); n != 3000 {
		t.Errorf("%d counters are left, want the 1000 that go on and 2000 new ones", n)
	}
}

func TestCountersOfBudgetsThatAreNeverResetAreRemovedUnlessTheyCount(t *testing.T) {
	var m quota.Memory
	use := func(name string, cost int64) {
		l := &quota.Limit{Counter: name, Measure: quota.Cost, Max: 10, Final: true}
		v := reserve(t, &m, start, quota.Claim{Limit: l, Amount: 5, Least: 5})
		if v.Refused >= 0 {
			t.Fatalf("%s is full: %+v", name, v)
		}
		if cost >= 0 {
			m.Settle(start, v.Grants, quota.Use{Cost: cost})
		}
	}
	for i := range 1000 {
		use(fmt.Sprint("policy/unused/", i), 0)
		use(fmt.Sprint("policy/deleted/", i), 5)
		use(fmt.Sprint("policy/used/", i), 5)
		use(fmt.Sprint("policy/deleted/held/", i), -1)
	}
	later := start.Add(3 * time.Hour)
	for i := range 2000 {
		reserve(t, &m, later, quota.Claim{Limit: perMinute(fmt.Sprint("new/", i), 1), Amount: 1, Least: 1})
	}
	if n := m.Len(); n != 5000 {
		t.Errorf("%d counters are left, want 5000: all that were used or are in use", n)
	}
	m.RemoveUnused(func(names map[string]bool) {
		if len(names) != 2000 {
			t.Errorf("%d counters could be removed, want the 2000 that were used and are not in use", len(names))
		}
		for name := range names {
			if !strings.HasPrefix(name, "policy/deleted/") {
				delete(names, name)
			}
		}
	})
	if n := m.Len(); n != 4000 {
		t.Errorf("%d counters are left, want the 1000 that were used, the 1000 in use and 2000 new ones", n)
	}
	l := &quota.Limit{Counter: "policy/used/7", Measure: quota.Cost, Max: 10, Final: true}
	if states, _ := m.Read(context.Background(), later, []*quota.Limit{l}); states[0].Used != 5 {
		t.Errorf("what was used of a budget without a period is %d, want 5", states[0].Used)
	}
}

func TestRemovedCountersDoNotStopRequests(t *testing.T) {
	var m quota.Memory
	l := &quota.Limit{Counter: "key/k/cost/", Measure: quota.Cost, Max: 100}
	used := reserve(t, &m, start, quota.Claim{Limit: l, Amount: 5, Least: 5})
	m.Settle(start, used.Grants, quota.Use{Cost: 5})
	all := func(map[string]bool) {}
	// A counter with a reservation is kept, even one made while the others are removed.
	var v quota.Verdict
	m.RemoveUnused(func(map[string]bool) {
		v = reserve(t, &m, start, quota.Claim{Limit: l, Amount: 7, Least: 7})
	})
	if states, _ := m.Read(t.Context(), start, []*quota.Limit{l}); states[0].Used != 5 || states[0].Held != 7 {
		t.Fatalf("a counter in use is %+v, want 5 used and 7 held", states[0])
	}
	m.Settle(start, v.Grants, quota.Use{Cost: 7})
	m.RemoveUnused(all)
	if n := m.Len(); n != 0 {
		t.Fatalf("%d counters are left, want 0", n)
	}
	// Later settlements and corrections succeed, and leave no counter behind.
	m.Settle(start, v.Grants, quota.Use{Cost: 7})
	if err := m.Correct(t.Context(), []quota.Correction{{Counter: l.Counter, Total: 12, Settled: 7}}); err != nil {
		t.Error(err)
	}
	m.RemoveUnused(all)
	if n := m.Len(); n != 0 {
		t.Errorf("%d counters are left after a late settlement, want 0", n)
	}
}

func TestTheSchemaHasTheLargestLimit(t *testing.T) {
	field, _ := reflect.TypeFor[quota.Rate]().FieldByName("Value")
	if got, want := field.Tag.Get("maximum"), fmt.Sprint(int64(quota.MaxLimit)); got != want {
		t.Errorf("the maximum of value is %s, want %s", got, want)
	}
}
