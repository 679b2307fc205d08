package dataplane

import (
	"context"

	"modelgate/internal/limits/quota"
	"modelgate/internal/pipeline"
)

// stages returns the stages that an admitted request passes on its way to a
// provider, in this order, and its response in reverse order. Admission
// precedes them, so that a key without permission or budget is rejected without
// reading the body; recording follows when the response has been sent; see
// Plane.ServeHTTP. docs/architecture.md explains the order.
func stages(counters quota.Store) []pipeline.Stage {
	return []pipeline.Stage{
		limits{counters}, // before anything costs money or time
		// pipeline.Routing: strategies and hedges, ending in targets: for each the
		// checks of the request, its cache, its breaker, retries, the checks of the
		// response, and attempts
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
	if err := r.CheckSession(ctx, h.store, t); err != nil {
		return nil, err
	}
	defer func() { t.CountRequest(h.store, res, err) }()
	return h.next.Handle(ctx, r, t)
}
