package routing

import (
	"context"
	"net/http"
	"slices"
	"time"

	"modelgate/config"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/pipeline/exchange"
)

// Backoff of retries: full jitter below a bound that doubles. Settled readings,
// number 5.
const (
	firstBackoff = 200 * time.Millisecond
	maxBackoff   = 16 * time.Second
	// maxRetryAfter is the longest wait that a provider may ask for. After a
	// request for a longer wait, the response is returned to the client with
	// its headers.
	maxRetryAfter = 60 * time.Second
)

var defaultRetry = []int{429, 500, 502, 503, 504, 529}

// retry repeats attempts at one target.
type retry struct {
	path          string
	next          exchange.Handler
	random        func() float64 // in [0, 1)
	breaker       *breaker       // of the target
	attempts      int            // retries after the first attempt
	clamped       bool
	codes         []int
	useRetryAfter bool // wait as long as the provider asks
}

func newRetry(n *config.Config, random func() float64, g *breaker, next exchange.Handler) exchange.Handler {
	attempts, clamped := n.Retry.EffectiveAttempts()
	if attempts == 0 {
		return next
	}
	codes := n.Retry.OnStatusCodes
	if codes == nil {
		codes = defaultRetry
	}
	return &retry{path: n.Path, next: next, random: random, breaker: g, attempts: attempts, clamped: clamped,
		codes: codes, useRetryAfter: n.Retry.UseRetryAfter}
}

// Handle retries until an outcome is not retried or no retry is left. It sets
// Trail.Retries to -1 if retrying ended although the outcome asked for more.
func (h *retry) Handle(ctx context.Context, r *exchange.Request, t *exchange.Trail) (*exchange.Response, error) {
	if h.clamped {
		t.Note(dialect.ParamChange{Name: "retry.attempts", Outcome: dialect.Clamped, Note: "5"})
	}
	follows := t.MoreFollows
	defer func() { t.MoreFollows = follows }()
	var waited time.Duration
	for n := 0; ; n++ {
		t.Retries = n
		t.MoreFollows = follows || n < h.attempts
		res, err := h.next.Handle(ctx, r, t)
		o := outcomeOf(res, err, time.Now())
		if !h.shouldRetry(o) {
			return res, err
		}
		wait, ok := h.wait(r, t, o, n, waited)
		if !ok {
			t.Retries = -1
			return res, err
		}
		t.Decide(h.path, "ended in %d, retrying in %v", o.status, wait.Round(time.Millisecond))
		if res != nil {
			res.Close()
		}
		h.breaker.coolDown(o, time.Now()) // other requests with a choice avoid the target in the meantime
		waited += wait
		began := time.Now()
		err = sleep(ctx, wait)
		t.UpstreamTime += time.Since(began) // waiting for a provider is not the gateway's own time
		if err != nil {
			return nil, err
		}
	}
}

// shouldRetry reports whether an outcome is retried. A limit of the gateway is
// not reset by the time of a retry. The attempt's own timeout
// is retried only if 408 is listed.
func (h *retry) shouldRetry(o outcome) bool {
	if o.success() && o.status != statusHookFailed || o.isFinal() || o.limited {
		return false
	}
	return o.noResponse() || slices.Contains(h.codes, o.status)
}

// wait returns how long to wait before the next retry. It returns false if
// there is none: no retry is left, the body is consumed, the wait is too long,
// or another target can serve now.
func (h *retry) wait(r *exchange.Request, t *exchange.Trail, o outcome, n int, waited time.Duration) (time.Duration, bool) {
	if n >= h.attempts || r.BodyConsumed() {
		return 0, false
	}
	d := time.Duration(h.random() * float64(min(firstBackoff<<n, maxBackoff)))
	if o.hasRetryAfter {
		if t.HasFallback && o.status == http.StatusTooManyRequests {
			return 0, false
		}
		if h.useRetryAfter {
			d = o.retryAfter
			if waited+d > maxRetryAfter {
				return 0, false
			}
		}
	}
	return d, !r.PastDeadline(d)
}

// sleep waits, unless the client disconnects first.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return apierr.New(apierr.ClientGone, "the client closed the request").WithCause(context.Cause(ctx))
	}
}
