package pipeline

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"modelgate/config"
	"modelgate/internal/apierr"
)

// breaker says whether a leaf may be used. It holds the circuit breaker (closed,
// open, half-open with one probe) and the time until which the provider asked
// to be left alone. Settled readings, number 8.
type breaker struct {
	rule *config.Breaker // nil: no breaker, the gate only parks

	mu            sync.Mutex
	failures      int       // in a row while closed; guarded by mu, as is all below
	window        time.Time // begin of the counting for the percentage
	requests      int       // counted in the window
	failed        int       // of them
	opened        time.Time // zero while closed
	probing       bool
	cooldownUntil time.Time // until then
}

// ready reports whether a strategy should consider the leaf at now.
func (g *breaker) ready(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now.Before(g.cooldownUntil) {
		return false
	}
	return g.opened.IsZero() || !g.probing && g.cooled(now)
}

func (g *breaker) cooled(now time.Time) bool { return now.Sub(g.opened) >= g.rule.Cooldown }

// outSince returns when the leaf went out of use, for choosing among leaves of
// which none is ready: the one that has waited longest comes first.
func (g *breaker) outSince(now time.Time) time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.opened.IsZero() {
		return g.opened
	}
	return g.cooldownUntil
}

// allow lets an attempt in. An open circuit lets in one probe at a time, once
// it has cooled down or when the caller has nobody else.
func (g *breaker) allow() (probe, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened.IsZero() {
		return false, true
	}
	if g.probing {
		return false, false
	}
	g.probing = true
	return true, true
}

// report reports how an attempt ended. What says nothing about the provider's
// health changes nothing, but always ends the probe.
func (g *breaker) report(o outcome, probe bool, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rest(o, now)
	if probe {
		g.probing = false
	}
	if g.rule == nil {
		return
	}
	switch g.classify(o) {
	case bad:
		g.fail(probe, now)
	case good:
		g.succeed(probe, now)
	}
}

// coolDown leaves the leaf alone for as long as an outcome asks, while whoever got
// the outcome waits to try again.
func (g *breaker) coolDown(o outcome, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rest(o, now)
}

// maxCooldown bounds how long one answer can put a leaf out of use: a header may
// name any date.
const maxCooldown = time.Hour

func (g *breaker) rest(o outcome, now time.Time) {
	if rest := max(o.retryAfter, o.rateLimitReset); rest > 0 {
		g.cooldownUntil = now.Add(min(rest, maxCooldown))
	}
}

// release ends a probe that came to no outcome.
func (g *breaker) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.probing = false
}

type health uint8

const (
	neutral health = iota
	good
	bad
)

// classify says what an outcome tells of the provider. Faults of the client or of
// the gateway tell nothing, and a rate limit that names its end is what parking
// is for.
func (g *breaker) classify(o outcome) health {
	switch {
	case o.success():
		return good
	case !o.fromProvider():
		return neutral
	case g.rule.FailureStatusCodes != nil && slices.Contains(g.rule.FailureStatusCodes, o.status):
		return bad
	case g.rule.FailureStatusCodes != nil:
		return neutral
	case o.status == http.StatusTooManyRequests && o.hasRetryAfter:
		return neutral
	case o.status >= 500, o.status == http.StatusRequestTimeout, o.status == http.StatusTooManyRequests:
		return bad
	}
	return neutral
}

func (g *breaker) fail(probe bool, now time.Time) {
	if probe {
		g.opened = now
		return
	}
	g.count(now)
	g.failures++
	g.failed++
	over := g.rule.FailureThreshold > 0 && float64(g.failures) >= g.rule.FailureThreshold
	rate := 100 * float64(g.failed) / float64(g.requests)
	if g.rule.FailurePercentage > 0 && g.requests >= g.rule.MinimumRequests && rate >= g.rule.FailurePercentage {
		over = true
	}
	if over && g.opened.IsZero() {
		g.opened = now
	}
}

func (g *breaker) succeed(probe bool, now time.Time) {
	if probe {
		g.opened, g.window = time.Time{}, time.Time{}
	}
	g.count(now)
	g.failures = 0
}

// count takes an attempt into the window, which is as long as the cooldown.
func (g *breaker) count(now time.Time) {
	if now.Sub(g.window) > g.rule.Cooldown {
		g.window, g.requests, g.failed = now, 0, 0
	}
	g.requests++
}

func (g *breaker) idle(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.opened.IsZero() && g.failures == 0 && !now.Before(g.cooldownUntil)
}

// breakerHandler is a leaf behind its gate.
type breakerHandler struct {
	breaker *breaker
	path    string
	next    Handler
}

// errProbeInFlight is the cause of a refusal because another request probes the leaf.
var errProbeInFlight = errors.New("circuit open")

// rejectedByBreaker reports whether a gate let nothing out. Whatever statuses a config
// lists, another target may then be asked: this one was not.
func rejectedByBreaker(err error) bool { return errors.Is(err, errProbeInFlight) }

// Handle refuses while another request probes an open circuit.
func (h *breakerHandler) Handle(ctx context.Context, r *Request, t *Trail) (*Response, error) {
	if r.DryRun { // a dry run tells nothing about the target
		return h.next.Handle(ctx, r, t)
	}
	probe, ok := h.breaker.allow()
	if !ok {
		t.decide(h.path, "circuit open, a probe is under way")
		return nil, apierr.New(apierr.Unavailable, "%s: the circuit breaker is open and a probe is in progress; try again shortly", h.path).
			WithCode("circuit_open").WithCause(errProbeInFlight)
	}
	if probe {
		t.decide(h.path, "circuit open, probing")
	}
	ended := false
	defer func() {
		if probe && !ended { // a panic must not keep the circuit open for good
			h.breaker.release()
		}
	}()
	t.Retries = 0
	res, err := h.next.Handle(ctx, r, t)
	now := time.Now()
	ended = true
	h.breaker.report(outcomeOf(res, err, now), probe, now)
	return res, err
}
