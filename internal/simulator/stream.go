package simulator

import (
	"compress/gzip"
	"io"
	"net/http"
	"time"
)

// A stream writes the events of one response, each with its own write and
// flush. A frame is built in the slice that frame returns and sent by send.
type stream struct {
	x     *exchange
	to    io.Writer
	zip   *gzip.Writer // nil unless the stream is compressed
	timer *time.Timer  // nil until the first pause
	pace  time.Duration
	kind  framing
	n     int // number of frames sent
	start int // start of the frame's payload
	last  bool
	over  bool
	// exception is true if the frame is an exception of a binary stream.
	exception bool

	// The frames of a huge response are held and sent later.
	holds             bool
	held, marked      []byte
	markAt, markStart int // offset of marked in held, and of its payload in marked
}

// openStream sends the headers of a stream. It returns false if the request is
// over.
func (x *exchange) openStream() (*stream, bool) {
	h := x.w.Header()
	h["Content-Type"] = x.typeOf(typeStream)
	h["Cache-Control"] = noCache
	t := &stream{x: x, to: x.w, pace: x.sim.opts.Pace}
	if x.protocol != nil {
		t.kind = x.protocol.kind
		h["Content-Type"] = x.typeOf(x.protocol.stream)
	}
	if x.parts {
		h["Content-Type"] = x.typeOf(typeBinary)
		t.to = partWriter{x.w}
	}
	if x.plan.hasPace {
		t.pace = x.plan.pace
	}
	if x.plan.gzip {
		h.Set("Content-Encoding", "gzip")
		t.zip = gzip.NewWriter(x.w)
		t.to = t.zip
	}
	if x.plan.trailers {
		h.Set("Trailer", trailerName)
	}
	x.w.WriteHeader(http.StatusOK)
	return t, x.pauseFirst()
}

// frame begins the next frame, up to its payload.
func (t *stream) frame() []byte {
	b := t.x.out[:0]
	if t.x.faulty {
		b = t.preamble(b, true)
	}
	b = append(b, "data: "...)
	t.start = len(b)
	return b
}

// preamble appends what faults insert before the data of an event; nameless is
// true if the event has no line with its name yet.
func (t *stream) preamble(b []byte, nameless bool) []byte {
	p := &t.x.plan
	if p.bom && t.n == 0 {
		b = append(b, "\ufeff"...)
	}
	if p.comments {
		b = t.newline(append(b, ": comment"...))
	}
	if p.eventLine && nameless {
		name := "message"
		if p.errorEvent == t.n+1 {
			name = "error"
		}
		b = t.newline(append(append(b, "event: "...), name...))
	}
	return b
}

func (t *stream) newline(b []byte) []byte {
	if t.x.plan.crlf {
		return append(b, '\r', '\n')
	}
	return append(b, '\n')
}

// send finishes the frame and sends it. It returns false if nothing more may be
// sent.
func (t *stream) send(b []byte) bool {
	if t.holds {
		return t.hold(b)
	}
	if t.x.faulty {
		var ok bool
		if b, ok = t.corrupt(b); !ok {
			return false
		}
	}
	if !t.keepPace() {
		return false
	}
	b = t.seal(b)
	t.n++
	t.x.out = b
	if t.x.plan.torn == t.n {
		b = b[:len(b)/2]
		t.over = true
		t.x.aborted = true
	}
	return t.push(b) && !t.over
}

// corrupt applies the faults for this frame number.
func (t *stream) corrupt(b []byte) ([]byte, bool) {
	p, number := &t.x.plan, t.n+1
	if t.reachedCut() {
		return b, false
	}
	if p.stall > 0 && p.stallAt == number && !t.stop(p.stall) {
		return b, false
	}
	if p.malformed == number {
		b = b[:t.start+(len(b)-t.start)/2]
	}
	if p.errorEvent == number {
		b = t.failing(b)
		t.over = true
		t.x.aborted = true
	}
	return b, true
}

// failing replaces the frame by an error of the provider. It calls functions by
// name, because a function in a field of the protocol would move every stream
// to the heap.
func (t *stream) failing(b []byte) []byte {
	switch {
	case t.kind >= framingBinary:
		return breakBedrock(t)
	case t.x.protocol == nil:
		return midStream.append(b[:t.start])
	}
	switch t.x.protocol.index {
	case messagesIndex:
		return breakMessages(t)
	case responsesIndex:
		return breakResponses(t)
	case geminiIndex:
		return breakGemini(t)
	case cohereIndex:
		return breakCohere(t)
	}
	return breakOllama(t)
}

func (t *stream) reachedCut() bool {
	if t.x.plan.cut == 0 || t.n < t.x.plan.cut-1 {
		return false
	}
	t.over = true
	if t.zip != nil {
		t.zip.Flush()
	}
	t.x.breakOff()
	return true
}

func (t *stream) stop(d time.Duration) bool {
	ok := t.x.sleep(d)
	t.over = !ok
	return ok
}

func (t *stream) keepPace() bool {
	if t.pace == 0 || t.n == 0 {
		return true
	}
	if t.timer == nil {
		t.timer = time.NewTimer(t.pace)
	} else {
		t.timer.Reset(t.pace)
	}
	t.over = !t.x.await(t.timer)
	return !t.over
}

// push writes and flushes.
func (t *stream) push(b []byte) bool {
	if t.x.r.Context().Err() != nil {
		t.x.recordDisconnect()
	} else if _, err := t.to.Write(b); err != nil {
		t.x.recordDisconnect()
	} else if t.zip == nil || t.zip.Flush() == nil {
		t.x.flush()
	}
	t.over = t.over || t.x.aborted
	return !t.x.aborted
}

// close ends the stream as the provider does.
func (t *stream) close() {
	if t.timer != nil {
		t.timer.Stop()
	}
	p := &t.x.plan
	if !t.over && !t.reachedCut() && !p.noDone {
		t.sendEnd()
	}
	if t.x.aborted && t.x.plan.errorEvent == 0 && t.x.plan.torn == 0 {
		return
	}
	if t.zip != nil && t.zip.Close() != nil {
		t.x.recordDisconnect()
	}
	t.x.sendTrailer()
}

func (t *stream) sendEnd() {
	if t.x.protocol != nil {
		switch end := t.x.protocol.end; {
		case t.holds:
			t.held = append(t.held, end...)
		case end != nil:
			t.push(end)
		}
		return
	}
	b := t.newline(append(t.x.out[:0], "data: [DONE]"...))
	if !t.x.plan.noBlank {
		b = t.newline(b)
	}
	t.push(b)
}
