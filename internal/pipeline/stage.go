package pipeline

import (
	"context"

	"modelgate/internal/sse"
)

// Stage adds one concern around the handling of admitted requests. Its Wrap is
// called once, when the gateway starts, and returns a handler that does the stage's
// part and calls next: not at all to end a request early. A stage with nothing to
// do returns next.
//
// A stage reads the request and never changes it; to change what is sent it hands
// next a copy. What it did it writes down in the trail. To end a request it returns
// an *apierr.Error, or a [Response] of its own. To see a stream it replaces
// Response.Events by one that wraps it: the stream is pulled, so a stage that does
// not call Next holds back the provider.
type Stage interface {
	Wrap(next Handler) Handler
}

// Chain returns a handler that passes requests through stages, the first of them
// outermost, to last.
func Chain(last Handler, stages ...Stage) Handler {
	for i := len(stages) - 1; i >= 0; i-- {
		last = stages[i].Wrap(last)
	}
	return last
}

// Routing is the handler at the end of the stages: it sends a request the way of its
// own tree of targets.
type Routing struct{}

// Handle has the request's tree handle it.
func (Routing) Handle(ctx context.Context, r *Request, t *Trail) (*Response, error) {
	return r.Routing.Handle(ctx, r, t)
}

// Stream is a stream of events that is pulled by its reader. It is for one
// goroutine.
type Stream interface {
	// Next returns the next event, valid until the following call. It returns
	// io.EOF after a clean end and an *apierr.Error when the stream broke.
	Next() (sse.Event, error)
	// More reports whether a further event is available without waiting.
	More() bool
	// Held returns comments that came before the first event; they go to the
	// client first.
	Held() []byte
	// Pause stops the idle clock while the client is slow to read; Resume lets it
	// go on.
	Pause()
	Resume()
}
