package routing_test

import (
	"testing"
	"testing/synctest"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/testing/pipelinetest"
)

// rtWantRoute sends one exchange after the other and fails unless they go to these paths.
func rtWantRoute(r *pipelinetest.Routes, why string, want ...string) {
	r.TB.Helper()
	for i, path := range want {
		if got := r.Send(); got.Path != path {
			r.TB.Errorf("%s: exchange %d went to %q, want %q", why, i, got.Path, path)
		}
	}
}

// rtAtOnce sends exchanges at a time and fails unless they go to these paths, in the
// order in which they begin.
func rtAtOnce(r *pipelinetest.Routes, why string, want ...string) {
	r.TB.Helper()
	done := make(chan pipelinetest.Result)
	before := len(r.Calls)
	for range want {
		go func() { done <- r.Send() }()
		synctest.Wait()
	}
	for i, path := range want {
		if got := pipelinetest.Short(r.Calls[before+i].Path); got != path {
			r.TB.Errorf("%s: exchange %d of %d at a time went to %q, want %q", why, i, len(want), got, path)
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
		r := pipelinetest.New(t, pipelinetest.Tree("latency", 4, "")).Take("0", 100).Take("1", 100).Take("2", 100).Take("3", 100)
		r.Random = func() float64 { return 0.99 } // draws the last two
		rtWantRoute(r, "drawn are 3 and 2", "3", "2")
		r.Random = func() float64 { return 0 } // draws the first two
		rtWantRoute(r, "drawn are 0 and 1", "0", "1")
		r.Random = func() float64 { return 0.5 } // draws 2 and 1
		r.Take("2", 300)
		rtWantRoute(r, "drawn are 2 and 1, of which 2 was measured first", "2", "1")
	})
}

func TestATargetWithOpenRequestsIsAvoidedBeforeItIsMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pipelinetest.New(t, pipelinetest.Tree("latency", 2, "")).Take("0", 100).Take("1", 100)
		r.Random = func() float64 { return 0 }
		rtAtOnce(r, "nothing is known", "0", "1", "0", "1")
	})
}

func TestASlowerResponseCountsAtOnceAndAQuickerOneSlowly(t *testing.T) {
	draw := func(r *pipelinetest.Routes) *pipelinetest.Routes { r.Random = func() float64 { return 0 }; return r }
	synctest.Test(t, func(t *testing.T) {
		r := draw(pipelinetest.New(t, pipelinetest.Tree("latency", 2, ""))).Take("0", 100, 1000).Take("1", 300)
		rtWantRoute(r, "0 was quicker until it took a second", "0", "1", "0", "1")
	})
	synctest.Test(t, func(t *testing.T) {
		r := draw(pipelinetest.New(t, pipelinetest.Tree("latency", 2, ""))).Take("0", 1000, 50).Take("1", 600)
		rtWantRoute(r, "nothing is known", "0", "1")
		rtAtOnce(r, "1 is quicker, but busy", "1", "0")
		rtWantRoute(r, "0 was quick once", "1")
	})
	synctest.Test(t, func(t *testing.T) {
		r := draw(pipelinetest.New(t, pipelinetest.Tree("latency", 2, ""))).Take("0", 1000, 900).Take("1", 1200)
		rtWantRoute(r, "0 is quicker and becomes a little quicker", "0", "1", "0", "0")
	})
	synctest.Test(t, func(t *testing.T) {
		r := draw(pipelinetest.New(t, pipelinetest.Tree("latency", 2, ""))).Take("0", 1000, 400).Take("1", 350)
		rtWantRoute(r, "nothing is known", "0", "1")
		time.Sleep(time.Minute)
		rtAtOnce(r, "1 is quicker, but busy", "1", "1", "0")
		rtWantRoute(r, "after a minute the last response counts, and 1 is quicker still", "1")
	})
}

// A client that leaves says only that the response would have taken longer.
func TestAnAbandonedResponseTakesAtLeastThatLong(t *testing.T) {
	left := func(after time.Duration) pipelinetest.Response {
		a := pipelinetest.Error(apierr.ClientGone)
		a.After = after
		return a
	}
	synctest.Test(t, func(t *testing.T) {
		r := pipelinetest.New(t, pipelinetest.Tree("latency", 2, "")).On("0", pipelinetest.Response{After: 500 * time.Millisecond}, left(20*time.Millisecond)).Take("1", 300)
		r.Random = func() float64 { return 0 }
		rtWantRoute(r, "nothing is known", "0", "1")
		time.Sleep(20 * time.Second) // until a quicker response would count
		rtAtOnce(r, "1 is quicker, but busy", "1", "0")
		rtWantRoute(r, "a client left 0 early", "1")
	})
	synctest.Test(t, func(t *testing.T) {
		r := pipelinetest.New(t, pipelinetest.Tree("latency", 2, "")).On("0", pipelinetest.Response{After: 100 * time.Millisecond}, left(10*time.Second)).Take("1", 300)
		r.Random = func() float64 { return 0 }
		rtWantRoute(r, "a client left 0 late", "0", "1", "0", "1")
	})
}

// A dry run sends nothing, and so measures nothing.
func TestADryRunMakesNoTargetQuick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pipelinetest.New(t, pipelinetest.Tree("latency", 3, "")).Take("0", 300).Take("1", 400, 0).Take("2", 500)
		draw := func(numbers ...float64) {
			r.Random = func() float64 {
				n := numbers[0]
				numbers = append(numbers[1:], n)
				return n
			}
		}
		draw(0, 0) // 0 and 1
		rtWantRoute(r, "nothing is known", "0", "1")
		draw(0.9, 0) // 2 and 0
		rtWantRoute(r, "nothing is known of 2", "2")
		time.Sleep(20 * time.Second) // until a quicker response would count
		draw(0.5, 0.9)               // 1 and 2
		if got := r.Send(func(x *pipelinetest.Request) { x.DryRun = true }); got.Path != "1" {
			t.Errorf("the dry run chose %s, want 1", got.Path)
		}
		draw(0, 0)
		rtWantRoute(r, "0 is quicker than 1", "0")
	})
}
