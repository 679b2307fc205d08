package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// warmUp is the part of a closed loop before counting begins: connections are
// dialled and caches filled.
const warmUp = 300 * time.Millisecond

// longest is how long a closed loop goes on until something was answered: on a
// busy machine a short one may end before that.
const longest = 5 * time.Second

// faults counts wrong responses and keeps the first for the report.
type faults struct {
	count atomic.Int64
	once  sync.Once
	first error
}

func (f *faults) add(err error) {
	f.count.Add(1)
	f.once.Do(func() { f.first = err })
}

// loaded is what one closed loop measured.
type loaded struct {
	perSecond, cpuMicros, allocs float64 // CPU and allocations of one request
	total                        int64   // requests, with those before counting began
	times                        samples
}

// throughput measures every target at every number of connections, round by
// round: a machine that slows down slows down all targets.
func (r *run) throughput(ctx context.Context) error {
	for _, connections := range r.Scale.Connections {
		rounds := map[string][]loaded{}
		for round := range r.Scale.Rounds {
			for _, t := range r.targets {
				l, err := r.closedLoop(ctx, t, &r.sample, connections, r.Scale.Load)
				if err != nil {
					return err
				}
				r.progressf("  round %d, %d connections, %s: %.0f/s, %.1f µs CPU", round+1, connections, t.name, l.perSecond, l.cpuMicros)
				rounds[t.name] = append(rounds[t.name], l)
			}
		}
		for _, t := range r.targets {
			r.report.addThroughput(t.name, connections, rounds[t.name])
		}
	}
	return nil
}

// closedLoop keeps connections busy: each sends its next request when it has
// read the response to the last.
func (r *run) closedLoop(ctx context.Context, t *target, s *sample, connections int, length time.Duration) (l loaded, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &workers{sample: s, faults: r.report.faults(t.name)}
	for range connections {
		w.start(ctx, t.addr)
	}
	defer w.wait(cancel)
	if err := pause(ctx, warmUp); err != nil {
		return l, err
	}
	before, err := t.child.ask("usage")
	if err != nil {
		return l, err
	}
	w.counting.Store(true)
	served, began := w.served.Load(), time.Now()
	for ok := true; ok; ok = w.served.Load() == served && time.Since(began) < longest {
		if err := pause(ctx, length); err != nil {
			return l, err
		}
	}
	after, err := t.child.ask("usage")
	if err != nil {
		return l, err
	}
	served, took := w.served.Load()-served, time.Since(began)
	l.times = w.wait(cancel)
	l.total = w.served.Load()
	if served == 0 {
		return l, errors.Join(fmt.Errorf("%s answered nothing in %s", t.name, length), w.faults.first)
	}
	n := float64(served)
	l.perSecond = n / took.Seconds()
	l.cpuMicros = float64(after.CPUMicros-before.CPUMicros) / n
	l.allocs = float64(after.Allocs-before.Allocs) / n
	return l, nil
}

// workers are the connections of a closed loop.
type workers struct {
	sample   *sample
	faults   *faults
	served   atomic.Int64
	counting atomic.Bool
	running  sync.WaitGroup

	mu    sync.Mutex
	times samples // guarded by mu
}

func (w *workers) start(ctx context.Context, addr string) {
	w.running.Go(func() {
		var times samples
		for ctx.Err() == nil {
			err := w.loop(ctx, addr, &times)
			if ctx.Err() != nil {
				break
			}
			w.faults.add(err)
			pause(ctx, time.Millisecond) // keeps a dead target from spinning the load
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.times = append(w.times, times...)
	})
}

// loop asks on one connection until ctx ends or something is wrong.
func (w *workers) loop(ctx context.Context, addr string, times *samples) error {
	c, err := dial(ctx, addr)
	if err != nil {
		return err
	}
	defer c.Close()
	for ctx.Err() == nil {
		began := time.Now()
		if err := w.sample.askOn(c); err != nil {
			return err
		}
		w.served.Add(1)
		if w.counting.Load() {
			*times = append(*times, time.Since(began))
		}
	}
	return nil
}

// wait ends the loops and returns the times of what they counted.
func (w *workers) wait(cancel context.CancelFunc) samples {
	cancel()
	w.running.Wait()
	return w.times
}

// pause waits for d or the end of ctx, whose error it returns.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
