package health_test

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/provider/health"
)

// start is in the middle of a part of the window.
var start = time.Date(2026, 5, 1, 12, 2, 0, 0, time.UTC)

func newRecent() *health.Recent {
	return new(health.Registry).Of(health.Key{Workspace: "w", Slug: "s", Provider: "openai"})
}

func add(r *health.Recent, at time.Time, list ...health.Outcome) {
	for _, o := range list {
		r.Add(health.Attempt{Outcome: o, Time: at, Took: 10 * time.Millisecond})
	}
}

func TestReportCountsAttemptsByOutcome(t *testing.T) {
	r := newRecent()
	add(r, start, health.Served, health.Served, health.Served, health.Failed, health.RateLimited, health.Unauthorised, health.Rejected)
	r.AddBroken(health.Failure{Time: start, Code: "upstream_reset"})
	got := r.Report(start, start)
	if got.Attempts != 7 || got.Served != 3 || got.Failed != 1 || got.RateLimited != 1 || got.Unauthorised != 1 || got.Rejected != 1 || got.Broken != 1 {
		t.Errorf("Report = %+v", got)
	}
	if rate, ok := got.ErrorRate(); !ok || rate != 4.0/6 { // what the client did wrong tells nothing
		t.Errorf("ErrorRate = %v, %t; want 4 of 6", rate, ok)
	}
}

func TestAttemptsAreForgottenAfterTheWindow(t *testing.T) {
	r := newRecent()
	add(r, start, health.Failed)
	add(r, start.Add(30*time.Minute), health.Served)
	for _, tt := range []struct {
		name           string
		from, now      time.Duration
		failed, served int64
	}{
		{"all of the window", 0, 59 * time.Minute, 1, 1},
		{"since a later time", 20 * time.Minute, 59 * time.Minute, 0, 1},
		{"an hour and a part later", 0, 66 * time.Minute, 0, 1},
		{"two hours later", 0, 2 * time.Hour, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := r.Report(start.Add(tt.from), start.Add(tt.now))
			if got.Failed != tt.failed || got.Served != tt.served {
				t.Errorf("%d failed and %d served, want %d and %d", got.Failed, got.Served, tt.failed, tt.served)
			}
			if got.From.After(start.Add(tt.now)) || got.From.Before(start.Add(tt.now-health.Window-5*time.Minute)) {
				t.Errorf("From = %v", got.From)
			}
		})
	}
	add(r, start.Add(65*time.Minute), health.Served) // takes the place of the first
	if got := r.Report(start, start.Add(65*time.Minute)); got.Attempts != 2 {
		t.Errorf("%d attempts after the window began again, want 2", got.Attempts)
	}
}

func TestPercentilesAreATenthOffAtMost(t *testing.T) {
	r := newRecent()
	for ms := 1; ms <= 1000; ms++ {
		r.Add(health.Attempt{Time: start, Took: time.Duration(ms) * time.Millisecond})
		r.Add(health.Attempt{Time: start, Took: time.Duration(ms) * time.Second / 10, Streamed: true})
	}
	got := r.Report(start, start)
	for _, tt := range []struct {
		name      string
		got, want time.Duration
	}{
		{"p50", got.Complete.P50, 500 * time.Millisecond}, {"p90", got.Complete.P90, 900 * time.Millisecond},
		{"p99", got.Complete.P99, 990 * time.Millisecond},
		{"first p50", got.First.P50, 50 * time.Second}, {"first p99", got.First.P99, 99 * time.Second},
	} {
		if off := math.Abs(float64(tt.got-tt.want)) / float64(tt.want); off > 0.125 {
			t.Errorf("%s = %v, want about %v", tt.name, tt.got, tt.want)
		}
	}
	r.Add(health.Attempt{Time: start, Took: 100 * time.Hour})
	r.Add(health.Attempt{Time: start, Took: -time.Second})
	if n := r.Report(start, start).Complete.Count; n != 1002 {
		t.Errorf("%d times counted, want 1002", n)
	}
}

func TestRateLimitsAreReadFromHeaders(t *testing.T) {
	for _, tt := range []struct {
		name   string
		header http.Header
		want   []health.RateLimit
	}{
		{"durations", http.Header{"X-Ratelimit-Limit-Requests": {"60"}, "X-Ratelimit-Remaining-Requests": {"59"}, "X-Ratelimit-Reset-Requests": {"1m30s"}},
			[]health.RateLimit{{Name: "requests", Limit: 60, Remaining: 59, Reset: start.Add(90 * time.Second), Seen: start}}},
		{"dates", http.Header{"Anthropic-Ratelimit-Input-Tokens-Limit": {"50000"}, "Anthropic-Ratelimit-Input-Tokens-Remaining": {"0"},
			"Anthropic-Ratelimit-Input-Tokens-Reset": {"2026-05-01T12:03:00Z"}},
			[]health.RateLimit{{Name: "input-tokens", Limit: 50000, Remaining: 0, Reset: start.Add(time.Minute), Seen: start}}},
		{"seconds, and no name", http.Header{"X-Ratelimit-Limit": {"5"}, "X-Ratelimit-Reset": {"2.5"}},
			[]health.RateLimit{{Name: "requests", Limit: 5, Remaining: -1, Reset: start.Add(2500 * time.Millisecond), Seen: start}}},
		{"milliseconds since 1970", http.Header{"X-Ratelimit-Remaining-Tokens-Day": {"7"}, "X-Ratelimit-Reset-Tokens-Day": {fmt.Sprint(start.UnixMilli())}},
			[]health.RateLimit{{Name: "tokens-day", Limit: -1, Remaining: 7, Reset: start.Local(), Seen: start}}},
		{"nonsense", http.Header{"X-Ratelimit-Limit-Requests": {"NaN"}, "X-Ratelimit-Remaining-Requests": {"-1"}, "X-Ratelimit-Limit-A B": {"1"},
			"X-Ratelimit-Limit-" + strings.Repeat("A", 99): {"1"}, "Anthropic-Ratelimit-": {"1"}, "X-Ratelimit-Reset-Tokens": {"1s"}}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRecent()
			r.ReadHeaders(tt.header, 200, start)
			if diff := cmp.Diff(tt.want, r.Report(start, start).RateLimits); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestHeadersAreBoundedAndReadNowAndThen(t *testing.T) {
	r, many := newRecent(), http.Header{}
	for i := range 200 {
		many.Set(fmt.Sprintf("X-Ratelimit-Limit-N%d", i), "1")
	}
	r.ReadHeaders(many, 200, start)
	if n := len(r.Report(start, start).RateLimits); n != 16 {
		t.Errorf("%d limits kept, want 16", n)
	}
	one := http.Header{"X-Ratelimit-Limit-Requests": {"1"}, "Retry-After": {"30"}}
	r.ReadHeaders(one, 200, start.Add(100*time.Millisecond))
	if n := len(r.Report(start, start).RateLimits); n != 16 {
		t.Error("headers were read again at once")
	}
	r.ReadHeaders(one, 429, start.Add(200*time.Millisecond))
	got := r.Report(start, start)
	if len(got.RateLimits) != 1 || !got.RetryAt.Equal(start.Add(30200*time.Millisecond)) {
		t.Errorf("after a 429: %v, retry at %v", got.RateLimits, got.RetryAt)
	}
	if got := r.Report(start, start.Add(time.Minute)); !got.RetryAt.IsZero() {
		t.Errorf("a time that has passed is reported: %v", got.RetryAt)
	}
}

// circuit is a breaker whose state the test sets.
type circuit struct{ state health.CircuitState }

func (c *circuit) CircuitState(time.Time) (health.CircuitState, time.Time) { return c.state, start }

func TestCircuitsAreReportedUntilTheyClose(t *testing.T) {
	r := newRecent()
	c := &circuit{health.CircuitOpen}
	for i := range 100 {
		r.NoteCircuit(fmt.Sprint("config.targets", i), &circuit{health.CoolingDown}, start)
	}
	if n := len(r.Report(start, start).Circuits); n != 32 {
		t.Errorf("%d circuits, want 32", n)
	}
	r = newRecent()
	r.NoteCircuit("config.targets[0]", c, start)
	r.NoteCircuit("config.targets[0]", c, start)
	got := r.Report(start, start)
	if len(got.Circuits) != 1 || got.State(start) != health.Open {
		t.Errorf("circuits %v, state %s", got.Circuits, got.State(start))
	}
	c.state = health.CircuitClosed
	if got := r.Report(start, start); len(got.Circuits) != 0 || got.State(start) != health.Idle {
		t.Errorf("after closing: circuits %v, state %s", got.Circuits, got.State(start))
	}
}

func TestStateFollowsTheErrorRate(t *testing.T) {
	for _, tt := range []struct {
		name           string
		served, failed int
		want           health.State
	}{
		{"nothing", 0, 0, health.Idle},
		{"one failure", 0, 1, health.Degraded},
		{"one in twenty", 19, 1, health.Up},
		{"two in twenty", 18, 2, health.Degraded},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRecent()
			for range tt.served {
				add(r, start, health.Served)
			}
			for range tt.failed {
				add(r, start, health.Failed)
			}
			if got := r.Report(start, start); got.State(start) != tt.want {
				t.Errorf("State = %s, want %s", got.State(start), tt.want)
			}
		})
	}
}

// Memory is bounded however many providers there are, and what is too old makes room.
func TestRegistryIsBounded(t *testing.T) {
	var g health.Registry
	const providers = 70_000
	full := 0
	for i := range providers {
		r := g.Of(health.Key{Slug: fmt.Sprint(i)})
		add(r, start, health.Served)
		if r.Report(start, start).Attempts == 0 {
			full++
		}
	}
	if full != providers-65_536 {
		t.Errorf("%d providers were not counted, want %d", full, providers-65_536)
	}
	later := start.Add(2 * time.Hour)
	r := g.Of(health.Key{Slug: fmt.Sprint(providers - 1)})
	add(r, later, health.Served)
	if r.Report(later, later).Attempts != 1 {
		t.Error("old slots made no room")
	}
	g.Retain(func(health.Key) bool { return false })
	if g.Of(health.Key{Slug: fmt.Sprint(providers - 1)}) == r {
		t.Error("a provider that is not in use was retained")
	}
}

func TestNilRemembersNothing(t *testing.T) {
	var g *health.Registry
	r := g.Of(health.Key{})
	add(r, start, health.Served)
	r.AddBroken(health.Failure{})
	r.ReadHeaders(nil, 429, start)
	r.NoteCircuit("", nil, start)
	if got := r.Report(start, start); got.Attempts != 0 || got.State(start) != health.Idle {
		t.Errorf("Report = %+v", got)
	}
}

func TestAttemptsOfManyGoroutinesAreAllCounted(t *testing.T) {
	r := newRecent()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 10_000 {
				r.Add(health.Attempt{Outcome: health.Served, Time: start.Add(time.Duration(i) * time.Second / 10)})
			}
		})
	}
	wg.Wait()
	if got := r.Report(start, start.Add(1000*time.Second)).Attempts; got != 80_000 {
		t.Errorf("%d attempts, want 80,000", got)
	}
}

// An attempt costs a few tens of nanoseconds and no allocation.
func BenchmarkAttempt(b *testing.B) {
	r := newRecent()
	h := http.Header{"X-Ratelimit-Limit-Requests": {"60"}, "X-Ratelimit-Remaining-Requests": {"59"}, "Content-Type": {"application/json"}}
	a := health.Attempt{Outcome: health.Served, Time: start, Took: 300 * time.Millisecond}
	b.ReportAllocs()
	for b.Loop() {
		r.Add(a)
		r.ReadHeaders(h, 200, start)
	}
}
