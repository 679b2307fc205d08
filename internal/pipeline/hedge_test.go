package pipeline_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/pipeline"
)

// rtExhausted is what a target answers when the exchange has no attempt left.
func rtExhausted() rtResponse {
	return rtResponse{err: apierr.New(apierr.Unavailable, "no attempt is left").WithCode("attempts_exhausted")}
}

// An attempt that was begun may still serve when no further one may be made.
func TestAHedgeWithoutAnAttemptLeftWaitsForThoseUnderWay(t *testing.T) {
	const hedged = `,"hedge":{"delay_ms":100,"max":2}`
	for _, tt := range []struct {
		name   string
		slow   rtResponse
		status int
		code   string
		took   time.Duration
	}{
		{"which succeeds", rtResponse{after: time.Second}, 200, "", time.Second},
		{"which fails", rtResponse{status: 500, after: 150 * time.Millisecond}, 503, "attempts_exhausted", 150 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rtNew(t, rtTree("fallback", 3, hedged)).on("0", tt.slow).on("1", rtExhausted()).on("2", rtExhausted())
				got := r.send()
				code := ""
				if got.err != nil {
					code = got.err.Code
				}
				if got.status != tt.status || code != tt.code || got.took != tt.took {
					t.Errorf("status %d, code %q in %v after %q; want %d, %q in %v", got.status, code, got.took, got.targetList(), tt.status, tt.code, tt.took)
				}
				r.closedOnce()
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		r := rtNew(t, rtTree("fallback", 3, hedged)).on("0", rtExhausted())
		if got := r.send(); got.err == nil || got.err.Code != "attempts_exhausted" || len(r.calls) != 1 || got.took != 0 {
			t.Errorf("error %v after %d calls in %v, want attempts_exhausted at once: nothing is under way", got.err, len(r.calls), got.took)
		}
	})
}

// The delay counts again from each target that was started.
func TestAFailedTargetOfAHedgeIsFollowedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rtNew(t, rtTree("fallback", 4, `,"hedge":{"delay_ms":100,"max":1}`))
		fails := rtStatus(500)
		fails.after = 70 * time.Millisecond
		r.on("0", fails).on("1", rtResponse{after: time.Second}).on("2", rtResponse{after: time.Second})
		got := r.send()
		var at []string
		for _, c := range r.calls {
			at = append(at, c.at.Sub(r.calls[0].at).String())
		}
		if want := "0s 70ms 170ms"; strings.Join(at, " ") != want || got.path != "1" || got.took != 1070*time.Millisecond {
			t.Errorf("targets were called after %v and %q answered in %v; want %s, 1, 1.07s", at, got.path, got.took, want)
		}
		r.closedOnce()
	})
}

// When two fail while a third is under way, nobody else is started before it is slow.
func TestAHedgeStartsNobodyForAFailureWhileAnotherIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails := rtStatus(500)
		fails.after = 150 * time.Millisecond
		r := rtNew(t, rtTree("fallback", 3, `,"hedge":{"delay_ms":100,"max":1}`)).on("0", fails).on("1", rtResponse{after: time.Second})
		if got := r.send(); got.path != "1" || len(r.calls) != 2 || got.took != 1100*time.Millisecond {
			t.Errorf("%q answered in %v after %d calls, want 1 in 1.1s after two", got.path, got.took, len(r.calls))
		}
		r.closedOnce()
	})
}

// A race waits for its branches at the same time, and for a loser only until it is
// cancelled.
func TestWaitsOfARaceAreNotAddedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rtNew(t, rtTree("fallback", 2, `,"hedge":{"delay_ms":1000},"retry":{"attempts":1,"use_retry_after_headers":true}`))
		r.on("0", rtStatus(503, "Retry-After", "30")).on("1", rtStatus(503, "Retry-After", "3"), rtStatus(200))
		got := r.send()
		if want := 4 * time.Second; got.path != "1" || got.took != want || got.x.trail.UpstreamTime != want {
			t.Errorf("%q answered in %v with %v recorded as waited, want 1 in %v, all of it waited", got.path, got.took, got.x.trail.UpstreamTime, want)
		}
	})
}

// The delay of a hedge is waiting for a provider and no overhead of the gateway, and
// that is known when the response begins.
func TestTheDelayOfAHedgeIsNotOverhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rtNew(t, rtTree("fallback", 3, `,"hedge":{"delay_ms":1000,"max":2}`))
		r.on("0", rtResponse{after: time.Hour}).on("1", rtResponse{after: time.Hour}).on("2", rtResponse{after: 500 * time.Millisecond})
		x := rtNewRequest()
		res, err := x.handle(t.Context(), r.Tree)
		if err != nil {
			t.Fatal(err)
		}
		if want := 2 * time.Second; x.target() != rtPath("2") || x.trail.UpstreamTime != want { // scripted targets add nothing
			t.Errorf("%s answered after %v of waiting, want the third after %v", x.target(), x.trail.UpstreamTime, want)
		}
		res.Close()
	})
}

// An upload and a dry run are one request each.
func TestBodiesThatCanBeSentOnceAreNotHedged(t *testing.T) {
	for name, change := range map[string]func(*rtRequest){
		"an upload": func(x *rtRequest) { x.Received.Upload = &pipeline.Upload{Body: strings.NewReader("form")} },
		"a dry run": func(x *rtRequest) { x.DryRun = true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rtNew(t, rtTree("fallback", 2, `,"hedge":{"delay_ms":100}`)).on("0", rtResponse{after: time.Second})
				if got := r.send(change); got.path != "0" || len(r.calls) != 1 {
					t.Errorf("%q answered after %d calls, want 0 alone", got.path, len(r.calls))
				}
			})
		})
	}
}
