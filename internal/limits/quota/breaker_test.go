package quota_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"modelgate/internal/limits/quota"
)

// failing is a store in memory that fails or waits on demand.
type failing struct {
	quota.Memory
	err    error
	stuck  bool
	called int
}

func (f *failing) Reserve(ctx context.Context, now time.Time, claims []quota.Claim) (quota.Verdict, error) {
	f.called++
	if f.stuck {
		<-ctx.Done()
		return quota.Verdict{}, ctx.Err()
	}
	if f.err != nil {
		return quota.Verdict{}, f.err
	}
	return f.Memory.Reserve(ctx, now, claims)
}

func (f *failing) Correct(ctx context.Context, list []quota.Correction) error {
	if f.err != nil {
		return f.err
	}
	return f.Memory.Correct(ctx, list)
}

func (f *failing) Read(ctx context.Context, now time.Time, limits []*quota.Limit) ([]quota.State, error) {
	if f.err != nil {
		return nil, f.err
	}
	return f.Memory.Read(ctx, now, limits)
}

var errDown = errors.New("connection refused")

func TestStoreThatFailsIsProbedOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &failing{stuck: true}
		b := &quota.Breaker{Store: store}
		try := func() error {
			_, err := b.Reserve(t.Context(), start, []quota.Claim{{Limit: perMinute("k", 1000), Amount: 1, Least: 1}})
			return err
		}
		began := time.Now()
		for range 100 {
			if err := try(); !errors.Is(err, quota.ErrUnavailable) {
				t.Fatal(err)
			}
		}
		if store.called != 5 || time.Since(began) != 5*quota.DefaultDeadline {
			t.Errorf("%d calls in %v, want 5 of 50ms", store.called, time.Since(began))
		}
		time.Sleep(time.Second)
		try()
		try()
		if store.called != 6 {
			t.Errorf("%d calls after a second, want one more", store.called)
		}
		store.stuck = false
		try()
		if s := b.Stats(); store.called != 6 || !s.Open {
			t.Errorf("the store was called again before the pause: %+v", s)
		}
		time.Sleep(time.Second)
		for range 10 {
			if err := try(); err != nil {
				t.Errorf("after the store has recovered: %v", err)
			}
		}
		if s := b.Stats(); s.Open || s.Calls != 16 || s.Failed != 6 || s.Skipped != 97 {
			t.Errorf("the counts are %+v", s)
		}
	})
}

func TestReservationOutlivesItsClient(t *testing.T) {
	store := &failing{}
	b := &quota.Breaker{Store: store}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if v, err := b.Reserve(ctx, start, []quota.Claim{{Limit: perMinute("k", 1), Amount: 1, Least: 1}}); err != nil || v.Refused >= 0 {
		t.Errorf("a client that has gone got %+v, %v; what it holds is unknown", v, err)
	}
}

func TestLimitsDecideWhileTheStoreFails(t *testing.T) {
	open, closed := perMinute("open", 2), perMinute("closed", 2)
	open.Down, closed.Down = quota.DownOpen, quota.DownClosed
	cached := &quota.Limit{Counter: "cached", Measure: quota.Tokens, Max: 100, Window: time.Hour}
	store := &failing{}
	g := &quota.Guard{Store: store}
	reserve(t, g, start, quota.Claim{Limit: open, Amount: 1, Least: 1})
	a := reserve(t, g, start, quota.Claim{Limit: cached, Amount: 30, Least: 30})
	store.Reserve(t.Context(), start, []quota.Claim{{Limit: cached, Amount: 20, Least: 20}}) // another gateway
	b := reserve(t, g, start, quota.Claim{Limit: cached, Amount: 10, Least: 10})
	g.Settle(start, a.Grants, quota.Use{Tokens: 5}) // 35 of 100 are used or held, 60 as last seen
	store.err = errDown

	for range 5 {
		if v := reserve(t, g, start, quota.Claim{Limit: open, Amount: 1, Least: 1}); v.Refused >= 0 {
			t.Errorf("open: %+v", v)
		}
	}
	if _, err := g.Reserve(t.Context(), start, []quota.Claim{{Limit: open, Amount: 1, Least: 1}, {Limit: cached, Amount: 1, Least: 1}, {Limit: closed, Amount: 1, Least: 1}}); !errors.Is(err, errDown) {
		t.Errorf("a closed limit among others: %v", err)
	}
	v := reserve(t, g, start, quota.Claim{Limit: open, Amount: 1, Least: 1}, quota.Claim{Limit: cached, Amount: 100, Least: 1})
	if v.Refused >= 0 || v.Grants[1].Amount != 40 {
		t.Errorf("the cached counter granted %+v, want what was left when it was last seen", v)
	}
	if v := reserve(t, g, start, quota.Claim{Limit: open, Amount: 1, Least: 1}, quota.Claim{Limit: cached, Amount: 1, Least: 1}); v.Refused != 1 {
		t.Errorf("beyond the limit: %+v", v)
	}
	if states, err := g.Read(t.Context(), start, []*quota.Limit{cached}); err != nil || states[0].Used+states[0].Held != 100 {
		t.Errorf("while the store fails: %+v, %v", states, err)
	}

	store.err = nil
	g.Settle(start, v.Grants, quota.Use{Tokens: 12, Requests: 1})
	g.Settle(start, b.Grants, quota.Use{Tokens: 7})
	states, _ := store.Memory.Read(t.Context(), start, []*quota.Limit{cached, open})
	if states[0].Used != 5+12+7 || states[0].Held != 20 || states[1].Used != 1 {
		t.Errorf("the store has %+v, want what was used without it and no more", states)
	}
	if v := reserve(t, g, start, quota.Claim{Limit: cached, Amount: 60, Least: 60}); v.Refused != 0 {
		t.Errorf("60 of 56: %+v", v)
	}
	store.err = errDown
	if v := reserve(t, g, start, quota.Claim{Limit: cached, Amount: 57, Least: 57}); v.Refused != 0 {
		t.Errorf("the second failure knows nothing of what the store said last: %+v", v)
	}
	if v := reserve(t, g, start, quota.Claim{Limit: cached, Amount: 56, Least: 56}); v.Refused >= 0 {
		t.Errorf("the rest of the limit: %+v", v)
	}
}

func TestCachedBudgetsFollowTheLedger(t *testing.T) {
	store := &failing{}
	g := &quota.Guard{Store: store}
	l := &quota.Limit{Counter: "b", Measure: quota.Cost, Max: 1100, Base: 100, Counted: 300}
	v := reserve(t, g, start, quota.Claim{Limit: l, Amount: 500, Least: 500})
	g.Settle(start, v.Grants, quota.Use{Cost: 400})
	if err := g.Correct(t.Context(), []quota.Correction{{Counter: "b", Total: 900, Settled: 400}}); err != nil {
		t.Fatal(err)
	}
	store.err = errDown
	v = reserve(t, g, start, quota.Claim{Limit: l, Amount: 100, Least: 1})
	if v.Refused >= 0 || v.Grants[0].Amount != 100 {
		t.Errorf("the budget has at least 100 left: %+v", v)
	}
	if v := reserve(t, g, start, quota.Claim{Limit: l, Amount: 200, Least: 200}); v.Refused != 0 {
		t.Errorf("200 of 100 left: %+v", v)
	}
	g.Settle(start, v.Grants, quota.Use{Cost: 60})
	used := func() int64 {
		states, _ := g.Read(t.Context(), start, []*quota.Limit{l})
		return states[0].Used + states[0].Held
	}
	before := used()
	correct := func() error {
		return g.Correct(t.Context(), []quota.Correction{{Counter: "b", Total: 960, Settled: 60}})
	}
	if err := correct(); !errors.Is(err, errDown) {
		t.Errorf("a correction while the store fails: %v", err)
	}
	if used() != before {
		t.Errorf("%d are used after a correction that failed, %d before", used(), before)
	}
	store.err = nil
	if err := correct(); err != nil || used() != 960-100 {
		t.Errorf("%d are used after the ledger counted what was settled, want 860: %v", used(), err)
	}
}

func TestClockOfTheStoreDecidesWhenClocksDiffer(t *testing.T) {
	var c quota.Clock
	observe := func(ahead time.Duration) { c.Observe(start, start, start.Add(ahead)) }
	for _, tt := range []struct{ ahead, want time.Duration }{
		{0, 0}, {1900 * time.Millisecond, 0}, {-1900 * time.Millisecond, 0}, {3 * time.Second, 3 * time.Second}, {-time.Hour, -time.Hour}, {time.Second, 0},
	} {
		observe(tt.ahead)
		if got := c.Adjust(start).Sub(start); got != tt.want {
			t.Errorf("a store that is %v ahead moves the clock by %v, want %v", tt.ahead, got, tt.want)
		}
	}
	c.Observe(start, start.Add(time.Minute), start.Add(time.Hour)) // the reply was slow
	if got := c.Adjust(start); !got.Equal(start) {
		t.Errorf("a slow reply moved the clock to %v", got)
	}
}

// receiver receives settlements.
type receiver struct {
	mu    sync.Mutex
	sent  []quota.Settlement
	calls int
	err   error
}

func (r *receiver) send(_ context.Context, batch []quota.Settlement) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	r.sent = append(r.sent, batch...)
	return r.err
}

func (r *receiver) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

func (r *receiver) probe(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

func TestSettlementsAreAddedUpAndSentOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := new(receiver)
		s := quota.Settlements{Send: r.send, Probe: r.probe}
		s.Start()
		l := perMinute("k", 100)
		grant := []quota.Grant{{Limit: l, Window: 7, Lease: 3, Amount: 2}}
		for range 50 {
			s.Add(start, grant, quota.Use{Requests: 1})
		}
		s.Flush()
		if len(r.sent) != 1 || r.sent[0].Held != 100 || r.sent[0].Used != 50 || r.sent[0].Window != 7 || r.sent[0].Lease != 3 || r.sent[0].Budget {
			t.Errorf("sent %+v, want one sum", r.sent)
		}
		r.fail(errDown)
		s.Add(start, grant, quota.Use{Requests: 1})
		time.Sleep(time.Second)
		s.Add(start, grant, quota.Use{Requests: 1}) // waits
		time.Sleep(time.Second)
		synctest.Wait()
		if r.calls != 2 || s.Lost() != 1 {
			t.Errorf("%d batches were sent and %d settlements lost, want 2 and 1: none is sent twice", r.calls, s.Lost())
		}
		r.fail(nil)
		time.Sleep(time.Second)
		synctest.Wait()
		if r.calls != 3 || s.Lost() != 1 {
			t.Errorf("%d batches after the store has recovered, %d lost; want 3 and 1", r.calls, s.Lost())
		}
		s.Add(start, grant, quota.Use{Requests: 1})
		s.Close()
		if r.calls != 4 {
			t.Errorf("what was left at the end was not sent")
		}
	})
}

func TestSettlementsAreBounded(t *testing.T) {
	s := quota.Settlements{}
	for i := range 200_000 {
		s.Add(start, []quota.Grant{{Limit: perMinute(string(rune(i)), 1)}, {Limit: perMinute(string(rune(i))+"x", 1)}}, quota.Use{})
	}
	if n := s.Lost(); n < 200_000 {
		t.Errorf("%d of 400000 were not kept, want at most 65536 kept", n)
	}
}

func BenchmarkMemory(b *testing.B) {
	var m quota.Memory
	var claims []quota.Claim
	for i := range 5 {
		claims = append(claims, quota.Claim{Limit: perMinute(string(rune('a'+i)), 1<<50), Amount: 10, Least: 1})
	}
	for b.Loop() {
		now := time.Now()
		v, _ := m.Reserve(context.Background(), now, claims)
		m.Settle(now, v.Grants, quota.Use{Requests: 10})
	}
}

func TestADefaultDecidesForLimitsWithoutAValueOfTheirOwn(t *testing.T) {
	for name, tt := range map[string]struct {
		def      quota.WhenDown
		admitted int // of 4, where the limit is 2
		unknown  bool
	}{
		"none": {quota.DownDefault, 2, true}, "cached": {quota.DownCached, 2, true}, "open": {quota.DownOpen, 4, true}, "closed": {quota.DownClosed, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := &quota.Guard{Store: &failing{err: errDown}, Default: tt.def}
			l := perMinute("k", 2)
			admitted := 0
			for range 4 {
				if v, err := g.Reserve(t.Context(), start, []quota.Claim{{Limit: l, Amount: 1, Least: 1}}); err == nil && v.Refused < 0 {
					admitted++
				}
			}
			if admitted != tt.admitted {
				t.Errorf("%d of 4 were admitted, want %d", admitted, tt.admitted)
			}
			own := perMinute("own", 2)
			own.Down = quota.DownClosed
			if _, err := g.Reserve(t.Context(), start, []quota.Claim{{Limit: own, Amount: 1, Least: 1}}); !errors.Is(err, errDown) {
				t.Errorf("a limit that is closed itself: %v", err)
			}
			states, err := g.Read(t.Context(), start, []*quota.Limit{l, own})
			if err != nil || (l.OvershootUnits(states[0]) == nil) != tt.unknown || own.OvershootUnits(states[1]) == nil {
				t.Errorf("overshoot %d and %d, %v; want unknown %t and 0", states[0].Overshoot, states[1].Overshoot, err, tt.unknown)
			}
		})
	}
	g := &quota.Guard{Store: &failing{}}
	if states, err := g.Read(t.Context(), start, []*quota.Limit{perMinute("k", 2)}); err != nil || states[0].Overshoot != 0 {
		t.Errorf("while the store works: %+v, %v", states, err)
	}
}
