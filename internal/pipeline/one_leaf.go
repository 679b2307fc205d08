package pipeline

import (
	"context"

	"modelgate/internal/pipeline/exchange"
)

// OneLeaf is the tree of a request without a config: its only leaf is the first of
// Request.Leaves. It has no state, so a request can hold its own.
type OneLeaf struct {
	call     TargetHandler
	response responseGuard
	request  requestGuard
}

// Init sets the call of the leaf.
func (l *OneLeaf) Init(call TargetHandler) {
	l.call = call
	l.response = responseGuard{bounds: &call.Engine.Bounds, path: call.Path, next: &l.call}
	l.request = requestGuard{bounds: &call.Engine.Bounds, path: call.Path, next: &l.response}
}

// Handle implements [exchange.Handler]: it calls the leaf, with its hooks around the call.
func (l *OneLeaf) Handle(ctx context.Context, r *exchange.Request, t *exchange.Trail) (*exchange.Response, error) {
	return l.request.Handle(ctx, r, t)
}
