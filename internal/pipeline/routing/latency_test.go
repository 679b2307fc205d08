package routing_test

import (
	"testing"
	"testing/synctest"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/testing/pipelinetest"
)

// rtSpread counts where n exchanges go, a second apart.
func rtSpread(r *pipelinetest.Routes, n int) map[string]int {
	spread := make(map[string]int)
	for range n {
		spread[r.Send().Path]++
		time.Sleep(time.Second)
	}
	return spread
}

func TestLatencyPrefersTheQuickerTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pipelinetest.New(t, pipelinetest.Tree("latency", 2, "")).Seed(1).
			On("0", pipelinetest.Response{After: 800 * time.Millisecond}).On("1", pipelinetest.Response{After: 50 * time.Millisecond})
		if got := rtSpread(r, 200); got["1"] < 180 {
			t.Errorf("spread %v, want nearly all at the quick one", got)
		}
	})
}

func TestLatencyTriesEveryTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pipelinetest.New(t, pipelinetest.Tree("latency", 5, "")).Seed(2)
		for _, path := range []string{"0", "1", "2", "3", "4"} {
			r.On(path, pipelinetest.Response{After: 100 * time.Millisecond})
		}
		if got := rtSpread(r, 200); len(got) != 5 {
			t.Errorf("spread %v, want all five", got)
		}
	})
}

func TestASlowTargetIsFoundAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pipelinetest.New(t, pipelinetest.Tree("latency", 2, "")).Seed(3)
		r.On("0", pipelinetest.Response{After: 5 * time.Second}, pipelinetest.Response{After: 10 * time.Millisecond}).On("1", pipelinetest.Response{After: 500 * time.Millisecond})
		rtSpread(r, 20)
		if got := rtSpread(r, 600); got["0"] < 300 {
			t.Errorf("spread %v, want the target found again that was slow once", got)
		}
	})
}

// An error that comes quickly must not draw everyone to the target that makes it.
func TestAQuickRefusalIsNotSpeed(t *testing.T) {
	for name, response := range map[string]pipelinetest.Response{"an error status": pipelinetest.Status(500), "no connection": pipelinetest.Refusal()} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := pipelinetest.New(t, pipelinetest.Tree("latency", 2, "")).Seed(4).On("0", response).On("1", pipelinetest.Response{After: 300 * time.Millisecond})
				if got := rtSpread(r, 200); got["1"] < 150 {
					t.Errorf("spread %v, want most at the one that works", got)
				}
			})
		})
	}
}

// A client that leaves says only that it took at least that long.
func TestAClientThatLeavesMakesNobodySlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := pipelinetest.Error(apierr.ClientGone)
		left.After = 20 * time.Millisecond
		r := pipelinetest.New(t, pipelinetest.Tree("latency", 2, "")).On("0", pipelinetest.Response{After: 100 * time.Millisecond}, left, pipelinetest.Response{After: 100 * time.Millisecond}).
			On("1", pipelinetest.Response{After: 500 * time.Millisecond})
		r.Random = func() float64 { return 0 }
		r.Send() // 0
		r.Send() // 1, not yet known
		for range 3 {
			if got := r.Send(); got.Path != "0" {
				t.Errorf("went to %s, want 0, which is quicker", got.Path)
			}
		}
	})
}

func TestOpenRequestsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pipelinetest.New(t, pipelinetest.Tree("latency", 2, "")).On("0", pipelinetest.Response{After: 100 * time.Millisecond}).On("1", pipelinetest.Response{After: 110 * time.Millisecond})
		r.Random = func() float64 { return 0 }
		r.Send()
		r.Send()
		done := make(chan pipelinetest.Result)
		for range 10 {
			go func() { done <- r.Send() }()
			synctest.Wait()
		}
		spread := make(map[string]int)
		for range 10 {
			spread[(<-done).Path]++
		}
		if spread["0"] < 4 || spread["1"] < 4 {
			t.Errorf("ten at a time went %v, want about half to each", spread)
		}
	})
}

func TestNoRequestStaysInProgress(t *testing.T) {
	r := pipelinetest.New(t, pipelinetest.Tree("latency", 2, `,"cb_config":{"cooldown_interval":60000,"failure_threshold":1}`))
	for _, a := range []pipelinetest.Response{{}, pipelinetest.Status(500), pipelinetest.Refusal(), pipelinetest.Error(apierr.ClientGone), {Panics: true}} {
		r.On("0", a).On("1", a)
		func() {
			defer func() { _ = recover() }()
			r.Send()
		}()
	}
	r.On("0", pipelinetest.Response{}).On("1", pipelinetest.Response{})
	r.Send(func(x *pipelinetest.Request) { x.DryRun = true })
	for i, n := range r.State.OpenRequests() {
		if n != 0 {
			t.Errorf("branch %d has %d open requests, want none", i, n)
		}
	}
}
