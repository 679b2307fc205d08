package pipeline

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"io"

	"modelgate/internal/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/llm"
	"modelgate/internal/sse"
)

// told is the tap of an answer that is translated: it sees the neutral answer.
type told struct{ seen dialect.Seen }

// Body implements dialect.Tap. There is nothing left to read.
func (t *told) Body([]byte) {}

// Event implements dialect.Tap. There is nothing left to read.
func (t *told) Event(sse.Event) {}

// Seen returns what was seen so far.
func (t *told) Seen() *dialect.Seen { return &t.seen }

// whole takes in a whole answer.
func (t *told) whole(r *llm.Response) {
	t.seen.Model, t.seen.Usage = r.Model, r.Usage
	t.seen.Begun, t.seen.Finished, t.seen.Terminated = true, true, true
	if len(r.Choices) > 0 {
		t.seen.Finish = cmp.Or(r.Choices[0].Said, string(r.Choices[0].Stop))
	}
}

// event takes in a step of a streamed one.
func (t *told) event(e *llm.Event) {
	s := &t.seen
	switch e.Kind {
	case llm.EventStart:
		s.Model = cmp.Or(s.Model, e.Model)
	case llm.EventPartStart, llm.EventDelta:
		s.Begun = true
	case llm.EventFinish:
		if e.Choice == 0 {
			s.Finish = cmp.Or(e.Said, string(e.Stop))
		}
		s.Finished = true
	case llm.EventUsage:
		s.Usage = e.Usage
	case llm.EventError:
		if s.Failed = e.Fault.Message; s.Failed == "" {
			s.Failed = cmp.Or(e.Fault.Type, e.Fault.Code, "the provider reported an error without a message")
		}
	case llm.EventEnd:
		s.Finished, s.Terminated = true, true
	}
}

// translation is a provider's stream in the client's dialect: it reads frames
// of the one and gives out frames of the other, as soon as they come.
type translation struct {
	told
	src frames
	dec dialect.StreamDecoder
	enc dialect.StreamEncoder

	events []llm.Event // reused
	out    []byte      // reused
	ended  bool

	// parted gives out one frame at a time, which who goes on with a broken
	// stream needs; queue are those left of the last step.
	parted bool
	queue  []sse.Event
}

// More reports whether a frame is at hand without waiting.
func (t *translation) More() bool { return len(t.queue) > 0 || t.src.More() }

// Next returns what the client gets next: one or more frames in one event.
func (t *translation) Next() (sse.Event, error) {
	for {
		if len(t.queue) > 0 {
			e := t.queue[0]
			t.queue = t.queue[1:]
			return e, nil
		}
		if err := t.step(); err != nil {
			return sse.Event{}, err
		}
		if len(t.out) == 0 {
			continue
		}
		if t.parted {
			t.queue = split(t.out)
			continue
		}
		return sse.Event{Raw: t.out, Data: t.out}, nil
	}
}

// step takes one frame of the provider, or its end.
func (t *translation) step() error {
	t.out = t.out[:0]
	e, err := t.src.Next()
	switch {
	case err == io.EOF && !t.ended:
		t.ended = true
		t.write(t.dec.End(t.events[:0]))
		return nil
	case err != nil:
		return err
	case e.Data == nil: // comments are for the gateway
		return nil
	}
	t.write(t.dec.Decode(t.events[:0], e))
	return nil
}

func (t *translation) write(events []llm.Event) {
	t.events = events
	for i := range events {
		t.event(&events[i])
		t.out = t.enc.Encode(t.out, &events[i])
	}
}

// broken appends what the client gets when the stream breaks off.
func (t *translation) broken(dst []byte, fault *llm.Fault) []byte {
	return t.enc.Encode(dst, &llm.Event{Kind: llm.EventError, Fault: fault})
}

// split parts server-sent events.
func split(b []byte) []sse.Event {
	var list []sse.Event
	r := sse.NewReader(bytes.NewReader(b), len(b)+1)
	for {
		e, err := r.Next()
		if err != nil {
			return list
		}
		list = append(list, clone(e))
	}
}

// reply says for whom the answer of w is encoded.
func (l *Leaf) reply(x *Exchange, w *wire) dialect.Reply {
	return dialect.Reply{
		Request:  w.request,
		Strict:   !l.Lenient,
		Provider: l.Target.ID,
		ID:       hex.EncodeToString(x.Entry.ID[:]),
		Created:  x.Entry.Time.Unix(),
	}
}

// translated reads a whole answer into the client's dialect. One that was to be
// streamed is replayed as a stream.
func (l *Leaf) translated(x *Exchange, w *wire, out *Response, body []byte) error {
	if w.form != nil {
		encoded, err := w.form.Response(nil, body, x.Doc.Bytes(), w.to)
		if err != nil {
			if e, ok := errors.AsType[*apierr.Error](err); ok { // the provider refused inside a success
				return e
			}
			return l.unreadable("a body that is not its " + string(x.Operation) + " answer").WithCause(err)
		}
		out.setBytes(encoded)
		out.Tap.Body(encoded)
		return nil
	}
	r, err := w.codec.DecodeResponse(body, w.request, w.to)
	if err != nil {
		return l.unreadable("a body that is not an answer of its protocol").WithCause(err)
	}
	return l.answerWhole(x, w, out, r)
}

// answerWhole gives the client a neutral answer in its own dialect.
func (l *Leaf) answerWhole(x *Exchange, w *wire, out *Response, r *llm.Response) error {
	tap := new(told)
	tap.whole(r)
	out.Tap = tap
	reply := l.reply(x, w)
	if !x.Stream {
		out.setBytes(x.Client.EncodeResponse(nil, r, reply))
		return nil
	}
	enc := x.Client.NewEncoder(reply)
	var stream []byte
	for _, e := range dialect.Replay(nil, r) {
		stream = enc.Encode(stream, &e)
	}
	out.asStream(x.Client.ContentType())
	out.Events = &Events{ahead: []sse.Event{{Raw: stream, Data: stream}}, reader: ended{}, tap: tap, watch: out.watch}
	return nil
}

// gathered reads a stream that the client wants whole.
func (l *Leaf) gathered(x *Exchange, w *wire, out *Response, src frames) error {
	dec := w.codec.NewDecoder(w.request, w.to)
	var all dialect.Assembler
	var events []llm.Event
	for {
		e, err := src.Next()
		if err != nil && err != io.EOF {
			return l.failure(out.watch, out.Raw.Request, err)
		}
		if err == io.EOF {
			events = dec.End(events[:0])
		} else if events = events[:0]; e.Data != nil {
			events = dec.Decode(events, e)
		}
		out.watch.eventCame()
		for i := range events {
			all.Add(&events[i])
		}
		if err == io.EOF {
			break
		}
	}
	r, fault, whole := all.Response()
	if fault != nil {
		return l.unreadable("an error: " + fault.Message)
	}
	if !whole {
		return l.unreadable("a stream that ended before its finish reason")
	}
	out.jsonHead()
	return l.answerWhole(x, w, out, r)
}

// ended is a stream of which nothing is left.
type ended struct{}

func (ended) Next() (sse.Event, error) { return sse.Event{}, io.EOF }
func (ended) More() bool               { return false }

// setBytes puts b in the place of the provider's body.
func (r *Response) setBytes(b []byte) {
	r.jsonHead()
	r.Bytes, r.Length = b, -1
}

// jsonHead makes the head that of a JSON answer of the gateway's own making.
func (r *Response) jsonHead() { r.head("application/json") }

// asStream makes the head that of a stream.
func (r *Response) asStream(contentType string) { r.head(contentType) }

func (r *Response) head(contentType string) {
	r.Header = r.Header.Clone()
	r.Header.Del("Content-Length")
	r.Header["Content-Type"] = []string{contentType}
}
