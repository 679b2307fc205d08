package routing_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/testing/pipelinetest"
)

// A wait beyond the longest is not waited for and does not become a short one: the
// client gets the response, and the target is left alone.
func TestAWaitBeyondAllBoundsIsNotIgnored(t *testing.T) {
	for _, tt := range []struct{ name, header, value string }{
		{"a little more than a minute", "Retry-After", "60.001"},
		{"milliseconds of a little more than a minute", "Retry-After-Ms", "60001"},
		{"a year", "Retry-After", "31536000"},
		{"a year in milliseconds", "Retry-After-Ms", "31536000000"},
		{"a year in milliseconds of a cloud", "X-Ms-Retry-After-Ms", "31536000000"},
		{"more than a duration holds", "Retry-After", "1e300"},
		{"milliseconds more than a duration holds", "Retry-After-Ms", "1e300"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				response := pipelinetest.Status(429, tt.header, tt.value)
				got := pipelinetest.New(t, rtRetry(`{"attempts":5,"use_retry_after_headers":true}`)).On("", response).Send()
				if got.Status != 429 || got.X.Trail.Retries != -1 || got.Took != 0 {
					t.Errorf("status %d, count %d in %v; want the 429 at once, -1 since more was asked for", got.Status, got.X.Trail.Retries, got.Took)
				}
				r := pipelinetest.New(t, pipelinetest.Tree("fallback", 2, "")).On("0", response, pipelinetest.Status(200))
				r.Send()
				if got := r.Send(); got.TargetList() != "1" {
					t.Errorf("the next exchange tried %q, want 1: the other target is to be left alone", got.TargetList())
				}
			})
		})
	}
}

// A date may be further away than a duration holds, and the wait before adds to it.
func TestRetryAfterOfTheLastYearIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pipelinetest.New(t, rtRetry(`{"attempts":5,"use_retry_after_headers":true}`)).
			On("", pipelinetest.Status(429, "Retry-After", "1"), pipelinetest.Status(429, "Retry-After", "Fri, 31 Dec 9999 23:59:59 GMT"))
		if got := r.Send(); got.Status != 429 || got.X.Trail.Retries != -1 || got.Took != time.Second {
			t.Errorf("status %d, count %d in %v; want the second 429 after a second, and -1 since more was asked for", got.Status, got.X.Trail.Retries, got.Took)
		}
	})
}

func TestTheShorterFormsOfRetryAfterComeFirst(t *testing.T) {
	for _, tt := range []struct {
		name   string
		header []string
		wait   time.Duration
	}{
		{"milliseconds that are none", []string{"Retry-After-Ms", "0", "Retry-After", "30"}, 0},
		{"milliseconds of a cloud that are none", []string{"X-Ms-Retry-After-Ms", "0", "Retry-After", "30"}, 0},
		{"a fraction of a millisecond", []string{"Retry-After-Ms", "0.5", "Retry-After", "30"}, 500 * time.Microsecond},
		{"negative milliseconds", []string{"Retry-After-Ms", "-1", "Retry-After", "30"}, 30 * time.Second},
		{"milliseconds that are no number", []string{"Retry-After-Ms", "soon", "Retry-After", "30"}, 30 * time.Second},
		{"the longest wait in milliseconds", []string{"Retry-After-Ms", "60000"}, time.Minute},
		{"spaces around seconds", []string{"Retry-After", " 3 "}, 3 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := pipelinetest.New(t, rtRetry(`{"attempts":1,"use_retry_after_headers":true}`)).On("", pipelinetest.Status(429, tt.header...), pipelinetest.Status(200))
				r.Random = func() float64 { return 0.5 }
				if got := r.Send(); got.Status != 200 || got.Took != tt.wait {
					t.Errorf("status %d in %v, want 200 in %v", got.Status, got.Took, tt.wait)
				}
			})
		})
	}
}

func TestATargetIsLeftAloneUntilAllItsRateLimitsAreFilledAgain(t *testing.T) {
	date := func(in time.Duration) string { return time.Now().Add(in).UTC().Format(time.RFC3339) }
	for _, tt := range []struct {
		name   string
		header func() []string
		parked time.Duration
	}{
		{"both used up, requests for longer", func() []string {
			return []string{"X-Ratelimit-Remaining-Requests", "0", "X-Ratelimit-Reset-Requests", "20s", "X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "5s"}
		}, 20 * time.Second},
		{"both used up, tokens for longer", func() []string {
			return []string{"X-Ratelimit-Remaining-Requests", "0", "X-Ratelimit-Reset-Requests", "5s", "X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "20s"}
		}, 20 * time.Second},
		{"one of them left", func() []string {
			return []string{"X-Ratelimit-Remaining-Requests", "3", "X-Ratelimit-Reset-Requests", "20s", "X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "5s"}
		}, 5 * time.Second},
		{"requests of the other form", func() []string {
			return []string{"Anthropic-Ratelimit-Requests-Remaining", "0", "Anthropic-Ratelimit-Requests-Reset", date(20 * time.Second)}
		}, 20 * time.Second},
		{"tokens of the other form", func() []string {
			return []string{"Anthropic-Ratelimit-Tokens-Remaining", "0", "Anthropic-Ratelimit-Tokens-Reset", date(20 * time.Second)}
		}, 20 * time.Second},
		{"some left in the other form", func() []string {
			return []string{"Anthropic-Ratelimit-Tokens-Remaining", "7", "Anthropic-Ratelimit-Tokens-Reset", date(20 * time.Second)}
		}, 0},
		{"filled again in the past", func() []string {
			return []string{"Anthropic-Ratelimit-Tokens-Remaining", "0", "Anthropic-Ratelimit-Tokens-Reset", date(-20 * time.Second)}
		}, 0},
		{"filled again in an hour", func() []string {
			return []string{"Anthropic-Ratelimit-Tokens-Remaining", "0", "Anthropic-Ratelimit-Tokens-Reset", date(time.Hour)}
		}, time.Minute},
		{"nobody knows when", func() []string {
			return []string{"X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "soon", "Anthropic-Ratelimit-Tokens-Remaining", "0"}
		}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := pipelinetest.New(t, pipelinetest.Tree("fallback", 2, "")).On("0", pipelinetest.Status(200, tt.header()...), pipelinetest.Status(200))
				r.Send()
				if tt.parked > 0 {
					time.Sleep(tt.parked - time.Millisecond)
					if got := r.Send(); got.TargetList() != "1" {
						t.Errorf("tried %q before %v were over, want 1", got.TargetList(), tt.parked)
					}
					time.Sleep(time.Millisecond)
				}
				if got := r.Send(); got.TargetList() != "0" {
					t.Errorf("tried %q after %v, want 0", got.TargetList(), tt.parked)
				}
			})
		})
	}
}

// A wait that ends when the budget does leaves time for one more attempt; a longer
// one does not.
func TestAWaitMayEndWithTheBudget(t *testing.T) {
	for _, tt := range []struct {
		name   string
		budget time.Duration
		calls  int
	}{{"with it", 4 * time.Second, 2}, {"just after it", 4*time.Second - 1, 1}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := pipelinetest.New(t, rtRetry(`{"attempts":1,"use_retry_after_headers":true}`)).On("", pipelinetest.Status(429, "Retry-After", "4"))
				r.Send(func(x *pipelinetest.Request) { x.AttemptDeadline = time.Now().Add(tt.budget) })
				if len(r.Calls) != tt.calls {
					t.Errorf("%d calls with a wait of 4s and a budget of %v, want %d", len(r.Calls), tt.budget, tt.calls)
				}
			})
		})
	}
}

// What several targets of a tree waited is the provider's time, not the gateway's.
func TestAllWaitsOfAnExchangeAreRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pipelinetest.New(t, pipelinetest.Tree("fallback", 2, `,"on_status_codes":[500,503],"retry":{"attempts":2,"use_retry_after_headers":true}`))
		r.On("0", pipelinetest.Status(503, "Retry-After", "3"), pipelinetest.Status(503, "Retry-After", "4"), pipelinetest.Status(500)).
			On("1", pipelinetest.Status(503, "Retry-After", "5"), pipelinetest.Status(200))
		got := r.Send()
		if want := 12 * time.Second; got.Status != 200 || got.X.Trail.UpstreamTime != want || got.Took != want {
			t.Errorf("status %d in %v, %v recorded as waited; want 200 and %v", got.Status, got.Took, got.X.Trail.UpstreamTime, want)
		}
	})
}

// A wait that the client cut short was not waited.
func TestOnlyTheTimeThatPassedIsRecordedAsWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pipelinetest.New(t, rtRetry(`{"attempts":1,"use_retry_after_headers":true}`)).On("", pipelinetest.Status(429, "Retry-After", "30"))
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if got := pipelinetest.Send(ctx, r.Tree); got.X.Trail.UpstreamTime != 2*time.Second {
			t.Errorf("%v recorded as waited, want the two seconds until the client left", got.X.Trail.UpstreamTime)
		}
	})
}

// An exchange whose attempts are used up, or whose client has left, is nobody
// else's.
func TestAnOutcomeOfTheExchangeIsNotRetried(t *testing.T) {
	for name, kind := range map[string]apierr.Kind{"the client left": apierr.ClientGone, "an error of the gateway": apierr.Internal} {
		t.Run(name, func(t *testing.T) {
			r := pipelinetest.New(t, rtRetry(`{"attempts":3,"on_status_codes":[499,503]}`)).On("", pipelinetest.Error(kind))
			if got := r.Send(); len(r.Calls) != 1 || got.X.Trail.Retries != 0 {
				t.Errorf("%d calls, count %d; want one, 0", len(r.Calls), got.X.Trail.Retries)
			}
		})
	}
}
