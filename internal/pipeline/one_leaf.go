package pipeline

import (
	"context"

	"modelgate/internal/pipeline/attempt"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/pipeline/guarding"
)

// OneLeaf is the tree of a request without a config: its only leaf is the first of
// Request.Leaves. It has no state, so a request can hold its own.
type OneLeaf struct {
	call     attempt.TargetHandler
	response guarding.ResponseGuard
	request  guarding.RequestGuard
}

// Init sets the call of the leaf.
func (l *OneLeaf) Init(call attempt.TargetHandler) {
	l.call = call
	l.response = guarding.ResponseGuard{Bounds: &call.Engine.Bounds, Path: call.Path, Next: &l.call}
	l.request = guarding.RequestGuard{Bounds: &call.Engine.Bounds, Path: call.Path, Next: &l.response}
}

// Handle implements [exchange.Handler]: it calls the leaf, with its hooks around the call.
func (l *OneLeaf) Handle(ctx context.Context, r *exchange.Request, t *exchange.Trail) (*exchange.Response, error) {
	return l.request.Handle(ctx, r, t)
}
