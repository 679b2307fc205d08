package pipeline

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"modelgate/internal/apierr"
)

// outcome is how an attempt or a branch ended, as strategies see it.
type outcome struct {
	status          int
	kind            apierr.Kind // of an error made by the gateway
	failed          bool        // the gateway made an error
	breakerRejected bool        // a gate let nothing out
	spent           bool        // no attempt is left; see Engine.MaxAttempts
	retryAfter      time.Duration
	hasRetryAfter   bool          // the provider said when to come back
	rateLimitReset  time.Duration // until a rate limit that is used up is filled again
}

func outcomeOf(res *Response, err error, now time.Time) outcome {
	if err != nil {
		e := apierr.From(err)
		return outcome{status: e.Status(), kind: e.Kind, failed: true, breakerRejected: rejectedByBreaker(err), spent: e.Code == codeAttempts}
	}
	o := outcome{status: res.Status}
	switch res.Status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, 529:
		o.retryAfter, o.hasRetryAfter = retryAfter(res.Header, now)
	}
	o.rateLimitReset = rateLimitReset(res.Header, now)
	return o
}

// maxAnnouncedCooldown bounds how long a target is left alone for a rate limit that it
// only announces.
const maxAnnouncedCooldown = time.Minute

// rateLimitReset reads the rate-limit headers that providers send with every answer:
// nothing remaining, and when that changes. Zero means that something remains
// or that nothing is said.
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

// clientGone reports whether nobody else can do better: the client has left, or no
// attempt is left.
func (o outcome) clientGone() bool { return o.failed && (o.kind == apierr.ClientGone || o.spent) }

// noResponse reports whether no answer came, or none that could be read.
func (o outcome) noResponse() bool {
	return o.failed && (o.kind == apierr.UpstreamFailed || o.kind == apierr.UpstreamTimeout)
}

// fromProvider reports whether the outcome is the provider's doing: its answer, or
// that none came in time.
func (o outcome) fromProvider() bool {
	return !o.failed || o.noResponse() || o.kind == apierr.Timeout
}

// triggersFallback reports whether a fallback leaves a branch with this outcome. Nil
// codes mean every outcome that is no success.
func (o outcome) triggersFallback(codes []int) bool {
	if o.clientGone() {
		return false
	}
	if codes == nil || o.breakerRejected {
		return !o.success()
	}
	return slices.Contains(codes, o.status)
}

// longestAsked bounds how long a provider may ask the gateway to wait: a header may
// hold any number or date, and sums of waits must not overflow.
const longestAsked = 1000 * time.Hour

// retryAfter reads when a provider wants to be asked again: milliseconds as
// some providers send them, then seconds or a date (RFC 9110, 10.2.3).
func retryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	for _, name := range [...]string{"Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
		if ms, err := strconv.ParseFloat(h.Get(name), 64); err == nil && ms >= 0 {
			return waitOf(ms, time.Millisecond), true
		}
	}
	v := strings.TrimSpace(h.Get("Retry-After"))
	if sec, err := strconv.ParseFloat(v, 64); err == nil && sec >= 0 {
		return waitOf(sec, time.Second), true
	}
	if t, err := http.ParseTime(v); err == nil {
		return min(max(t.Sub(now), 0), longestAsked), true
	}
	return 0, false
}

// waitOf returns n units of time, but longestAsked at most.
func waitOf(n float64, unit time.Duration) time.Duration {
	return time.Duration(min(n*float64(unit), float64(longestAsked)))
}

var errNoTarget = errors.New("a strategy without targets")
