package routing

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"modelgate/config"
	"modelgate/internal/base/apierr"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/provider/health"
)

// breaker decides whether a target may be used. It combines the circuit breaker
// (closed, open, half-open with one probe) and the time until which the
// provider asked not to be called. Settled readings, number 8.
type breaker struct {
	rule *config.Breaker // nil: no circuit breaker, only cooldowns

	mu            sync.Mutex
	failures      int       // consecutive, while closed; guarded by mu, as are the fields below
	window        time.Time // start of the window for the percentage
	requests      int       // in the window
	failed        int       // in the window
	opened        time.Time // zero while closed
	probing       bool
	cooldownUntil time.Time // end of the cooldown
}

// ready reports whether a strategy should consider the target at now.
func (g *breaker) ready(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now.Before(g.cooldownUntil) {
		return false
	}
	return g.opened.IsZero() || !g.probing && g.cooled(now)
}

func (g *breaker) cooled(now time.Time) bool { return now.Sub(g.opened) >= g.rule.Cooldown }

// outSince returns when the target became unavailable. If no target is ready,
// the one that has waited longest is chosen.
func (g *breaker) outSince(now time.Time) time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.opened.IsZero() {
		return g.opened
	}
	return g.cooldownUntil
}

// allow admits an attempt. An open circuit admits one probe at a time, once its
// cooldown is over or if the caller has no other target.
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

// report records the end of an attempt, and reports whether other targets are preferred
// from now on. Outcomes that reveal nothing about the provider's health only end the
// probe.
func (g *breaker) report(o outcome, probe bool, now time.Time) (avoided bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.setCooldown(o, now)
	if probe {
		g.probing = false
	}
	if g.rule != nil {
		switch g.classify(o) {
		case bad:
			g.fail(probe, now)
		case good:
			g.succeed(probe, now)
		}
	}
	return !g.opened.IsZero() || now.Before(g.cooldownUntil)
}

// CircuitState implements [health.Circuit].
func (g *breaker) CircuitState(now time.Time) (state health.CircuitState, until time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case !g.opened.IsZero() && (g.probing || g.cooled(now)):
		return health.CircuitHalfOpen, time.Time{}
	case !g.opened.IsZero():
		return health.CircuitOpen, g.opened.Add(g.rule.Cooldown)
	case now.Before(g.cooldownUntil):
		return health.CoolingDown, g.cooldownUntil
	}
	return health.CircuitClosed, time.Time{}
}

// coolDown starts the cooldown that an outcome asks for, while the caller waits
// to retry.
func (g *breaker) coolDown(o outcome, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.setCooldown(o, now)
}

// maxCooldown is the maximum cooldown caused by one response: its headers may
// name any date.
const maxCooldown = time.Hour

// setCooldown sets the end of the cooldown that an outcome asks for. The caller must
// hold mu.
func (g *breaker) setCooldown(o outcome, now time.Time) {
	if rest := max(o.retryAfter, o.rateLimitReset); rest > 0 {
		g.cooldownUntil = now.Add(min(rest, maxCooldown))
	}
}

// release ends a probe without an outcome.
func (g *breaker) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.probing = false
}

type evidence uint8

const (
	neutral evidence = iota
	good
	bad
)

// classify returns what an outcome reveals about the provider's health. Faults
// of the client or the gateway reveal nothing, and for a rate limit with a
// known end there is the cooldown.
func (g *breaker) classify(o outcome) evidence {
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

// count adds an attempt to the window, which is as long as the cooldown.
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

// breakerHandler guards a target handler with its breaker.
type breakerHandler struct {
	breaker *breaker
	path    string
	next    exchange.Handler
}

// errProbeInFlight is the cause of a rejection because another request probes
// the target.
var errProbeInFlight = errors.New("circuit open")

// rejectedByBreaker reports whether a breaker rejected the attempt. Another
// target may then be tried whatever statuses a config lists, since this one was
// not called.
func rejectedByBreaker(err error) bool { return errors.Is(err, errProbeInFlight) }

// Handle returns an error while another request probes an open circuit.
func (h *breakerHandler) Handle(ctx context.Context, r *exchange.Request, t *exchange.Trail) (*exchange.Response, error) {
	if r.DryRun { // a dry run reveals nothing about the target
		return h.next.Handle(ctx, r, t)
	}
	probe, ok := h.breaker.allow()
	if !ok {
		t.Decide(h.path, "circuit open, a probe is under way")
		return nil, apierr.New(apierr.Unavailable, "%s: the circuit breaker is open and a probe is in progress; try again shortly", h.path).
			WithCode("circuit_open").WithCause(errProbeInFlight)
	}
	if probe {
		t.Decide(h.path, "circuit open, probing")
	}
	ended := false
	defer func() {
		if probe && !ended { // a panic must not leave the circuit open for good
			h.breaker.release()
		}
	}()
	t.Retries = 0
	res, err := h.next.Handle(ctx, r, t)
	now := time.Now()
	ended = true
	if h.breaker.report(outcomeOf(res, err, now), probe, now) && t.Outcome != nil && t.Outcome.Target != nil {
		t.Outcome.Target.Health.NoteCircuit(h.path, h.breaker, now)
	}
	return res, err
}
