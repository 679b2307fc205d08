package routing_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/testing/pipelinetest"
)

// rtExhausted is what a target answers when the exchange has no attempt left.
func rtExhausted() pipelinetest.Response {
	return pipelinetest.Response{Err: apierr.New(apierr.Unavailable, "no attempt is left").WithCode("attempts_exhausted")}
}

// An attempt that was begun may still serve when no further one may be made.
func TestAHedgeWithoutAnAttemptLeftWaitsForThoseUnderWay(t *testing.T) {
	const hedged = `,"hedge":{"delay_ms":100,"max":2}`
	for _, tt := range []struct {
		name   string
		slow   pipelinetest.Response
		status int
		code   string
		took   time.Duration
	}{
		{"which succeeds", pipelinetest.Response{After: time.Second}, 200, "", time.Second},
		{"which fails", pipelinetest.Response{Status: 500, After: 150 * time.Millisecond}, 503, "attempts_exhausted", 150 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := pipelinetest.New(t, pipelinetest.Tree("fallback", 3, hedged)).On("0", tt.slow).On("1", rtExhausted()).On("2", rtExhausted())
				got := r.Send()
				code := ""
				if got.Err != nil {
					code = got.Err.Code
				}
				if got.Status != tt.status || code != tt.code || got.Took != tt.took {
					t.Errorf("status %d, code %q in %v after %q; want %d, %q in %v", got.Status, code, got.Took, got.TargetList(), tt.status, tt.code, tt.took)
				}
				r.CheckClosed()
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		r := pipelinetest.New(t, pipelinetest.Tree("fallback", 3, hedged)).On("0", rtExhausted())
		if got := r.Send(); got.Err == nil || got.Err.Code != "attempts_exhausted" || len(r.Calls) != 1 || got.Took != 0 {
			t.Errorf("error %v after %d calls in %v, want attempts_exhausted at once: nothing is under way", got.Err, len(r.Calls), got.Took)
		}
	})
}

// The delay counts again from each target that was started.
func TestAFailedTargetOfAHedgeIsFollowedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pipelinetest.New(t, pipelinetest.Tree("fallback", 4, `,"hedge":{"delay_ms":100,"max":1}`))
		fails := pipelinetest.Status(500)
		fails.After = 70 * time.Millisecond
		r.On("0", fails).On("1", pipelinetest.Response{After: time.Second}).On("2", pipelinetest.Response{After: time.Second})
		got := r.Send()
		var at []string
		for _, c := range r.Calls {
			at = append(at, c.At.Sub(r.Calls[0].At).String())
		}
		if want := "0s 70ms 170ms"; strings.Join(at, " ") != want || got.Path != "1" || got.Took != 1070*time.Millisecond {
			t.Errorf("targets were called after %v and %q answered in %v; want %s, 1, 1.07s", at, got.Path, got.Took, want)
		}
		r.CheckClosed()
	})
}

// When two fail while a third is under way, nobody else is started before it is slow.
func TestAHedgeStartsNobodyForAFailureWhileAnotherIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails := pipelinetest.Status(500)
		fails.After = 150 * time.Millisecond
		r := pipelinetest.New(t, pipelinetest.Tree("fallback", 3, `,"hedge":{"delay_ms":100,"max":1}`)).On("0", fails).On("1", pipelinetest.Response{After: time.Second})
		if got := r.Send(); got.Path != "1" || len(r.Calls) != 2 || got.Took != 1100*time.Millisecond {
			t.Errorf("%q answered in %v after %d calls, want 1 in 1.1s after two", got.Path, got.Took, len(r.Calls))
		}
		r.CheckClosed()
	})
}

// A race waits for its branches at the same time, and for a loser only until it is
// cancelled.
func TestWaitsOfARaceAreNotAddedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pipelinetest.New(t, pipelinetest.Tree("fallback", 2, `,"hedge":{"delay_ms":1000},"retry":{"attempts":1,"use_retry_after_headers":true}`))
		r.On("0", pipelinetest.Status(503, "Retry-After", "30")).On("1", pipelinetest.Status(503, "Retry-After", "3"), pipelinetest.Status(200))
		got := r.Send()
		if want := 4 * time.Second; got.Path != "1" || got.Took != want || got.X.Trail.UpstreamTime != want {
			t.Errorf("%q answered in %v with %v recorded as waited, want 1 in %v, all of it waited", got.Path, got.Took, got.X.Trail.UpstreamTime, want)
		}
	})
}

// The delay of a hedge is waiting for a provider and no overhead of the gateway, and
// that is known when the response begins.
func TestTheDelayOfAHedgeIsNotOverhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pipelinetest.New(t, pipelinetest.Tree("fallback", 3, `,"hedge":{"delay_ms":1000,"max":2}`))
		r.On("0", pipelinetest.Response{After: time.Hour}).On("1", pipelinetest.Response{After: time.Hour}).On("2", pipelinetest.Response{After: 500 * time.Millisecond})
		x := pipelinetest.NewRequest()
		res, err := x.Handle(t.Context(), r.Tree)
		if err != nil {
			t.Fatal(err)
		}
		if want := 2 * time.Second; x.Target() != pipelinetest.Path("2") || x.Trail.UpstreamTime != want { // scripted targets add nothing
			t.Errorf("%s answered after %v of waiting, want the third after %v", x.Target(), x.Trail.UpstreamTime, want)
		}
		res.Close()
	})
}

// An upload and a dry run are one request each.
func TestBodiesThatCanBeSentOnceAreNotHedged(t *testing.T) {
	for name, change := range map[string]func(*pipelinetest.Request){
		"an upload": func(x *pipelinetest.Request) { x.Received.Upload = &exchange.Upload{Body: strings.NewReader("form")} },
		"a dry run": func(x *pipelinetest.Request) { x.DryRun = true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := pipelinetest.New(t, pipelinetest.Tree("fallback", 2, `,"hedge":{"delay_ms":100}`)).On("0", pipelinetest.Response{After: time.Second})
				if got := r.Send(change); got.Path != "0" || len(r.Calls) != 1 {
					t.Errorf("%q answered after %d calls, want 0 alone", got.Path, len(r.Calls))
				}
			})
		})
	}
}
