package attempt

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"io"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/format/eventstream"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/sse"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/pipeline/framing"
)

// modelPrefix is the part of a response that streams through in which its model
// is replaced, in bytes.
const modelPrefix = 64 << 10

// responseModel returns the requested name if the response must give it to its
// model, and an empty string for the provider's own.
func (h *TargetHandler) responseModel(r *exchange.Request) string {
	return r.ResponseModel(h.ResponseModel)
}

// renamer returns what replaces the model's name in a response that passes, or
// nil if the name stays.
func (h *TargetHandler) renamer(r *exchange.Request, tap dialect.Tap) *modelRenamer {
	name, field := h.responseModel(r), r.Client.ModelField()
	if name == "" || field.Body == nil {
		return nil
	}
	return &modelRenamer{field: field, name: name, tap: tap, binary: r.Client.ContentType() == framing.MediaBinary}
}

// modelRenamer replaces the model's name in a response of the client's own
// dialect. Every other byte stays.
type modelRenamer struct {
	exchange.Stream // whose events it changes; nil for a complete response

	field  dialect.ModelField
	name   string
	tap    dialect.Tap // has read the response
	binary bool        // events are inside binary messages
	done   bool        // no further event needs it

	buf, inner, encoded []byte // reused
}

// response replaces the name in a complete response, unless it is the same.
func (m *modelRenamer) response(a *attempt, out *exchange.Response) error {
	if m == nil || m.tap.Info().Model == m.name {
		return nil
	}
	from, to, ok := memberAt(out.Bytes, m.field.Body)
	if !ok {
		return nil
	}
	name := jsonedit.AppendString(nil, m.name)
	buf, err := a.plan.handler.Engine.Bounds.Pool.GetShare(len(out.Bytes)+len(name), a.plan.request.Memory)
	if err != nil {
		return apierr.BodyMemoryFull(err)
	}
	buf.Fill(func(dst []byte) []byte {
		return append(append(append(dst, out.Bytes[:from]...), name...), out.Bytes[to:]...)
	})
	out.Edited()
	out.Hold(buf)
	out.Bytes = buf.Bytes()
	return nil
}

// reader returns a response that streams through with the name replaced.
func (m *modelRenamer) reader(r io.Reader) io.Reader {
	ahead := bufio.NewReaderSize(r, modelPrefix)
	b, _ := ahead.Peek(modelPrefix) // an error is returned again by the next read
	from, to, ok := memberAt(b, m.field.Body)
	if !ok {
		return ahead
	}
	renamed := append(jsonedit.AppendString(bytes.Clone(b[:from]), m.name), b[to:]...)
	ahead.Discard(len(b))
	return io.MultiReader(bytes.NewReader(renamed), ahead)
}

// Next implements [exchange.Stream].
func (m *modelRenamer) Next() (sse.Event, error) {
	e, err := m.Stream.Next()
	if err == nil {
		e = m.event(e)
	}
	return e, err
}

// event returns an event with the name replaced. The result is valid until the
// next call.
func (m *modelRenamer) event(e sse.Event) sse.Event {
	if m.done || len(e.Data) == 0 {
		return e
	}
	if m.tap.Info().Model == m.name { // the provider gives it that name itself
		m.done = true
		return e
	}
	if m.binary {
		return m.message(e)
	}
	from, to, ok := memberAt(e.Data, m.field.Event)
	if !ok {
		return e
	}
	m.done = m.field.FirstOnly
	at := e.RawOffset(from)
	m.buf = jsonedit.AppendString(append(m.buf[:0], e.Raw[:at]...), m.name)
	m.buf = append(m.buf, e.Raw[at+to-from:]...)
	e.Raw = m.buf
	return e
}

// payloadBytes is the member of a binary message with an event of another
// dialect.
var payloadBytes = []string{"bytes"}

// message does the same for an event inside a binary message.
func (m *modelRenamer) message(e sse.Event) sse.Event {
	begin, end, ok := memberAt(e.Data, payloadBytes)
	if !ok {
		return e
	}
	var err error
	if m.inner, err = base64.StdEncoding.AppendDecode(m.inner[:0], e.Data[begin+1:end-1]); err != nil {
		return e
	}
	from, to, ok := memberAt(m.inner, m.field.Event)
	if !ok {
		return e
	}
	m.done = m.field.FirstOnly
	event := append(jsonedit.AppendString(bytes.Clone(m.inner[:from]), m.name), m.inner[to:]...)
	m.encoded = base64.StdEncoding.AppendEncode(append(m.encoded[:0], e.Data[:begin+1]...), event)
	m.encoded = append(m.encoded, e.Data[end-1:]...)
	m.buf = eventstream.AppendWith(m.buf[:0], e.Raw, m.encoded)
	e.Raw, e.Data = m.buf, m.encoded
	return e
}

// memberAt returns the bounds of the string at a path of names in an object,
// with its quotes. The text may be incomplete after it.
func memberAt(b []byte, path []string) (from, to int, ok bool) {
	c := jsonedit.NewCursor(b)
	for _, name := range path {
		if !c.Enter('{') {
			return 0, 0, false
		}
		for {
			key, more := c.Field()
			if !more {
				return 0, 0, false
			}
			if string(key) == name {
				break
			}
			c.Skip()
		}
	}
	if c.Peek() != '"' {
		return 0, 0, false
	}
	from = c.Offset()
	c.Text()
	return from, c.Offset(), !c.Failed()
}
