package inflight

import (
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestGovernorFollowsTheDelay(t *testing.T) {
	g := New(Options{Requests: 10_000})
	v := newGovernor(g, 2, nil, nil)
	check := func(when string, limit, preparing int) {
		t.Helper()
		if l := g.Load(); l.Limit != limit || l.PreparingLimit != preparing {
			t.Errorf("%s: limits %d and %d, want %d and %d", when, l.Limit, l.PreparingLimit, limit, preparing)
		}
	}
	const long = 50 * time.Millisecond
	g.running.Store(5000)
	g.preparing.Store(2000)
	v.adjust(long, 1)
	check("one long delay", 10_000, 10_000)
	v.adjust(long, 1)
	check("overloaded", 10_000, 1800)
	v.adjust(long, 0.5)
	check("others take the processors", 10_000, 1800)
	v.adjust(15*time.Millisecond, 1)
	check("between the thresholds", 10_000, 1800)
	for range lasting {
		v.adjust(long, 1)
	}
	check("overloaded for a second", 10_000, 695) // nine times nine tenths of 1800
	v.adjust(long, 1)
	check("overloaded for longer", 5000, 625)
	g.running.Store(4000)
	for range 100 {
		v.adjust(long, 1)
	}
	check("fewer run, still overloaded", 4000, 256)
	g.preparing.Store(100)
	g.running.Store(100)
	v.adjust(long, 1)
	check("hardly any run", 256, 256)
	g.running.Store(256)
	v.adjust(time.Millisecond, 1)
	check("relaxed", 512, 356)
	v.adjust(time.Millisecond, 1)
	check("still relaxed", 768, 612)
	for range 10 {
		v.adjust(0, 1)
	}
	check("a long rest", 10_000, 10_000)
}

// Without a limit of requests the governor's own do not overflow.
func TestGovernorOfAGateWithoutALimit(t *testing.T) {
	g := New(Options{Requests: -1})
	v := newGovernor(g, 1, nil, nil)
	g.running.Store(100)
	for range 200 {
		v.adjust(0, 1)
	}
	if l := g.Load(); l.Limit < 1<<40 || l.PreparingLimit < 1<<40 {
		t.Errorf("limits %d and %d after a long rest, want none", l.Limit, l.PreparingLimit)
	}
	v.adjust(time.Second, 1)
	v.adjust(time.Second, 1)
	v.adjust(0, 1)
	if l := g.Load(); l.PreparingLimit <= 128 || l.Limit <= 128 {
		t.Errorf("limits %d and %d when relaxed again, want more than 128", l.Limit, l.PreparingLimit)
	}
}

// A request that was sent makes room for another that waits.
func TestRequestsThatWereSentMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(Options{Requests: 3})
		g.setLimits(3, 1)
		first, err := g.Enter(t.Context(), Caller{Key: "key"}, 0)
		if err != nil {
			t.Fatal(err)
		}
		second := make(chan *Ticket)
		go func() {
			ticket, err := g.Enter(t.Context(), Caller{Key: "key"}, 0)
			if err != nil {
				t.Error(err)
			}
			second <- ticket
		}()
		synctest.Wait()
		if l := g.Load(); l.Running != 1 || l.Preparing != 1 || l.Waiting != 1 {
			t.Errorf("before: %+v, want 1 running and 1 waiting", l)
		}
		first.Sent()
		synctest.Wait()
		if l := g.Load(); l.Running != 2 || l.Preparing != 1 || l.Waiting != 0 {
			t.Errorf("when the first was sent: %+v, want 2 running, 1 of them preparing", l)
		}
		first.Leave()
		(<-second).Leave()
		if l := g.Load(); l.Running != 0 || l.Preparing != 0 {
			t.Errorf("afterwards %+v", l)
		}
	})
}

// processor is one processor that works for one after the other, in fake time.
type processor struct {
	mu     sync.Mutex
	free   time.Time // when it has done all there is to do
	delays []time.Duration
	busy   time.Duration
	since  time.Time
}

// use takes the processor for d.
func (p *processor) use(d time.Duration) {
	p.mu.Lock()
	now := time.Now()
	if p.free.Before(now) {
		p.free = now
	}
	p.delays = append(p.delays, p.free.Sub(now))
	p.free = p.free.Add(d)
	p.busy += d
	until := p.free
	p.mu.Unlock()
	time.Sleep(time.Until(until))
}

// high returns the delay that nine of ten uses since the last call did not exceed.
func (p *processor) high() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.delays) == 0 {
		return 0
	}
	slices.Sort(p.delays)
	d := p.delays[len(p.delays)*9/10]
	p.delays = p.delays[:0]
	return d
}

// share returns the part of the time since the last call that it was busy.
func (p *processor) share() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	left := max(p.free.Sub(now), 0) // was added to busy, and is still to be done
	s := float64(p.busy-left) / float64(max(now.Sub(p.since), 1))
	p.busy, p.since = left, now
	return s
}

// governed runs f in fake time with a gate that is governed by the load of a processor.
func governed(t *testing.T, f func(t *testing.T, g *Gate, p *processor)) {
	synctest.Test(t, func(t *testing.T) {
		g, p := New(Options{Key: -1}), &processor{since: time.Now()}
		go newGovernor(g, 1, p.high, p.share).Run(t.Context())
		f(t, g, p)
	})
}

// A burst overloads the processor for most of a second. None of its requests is
// refused, though those that were sent wait for their provider for all of that time.
func TestBurstIsAdmittedWhileProvidersAreAwaited(t *testing.T) {
	governed(t, func(t *testing.T, g *Gate, p *processor) {
		const burst = 1500
		var all, sent sync.WaitGroup
		var mu sync.Mutex
		refused := 0
		responses := make(chan struct{})
		sent.Add(burst)
		for range burst {
			all.Go(func() {
				ticket, err := g.Enter(t.Context(), Caller{Key: "key"}, 0)
				if err != nil {
					mu.Lock()
					refused++
					mu.Unlock()
					sent.Done()
					return
				}
				p.use(600 * time.Microsecond)
				ticket.Sent()
				ticket.Sent() // as a retry does
				sent.Done()
				<-responses
				p.use(50 * time.Microsecond)
				ticket.Leave()
			})
			time.Sleep(200 * time.Microsecond)
		}
		sent.Wait()
		close(responses)
		all.Wait()
		if refused > 0 {
			t.Errorf("%d of %d requests were refused", refused, burst)
		}
		if l := g.Load(); l.Running != 0 || l.Preparing != 0 || l.Waiting != 0 {
			t.Errorf("afterwards %+v", l)
		}
	})
}

// At twice the load the processor has its hands full with requests that end in time:
// the others are refused.
func TestGoodputHoldsAtTwiceTheLoadOfAProcessor(t *testing.T) {
	governed(t, func(t *testing.T, g *Gate, p *processor) {
		const (
			work     = time.Millisecond // of a request, so that there are 1,000 per second
			provider = 2 * time.Second
			load     = 20 * time.Second
			settled  = 5 * time.Second // after that the rate is measured
		)
		var all sync.WaitGroup
		var mu sync.Mutex
		served, refused := 0, 0
		slowest := time.Duration(0)
		began := time.Now()
		for time.Since(began) < load {
			all.Go(func() {
				arrived := time.Now()
				ticket, err := g.Enter(t.Context(), Caller{Key: "key"}, 0)
				if err != nil {
					mu.Lock()
					refused++
					mu.Unlock()
					return
				}
				p.use(work * 8 / 10)
				ticket.Sent()
				time.Sleep(provider)
				p.use(work * 2 / 10)
				ticket.Leave()
				mu.Lock()
				defer mu.Unlock()
				slowest = max(slowest, time.Since(arrived))
				if at := time.Since(began); at >= settled && at < load {
					served++
				}
			})
			time.Sleep(work / 2)
		}
		all.Wait()
		peak := float64((load - settled) / work)
		if goodput := float64(served) / peak; goodput < 0.95 {
			t.Errorf("goodput is %.3f of the peak, want at least 0.95", goodput)
		}
		if limit := provider + DefaultWait + time.Second; slowest > limit {
			t.Errorf("the slowest response took %s, want at most %s", slowest, limit)
		}
		if refused == 0 {
			t.Error("nothing was refused at twice the load")
		}
	})
}

// Streams that overload the processor while their events are sent do not become more
// and more. When they end, others are admitted.
func TestStreamsThatOverloadTheProcessorDoNotGrowInNumber(t *testing.T) {
	governed(t, func(t *testing.T, g *Gate, p *processor) {
		var all sync.WaitGroup
		var mu sync.Mutex
		most, ended := 0, 0
		began := time.Now()
		// 200 streams fill the processor, and with 400 their events wait for 20 ms. A
		// second later there are another 100.
		for time.Since(began) < 30*time.Second {
			all.Go(func() {
				ticket, err := g.Enter(t.Context(), Caller{Key: "key"}, 0)
				if err != nil {
					return
				}
				p.use(10 * time.Microsecond)
				ticket.Sent()
				for range 250 {
					time.Sleep(20 * time.Millisecond)
					p.use(100 * time.Microsecond)
				}
				ticket.Leave()
				mu.Lock()
				defer mu.Unlock()
				ended++
			})
			time.Sleep(10 * time.Millisecond)
			mu.Lock()
			most = max(most, g.Load().Running)
			mu.Unlock()
		}
		all.Wait()
		if most < 200 || most > 550 {
			t.Errorf("%d streams ran at a time, want between 200 and 550", most)
		}
		if ended < most+200 {
			t.Errorf("%d streams ended, want more than the %d that ran at a time", ended, most)
		}
	})
}

// The delay is that of goroutines that wait for a processor.
func TestDelaysAreMeasured(t *testing.T) {
	d := newDelays()
	d.high()
	done := make(chan bool)
	w := newWork()
	n := 40 * runtime.GOMAXPROCS(0)
	for range n {
		go func() {
			for end := time.Now().Add(5 * time.Millisecond); time.Now().Before(end); {
			}
			done <- true
		}()
	}
	for range n {
		<-done
	}
	if got := w.share(); got <= 0 || got > 1.1 {
		t.Errorf("the process took %v of the processors, want a part of them", got)
	}
	if got := d.high(); got < 10*time.Millisecond || got > time.Minute {
		t.Errorf("delay %v with %d busy goroutines, want more than 10ms", got, n)
	}
}
