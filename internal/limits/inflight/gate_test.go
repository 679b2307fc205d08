package inflight_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"modelgate/internal/base/bytepool"
	"modelgate/internal/limits/inflight"
)

func mustEnter(t *testing.T, g *inflight.Gate, key string) *inflight.Ticket {
	t.Helper()
	ticket, err := g.Enter(t.Context(), inflight.Caller{Key: key}, 0)
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return ticket
}

func TestRequestsBeyondTheLimitWaitForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := inflight.New(inflight.Options{Requests: 1, Key: -1})
		first := mustEnter(t, g, "a")
		began := time.Now()
		entered := make(chan time.Duration)
		go func() {
			mustEnter(t, g, "b").Leave()
			entered <- time.Since(began)
		}()
		synctest.Wait()
		if l := g.Load(); l.Running != 1 || l.Waiting != 1 {
			t.Errorf("load %+v, want one running and one waiting", l)
		}
		time.Sleep(300 * time.Millisecond)
		first.Leave()
		if waited := <-entered; waited != 300*time.Millisecond {
			t.Errorf("waited %v, want 300ms", waited)
		}
		if l := g.Load(); l.Running != 0 || l.Waiting != 0 || l.Refused != 0 {
			t.Errorf("load %+v, want nothing", l)
		}
	})
}

func TestWaitingEndsAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := inflight.New(inflight.Options{Requests: 1, Wait: 250 * time.Millisecond})
		defer mustEnter(t, g, "a").Leave()
		began := time.Now()
		_, err := g.Enter(t.Context(), inflight.Caller{Key: "a"}, 0)
		if !errors.Is(err, inflight.ErrWaited) || time.Since(began) != 250*time.Millisecond {
			t.Errorf("%v after %v, want ErrWaited after 250ms", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err = g.Enter(ctx, inflight.Caller{Key: "a"}, 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with a shorter context: %v", err)
		}
		if l := g.Load(); l.Waiting != 0 || l.Running != 1 || l.Refused != 2 {
			t.Errorf("load %+v, want one running, two refused", l)
		}
	})
}

// A key that floods the gateway delays its own requests, not those of others.
func TestKeysTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := inflight.New(inflight.Options{Requests: 1, Key: -1, Wait: time.Hour})
		holder := mustEnter(t, g, "flood")
		var mu sync.Mutex
		var order []string
		enter := func(key string) {
			go func() {
				ticket := mustEnter(t, g, key)
				mu.Lock()
				order = append(order, key)
				mu.Unlock()
				ticket.Leave()
			}()
			synctest.Wait()
		}
		for range 5 {
			enter("flood")
		}
		enter("a")
		enter("b")
		holder.Leave()
		synctest.Wait()
		if got := fmt.Sprint(order); got != "[flood a b flood flood flood flood]" {
			t.Errorf("order %v, want each key in turn", got)
		}
	})
}

// When the queue is full, the key with the most waiting requests loses one.
func TestFullQueueRefusesTheKeyThatFillsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := inflight.New(inflight.Options{Requests: 1, Key: -1, Queue: 3, Wait: time.Hour})
		holder := mustEnter(t, g, "x")
		results := make(chan string, 5)
		enter := func(name, key string) {
			go func() {
				ticket, err := g.Enter(t.Context(), inflight.Caller{Key: key}, 0)
				results <- fmt.Sprint(name, " ", err)
				ticket.Leave()
			}()
			synctest.Wait()
		}
		enter("f1", "flood")
		enter("f2", "flood")
		enter("f3", "flood")
		enter("a1", "a") // takes the place of f3
		if got := <-results; got != "f3 "+inflight.ErrQueueFull.Error() {
			t.Errorf("%s, want f3 to be refused", got)
		}
		enter("f4", "flood") // the longest queue is its own
		if got := <-results; got != "f4 "+inflight.ErrQueueFull.Error() {
			t.Errorf("%s, want f4 to be refused", got)
		}
		holder.Leave()
		for _, want := range []string{"f1 <nil>", "a1 <nil>", "f2 <nil>"} {
			if got := <-results; got != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
	})
}

func TestKeyHasAtMostItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := inflight.New(inflight.Options{Requests: 4, Wait: time.Second}) // 3 for one key
		for range 3 {
			defer mustEnter(t, g, "greedy").Leave()
		}
		go g.Enter(t.Context(), inflight.Caller{Key: "greedy"}, 0) // waits in front
		synctest.Wait()
		other := mustEnter(t, g, "other")
		if l := g.Load(); l.Running != 4 || l.Waiting != 1 {
			t.Errorf("load %+v, want the other key running", l)
		}
		other.Leave()
		synctest.Wait()
		if l := g.Load(); l.Running != 3 || l.Waiting != 1 {
			t.Errorf("load %+v, want the fourth request of the key still waiting", l)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if l := g.Load(); l.Waiting != 0 || l.Refused != 1 {
			t.Errorf("load %+v, want it refused", l)
		}
	})
}

func TestWithoutAQueueRequestsAreRefusedAtOnce(t *testing.T) {
	for _, o := range []inflight.Options{{Requests: 1, Queue: -1}, {Requests: 1, Wait: -1}} {
		g := inflight.New(o)
		ticket := mustEnter(t, g, "a")
		if _, err := g.Enter(t.Context(), inflight.Caller{Key: "b"}, 0); !errors.Is(err, inflight.ErrQueueFull) {
			t.Errorf("%+v: %v, want ErrQueueFull", o, err)
		}
		ticket.Leave()
		mustEnter(t, g, "b").Leave()
	}
}

// At twice the load that fits, what is admitted is what fits, and a small key gets
// all it asks for.
func TestGoodputHoldsAtTwiceTheLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slots, service, run = 50, 50 * time.Millisecond, 20 * time.Second // 1,000 per second
		g := inflight.New(inflight.Options{Requests: slots, Key: -1, Queue: 100, Wait: time.Second})
		var done, small, smallDone, late atomic.Int64
		var all sync.WaitGroup
		send := func(key string, count *atomic.Int64) {
			began := time.Now()
			ticket, err := g.Enter(t.Context(), inflight.Caller{Key: key}, 0)
			if time.Since(began) > time.Second {
				late.Add(1)
			}
			if err != nil {
				return
			}
			time.Sleep(service)
			count.Add(1)
			ticket.Leave()
		}
		end := time.Now().Add(run)
		for i := 0; time.Now().Before(end); i++ { // 2,000 per second of the one, 100 of the other
			all.Go(func() { send("flood", &done) })
			if i%20 == 0 {
				small.Add(1)
				all.Go(func() { send("small", &smallDone) })
			}
			time.Sleep(500 * time.Microsecond)
		}
		all.Wait()
		peak := float64(slots) / service.Seconds() * run.Seconds()
		if goodput := float64(done.Load()+smallDone.Load()) / peak; goodput < 0.95 {
			t.Errorf("goodput is %.3f of the peak, want at least 0.95", goodput)
		}
		if smallDone.Load() != small.Load() {
			t.Errorf("%d of %d requests of the small key were admitted", smallDone.Load(), small.Load())
		}
		if late.Load() > 0 {
			t.Errorf("%d requests waited longer than their deadline", late.Load())
		}
	})
}

// Random requests that end or are cancelled in any order never exceed the limits, and
// nothing is left afterwards.
func TestRandomRequestsKeepTheLimits(t *testing.T) {
	g := inflight.New(inflight.Options{Requests: 7, Key: 4, Queue: 20, Wait: 2 * time.Millisecond})
	var running atomic.Int64
	var perKey [3]atomic.Int64
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			for range 300 {
				k := rand.IntN(len(perKey))
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(3000))*time.Microsecond)
				ticket, err := g.Enter(ctx, inflight.Caller{Key: fmt.Sprint(k)}, 0)
				cancel()
				if err != nil {
					continue
				}
				if n, own := running.Add(1), perKey[k].Add(1); n > 7 || own > 4 {
					t.Errorf("%d requests run, %d of one key", n, own)
				}
				time.Sleep(time.Duration(rand.IntN(200)) * time.Microsecond)
				running.Add(-1)
				perKey[k].Add(-1)
				ticket.Leave()
			}
		})
	}
	all.Wait()
	if l := g.Load(); l.Running != 0 || l.Waiting != 0 {
		t.Errorf("load %+v, want nothing", l)
	}
	if n := g.Keys(); n != 0 {
		t.Errorf("%d keys are remembered, want none", n)
	}
}

func BenchmarkEnter(b *testing.B) {
	g := inflight.New(inflight.Options{})
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		name := fmt.Sprint(rand.Int())
		for p.Next() {
			ticket, _ := g.Enter(b.Context(), inflight.Caller{Key: name}, 0)
			ticket.Leave()
		}
	})
}

// A body waits for memory without holding up smaller ones, and one key gets half of
// the memory.
func TestBodiesWaitForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := bytepool.New(1 << 20)
		g := inflight.New(inflight.Options{Bodies: pool})
		large, err := pool.Get(768 << 10)
		if err != nil {
			t.Fatal(err)
		}
		holder, _ := g.Enter(t.Context(), inflight.Caller{Key: "other"}, 0)
		admitted := make(chan error)
		go func() {
			ticket, err := g.Enter(t.Context(), inflight.Caller{Key: "a"}, 400<<10)
			ticket.Leave()
			admitted <- err
		}()
		synctest.Wait()
		small, err := g.Enter(t.Context(), inflight.Caller{Key: "b"}, 4<<10)
		if err != nil || g.Load().Waiting != 1 {
			t.Fatalf("a small body waited: %v, %+v", err, g.Load())
		}
		if _, err := pool.ReadShare(strings.NewReader(strings.Repeat("x", 1<<18)), -1, 1<<20, small.Bodies()); !errors.Is(err, bytepool.ErrBudget) {
			t.Errorf("beyond the memory: %v, want ErrBudget", err)
		}
		large.Release()
		if _, err := pool.ReadShare(strings.NewReader(strings.Repeat("x", 300<<10)), -1, 1<<20, small.Bodies()); !errors.Is(err, bytepool.ErrKey) {
			t.Errorf("beyond the share of a key: %v, want ErrKey", err)
		}
		if used := pool.Used(); used != 0 {
			t.Errorf("%d bytes are still lent", used)
		}
		holder.Leave()
		if err := <-admitted; err != nil {
			t.Errorf("when there is memory again: %v", err)
		}
		small.Leave()
	})
}
