package pipeline_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/pipeline"
)

// rtRetry is a leaf with this retry.
func rtRetry(retry string) string { return `{"provider":"@a","retry":` + retry + `}` }

// S-028, S-101, S-485
func TestAttemptsCountRepetitions(t *testing.T) {
	for _, tt := range []struct {
		name     string
		attempts int
		fails    int // calls that fail before one succeeds; -1 for all
		calls    int
		status   int
		count    int
		params   string
	}{
		{"none", 0, -1, 1, 500, 0, ""},
		{"one", 1, -1, 2, 500, -1, ""},
		{"three", 3, -1, 4, 500, -1, ""},
		{"five", 5, -1, 6, 500, -1, ""},
		{"more than are carried out", 9, -1, 6, 500, -1, "retry.attempts;clamped=5"},
		{"enough", 3, 2, 3, 200, 2, ""},
		{"just enough", 3, 3, 4, 200, 3, ""},
		{"not needed", 3, 0, 1, 200, 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				responses := []rtResponse{rtStatus(500)}
				if tt.fails >= 0 {
					responses = append(make([]rtResponse, 0), rtStatus(200))
					for range tt.fails {
						responses = append([]rtResponse{rtStatus(500)}, responses...)
					}
				}
				r := rtNew(t, rtRetry(fmt.Sprintf(`{"attempts":%d}`, tt.attempts))).on("", responses...)
				got := r.send()
				if len(r.calls) != tt.calls || got.status != tt.status || got.x.trail.Retries != tt.count || got.x.params() != tt.params {
					t.Errorf("%d calls, status %d, count %d, params %q; want %d, %d, %d, %q",
						len(r.calls), got.status, got.x.trail.Retries, got.x.params(), tt.calls, tt.status, tt.count, tt.params)
				}
				r.closedOnce()
			})
		})
	}
}

// S-100, S-482
func TestOnlySomeOutcomesAreRetried(t *testing.T) {
	for _, tt := range []struct {
		name, codes string
		first       rtResponse
		again       bool
	}{
		{"429", "", rtStatus(429), true},
		{"500", "", rtStatus(500), true},
		{"502", "", rtStatus(502), true},
		{"503", "", rtStatus(503), true},
		{"504", "", rtStatus(504), true},
		{"529", "", rtStatus(529), true},
		{"400", "", rtStatus(400), false},
		{"401", "", rtStatus(401), false},
		{"404", "", rtStatus(404), false},
		{"408 of the provider", "", rtStatus(408), false},
		{"501", "", rtStatus(501), false},
		{"505", "", rtStatus(505), false},
		{"302", "", rtStatus(302), false},
		{"no connection", "", rtRefusal(), true},
		{"no response in time", "", rtError(apierr.UpstreamTimeout), true},
		{"its own timeout", "", rtError(apierr.Timeout), false},
		{"an error of the gateway", "", rtError(apierr.Invalid), false},

		{"a listed status", ",418", rtStatus(418), true},
		{"a usual status that is not listed", ",418", rtStatus(500), false},
		{"no connection, with a list", ",418", rtRefusal(), true},
		{"its own timeout, listed", ",408", rtError(apierr.Timeout), true},
		{"anything, with an empty list", ",", rtStatus(500), false},
		{"a success that is listed", ",200", rtStatus(200), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				codes := ""
				if list, ok := strings.CutPrefix(tt.codes, ","); ok {
					codes = `,"on_status_codes":[` + list + `]`
				}
				r := rtNew(t, rtRetry(`{"attempts":1`+codes+`}`)).on("", tt.first, rtStatus(200))
				got := r.send()
				if again := len(r.calls) == 2; again != tt.again || again && got.status != 200 {
					t.Errorf("%d calls, status %d; want it tried again: %t", len(r.calls), got.status, tt.again)
				}
				r.closedOnce()
			})
		})
	}
}

// rtWaits are the times between the calls.
func (r *rtRoutes) rtWaits() []time.Duration {
	var waits []time.Duration
	for i := 1; i < len(r.calls); i++ {
		waits = append(waits, r.calls[i].at.Sub(r.calls[i-1].at))
	}
	return waits
}

func TestBackoffIsFullJitterBelowABoundThatDoubles(t *testing.T) {
	for _, random := range []float64{0, 0.25, 0.5, 0.999999} {
		t.Run(fmt.Sprint(random), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rtNew(t, rtRetry(`{"attempts":5}`)).on("", rtStatus(500))
				r.random = func() float64 { return random }
				got := r.send()
				bound, sum := 200*time.Millisecond, time.Duration(0)
				for i, wait := range r.rtWaits() {
					if want := time.Duration(random * float64(bound)); wait != want || wait >= bound {
						t.Errorf("wait %d is %v, want %v of %v", i, wait, want, bound)
					}
					bound, sum = bound*2, sum+wait
				}
				if got.x.trail.UpstreamTime != sum {
					t.Errorf("%v recorded as waited, want %v", got.x.trail.UpstreamTime, sum)
				}
			})
		})
	}
}

// S-099, S-130
func TestRetryAfterIsObeyedInAllItsForms(t *testing.T) {
	const obey = `{"attempts":1,"use_retry_after_headers":true}`
	date := func(in time.Duration) string { return time.Now().Add(in).UTC().Format(http.TimeFormat) }
	for _, tt := range []struct {
		name   string
		status int
		retry  string
		header func() []string
		wait   time.Duration
	}{
		{"seconds", 429, obey, func() []string { return []string{"Retry-After", "2"} }, 2 * time.Second},
		{"seconds with a fraction", 429, obey, func() []string { return []string{"Retry-After", "0.25"} }, 250 * time.Millisecond},
		{"no seconds at all", 429, obey, func() []string { return []string{"Retry-After", "0"} }, 0},
		{"a date", 429, obey, func() []string { return []string{"Retry-After", date(7 * time.Second)} }, 7 * time.Second},
		{"a date that is over", 429, obey, func() []string { return []string{"Retry-After", date(-time.Hour)} }, 0},
		{"milliseconds", 429, obey, func() []string { return []string{"Retry-After-Ms", "1500"} }, 1500 * time.Millisecond},
		{"milliseconds of a cloud", 429, obey, func() []string { return []string{"X-Ms-Retry-After-Ms", "800"} }, 800 * time.Millisecond},
		{"milliseconds before seconds", 429, obey, func() []string { return []string{"Retry-After", "30", "Retry-After-Ms", "10"} }, 10 * time.Millisecond},
		{"on 503", 503, obey, func() []string { return []string{"Retry-After", "2"} }, 2 * time.Second},
		{"on 529", 529, obey, func() []string { return []string{"Retry-After", "2"} }, 2 * time.Second},
		{"the longest wait", 429, obey, func() []string { return []string{"Retry-After", "60"} }, time.Minute},
		{"on another status", 500, obey, func() []string { return []string{"Retry-After", "2"} }, 100 * time.Millisecond},
		{"not understood", 429, obey, func() []string { return []string{"Retry-After", "soon"} }, 100 * time.Millisecond},
		{"negative", 429, obey, func() []string { return []string{"Retry-After", "-3"} }, 100 * time.Millisecond},
		{"no number", 429, obey, func() []string { return []string{"Retry-After", "NaN"} }, 100 * time.Millisecond},
		{"not asked to obey", 429, `{"attempts":1}`, func() []string { return []string{"Retry-After", "2"} }, 100 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rtNew(t, rtRetry(tt.retry)).on("", rtStatus(tt.status, tt.header()...), rtStatus(200))
				r.random = func() float64 { return 0.5 }
				got := r.send()
				if waits := r.rtWaits(); len(waits) != 1 || waits[0] != tt.wait || got.status != 200 {
					t.Errorf("waited %v, status %d; want %v, 200", waits, got.status, tt.wait)
				}
			})
		})
	}
}

func TestAWaitThatIsTooLongEndsRetrying(t *testing.T) {
	for _, tt := range []struct {
		name  string
		waits []string
		calls int
		took  time.Duration
	}{
		{"at once", []string{"61"}, 1, 0},
		{"in all", []string{"20", "50"}, 2, 20 * time.Second},
		{"exactly in all", []string{"20", "40", "1"}, 3, time.Minute},
		{"a date far away", []string{"Fri, 31 Dec 9999 23:59:59 GMT"}, 1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var responses []rtResponse
				for _, w := range tt.waits {
					responses = append(responses, rtStatus(429, "Retry-After", w))
				}
				r := rtNew(t, rtRetry(`{"attempts":5,"use_retry_after_headers":true}`)).on("", responses...)
				got := r.send()
				if got.status != 429 || got.x.trail.Retries != -1 || len(r.calls) != tt.calls || got.took != tt.took {
					t.Errorf("status %d, count %d, %d calls in %v; want 429, -1, %d in %v", got.status, got.x.trail.Retries, len(r.calls), got.took, tt.calls, tt.took)
				}
				r.closedOnce()
			})
		})
	}
}

func TestRetryingStaysWithinTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rtNew(t, rtRetry(`{"attempts":5,"use_retry_after_headers":true}`)).on("", rtStatus(429, "Retry-After", "4"))
		got := r.send(func(x *rtRequest) { x.AttemptDeadline = time.Now().Add(10 * time.Second) })
		if got.took != 8*time.Second || len(r.calls) != 3 || got.x.trail.Retries != -1 {
			t.Errorf("%d calls in %v, count %d; want 3 in 8 s of a budget of 10, -1", len(r.calls), got.took, got.x.trail.Retries)
		}
	})
}

func TestAClientThatLeavesWhileWaitingEndsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rtNew(t, rtRetry(`{"attempts":5,"use_retry_after_headers":true}`)).on("", rtStatus(429, "Retry-After", "30"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		got := rtSend(ctx, r.Tree)
		if got.err == nil || got.err.Kind != apierr.ClientGone || got.took != time.Second || len(r.calls) != 1 {
			t.Errorf("error %v after %d calls in %v, want the client's leaving after a second", got.err, len(r.calls), got.took)
		}
		r.closedOnce()
	})
}

// A rate limit that names its end sends the exchange elsewhere, if elsewhere is
// where it would go.
func TestARateLimitIsNotWaitedForWhenAnotherTargetCanServe(t *testing.T) {
	const retry = `"retry":{"attempts":2,"use_retry_after_headers":true}`
	two := func(codes string) string {
		return `{"strategy":{"mode":"fallback"` + codes + `},` + retry + `,"targets":[` + rtLeaf + `,` + rtLeaf + `]}`
	}
	inner := `{"strategy":{"mode":"loadbalance"},"targets":[` + rtLeaf + `]}`
	for _, tt := range []struct {
		name, config, first string
		response            rtResponse
		want                string
		took                time.Duration
	}{
		{"a fallback goes on", two(""), "0", rtStatus(429, "Retry-After", "3"), "0 1", 0},
		{"a fallback that lists 429 goes on", two(`,"on_status_codes":[429]`), "0", rtStatus(429, "Retry-After", "3"), "0 1", 0},
		{"a fallback that lists others waits", two(`,"on_status_codes":[500]`), "0", rtStatus(429, "Retry-After", "3"), "0 0", 3 * time.Second},
		{"the last target waits", two(""), "1", rtStatus(429, "Retry-After", "3"), "0 0 0 1 1", 3 * time.Second},
		{"without a time it is tried again", two(""), "0", rtStatus(429), "0 0", 0},
		{"a balance within a fallback goes on", `{"strategy":{"mode":"fallback"},` + retry + `,"targets":[` + inner + `,` + rtLeaf + `]}`, "0.0", rtStatus(429, "Retry-After", "3"), "0.0 1", 0},
		{"a balance alone waits", `{"strategy":{"mode":"loadbalance"},` + retry + `,"targets":[` + rtLeaf + `]}`, "0", rtStatus(429, "Retry-After", "3"), "0 0", 3 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rtNew(t, tt.config).on("0", rtStatus(500)).on(tt.first, tt.response, rtStatus(200))
				r.random = func() float64 { return 0 }
				got := r.send()
				if got.targetList() != tt.want || got.took != tt.took || got.status != 200 {
					t.Errorf("status %d after %q in %v, want 200 after %q in %v", got.status, got.targetList(), got.took, tt.want, tt.took)
				}
				r.closedOnce()
			})
		})
	}
}

func TestABodyThatWasReadIsNotRetried(t *testing.T) {
	r := rtNew(t, rtRetry(`{"attempts":3}`)).on("", rtStatus(503))
	got := r.send(func(x *rtRequest) {
		x.Received.Upload = &pipeline.Upload{Body: strings.NewReader("form")}
		pipeline.ReadUpload(x.Received.Upload)
	})
	if len(r.calls) != 1 || got.x.trail.Retries != -1 || got.status != 503 {
		t.Errorf("%d calls, count %d, status %d; want one call, -1 since more was asked for, 503", len(r.calls), got.x.trail.Retries, got.status)
	}
}

// The count is of the target that answered, not of those before it.
func TestTheCountBelongsToTheLastTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rtNew(t, `{"strategy":{"mode":"fallback"},"targets":[`+rtRetry(`{"attempts":2}`)+`,`+rtLeaf+`]}`).on("0", rtStatus(500))
		if got := r.send(); got.targetList() != "0 0 0 1" || got.x.trail.Retries != 0 {
			t.Errorf("count %d after %q, want 0 after 0 0 0 1", got.x.trail.Retries, got.targetList())
		}
		r.on("1", rtStatus(400))
		if got := r.send(); got.x.trail.Retries != 0 || got.status != 400 {
			t.Errorf("count %d with status %d, want 0 with 400", got.x.trail.Retries, got.status)
		}
	})
}

// While one exchange waits for a rate limit to end, others with a choice go
// elsewhere.
func TestATargetIsParkedWhileARetryWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rtNew(t, rtTree("loadbalance", 2, `,"retry":{"attempts":1,"use_retry_after_headers":true}`))
		r.on("0", rtStatus(429, "Retry-After", "30"), rtStatus(200))
		r.random = func() float64 { return 0 } // always draws the first that is fit
		first := make(chan rtResult)
		go func() { first <- r.send() }()
		synctest.Wait()
		if got := r.send(); got.targetList() != "1" {
			t.Errorf("tried %q while 0 is to be left alone, want 1", got.targetList())
		}
		if got := <-first; got.targetList() != "0 0" || got.took != 30*time.Second {
			t.Errorf("the waiting exchange tried %q in %v, want 0 0 in 30s", got.targetList(), got.took)
		}
		if got := r.send(); got.targetList() != "0" {
			t.Errorf("tried %q after the time was over, want 0", got.targetList())
		}
	})
}
