package pipeline_test

import (
	"testing"
	"testing/synctest"
	"time"

	"modelgate/internal/base/apierr"
)

// rtSpread counts where n exchanges go, a second apart.
func (r *rtRoutes) rtSpread(n int) map[string]int {
	spread := make(map[string]int)
	for range n {
		spread[r.send().path]++
		time.Sleep(time.Second)
	}
	return spread
}

func TestLatencyPrefersTheQuickerTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rtNew(t, rtTree("latency", 2, "")).rtSeeded(1).
			on("0", rtResponse{after: 800 * time.Millisecond}).on("1", rtResponse{after: 50 * time.Millisecond})
		if got := r.rtSpread(200); got["1"] < 180 {
			t.Errorf("spread %v, want nearly all at the quick one", got)
		}
	})
}

func TestLatencyTriesEveryTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rtNew(t, rtTree("latency", 5, "")).rtSeeded(2)
		for _, path := range []string{"0", "1", "2", "3", "4"} {
			r.on(path, rtResponse{after: 100 * time.Millisecond})
		}
		if got := r.rtSpread(200); len(got) != 5 {
			t.Errorf("spread %v, want all five", got)
		}
	})
}

func TestASlowTargetIsFoundAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rtNew(t, rtTree("latency", 2, "")).rtSeeded(3)
		r.on("0", rtResponse{after: 5 * time.Second}, rtResponse{after: 10 * time.Millisecond}).on("1", rtResponse{after: 500 * time.Millisecond})
		r.rtSpread(20)
		if got := r.rtSpread(600); got["0"] < 300 {
			t.Errorf("spread %v, want the target found again that was slow once", got)
		}
	})
}

// An error that comes quickly must not draw everyone to the target that makes it.
func TestAQuickRefusalIsNotSpeed(t *testing.T) {
	for name, response := range map[string]rtResponse{"an error status": rtStatus(500), "no connection": rtRefusal()} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rtNew(t, rtTree("latency", 2, "")).rtSeeded(4).on("0", response).on("1", rtResponse{after: 300 * time.Millisecond})
				if got := r.rtSpread(200); got["1"] < 150 {
					t.Errorf("spread %v, want most at the one that works", got)
				}
			})
		})
	}
}

// A client that leaves says only that it took at least that long.
func TestAClientThatLeavesMakesNobodySlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := rtError(apierr.ClientGone)
		left.after = 20 * time.Millisecond
		r := rtNew(t, rtTree("latency", 2, "")).on("0", rtResponse{after: 100 * time.Millisecond}, left, rtResponse{after: 100 * time.Millisecond}).
			on("1", rtResponse{after: 500 * time.Millisecond})
		r.random = func() float64 { return 0 }
		r.send() // 0
		r.send() // 1, not yet known
		for range 3 {
			if got := r.send(); got.path != "0" {
				t.Errorf("went to %s, want 0, which is quicker", got.path)
			}
		}
	})
}

func TestOpenRequestsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rtNew(t, rtTree("latency", 2, "")).on("0", rtResponse{after: 100 * time.Millisecond}).on("1", rtResponse{after: 110 * time.Millisecond})
		r.random = func() float64 { return 0 }
		r.send()
		r.send()
		done := make(chan rtResult)
		for range 10 {
			go func() { done <- r.send() }()
			synctest.Wait()
		}
		spread := make(map[string]int)
		for range 10 {
			spread[(<-done).path]++
		}
		if spread["0"] < 4 || spread["1"] < 4 {
			t.Errorf("ten at a time went %v, want about half to each", spread)
		}
	})
}

func TestNoRequestStaysInProgress(t *testing.T) {
	r := rtNew(t, rtTree("latency", 2, `,"cb_config":{"cooldown_interval":60000,"failure_threshold":1}`))
	for _, a := range []rtResponse{{}, rtStatus(500), rtRefusal(), rtError(apierr.ClientGone), {panics: true}} {
		r.on("0", a).on("1", a)
		func() {
			defer func() { _ = recover() }()
			r.send()
		}()
	}
	r.on("0", rtResponse{}).on("1", rtResponse{})
	r.send(func(x *rtRequest) { x.DryRun = true })
	for i, n := range r.state.OpenRequests() {
		if n != 0 {
			t.Errorf("branch %d has %d open requests, want none", i, n)
		}
	}
}
