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

// gate says whether a leaf may be used. It holds the circuit breaker (closed,
// open, half-open with one probe) and the time until which the provider asked
// to be left alone. Settled readings, number 8.
type gate struct {
	rule *config.Breaker // nil: no breaker, the gate only parks

	mu       sync.Mutex
	failures int       // in a row while closed; guarded by mu, as is all below
	window   time.Time // begin of the counting for the percentage
	requests int       // counted in the window
	failed   int       // of them
	opened   time.Time // zero while closed
	probing  bool
	parked   time.Time // until then
}

// ready reports whether a strategy should consider the leaf at now.
func (g *gate) ready(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now.Before(g.parked) {
		return false
	}
	return g.opened.IsZero() || !g.probing && g.cooled(now)
}

func (g *gate) cooled(now time.Time) bool { return now.Sub(g.opened) >= g.rule.Cooldown }

// since returns when the leaf went out of use, for choosing among leaves of
// which none is ready: the one that has waited longest comes first.
func (g *gate) since(now time.Time) time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.opened.IsZero() {
		return g.opened
	}
	return g.parked
}

// enter lets an attempt in. An open circuit lets in one probe at a time, once
// it has cooled down or when the caller has nobody else.
func (g *gate) enter() (probe, ok bool) {
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

// leave reports how an attempt ended. What says nothing about the provider's
// health changes nothing, but always ends the probe.
func (g *gate) leave(o outcome, probe bool, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rest(o, now)
	if probe {
		g.probing = false
	}
	if g.rule == nil {
		return
	}
	switch g.judge(o) {
	case bad:
		g.fail(probe, now)
	case good:
		g.succeed(probe, now)
	}
}

// park leaves the leaf alone for as long as an outcome asks, while whoever got
// the outcome waits to try again.
func (g *gate) park(o outcome, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rest(o, now)
}

// maxRest bounds how long one answer can put a leaf out of use: a header may
// name any date.
const maxRest = time.Hour

func (g *gate) rest(o outcome, now time.Time) {
	if rest := max(o.retryAfter, o.empty); rest > 0 {
		g.parked = now.Add(min(rest, maxRest))
	}
}

// release ends a probe that came to no outcome.
func (g *gate) release() {
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

// judge says what an outcome tells of the provider. Faults of the client or of
// the gateway tell nothing, and a rate limit that names its end is what parking
// is for.
func (g *gate) judge(o outcome) health {
	switch {
	case o.success():
		return good
	case !o.provided():
		return neutral
	case g.rule.FailureStatusCodes != nil && slices.Contains(g.rule.FailureStatusCodes, o.status):
		return bad
	case g.rule.FailureStatusCodes != nil:
		return neutral
	case o.status == http.StatusTooManyRequests && o.asked:
		return neutral
	case o.status >= 500, o.status == http.StatusRequestTimeout, o.status == http.StatusTooManyRequests:
		return bad
	}
	return neutral
}

func (g *gate) fail(probe bool, now time.Time) {
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

func (g *gate) succeed(probe bool, now time.Time) {
	if probe {
		g.opened, g.window = time.Time{}, time.Time{}
	}
	g.count(now)
	g.failures = 0
}

// count takes an attempt into the window, which is as long as the cooldown.
func (g *gate) count(now time.Time) {
	if now.Sub(g.window) > g.rule.Cooldown {
		g.window, g.requests, g.failed = now, 0, 0
	}
	g.requests++
}

func (g *gate) idle(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.opened.IsZero() && g.failures == 0 && !now.Before(g.parked)
}

// gated is a leaf behind its gate.
type gated struct {
	gate *gate
	path string
	next Handler
}

// errProbed is the cause of a refusal because another request probes the leaf.
var errProbed = errors.New("circuit open")

// refused reports whether a gate let nothing out. Whatever statuses a config
// lists, another target may then be asked: this one was not.
func refused(err error) bool { return errors.Is(err, errProbed) }

// Handle refuses while another request probes an open circuit.
func (h *gated) Handle(ctx context.Context, x *Exchange) (*Response, error) {
	if x.Plan != nil { // a dry run tells nothing about the target
		return h.next.Handle(ctx, x)
	}
	probe, ok := h.gate.enter()
	if !ok {
		x.decide(h.path, "circuit open, a probe is under way")
		return nil, apierr.New(apierr.Unavailable, "%s: the circuit breaker is open; another request is probing the target", h.path).
			WithCode("circuit_open").WithCause(errProbed)
	}
	if probe {
		x.decide(h.path, "circuit open, probing")
	}
	ended := false
	defer func() {
		if probe && !ended { // a panic must not keep the circuit open for good
			h.gate.release()
		}
	}()
	x.Retries = 0
	res, err := h.next.Handle(ctx, x)
	now := time.Now()
	ended = true
	h.gate.leave(outcomeOf(res, err, now), probe, now)
	return res, err
}
