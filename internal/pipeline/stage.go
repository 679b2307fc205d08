package pipeline

import "context"

// Stage adds one concern to the handling of admitted requests. Wrap is called
// once, when the gateway starts. It returns a handler that does the stage's
// work and calls next, or does not call it to end a request early. A stage
// without work returns next.
//
// A stage must not change the request; to change what is sent, it passes a copy
// to next. It records what it did in the trail. To end a request it returns an
// *apierr.Error or its own [Response]. To observe a stream it wraps
// Response.Events: the stream is pulled, so a stage that does not call Next
// holds back the provider.
type Stage interface {
	Wrap(next Handler) Handler
}

// Chain returns a handler that passes requests through stages, the first of
// them outermost, and then to last.
func Chain(last Handler, stages ...Stage) Handler {
	for i := len(stages) - 1; i >= 0; i-- {
		last = stages[i].Wrap(last)
	}
	return last
}

// Routing is the handler behind the stages: it passes a request to its own tree
// of targets.
type Routing struct{}

// Handle calls the request's tree.
func (Routing) Handle(ctx context.Context, r *Request, t *Trail) (*Response, error) {
	return r.Routing.Handle(ctx, r, t)
}
