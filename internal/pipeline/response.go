package pipeline

import (
	"io"
	"net/http"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/bytepool"
	"modelgate/internal/dialect"
	"modelgate/internal/format/sse"
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

	wrongEndpoint provider.WrongEndpoint // what an error says about the endpoint
	refused       []string               // paths of optional parameters of the request that an error refuses

	watch   attemptTimers
	account attemptAccount
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

// AppendStreamError appends the in-band error that ends a broken stream.
func (r *Response) AppendStreamError(dst []byte, client dialect.ClientDialect, e *apierr.Error) []byte {
	if guarded, ok := r.Events.(*guardedStream); ok && e.Kind == apierr.Denied {
		return guarded.appendDenial(dst, client, e)
	}
	if r.translation == nil && r.shared != nil {
		return append(dst, r.shared.s.streamError(client, e)...)
	}
	if r.translation == nil {
		if tap, ok := r.Tap.(dialect.NumberingTap); ok {
			return tap.ErrorEvent(dst, e)
		}
		return client.ErrorEvent(dst, e)
	}
	return r.translation.broken(dst, &llm.ProviderError{Gateway: true, Type: e.Type(), Code: e.CodeOrDefault(), Message: e.Message})
}

// Cut reports whether a limit of the gateway ended the stream, in the way in which
// a response ends at its limit of output tokens.
func (r *Response) Cut() bool {
	if r.shared != nil {
		return r.shared.sourceCut()
	}
	return r.cut != nil
}

// mayBeCut reports whether a limit of the request may end the stream.
func (r *Response) mayBeCut() bool {
	s, ok := r.Events.(*eventStream)
	return ok && s.meter != nil
}

// HasEvent reports whether a stream has its first event. Until then its tap is in
// use. It is true for other responses.
func (r *Response) HasEvent() bool {
	s := r.source()
	return s == nil || s.pending == nil
}

// source returns the stream of the target, nil if the response is none.
func (r *Response) source() *eventStream {
	return sourceOf(r.Events)
}

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
		if s := r.source(); s != nil && s.pending != nil {
			r.Raw.Body.Close() // ends the read, which uses the tap
			s.awaitPending()
		}
		r.account.end(r)
		r.Raw.Body.Close()
		r.watch.stop()
	}
}

// eventStream is the stream of a target, or of the targets that continue it.
type eventStream struct {
	held    []byte // comments that preceded the first event
	first   sse.Event
	primed  bool
	reader  frames
	tap     dialect.Tap
	hider   *usageHider   // nil if the client gets every event
	renamer *modelRenamer // nil if events keep the name of their model
	watch   attemptTimers
	fail    func(error) error

	// pending is the frame that is being read since the comments in held were due;
	// nil if none is. early is true until the first event with data.
	pending <-chan read
	early   bool

	meter  *streamMeter        // nil unless a limit may end the stream
	ahead  []sse.Event         // events read ahead of reader
	resume *streamContinuation // nil unless another target may continue the stream
}

// Next implements [Stream].
func (s *eventStream) Next() (sse.Event, error) {
	if len(s.ahead) > 0 {
		e := s.ahead[0]
		s.ahead = s.ahead[1:]
		return e, nil
	}
	if s.resume != nil {
		return s.resume.next(s)
	}
	return s.pull()
}

// pull returns the next event of the target's own stream. If a limit ends the
// stream, the last one has the end.
func (s *eventStream) pull() (sse.Event, error) {
	if s.meter == nil {
		return s.read()
	}
	if s.meter.res.Cut() {
		return s.meter.end(s)
	}
	e, err := s.read()
	if err == nil {
		err = s.meter.count(s, e)
	}
	return e, err
}

// read returns the next event of the provider.
func (s *eventStream) read() (sse.Event, error) {
	if s.primed {
		s.primed = false
		return s.first, nil
	}
	e, err := s.nextFrame()
	if err == io.EOF {
		return e, err
	}
	if err != nil {
		return e, s.fail(err)
	}
	if s.early && e.Data != nil {
		s.early = false
		s.watch.stopRequestTimeout()
	}
	if !s.early { // the limit of the first event holds until then
		s.watch.eventReceived()
	}
	s.tap.Event(e)
	return s.visible(e), nil
}

// visible returns e as the client gets it: empty for an event that the client
// must not see.
func (s *eventStream) visible(e sse.Event) sse.Event {
	if s.hider != nil {
		e = s.hider.hide(e)
	}
	return s.renamer.event(e)
}

// Comments implements [Stream].
func (s *eventStream) Comments() []byte { return s.held }

// More implements [Stream].
func (s *eventStream) More() bool {
	if s.meter != nil && s.meter.res.Cut() {
		return len(s.ahead) > 0 || !s.meter.ended
	}
	return len(s.ahead) > 0 || s.primed || s.pending == nil && s.reader.More()
}

// Pause implements [Stream].
func (s *eventStream) Pause() { s.watch.dog.Pause() }

// Resume implements [Stream].
func (s *eventStream) Resume() { s.watch.dog.Resume() }
