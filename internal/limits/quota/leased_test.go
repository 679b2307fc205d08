package quota_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"modelgate/internal/limits/quota"
	"modelgate/internal/testing/quotatest"
)

// lender is a shared store in memory.
type lender struct {
	failing
	mu    sync.Mutex
	calls int
}

func (l *lender) Reserve(ctx context.Context, now time.Time, claims []quota.Claim) (quota.Verdict, error) {
	l.mu.Lock()
	l.calls++
	l.mu.Unlock()
	if l.err != nil {
		return quota.Verdict{}, l.err
	}
	v, err := l.Memory.Reserve(ctx, now, claims)
	for i := range v.Grants {
		v.Grants[i].Lease = quota.GenerationAt(now)
	}
	return v, err
}

func lease(t *testing.T, store quota.Store) *quota.Leased {
	d := &quota.Leased{Store: store}
	d.Start()
	t.Cleanup(d.Close)
	return d
}

func TestLeasedSlicesHoldLimitsAmongManyRequests(t *testing.T) {
	store := new(lender)
	quotatest.Hold(t, quotatest.Subject{Open: func(string) quota.Store { return lease(t, store) }, Shared: true}, false)
}

func TestLeasedSlicesNeverAddUpToMoreThanTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(lender)
		a, b := &quota.Leased{Store: store}, &quota.Leased{Store: store}
		a.Start()
		b.Start()
		l := &quota.Limit{Counter: "t", Measure: quota.Tokens, Max: 1000, Window: 24 * time.Hour}
		granted := int64(0)
		exhaust := func(d *quota.Leased) {
			for {
				v := reserve(t, d, time.Now(), quota.Claim{Limit: l, Amount: 10, Least: 10})
				if v.Refused >= 0 {
					return
				}
				granted += v.Grants[0].Amount
				d.Settle(time.Now(), v.Grants, quota.Use{Tokens: 10})
				synctest.Wait()
			}
		}
		for range 3 {
			reserve(t, a, time.Now(), quota.Claim{Limit: l, Amount: 10, Least: 10})
		}
		exhaust(b)
		if granted > 970 || granted < 800 {
			t.Errorf("%d of 970 were granted while another gateway has a slice", granted)
		}
		time.Sleep(5 * time.Second) // slices are returned
		exhaust(b)
		if granted != 970 {
			t.Errorf("%d of 970 were granted after the other gateway returned its slice", granted)
		}
		a.Close()
		b.Close()
	})
}

func TestLeasedSlicesSpareTheStore(t *testing.T) {
	store := new(lender)
	d := lease(t, store)
	l := &quota.Limit{Counter: "k", Max: 100_000, Window: 24 * time.Hour}
	for range 10_000 {
		v := reserve(t, d, start, quota.Claim{Limit: l, Amount: 1, Least: 1})
		if v.Refused >= 0 {
			t.Fatalf("refused: %+v", v)
		}
		d.Settle(start, v.Grants, quota.Use{Requests: 1})
	}
	if store.calls > 5 {
		t.Errorf("10000 requests of 100000 called the store %d times", store.calls)
	}
	empty := &quota.Limit{Counter: "e", Max: 0, Window: 24 * time.Hour}
	before := store.calls
	for range 1000 {
		if v := reserve(t, d, start, quota.Claim{Limit: empty, Amount: 1, Least: 1}); v.Refused != 0 {
			t.Fatal("granted of nothing")
		}
	}
	if n := store.calls - before; n > 100 {
		t.Errorf("a limit that is used up called the store %d times", n)
	}
}

func TestSlicesAreUsedWhileTheStoreFails(t *testing.T) {
	store := new(lender)
	d := lease(t, store)
	l := &quota.Limit{Counter: "k", Max: 160, Window: 24 * time.Hour}
	reserve(t, d, start, quota.Claim{Limit: l, Amount: 1, Least: 1})
	store.err = errDown
	for range 9 {
		if v := reserve(t, d, start, quota.Claim{Limit: l, Amount: 1, Least: 1}); v.Refused >= 0 {
			t.Fatalf("the slice was not used: %+v", v)
		}
	}
	for range 3 {
		if v, err := d.Reserve(t.Context(), start, []quota.Claim{{Limit: l, Amount: 1, Least: 1}}); err == nil {
			t.Errorf("beyond the slice: %+v", v)
		}
	}
}

func TestSmallClaimsFitWhereALargeOneDoesNot(t *testing.T) {
	store := new(lender)
	l := &quota.Limit{Counter: "k", Measure: quota.Tokens, Max: 100, Window: 24 * time.Hour}
	store.Reserve(t.Context(), start, []quota.Claim{{Limit: l, Amount: 60, Least: 60}}) // another gateway
	d := lease(t, store)
	if v := reserve(t, d, start, quota.Claim{Limit: l, Amount: 90, Least: 90}); v.Refused != 0 || v.States[0].Left(l) != 40 {
		t.Errorf("90 of 40: %+v", v)
	}
	if states, _ := store.Read(t.Context(), start, []*quota.Limit{l}); states[0].Held != 60 {
		t.Errorf("a claim that was refused holds %d", states[0].Held-60)
	}
	if v := reserve(t, d, start, quota.Claim{Limit: l, Amount: 50, Least: 30}); v.Refused >= 0 || v.Grants[0].Amount != 40 {
		t.Errorf("30 to 50 of 40 after a refusal: %+v", v)
	}
}

func TestUseBeyondAGrantReducesTheSlice(t *testing.T) {
	store := new(lender)
	l := &quota.Limit{Counter: "k", Measure: quota.Tokens, Max: 1600, Window: 24 * time.Hour}
	d := lease(t, store)
	v := reserve(t, d, start, quota.Claim{Limit: l, Amount: 20, Least: 20})
	d.Settle(start, v.Grants, quota.Use{Tokens: 50}) // 30 more
	if states, _ := store.Read(t.Context(), start, []*quota.Limit{l}); states[0].Used != 50 || states[0].Held != 50 {
		t.Errorf("the store has %+v, want 50 used and 50 of the slice of 100 held", states[0])
	}
	v = reserve(t, d, start, quota.Claim{Limit: l, Amount: 50, Least: 50})
	d.Settle(start, v.Grants, quota.Use{Tokens: 70}) // the slice has nothing left
	if states, _ := store.Read(t.Context(), start, []*quota.Limit{l}); states[0].Used != 120 || states[0].Held != 0 {
		t.Errorf("the store has %+v, want 120 used", states[0])
	}
}

// slow is a store that takes a while.
type slow struct{ lender }

func (s *slow) Reserve(ctx context.Context, now time.Time, claims []quota.Claim) (quota.Verdict, error) {
	time.Sleep(40 * time.Millisecond)
	return s.lender.Reserve(ctx, now, claims)
}

func TestRequestsAtTheSameTimeAreLeasedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(slow)
		d := &quota.Leased{Store: store}
		d.Start()
		defer d.Close()
		l := &quota.Limit{Counter: "k", Max: 20, Window: 24 * time.Hour}
		var granted atomic.Int64
		var wg sync.WaitGroup
		for range 48 {
			wg.Go(func() {
				if v, err := d.Reserve(t.Context(), start, []quota.Claim{{Limit: l, Amount: 1, Least: 1}}); err == nil && v.Refused < 0 {
					granted.Add(1)
				}
			})
		}
		wg.Wait()
		if granted.Load() != 20 || store.calls > 4 {
			t.Errorf("%d of 20 requests were granted with %d calls of the store", granted.Load(), store.calls)
		}
	})
}

func TestSliceEndsWithItsWindowAndItsLimit(t *testing.T) {
	store := new(lender)
	d := lease(t, store)
	l := &quota.Limit{Counter: "k", Max: 160, Window: time.Minute}
	v := reserve(t, d, start, quota.Claim{Limit: l, Amount: 5, Least: 5})
	next := start.Add(time.Minute)
	reserve(t, d, next, quota.Claim{Limit: l, Amount: 5, Least: 5})
	d.Settle(next, v.Grants, quota.Use{Requests: 5}) // late
	states, _ := store.Read(t.Context(), next, []*quota.Limit{l})
	if states[0].Used != 0 || states[0].Held != 10 {
		t.Errorf("the next window is at %+v, want a slice of 10", states[0])
	}
	lower := &quota.Limit{Counter: "k", Max: 5, Window: time.Minute}
	if v := reserve(t, d, next, quota.Claim{Limit: lower, Amount: 1, Least: 1}); v.Refused != 0 {
		t.Error("a slice of the limit before its change was granted")
	}
	states, _ = store.Read(t.Context(), next, []*quota.Limit{lower})
	if states[0].Held != 5 {
		t.Errorf("%d are held, want 5: the rest of the slice was not returned", states[0].Held)
	}
}

func BenchmarkLeased(b *testing.B) {
	d := &quota.Leased{Store: new(lender)}
	d.Start()
	defer d.Close()
	var claims []quota.Claim
	for i := range 5 {
		claims = append(claims, quota.Claim{Limit: &quota.Limit{Counter: string(rune('a' + i)), Max: 1 << 50, Window: 24 * time.Hour}, Amount: 10, Least: 1})
	}
	for b.Loop() {
		now := time.Now()
		v, _ := d.Reserve(context.Background(), now, claims)
		d.Settle(now, v.Grants, quota.Use{Requests: 10})
	}
}

func TestAnEmptySliceIsKnownToBeFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(lender)
		g := &quota.Guard{Store: lease(t, store)}
		now := time.Now()
		l := &quota.Limit{Counter: "k", Max: 2, Window: time.Minute}
		full := func(at time.Time, l *quota.Limit) bool { s, is := g.Peek(at, l); return is && s.Left(l) == 0 }
		if _, is := g.Peek(now, l); is {
			t.Error("a limit is known that the store was not asked for")
		}
		v := reserve(t, g, now, quota.Claim{Limit: l, Amount: 1, Least: 1})
		if full(now, l) {
			t.Error("a limit with one left is full")
		}
		large := &quota.Limit{Counter: "large", Max: 64, Window: time.Minute}
		reserve(t, g, now, quota.Claim{Limit: large, Amount: 1, Least: 1})
		if s, is := g.Peek(now, large); !is || s.Left(large) != 63 {
			t.Errorf("a limit with 63 left, some of them here, is %+v, %t", s, is)
		}
		reserve(t, g, now, quota.Claim{Limit: l, Amount: 1, Least: 1})
		if v := reserve(t, g, now, quota.Claim{Limit: l, Amount: 1, Least: 1}); v.Refused != 0 {
			t.Fatalf("a third of two: %+v", v)
		}
		if s, is := g.Peek(now, l); !is || s.Used+s.Held != 2 || s.Reset.Sub(now) > time.Minute || !s.Reset.After(now) {
			t.Errorf("the limit is used up, and is %+v, %t", s, is)
		}
		raised := *l
		raised.Max = 3
		for at, l := range map[time.Time]*quota.Limit{now: &raised, now.Add(time.Minute): l} {
			if s, is := g.Peek(at, l); is {
				t.Errorf("a raised limit, or that of the next minute, is %+v", s)
			}
		}
		g.Settle(now, v.Grants, quota.Use{}) // returns to the slice
		if full(now, l) {
			t.Error("a limit of which one was returned is full")
		}
		reserve(t, g, now, quota.Claim{Limit: l, Amount: 1, Least: 1})
		reserve(t, g, now, quota.Claim{Limit: l, Amount: 1, Least: 1})
		time.Sleep(time.Second)
		if s, is := g.Peek(now, l); is {
			t.Errorf("%+v is known, but another gateway may have returned some, and the store was not asked for a second", s)
		}
	})
}
