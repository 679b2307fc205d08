package pipeline

import (
	"context"

	"modelgate/internal/limits/quota"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/pipeline/metering"
)

// Serve passes an admitted request to its tree of targets. Its session is checked
// before anything costs money or time. Each attempt reserves what it may use and settles
// it; the request itself counts once, whatever number of attempts it takes, and not if
// there was none. One that panics counts. counters hold the limits; nil enforces none.
func Serve(ctx context.Context, counters quota.Store, r *exchange.Request, t *exchange.Trail) (res *exchange.Response, err error) {
	if counters == nil {
		return r.Routing.Handle(ctx, r, t)
	}
	if err := metering.CheckSession(ctx, r, counters, t); err != nil {
		return nil, err
	}
	defer func() { metering.CountRequest(t, counters, res, err) }()
	return r.Routing.Handle(ctx, r, t)
}
