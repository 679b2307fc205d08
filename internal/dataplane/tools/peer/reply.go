package peer

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"modelgate/internal/base/bytepool"
	"modelgate/internal/format/sse"
	"modelgate/internal/upstream"
)

// drainTime is how long the end of a stream may take after its response, so that the
// connection can be used again.
const drainTime = time.Second

// httpReply is a reply over HTTP: one message as JSON, or a stream of server-sent events.
type httpReply struct {
	peers *Peers
	ctx   context.Context // of the caller
	call  *Call
	id    []byte // of the request, if it must be cancelled by a message; nil otherwise

	req    *http.Request
	resp   *http.Response
	watch  *upstream.Watchdog
	detach func() bool // keeps the end of ctx from ending the request
	sent   *message

	events   *sse.Reader      // nil unless it is a stream
	buffer   *bytepool.Buffer // of a message that is not of a stream; nil until it is read
	listens  bool             // a stream without a request: it may end without a response
	foreign  bool             // of another protocol; see form
	event    string           // of a foreign stream: the type of the last event; empty for none
	answered bool             // the response was returned
	unread   bool             // the end of the body was not read
	resume   resumption       // of a stream of the legacy era
	ended    error            // what Next returns from now on; nil before the end
	closed   bool
}

func (r *httpReply) Status() int { return r.resp.StatusCode }

func (r *httpReply) Streams() bool { return r.events != nil }

func (r *httpReply) Next() ([]byte, error) {
	if r.closed {
		return nil, io.EOF
	}
	if r.ended != nil {
		return nil, r.ended
	}
	r.watch.Phase(upstream.Idle)
	first := !r.answered
	message, err := r.read()
	for err != nil && r.resumes(err) {
		message, err = r.read()
	}
	r.watch.Pause()
	if err != nil {
		r.end(err)
		return nil, r.ended
	}
	if first && r.answered {
		r.peers.breakers.of(r.call.Server).report(true, nil, time.Now())
	}
	return message, nil
}

// end keeps the error that Next returns, and reports it if the server failed.
func (r *httpReply) end(err error) {
	if err == io.EOF && (r.answered || r.listens) {
		r.ended = io.EOF
		return
	}
	if err == io.EOF {
		err = &Failure{Kind: Unreachable, Status: r.resp.StatusCode, Reason: "the tool server ended its answer before the response"}
	}
	f := connectionFailure(r.ctx, r.req, err)
	f.Status, r.ended = r.resp.StatusCode, f
	if f.Kind == Unreachable && !r.listens {
		r.peers.breakers.of(r.call.Server).report(false, f, time.Now())
	}
}

func (r *httpReply) read() ([]byte, error) {
	if r.events == nil {
		return r.readMessage()
	}
	for {
		event, err := r.events.Next()
		if errors.Is(err, sse.ErrTooLarge) {
			return nil, invalid(0, "a message of the tool server is larger than the limit", err)
		}
		if err != nil {
			return nil, err
		}
		r.resume.note(event)
		if len(event.Data) == 0 || event.Unterminated || !r.foreign && len(event.Type) > 0 && string(event.Type) != "message" {
			r.watch.Restart()
			continue
		}
		if !isObject(event.Data) {
			return nil, invalid(0, "a message of the tool server is not a JSON object", nil)
		}
		if r.foreign {
			r.event = string(event.Type)
		}
		r.answered = r.answered || r.foreign || !r.listens && endsCall(event.Data)
		r.resume.tries = 0
		return event.Data, nil
	}
}

// readMessage reads the body, which is the only message.
func (r *httpReply) readMessage() ([]byte, error) {
	if r.answered {
		return nil, io.EOF
	}
	if r.buffer == nil {
		if err := r.fill(); err != nil {
			return nil, err
		}
	}
	if !isObject(r.buffer.Bytes()) {
		return nil, invalid(0, "the response of the tool server is not a JSON object", nil)
	}
	r.answered = true
	return r.buffer.Bytes(), nil
}

// fill reads the body.
func (r *httpReply) fill() (err error) {
	r.buffer, err = r.peers.bodies.ReadAll(r.resp.Body, r.resp.ContentLength, int64(r.peers.maxMessage))
	switch {
	case errors.Is(err, bytepool.ErrTooLarge):
		return invalid(0, "the response of the tool server is larger than the limit", err)
	case errors.Is(err, bytepool.ErrBudget):
		return &Failure{Kind: Unavailable, Reason: "the gateway has no memory for the response; try again later", Err: err}
	}
	return err
}

func (r *httpReply) Close() {
	if r.closed {
		return
	}
	r.closed = true
	attached := r.detach()
	if r.sent != nil {
		r.sent.release()
	}
	if r.answered && r.unread && attached && r.peers.background(r.drain) {
		return
	}
	if !r.answered && stopped(r.ended) {
		r.peers.cancel(r.call, r.id)
	}
	r.finish()
}

// stopped reports whether a reply that ended in this way was ended by the gateway.
func stopped(ended error) bool {
	f, ok := ended.(*Failure)
	return ended == nil || ok && (f.Kind == Cancelled || f.Kind == TimedOut)
}

// drain reads the end of a stream whose response was returned, within a short time.
func (r *httpReply) drain() {
	late := time.AfterFunc(drainTime, r.watch.Stop)
	io.CopyN(io.Discard, r.resp.Body, 16<<10)
	late.Stop()
	r.finish()
}

// finish releases everything.
func (r *httpReply) finish() {
	r.resp.Body.Close()
	r.watch.Stop()
	if r.events != nil {
		r.events.Reset(nil)
		r.peers.readers.Put(r.events)
		r.events = nil
	}
	if r.buffer != nil {
		r.buffer.Release()
		r.buffer = nil
	}
}

// setForm finds out whether the body is a message or a stream.
func (r *httpReply) setForm() *Failure {
	h := r.resp.Header
	if coding := h.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return invalid(r.resp.StatusCode, "the tool server compressed its response, which was not asked for", nil)
	}
	switch kind := mediaType(h.Get("Content-Type")); {
	case kind == "text/event-stream":
		reader, _ := r.peers.readers.Get().(*sse.Reader)
		if reader == nil {
			reader = sse.NewReader(nil, r.peers.maxMessage)
		}
		reader.Reset(r.resp.Body)
		r.events, r.unread = reader, true
	case kind == "application/json" || r.foreign && strings.HasSuffix(kind, "+json"):
	default:
		return invalid(r.resp.StatusCode, "the response of the tool server is neither JSON nor a stream of events", nil)
	}
	return nil
}

// mediaType returns the type in a Content-Type, without its parameters.
func mediaType(value string) string {
	if value == "application/json" || value == "text/event-stream" {
		return value
	}
	kind, _, _ := mime.ParseMediaType(value)
	return kind
}
