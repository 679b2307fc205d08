package routing_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/testing/pipelinetest"
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
				responses := []pipelinetest.Response{pipelinetest.Status(500)}
				if tt.fails >= 0 {
					responses = append(make([]pipelinetest.Response, 0), pipelinetest.Status(200))
					for range tt.fails {
						responses = append([]pipelinetest.Response{pipelinetest.Status(500)}, responses...)
					}
				}
				r := pipelinetest.New(t, rtRetry(fmt.Sprintf(`{"attempts":%d}`, tt.attempts))).On("", responses...)
				got := r.Send()
				if len(r.Calls) != tt.calls || got.Status != tt.status || got.X.Trail.Retries != tt.count || got.X.Params() != tt.params {
					t.Errorf("%d calls, status %d, count %d, params %q; want %d, %d, %d, %q",
						len(r.Calls), got.Status, got.X.Trail.Retries, got.X.Params(), tt.calls, tt.status, tt.count, tt.params)
				}
				r.CheckClosed()
			})
		})
	}
}

// S-100, S-482
func TestOnlySomeOutcomesAreRetried(t *testing.T) {
	for _, tt := range []struct {
		name, codes string
		first       pipelinetest.Response
		again       bool
	}{
		{"429", "", pipelinetest.Status(429), true},
		{"500", "", pipelinetest.Status(500), true},
		{"502", "", pipelinetest.Status(502), true},
		{"503", "", pipelinetest.Status(503), true},
		{"504", "", pipelinetest.Status(504), true},
		{"529", "", pipelinetest.Status(529), true},
		{"400", "", pipelinetest.Status(400), false},
		{"401", "", pipelinetest.Status(401), false},
		{"404", "", pipelinetest.Status(404), false},
		{"408 of the provider", "", pipelinetest.Status(408), false},
		{"501", "", pipelinetest.Status(501), false},
		{"505", "", pipelinetest.Status(505), false},
		{"302", "", pipelinetest.Status(302), false},
		{"no connection", "", pipelinetest.Refusal(), true},
		{"no response in time", "", pipelinetest.Error(apierr.UpstreamTimeout), true},
		{"its own timeout", "", pipelinetest.Error(apierr.Timeout), false},
		{"an error of the gateway", "", pipelinetest.Error(apierr.Invalid), false},

		{"a listed status", ",418", pipelinetest.Status(418), true},
		{"a usual status that is not listed", ",418", pipelinetest.Status(500), false},
		{"no connection, with a list", ",418", pipelinetest.Refusal(), true},
		{"its own timeout, listed", ",408", pipelinetest.Error(apierr.Timeout), true},
		{"anything, with an empty list", ",", pipelinetest.Status(500), false},
		{"a success that is listed", ",200", pipelinetest.Status(200), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				codes := ""
				if list, ok := strings.CutPrefix(tt.codes, ","); ok {
					codes = `,"on_status_codes":[` + list + `]`
				}
				r := pipelinetest.New(t, rtRetry(`{"attempts":1`+codes+`}`)).On("", tt.first, pipelinetest.Status(200))
				got := r.Send()
				if again := len(r.Calls) == 2; again != tt.again || again && got.Status != 200 {
					t.Errorf("%d calls, status %d; want it tried again: %t", len(r.Calls), got.Status, tt.again)
				}
				r.CheckClosed()
			})
		})
	}
}

// rtWaits are the times between the calls.
func rtWaits(r *pipelinetest.Routes) []time.Duration {
	var waits []time.Duration
	for i := 1; i < len(r.Calls); i++ {
		waits = append(waits, r.Calls[i].At.Sub(r.Calls[i-1].At))
	}
	return waits
}

func TestBackoffIsFullJitterBelowABoundThatDoubles(t *testing.T) {
	for _, random := range []float64{0, 0.25, 0.5, 0.999999} {
		t.Run(fmt.Sprint(random), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := pipelinetest.New(t, rtRetry(`{"attempts":5}`)).On("", pipelinetest.Status(500))
				r.Random = func() float64 { return random }
				got := r.Send()
				bound, sum := 200*time.Millisecond, time.Duration(0)
				for i, wait := range rtWaits(r) {
					if want := time.Duration(random * float64(bound)); wait != want || wait >= bound {
						t.Errorf("wait %d is %v, want %v of %v", i, wait, want, bound)
					}
					bound, sum = bound*2, sum+wait
				}
				if got.X.Trail.UpstreamTime != sum {
					t.Errorf("%v recorded as waited, want %v", got.X.Trail.UpstreamTime, sum)
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
				r := pipelinetest.New(t, rtRetry(tt.retry)).On("", pipelinetest.Status(tt.status, tt.header()...), pipelinetest.Status(200))
				r.Random = func() float64 { return 0.5 }
				got := r.Send()
				if waits := rtWaits(r); len(waits) != 1 || waits[0] != tt.wait || got.Status != 200 {
					t.Errorf("waited %v, status %d; want %v, 200", waits, got.Status, tt.wait)
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
				var responses []pipelinetest.Response
				for _, w := range tt.waits {
					responses = append(responses, pipelinetest.Status(429, "Retry-After", w))
				}
				r := pipelinetest.New(t, rtRetry(`{"attempts":5,"use_retry_after_headers":true}`)).On("", responses...)
				got := r.Send()
				if got.Status != 429 || got.X.Trail.Retries != -1 || len(r.Calls) != tt.calls || got.Took != tt.took {
					t.Errorf("status %d, count %d, %d calls in %v; want 429, -1, %d in %v", got.Status, got.X.Trail.Retries, len(r.Calls), got.Took, tt.calls, tt.took)
				}
				r.CheckClosed()
			})
		})
	}
}

func TestRetryingStaysWithinTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pipelinetest.New(t, rtRetry(`{"attempts":5,"use_retry_after_headers":true}`)).On("", pipelinetest.Status(429, "Retry-After", "4"))
		got := r.Send(func(x *pipelinetest.Request) { x.AttemptDeadline = time.Now().Add(10 * time.Second) })
		if got.Took != 8*time.Second || len(r.Calls) != 3 || got.X.Trail.Retries != -1 {
			t.Errorf("%d calls in %v, count %d; want 3 in 8 s of a budget of 10, -1", len(r.Calls), got.Took, got.X.Trail.Retries)
		}
	})
}

func TestAClientThatLeavesWhileWaitingEndsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pipelinetest.New(t, rtRetry(`{"attempts":5,"use_retry_after_headers":true}`)).On("", pipelinetest.Status(429, "Retry-After", "30"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		got := pipelinetest.Send(ctx, r.Tree)
		if got.Err == nil || got.Err.Kind != apierr.ClientGone || got.Took != time.Second || len(r.Calls) != 1 {
			t.Errorf("error %v after %d calls in %v, want the client's leaving after a second", got.Err, len(r.Calls), got.Took)
		}
		r.CheckClosed()
	})
}

// A rate limit that names its end sends the exchange elsewhere, if elsewhere is
// where it would go.
func TestARateLimitIsNotWaitedForWhenAnotherTargetCanServe(t *testing.T) {
	const retry = `"retry":{"attempts":2,"use_retry_after_headers":true}`
	two := func(codes string) string {
		return `{"strategy":{"mode":"fallback"` + codes + `},` + retry + `,"targets":[` + pipelinetest.Leaf + `,` + pipelinetest.Leaf + `]}`
	}
	inner := `{"strategy":{"mode":"loadbalance"},"targets":[` + pipelinetest.Leaf + `]}`
	for _, tt := range []struct {
		name, config, first string
		response            pipelinetest.Response
		want                string
		took                time.Duration
	}{
		{"a fallback goes on", two(""), "0", pipelinetest.Status(429, "Retry-After", "3"), "0 1", 0},
		{"a fallback that lists 429 goes on", two(`,"on_status_codes":[429]`), "0", pipelinetest.Status(429, "Retry-After", "3"), "0 1", 0},
		{"a fallback that lists others waits", two(`,"on_status_codes":[500]`), "0", pipelinetest.Status(429, "Retry-After", "3"), "0 0", 3 * time.Second},
		{"the last target waits", two(""), "1", pipelinetest.Status(429, "Retry-After", "3"), "0 0 0 1 1", 3 * time.Second},
		{"without a time it is tried again", two(""), "0", pipelinetest.Status(429), "0 0", 0},
		{"a balance within a fallback goes on", `{"strategy":{"mode":"fallback"},` + retry + `,"targets":[` + inner + `,` + pipelinetest.Leaf + `]}`, "0.0", pipelinetest.Status(429, "Retry-After", "3"), "0.0 1", 0},
		{"a balance alone waits", `{"strategy":{"mode":"loadbalance"},` + retry + `,"targets":[` + pipelinetest.Leaf + `]}`, "0", pipelinetest.Status(429, "Retry-After", "3"), "0 0", 3 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := pipelinetest.New(t, tt.config).On("0", pipelinetest.Status(500)).On(tt.first, tt.response, pipelinetest.Status(200))
				r.Random = func() float64 { return 0 }
				got := r.Send()
				if got.TargetList() != tt.want || got.Took != tt.took || got.Status != 200 {
					t.Errorf("status %d after %q in %v, want 200 after %q in %v", got.Status, got.TargetList(), got.Took, tt.want, tt.took)
				}
				r.CheckClosed()
			})
		})
	}
}

func TestABodyThatWasReadIsNotRetried(t *testing.T) {
	r := pipelinetest.New(t, rtRetry(`{"attempts":3}`)).On("", pipelinetest.Status(503))
	got := r.Send(func(x *pipelinetest.Request) {
		x.Received.Upload = &exchange.Upload{Body: strings.NewReader("form")}
		x.Received.Upload.Started.Store(true)
	})
	if len(r.Calls) != 1 || got.X.Trail.Retries != -1 || got.Status != 503 {
		t.Errorf("%d calls, count %d, status %d; want one call, -1 since more was asked for, 503", len(r.Calls), got.X.Trail.Retries, got.Status)
	}
}

// The count is of the target that answered, not of those before it.
func TestTheCountBelongsToTheLastTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pipelinetest.New(t, `{"strategy":{"mode":"fallback"},"targets":[`+rtRetry(`{"attempts":2}`)+`,`+pipelinetest.Leaf+`]}`).On("0", pipelinetest.Status(500))
		if got := r.Send(); got.TargetList() != "0 0 0 1" || got.X.Trail.Retries != 0 {
			t.Errorf("count %d after %q, want 0 after 0 0 0 1", got.X.Trail.Retries, got.TargetList())
		}
		r.On("1", pipelinetest.Status(400))
		if got := r.Send(); got.X.Trail.Retries != 0 || got.Status != 400 {
			t.Errorf("count %d with status %d, want 0 with 400", got.X.Trail.Retries, got.Status)
		}
	})
}

// While one exchange waits for a rate limit to end, others with a choice go
// elsewhere.
func TestATargetIsParkedWhileARetryWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pipelinetest.New(t, pipelinetest.Tree("loadbalance", 2, `,"retry":{"attempts":1,"use_retry_after_headers":true}`))
		r.On("0", pipelinetest.Status(429, "Retry-After", "30"), pipelinetest.Status(200))
		r.Random = func() float64 { return 0 } // always draws the first that is fit
		first := make(chan pipelinetest.Result)
		go func() { first <- r.Send() }()
		synctest.Wait()
		if got := r.Send(); got.TargetList() != "1" {
			t.Errorf("tried %q while 0 is to be left alone, want 1", got.TargetList())
		}
		if got := <-first; got.TargetList() != "0 0" || got.Took != 30*time.Second {
			t.Errorf("the waiting exchange tried %q in %v, want 0 0 in 30s", got.TargetList(), got.Took)
		}
		if got := r.Send(); got.TargetList() != "0" {
			t.Errorf("tried %q after the time was over, want 0", got.TargetList())
		}
	})
}
