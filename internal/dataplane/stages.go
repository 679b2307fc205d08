package dataplane

import (
	"context"

	"modelgate/internal/pipeline"
	"modelgate/internal/quota"
)

// stages returns the stages that an admitted request passes on its way to a
// provider, in this order, and its response in reverse order. Admission
// precedes them, so that a key without permission or budget is rejected without
// reading the body; recording follows when the response has been sent; see
// Plane.ServeHTTP. docs/architecture.md explains the order.
func stages(counters quota.Store) []pipeline.Stage {
	return []pipeline.Stage{
		limits{counters}, // before anything costs money or time
		requestChecks{},  // before the cache: a denied request gets no cached response
		responseChecks{}, // within the cache: only checked responses are stored
		// pipeline.Routing: strategies and hedges, ending in targets: the cache of
		// each, then its breaker, retries and attempts
	}
}

// limits reserves the estimated cost of a request and settles it when the
// response is closed.
//
// It reads the identity, the requested model and the estimated tokens. It
// changes nothing. It ends a request with 429 for a rate limit and 412 for a
// budget, and names the limit.
//
// Each attempt reserves what it may use and settles it; see
// pipeline.Engine.Quota. The stage settles the request itself, which counts once
// whatever number of attempts it takes. A request without an attempt is not
// counted.
type limits struct{ store quota.Store }

// Wrap implements [pipeline.Stage].
func (l limits) Wrap(next pipeline.Handler) pipeline.Handler {
	if l.store == nil {
		return next
	}
	return countingHandler{next, l.store}
}

// countingHandler counts requests when next has responded.
type countingHandler struct {
	next  pipeline.Handler
	store quota.Store
}

// Handle implements [pipeline.Handler]. A request that panics counts.
func (h countingHandler) Handle(ctx context.Context, r *pipeline.Request, t *pipeline.Trail) (res *pipeline.Response, err error) {
	if err := r.CheckSession(ctx, h.store); err != nil {
		return nil, err
	}
	defer func() { t.CountRequest(h.store, res, err) }()
	return h.next.Handle(ctx, r, t)
}

// requestChecks runs the guardrails on requests.
//
// It reads the text of the request through the decoder of its dialect. It may
// change the body, by edits of a copy. It ends a request with 446, or lets it
// pass and marks it. It sees no stream. It records each check and its verdict.
//
// Checks do not exist yet: a config with denying checks is rejected at its
// target, and other checks are announced as ignored.
type requestChecks struct{}

// Wrap implements [pipeline.Stage].
func (requestChecks) Wrap(next pipeline.Handler) pipeline.Handler { return next }

// responseChecks runs the guardrails on responses.
//
// It reads the text of the response and may change it. It ends a request with
// 446, or a stream that has begun with the in-band error of its dialect. It
// sees a stream through a window and holds back a stated amount of it. It
// records each check and its verdict, and which parts of the response were not
// checked.
//
// Checks do not exist yet; see requestChecks.
type responseChecks struct{}

// Wrap implements [pipeline.Stage].
func (responseChecks) Wrap(next pipeline.Handler) pipeline.Handler { return next }
