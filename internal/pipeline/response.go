package pipeline

import (
	"io"
	"net/http"

	"modelgate/internal/base/bytepool"
	"modelgate/internal/dialect"
	"modelgate/internal/model/llm"
	"modelgate/internal/provider"
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

	// Joined is true if an event of Events may hold several, as those of a translated
	// stream do, and Metered if a limit of the request may end the stream.
	Joined, Metered bool
	// Continued is what checks Events if another target may continue them; nil
	// otherwise.
	Continued *Continuation

	wrongEndpoint provider.WrongEndpoint // what an error says about the endpoint
	refused       []string               // paths of optional parameters of the request that an error refuses

	watch   attemptTimers
	account attemptAccount
	waiting *targetStream // the source of Events that may have begun without one; nil for none
	// cut is the usage of a stream that a limit ended; nil if none did.
	cut *llm.Usage
	// translation is the source of Events if the client's dialect is not the
	// target's; nil otherwise.
	translation *translation
	arriving    upstreamBody     // the source of Body, Bytes or Events
	held        *bytepool.Buffer // the buffer of Bytes or of the beginning of Body; may be nil
	after       []func()         // called last by Close

	shared *sharedReader // of a response that several clients read; nil otherwise
	free   bool          // another request paid for the response
}

// MaxDecoded returns the maximum size of a compressed body after decompression.
func (r *Response) MaxDecoded() int64 {
	if r.shared != nil {
		return r.shared.s.decoded
	}
	if r.arriving.of == nil {
		return 0
	}
	return r.arriving.of.handler.MaxDecoded
}

// Pause stops the idle timeout while the client reads Body slowly; Resume
// continues it.
func (r *Response) Pause() { r.watch.dog.Pause() }

// Resume ends a pause.
func (r *Response) Resume() { r.watch.dog.Resume() }

// Cut reports whether a limit of the gateway ended the stream, in the way in which
// a response ends at its limit of output tokens.
func (r *Response) Cut() bool {
	if r.shared != nil {
		return r.shared.sourceCut()
	}
	return r.cut != nil
}

// HasEvent reports whether a stream has its first event. Until then its tap is in
// use. It is true for other responses.
func (r *Response) HasEvent() bool { return r.Events == nil || r.Events.Begun() }

// Close releases the connection and the buffers behind the response.
func (r *Response) Close() {
	r.release()
	r.hold(nil)
	for _, f := range r.after {
		f()
	}
}

// hold releases the response's buffer and replaces it with buf, which may be
// nil.
func (r *Response) hold(buf *bytepool.Buffer) {
	if r.held != nil {
		r.held.Release()
	}
	r.held = buf
}

// release ends the attempt of the response. Further calls do nothing.
func (r *Response) release() {
	if r.Raw != nil {
		if s := r.waiting; s != nil && s.pending != nil {
			r.Raw.Body.Close() // ends the read, which uses the tap
			s.awaitPending()
		}
		r.account.end(r)
		r.Raw.Body.Close()
		r.watch.stop()
	}
}
