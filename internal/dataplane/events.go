package dataplane

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/format/sse"
	"modelgate/internal/pipeline/exchange"
)

// writeEvents sends a stream event by event, each as it arrived. A stream that
// broke ends with an error in the client's dialect and never with a terminator.
func (p *Plane) writeEvents(w http.ResponseWriter, r *http.Request, x *roundTrip, res *exchange.Response) {
	h := w.Header()
	h["Cache-Control"], h[api.HeaderAccelBuffers] = noCache, noBuffering
	delete(h, "Content-Length")
	if x.array != nil {
		h["Content-Type"] = jsonType
	}
	x.begin(w, res.Status)

	silence := p.KeepAlive
	if x.admission.request.Client.ContentType() != "text/event-stream" || x.array != nil {
		silence = -1 // other framings have no comments
	}
	out := newEventWriter(w, responseCapture(&x.admission), silence, newStallTimer(w, r, p.ClientStall))
	defer out.stop() // no comment may follow a panic
	out.write(x.firstComments(res, silence), true)
	x.admission.upload.responseBegun()
	end := x.end(r, res, x.relay(r.Context(), out, res))
	x.turn.end(r.Context())
	if x.array != nil {
		end = x.array.close(end)
	}
	if end != nil {
		out.endLine()
		out.write(end, true)
	}
	written, err := out.stop()
	x.entry.ResponseBytes += written
	x.finish(err)
}

// firstComments returns the comments that follow the response headers: those of the
// provider, or one of the gateway if the stream is silent so far. silence is that of
// the event writer.
func (x *roundTrip) firstComments(res *exchange.Response, silence time.Duration) []byte {
	switch comments := res.Events.Comments(); {
	case x.array != nil:
		return nil
	case len(comments) == 0 && silence >= 0 && !res.Events.Begun():
		return keepAlive
	default:
		return comments
	}
}

// end returns what the client gets after the last event. err is the result of
// relay. After the terminator nothing is added: the response is complete.
func (x *roundTrip) end(r *http.Request, res *exchange.Response, err error) []byte {
	if err == nil || res.Tap.Info().Terminated && !isDenied(err) {
		return x.ending(res)
	}
	if errors.Is(err, errClient) {
		return nil
	}
	e := reason(r, err)
	x.fail(e)
	if e.Kind == apierr.ClientGone {
		return nil
	}
	return res.Events.Fail(nil, x.admission.request.Client, e)
}

// isDenied reports whether a guardrail ended a stream.
func isDenied(err error) bool { return apierr.From(err).Kind == apierr.Denied }

var (
	noCache     = []string{"no-cache"}
	noBuffering = []string{"no"}
)

// relay copies events until the stream ends or breaks, or the client
// disconnects.
func (x *roundTrip) relay(ctx context.Context, out *eventWriter, res *exchange.Response) error {
	s := res.Events
	for {
		e, err := s.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if x.entry.FirstToken == 0 && res.Tap.Info().Begun {
			x.entry.FirstToken = time.Since(x.entry.Time)
		}
		s.Pause()
		raw := e.Raw
		if e.Unterminated { // in one write, so that no comment is inserted
			raw = append(raw, "\n\n"...)
		}
		switch {
		case x.array != nil:
			raw = x.array.take(raw)
		case x.turn != nil:
			raw = x.turn.event(ctx, raw)
		}
		out.write(raw, !s.More())
		s.Resume()
		if out.disconnected() {
			return errClient
		}
	}
}

// ending returns the end of a stream whose bytes ended cleanly: nothing if it
// is complete, the terminator if only that is missing, otherwise an error,
// since a response without a finish reason is incomplete.
func (x *roundTrip) ending(res *exchange.Response) []byte {
	seen := res.Tap.Info()
	complete := res.Cut() || seen.Terminated || seen.Failed != "" || !endsByReason(x)
	switch {
	case complete:
		return nil
	case seen.Finished:
		return x.admission.request.Client.Terminator()
	}
	e := apierr.New(apierr.UpstreamFailed, "%s closed the stream before a finish reason",
		res.Attempt.Target.Label()).WithCode("upstream_stream_incomplete")
	x.entry.ErrorSource, x.entry.ErrorCode, x.entry.ErrorMessage = "provider", e.Code, e.Message
	return res.Events.Fail(nil, x.admission.request.Client, e)
}

// endsByReason reports whether a complete stream of the exchange's operation
// has a finish reason.
func endsByReason(x *roundTrip) bool {
	return x.admission.request.Operation == api.Completions ||
		x.admission.request.Operation == x.admission.request.Dialect.ConversationOperation()
}

// eventWriter writes to the client and sends comments during silence. Writing
// blocks while the client is slow, and then no more is read from the provider,
// so that nothing accumulates in between.
type eventWriter struct {
	w       io.Writer
	kept    *capture // guarded by mu
	flush   *http.ResponseController
	silence time.Duration
	patient stallTimer // guarded by mu

	mu      sync.Mutex
	written int64     // guarded by mu, as are the fields below
	cr      bool      // the last byte was a carriage return: its line feed may follow
	last    time.Time // of the last write
	err     error     // of the client's connection; permanent
	done    bool
	timer   *time.Timer
}

func newEventWriter(w http.ResponseWriter, kept *capture, silence time.Duration, patient stallTimer) *eventWriter {
	out := &eventWriter{w: w, kept: kept, flush: patient.rc, silence: silence, patient: patient, last: time.Now()}
	if silence < 0 {
		return out
	}
	out.mu.Lock()
	defer out.mu.Unlock()
	out.timer = time.AfterFunc(silence, out.writeKeepAlive)
	return out
}

// write sends b, which holds complete events, and flushes if asked to.
func (o *eventWriter) write(b []byte, flush bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return
	}
	o.last = time.Now()
	o.patient.extend(o.last)
	if len(b) > 0 {
		var n int
		n, o.err = o.w.Write(b)
		o.cr = b[len(b)-1] == '\r'
		o.kept.add(b[:n])
		o.written += int64(n)
	}
	if flush && o.err == nil {
		o.err = o.flush.Flush()
	}
	o.patient.written()
	o.last = time.Now()
}

// endLine completes a CR LF that the provider's stream was cut in: some clients
// look for it between events.
func (o *eventWriter) endLine() {
	if o.silence >= 0 && o.cr {
		o.write([]byte("\n"), false)
	}
}

var keepAlive = sse.AppendComment(nil, "keep-alive")

// writeKeepAlive runs when the timer fires. The timer may fire early and then
// resets itself, so that writes need not reset it.
func (o *eventWriter) writeKeepAlive() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.done || o.err != nil {
		return
	}
	quiet := time.Since(o.last)
	if quiet >= o.silence && o.cr {
		quiet = 0 // a comment here would hide the end of the event from clients that look for CR LF
	}
	if quiet >= o.silence {
		o.patient.extend(time.Now())
		var n int
		if n, o.err = o.w.Write(keepAlive); o.err == nil {
			o.err = o.flush.Flush()
		}
		o.patient.written()
		o.kept.add(keepAlive[:n])
		o.written += int64(n)
		o.last, quiet = time.Now(), 0
	}
	o.timer.Reset(o.silence - quiet)
}

// disconnected reports whether the client's connection has broken.
func (o *eventWriter) disconnected() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err != nil
}

// stop ends the comments and returns the number of bytes written. After it the
// response writer is not used.
func (o *eventWriter) stop() (written int64, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.done = true
	if o.timer != nil {
		o.timer.Stop()
	}
	o.patient.end()
	return o.written, o.err
}
