package inflight

import (
	"runtime"
	"testing"
	"time"
)

func TestGovernorFollowsTheDelay(t *testing.T) {
	g := New(Options{Requests: 10_000})
	v := &Governor{gate: g, minimum: 256}
	g.running.Store(2000)
	v.adjust(50*time.Millisecond, 1)
	if l := g.Load().Limit; l != 10_000 {
		t.Errorf("limit %d after one long delay, want no change", l)
	}
	v.adjust(50*time.Millisecond, 1)
	if l := g.Load().Limit; l != 1800 {
		t.Errorf("limit %d while overloaded, want nine tenths of 2000", l)
	}
	v.adjust(50*time.Millisecond, 0.5)
	if l := g.Load().Limit; l != 1800 {
		t.Errorf("limit %d while others take the processors, want no change", l)
	}
	v.adjust(15*time.Millisecond, 1)
	if l := g.Load().Limit; l != 1800 {
		t.Errorf("limit %d between the thresholds, want no change", l)
	}
	for range 100 {
		v.adjust(50*time.Millisecond, 1)
	}
	if l := g.Load().Limit; l != 256 {
		t.Errorf("limit %d after a long overload, want the minimum", l)
	}
	v.adjust(time.Millisecond, 1)
	if l := g.Load().Limit; l != 256+12+1 {
		t.Errorf("limit %d when relaxed, want a twentieth more", l)
	}
	for range 200 {
		v.adjust(0, 1)
	}
	if l := g.Load().Limit; l != 10_000 {
		t.Errorf("limit %d after a long rest, want what is configured", l)
	}
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
