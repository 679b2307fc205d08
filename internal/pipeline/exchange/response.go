package exchange

import (
	"io"
	"net/http"

	"modelgate/internal/base/bytepool"
	"modelgate/internal/dialect"
	"modelgate/internal/model/llm"
)

// Response is a usable response. Exactly one of Bytes, Events and Body holds
// its content. The caller calls Close once, on every path.
type Response struct {
	Status int
	Header http.Header // of the provider; must not be changed
	Tap    dialect.Tap

	Attempt *Attempt // that received the response; nil in tests of routing only

	Bytes  []byte         // complete content, valid until Close
	Events Stream         // a stream of events that has begun
	Body   io.Reader      // other content, as it arrives
	Length int64          // of Body; -1 if unknown
	Raw    *http.Response // the source of Body, for its trailer

	// Hooks are the results of the hooks that the request and the response
	// passed.
	Hooks HookResults

	// Session records the turns of a connection whose protocol the provider has changed, which
	// is the body of Raw. Nil for other responses.
	Session Session

	// Joined is true if an event of Events may hold several, as those of a translated
	// stream do, and Metered if a limit of the request may end the stream.
	Joined, Metered bool
	// Continued is what checks Events if another target may continue them; nil
	// otherwise.
	Continued *Continuation

	// MaxDecoded is the maximum size of a compressed body after decompression.
	MaxDecoded int64

	Source source           // nil for a response that the gateway made
	Held   *bytepool.Buffer // the buffer of Bytes or of the beginning of Body; may be nil
	After  []func()         // called last by Close
}

// Turn is what a turn of a session used.
type Turn struct {
	Usage llm.Usage
	// Model is the model that served the turn; empty is that of the request.
	Model string
	// Other is true if Model is another model than that of the request, such as one that
	// transcribes, so that only its own price counts.
	Other bool
}

// Session records the turns of a connection to a provider. Between turns it holds no
// reservation, except of the limits of requests in progress. It is not safe for concurrent use.
type Session interface {
	// BeginTurn reserves what a turn may use; a turn that has begun goes on. The error is
	// that of a limit that refuses it, or of the ledger: the session must end.
	BeginTurn() error
	// EndTurn settles the turn in progress, or one whose beginning nobody has seen. The error
	// is that of a limit that would refuse another turn, or of the ledger: the session must
	// end.
	EndTurn(t Turn) error
	// Abandon settles the turn in progress, whose end nobody has seen, with an estimate of
	// what it used so far.
	Abandon(t Turn)
}

// source is what a response comes from: an attempt, or a response that was stored or
// is shared.
type source interface {
	// Release ends the attempt. Further calls do nothing.
	Release()
	// Pause stops the idle timeout while the client reads slowly; Resume continues it.
	Pause()
	Resume()
	// Cut is that of [Response], and Usage too.
	Cut() bool
	Usage() llm.Usage
}

// Pause stops the idle timeout while the client reads Body slowly; Resume
// continues it.
func (r *Response) Pause() {
	if r.Source != nil {
		r.Source.Pause()
	}
}

// Resume ends a pause.
func (r *Response) Resume() {
	if r.Source != nil {
		r.Source.Resume()
	}
}

// Cut reports whether a limit of the gateway ended the stream, in the way in which
// a response ends at its limit of output tokens.
func (r *Response) Cut() bool { return r.Source != nil && r.Source.Cut() }

// Usage returns the usage of the response, which has ended: as reported by the
// provider, or an estimate if it reported none or the response broke off. The zero
// value means unknown.
func (r *Response) Usage() llm.Usage {
	if r.Source != nil {
		return r.Source.Usage()
	}
	if u := r.Tap.Info().Usage; u.Known {
		return u
	}
	return llm.Usage{}
}

// HasEvent reports whether a stream has its first event. Until then its tap is in
// use. It is true for other responses.
func (r *Response) HasEvent() bool { return r.Events == nil || r.Events.Begun() }

// Close releases the connection and the buffers behind the response.
func (r *Response) Close() {
	r.Release()
	r.Hold(nil)
	for _, f := range r.After {
		f()
	}
}

// Hold releases the response's buffer and replaces it with buf, which may be
// nil.
func (r *Response) Hold(buf *bytepool.Buffer) {
	if r.Held != nil {
		r.Held.Release()
	}
	r.Held = buf
}

// Release ends the attempt of the response. Further calls do nothing.
func (r *Response) Release() {
	if r.Source != nil {
		r.Source.Release()
	}
}

// BrokenBody is what is left of a body that could not be read to its end.
type BrokenBody struct{ Err error }

// Read implements io.Reader. It returns the error.
func (b BrokenBody) Read([]byte) (int, error) { return 0, b.Err }
