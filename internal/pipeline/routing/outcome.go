package routing

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/provider/health"
)

// outcome describes how an attempt or a branch ended, for strategies.
type outcome struct {
	status          int
	kind            apierr.Kind // of an error of the gateway
	failed          bool        // the gateway returned an error
	breakerRejected bool        // a breaker rejected the attempt
	spent           bool        // no attempt is left; see [exchange.Bounds]
	limited         bool        // a limit of the gateway refused the attempt
	retryAfter      time.Duration
	hasRetryAfter   bool          // the provider sent Retry-After
	rateLimitReset  time.Duration // time until an exhausted rate limit is reset
}

func outcomeOf(res *exchange.Response, err error, now time.Time) outcome {
	if err != nil {
		e := apierr.From(err)
		return outcome{status: e.Status(), kind: e.Kind, failed: true, breakerRejected: rejectedByBreaker(err),
			spent: e.Code == exchange.CodeAttempts || e.Limit != nil && !e.Limit.Shared || e.Code == exchange.CodeLimits, limited: e.Limit != nil}
	}
	o := outcome{status: res.Status}
	if o.status == http.StatusOK && res.Hooks.Failed() {
		o.status = statusHookFailed
	}
	switch res.Status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, 529:
		o.retryAfter, o.hasRetryAfter = health.RetryAfter(res.Header, now)
	}
	o.rateLimitReset = rateLimitReset(res.Header, now)
	return o
}

// statusHookFailed is the outcome of a response that a check failed without
// denying it. Clients get it only if they are configured to, but retries and
// fallbacks may list it.
const statusHookFailed = 246

// maxAnnouncedCooldown is the maximum cooldown for a rate limit that the
// provider only announces.
const maxAnnouncedCooldown = time.Minute

// rateLimitReset reads the rate-limit headers that providers send with every
// response and returns the time until an exhausted limit is reset. Zero means
// that something remains or that the headers are missing.
func rateLimitReset(h http.Header, now time.Time) time.Duration {
	var longest time.Duration
	for _, kind := range [...]string{"Requests", "Tokens"} {
		if h.Get("X-Ratelimit-Remaining-"+kind) == "0" {
			d, err := time.ParseDuration(h.Get("X-Ratelimit-Reset-" + kind))
			if err == nil {
				longest = max(longest, d)
			}
		}
		if h.Get("Anthropic-Ratelimit-"+kind+"-Remaining") == "0" {
			t, err := time.Parse(time.RFC3339, h.Get("Anthropic-Ratelimit-"+kind+"-Reset"))
			if err == nil {
				longest = max(longest, t.Sub(now))
			}
		}
	}
	return min(longest, maxAnnouncedCooldown)
}

func (o outcome) success() bool { return !o.failed && o.status >= 200 && o.status < 300 }

// isFinal reports whether no other target can help: the client disconnected, no
// attempt is left, or a limit of the client is reached.
func (o outcome) isFinal() bool { return o.failed && (o.kind == apierr.ClientGone || o.spent) }

// noResponse reports whether there was no response, or an unreadable one.
func (o outcome) noResponse() bool {
	return o.failed && (o.kind == apierr.UpstreamFailed || o.kind == apierr.UpstreamTimeout)
}

// fromProvider reports whether the provider caused the outcome: by its
// response, or by sending none in time.
func (o outcome) fromProvider() bool {
	return !o.failed || o.noResponse() || o.kind == apierr.Timeout
}

// triggersFallback reports whether a fallback leaves a branch with this
// outcome. Nil codes mean every outcome except success.
func (o outcome) triggersFallback(codes []int) bool {
	if o.isFinal() {
		return false
	}
	if codes == nil || o.breakerRejected {
		return !o.success()
	}
	return slices.Contains(codes, o.status)
}

var errNoTarget = errors.New("a strategy without targets")
