package pipeline_test

import (
	"testing"
	"testing/synctest"
	"time"

	"modelgate/internal/base/apierr"
)

// rtTimes scripts a target that takes the given time for each of its calls.
func (r *rtRoutes) rtTimes(path string, ms ...int) *rtRoutes {
	var responses []rtResponse
	for _, n := range ms {
		responses = append(responses, rtResponse{after: time.Duration(n) * time.Millisecond})
	}
	return r.on(path, responses...)
}

// rtWantRoute sends one exchange after the other and fails unless they go to these paths.
func (r *rtRoutes) rtWantRoute(why string, want ...string) {
	r.t.Helper()
	for i, path := range want {
		if got := r.send(); got.path != path {
			r.t.Errorf("%s: exchange %d went to %q, want %q", why, i, got.path, path)
		}
	}
}

// rtAtOnce sends exchanges at a time and fails unless they go to these paths, in the
// order in which they begin.
func (r *rtRoutes) rtAtOnce(why string, want ...string) {
	r.t.Helper()
	done := make(chan rtResult)
	before := len(r.calls)
	for range want {
		go func() { done <- r.send() }()
		synctest.Wait()
	}
	for i, path := range want {
		if got := rtShort(r.calls[before+i].path); got != path {
			r.t.Errorf("%s: exchange %d of %d at a time went to %q, want %q", why, i, len(want), got, path)
		}
	}
	for range want {
		<-done
	}
}

// Of the two drawn targets the quicker serves, and the first of them when they are
// equal.
func TestLatencyComparesTheTwoDrawnTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rtNew(t, rtTree("latency", 4, "")).rtTimes("0", 100).rtTimes("1", 100).rtTimes("2", 100).rtTimes("3", 100)
		r.random = func() float64 { return 0.99 } // draws the last two
		r.rtWantRoute("drawn are 3 and 2", "3", "2")
		r.random = func() float64 { return 0 } // draws the first two
		r.rtWantRoute("drawn are 0 and 1", "0", "1")
		r.random = func() float64 { return 0.5 } // draws 2 and 1
		r.rtTimes("2", 300)
		r.rtWantRoute("drawn are 2 and 1, of which 2 was measured first", "2", "1")
	})
}

func TestATargetWithOpenRequestsIsAvoidedBeforeItIsMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rtNew(t, rtTree("latency", 2, "")).rtTimes("0", 100).rtTimes("1", 100)
		r.random = func() float64 { return 0 }
		r.rtAtOnce("nothing is known", "0", "1", "0", "1")
	})
}

func TestASlowerResponseCountsAtOnceAndAQuickerOneSlowly(t *testing.T) {
	draw := func(r *rtRoutes) *rtRoutes { r.random = func() float64 { return 0 }; return r }
	synctest.Test(t, func(t *testing.T) {
		r := draw(rtNew(t, rtTree("latency", 2, ""))).rtTimes("0", 100, 1000).rtTimes("1", 300)
		r.rtWantRoute("0 was quicker until it took a second", "0", "1", "0", "1")
	})
	synctest.Test(t, func(t *testing.T) {
		r := draw(rtNew(t, rtTree("latency", 2, ""))).rtTimes("0", 1000, 50).rtTimes("1", 600)
		r.rtWantRoute("nothing is known", "0", "1")
		r.rtAtOnce("1 is quicker, but busy", "1", "0")
		r.rtWantRoute("0 was quick once", "1")
	})
	synctest.Test(t, func(t *testing.T) {
		r := draw(rtNew(t, rtTree("latency", 2, ""))).rtTimes("0", 1000, 900).rtTimes("1", 1200)
		r.rtWantRoute("0 is quicker and becomes a little quicker", "0", "1", "0", "0")
	})
	synctest.Test(t, func(t *testing.T) {
		r := draw(rtNew(t, rtTree("latency", 2, ""))).rtTimes("0", 1000, 400).rtTimes("1", 350)
		r.rtWantRoute("nothing is known", "0", "1")
		time.Sleep(time.Minute)
		r.rtAtOnce("1 is quicker, but busy", "1", "1", "0")
		r.rtWantRoute("after a minute the last response counts, and 1 is quicker still", "1")
	})
}

// A client that leaves says only that the response would have taken longer.
func TestAnAbandonedResponseTakesAtLeastThatLong(t *testing.T) {
	left := func(after time.Duration) rtResponse {
		a := rtError(apierr.ClientGone)
		a.after = after
		return a
	}
	synctest.Test(t, func(t *testing.T) {
		r := rtNew(t, rtTree("latency", 2, "")).on("0", rtResponse{after: 500 * time.Millisecond}, left(20*time.Millisecond)).rtTimes("1", 300)
		r.random = func() float64 { return 0 }
		r.rtWantRoute("nothing is known", "0", "1")
		time.Sleep(20 * time.Second) // until a quicker response would count
		r.rtAtOnce("1 is quicker, but busy", "1", "0")
		r.rtWantRoute("a client left 0 early", "1")
	})
	synctest.Test(t, func(t *testing.T) {
		r := rtNew(t, rtTree("latency", 2, "")).on("0", rtResponse{after: 100 * time.Millisecond}, left(10*time.Second)).rtTimes("1", 300)
		r.random = func() float64 { return 0 }
		r.rtWantRoute("a client left 0 late", "0", "1", "0", "1")
	})
}

// A dry run sends nothing, and so measures nothing.
func TestADryRunMakesNoTargetQuick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rtNew(t, rtTree("latency", 3, "")).rtTimes("0", 300).rtTimes("1", 400, 0).rtTimes("2", 500)
		draw := func(numbers ...float64) {
			r.random = func() float64 {
				n := numbers[0]
				numbers = append(numbers[1:], n)
				return n
			}
		}
		draw(0, 0) // 0 and 1
		r.rtWantRoute("nothing is known", "0", "1")
		draw(0.9, 0) // 2 and 0
		r.rtWantRoute("nothing is known of 2", "2")
		time.Sleep(20 * time.Second) // until a quicker response would count
		draw(0.5, 0.9)               // 1 and 2
		if got := r.send(func(x *rtRequest) { x.DryRun = true }); got.path != "1" {
			t.Errorf("the dry run chose %s, want 1", got.path)
		}
		draw(0, 0)
		r.rtWantRoute("0 is quicker than 1", "0")
	})
}
