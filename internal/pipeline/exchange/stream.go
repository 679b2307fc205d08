package exchange

import (
	"errors"
	"io"
	"slices"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/format/sse"
	"modelgate/internal/guardrail"
)

// Stream is a stream of events, pulled by its reader. It is not safe for
// concurrent use. Streams are layers: the stream of the target, and around it
// those that hide, rename, meter, continue, guard or share its events. A layer
// embeds the stream that it reads and replaces the methods that it changes.
type Stream interface {
	// Next returns the next event, valid until the following call. It returns
	// io.EOF after a clean end and an *apierr.Error if the stream broke.
	Next() (sse.Event, error)
	// More reports whether another event is available without waiting.
	More() bool
	// Begun reports whether the first event has arrived. Until then the tap of
	// the response is in use.
	Begun() bool
	// Comments returns the comments that preceded the first event, which are
	// sent to the client first.
	Comments() []byte
	// Pause stops the idle timeout while the client reads slowly; Resume
	// continues it.
	Pause()
	Resume()
	// Fail appends the in-band error that ends the stream, which broke.
	Fail(dst []byte, client dialect.ClientDialect, e *apierr.Error) []byte
}

// Continuer lets other targets continue streams that break.
type Continuer interface {
	// Continue puts a stream around the events of res that reads on from another target
	// if they break. It must be called before any of them is read.
	Continue(t *Trail, res *Response)
}

// Continuation is a stream that other targets may continue.
type Continuation struct {
	Hooks []*guardrail.Hook // that check it, continuations included
}

// ErrOtherGuardrails is why a target is not asked to continue a stream.
var ErrOtherGuardrails = errors.New("the target has other guardrails than the stream")

// CheckedBy reports whether the hooks of the stream are all that a target has which is to
// continue it. The target's own would not see the beginning.
func (c *Continuation) CheckedBy(hooks []*guardrail.Hook) bool {
	for _, h := range hooks {
		if !slices.Contains(c.Hooks, h) {
			return false
		}
	}
	return true
}

// Replay is a stream of events that have all arrived.
type Replay struct{ Events []sse.Event }

// ReplayBytes returns the stream of an event with these bytes.
func ReplayBytes(b []byte) *Replay { return &Replay{[]sse.Event{{Raw: b, Data: b}}} }

// Next implements [Stream].
func (r *Replay) Next() (sse.Event, error) {
	if len(r.Events) == 0 {
		return sse.Event{}, io.EOF
	}
	e := r.Events[0]
	r.Events = r.Events[1:]
	return e, nil
}

// More implements [Stream].
func (r *Replay) More() bool { return len(r.Events) > 0 }

// Begun implements [Stream].
func (*Replay) Begun() bool { return true }

// Comments implements [Stream].
func (*Replay) Comments() []byte { return nil }

// Pause implements [Stream].
func (*Replay) Pause() {}

// Resume implements [Stream].
func (*Replay) Resume() {}

// Fail implements [Stream].
func (*Replay) Fail(dst []byte, client dialect.ClientDialect, e *apierr.Error) []byte {
	return client.ErrorEvent(dst, e)
}

// StoredTap is the tap of a response that was read before it was stored.
type StoredTap struct{ Read *dialect.ResponseInfo }

// Body implements [dialect.Tap].
func (StoredTap) Body([]byte) {}

// Event implements [dialect.Tap].
func (StoredTap) Event(sse.Event) {}

// Info implements [dialect.Tap].
func (t StoredTap) Info() *dialect.ResponseInfo { return t.Read }
