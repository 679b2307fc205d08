// Package framing divides the streams of providers into events: server-sent events, lines
// of JSON, and the binary messages of AWS.
//
// It guarantees that the bytes of an event are those that were sent, that an event which the
// end of the stream cuts is never returned as a whole one, and that no frame is larger than
// its limit. Reading what is in an event is the job of the dialects.
package framing

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"io"
	"strings"

	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/format/contentcoding"
	"modelgate/internal/format/eventstream"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/sse"
)

// Media types of streams.
const (
	MediaEvents = "text/event-stream"
	MediaBinary = "application/vnd.amazon.eventstream"
	MediaLines  = "application/x-ndjson"
)

// Reader reads a stream frame by frame. A frame is valid until the next call;
// io.EOF is a clean end. More reports whether a frame is available without
// waiting.
type Reader interface {
	Next() (sse.Event, error)
	More() bool
}

// New returns the frames of a stream of a media type. inside is the dialect of a provider
// that wraps events in binary messages. A frame has at most max bytes.
func New(media string, inside api.Dialect, src io.Reader, max int) Reader {
	switch media {
	case MediaLines:
		return &lines{r: bufio.NewReader(src), max: max}
	case MediaBinary:
		r := eventstream.NewReader(src, max)
		switch inside {
		case api.DialectMessages:
			return &invokeFrames{binary: binary{r}}
		case api.DialectChat:
			return sagemakerFrames{sse.NewReader(&payloads{Reader: r}, max)}
		}
		return binary{r}
	}
	return sse.NewReader(src, max)
}

// IsUnwrapped reports whether the frames are events that arrive in binary messages.
func IsUnwrapped(r Reader) bool {
	switch r.(type) {
	case *invokeFrames, sagemakerFrames:
		return true
	}
	return false
}

// binary returns the messages of an AWS event stream as events: Type is the
// type of the event or exception, Data the payload.
type binary struct {
	*eventstream.Reader
}

func (b binary) Next() (sse.Event, error) {
	m, err := b.Reader.Next()
	if err != nil {
		return sse.Event{}, err
	}
	data := m.Data()
	if data == nil {
		data = []byte{} // nil would be a comment
	}
	return sse.Event{Raw: m.Raw, Type: []byte(m.Type()), Data: data}, nil
}

// invokeFrames unwraps the events of another protocol from the binary messages
// of Bedrock's InvokeModel: {"bytes": base64}. Exceptions are returned
// unchanged.
// https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_PayloadPart.html
type invokeFrames struct {
	binary
	raw, data []byte
}

func (u *invokeFrames) Next() (sse.Event, error) {
	e, err := u.binary.Next()
	if err != nil {
		return e, err
	}
	v, err := jsonedit.ParseValue(e.Data)
	if err != nil {
		return e, nil
	}
	part, ok := v.Get("bytes")
	if !ok {
		u.raw = sse.AppendEvent(u.raw[:0], "error", exception(string(e.Type), v))
		return sse.Event{Raw: u.raw, Type: []byte("error"), Data: exception(string(e.Type), v)}, nil
	}
	text, _ := part.Text()
	if u.data, err = base64.StdEncoding.AppendDecode(u.data[:0], []byte(text)); err != nil {
		return e, ErrUnreadableFrame
	}
	typ := ""
	if inner, err := jsonedit.ParseValue(u.data); err == nil {
		if t, ok := inner.Get("type"); ok {
			typ, _ = t.Text()
		}
	}
	u.raw = sse.AppendEvent(u.raw[:0], typ, u.data)
	return sse.Event{Raw: u.raw, Type: []byte(typ), Data: u.data}, nil
}

// sagemakerFrames reads the server-sent events of a container from the binary
// messages of SageMaker, each of which has an arbitrary part of the bytes.
// https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_runtime_ResponseStream.html
type sagemakerFrames struct{ *sse.Reader }

// payloads reads the concatenated payloads of binary messages. An exception
// becomes an event of the chat dialect.
type payloads struct {
	*eventstream.Reader
	left []byte
}

func (p *payloads) Read(b []byte) (int, error) {
	for len(p.left) == 0 {
		m, err := p.Reader.Next()
		if err != nil {
			return 0, err
		}
		if p.left = m.Data(); string(m.Type()) != "PayloadPart" {
			p.left = failure(string(m.Type()), m.Data())
		}
	}
	n := copy(b, p.left)
	p.left = p.left[n:]
	return n, nil
}

// failure returns an exception as an event that ends a stream of the chat
// dialect.
func failure(typ string, data []byte) []byte {
	var b jsonedit.Builder
	b.Open('{')
	b.Name("error")
	b.Open('{')
	b.Name("message")
	b.String(cmp.Or(dialect.ErrorMessage(data), "the stream failed"))
	b.Name("type")
	b.String(typ)
	b.Close('}')
	b.Close('}')
	return sse.AppendEvent([]byte("\n\n"), "", b.Bytes())
}

// exception returns an exception of a binary stream as an error of the protocol
// inside.
func exception(typ string, v jsonedit.Value) []byte {
	var b jsonedit.Builder
	b.Open('{')
	b.Name("type")
	b.String("error")
	b.Name("error")
	b.Open('{')
	b.Name("type")
	b.String(typ)
	b.Name("message")
	b.String(cmp.Or(dialect.ErrorMessage(v.Raw()), "the stream failed"))
	b.Close('}')
	b.Close('}')
	return b.Bytes()
}

var (
	ErrUnreadableFrame = errors.New("a frame of the stream can't be read")
	ErrTornEvent       = errors.New("the stream ended inside an event")
)

// IsTorn reports whether the stream ended inside e. An event without its blank
// line is complete if its last line is, and its data is complete JSON or the
// terminator of the chat dialect. A comment always is.
func IsTorn(e sse.Event) bool {
	if !e.Unterminated {
		return false
	}
	last := e.Raw[bytes.LastIndexAny(e.Raw, "\r\n")+1:]
	switch {
	case e.Data == nil && bytes.HasPrefix(e.Raw, []byte(":")):
		return false
	case len(last) > 0 && !bytes.HasPrefix(last, []byte("data:")):
		return true
	}
	return !IsCompleteJSON(e.Data) && string(bytes.TrimSpace(e.Data)) != "[DONE]"
}

// lines returns each line of JSON as an event.
type lines struct {
	r   *bufio.Reader
	max int
	buf []byte
}

func (l *lines) More() bool {
	b, _ := l.r.Peek(l.r.Buffered())
	return bytes.IndexByte(b, '\n') >= 0
}

func (l *lines) Next() (sse.Event, error) {
	for {
		l.buf = l.buf[:0]
		err := l.line()
		data := bytes.TrimSpace(l.buf)
		if len(data) > 0 && (err == nil || err == io.EOF) {
			return sse.Event{Raw: l.buf, Data: data}, nil
		}
		if err != nil {
			return sse.Event{}, err
		}
	}
}

// line reads to the end of a line, which may be up to max bytes long.
func (l *lines) line() error {
	for {
		part, err := l.r.ReadSlice('\n')
		if len(l.buf)+len(part) > l.max {
			return sse.ErrTooLarge
		}
		l.buf = append(l.buf, part...)
		if err != bufio.ErrBufferFull {
			return err
		}
	}
}

// MediaType returns the media type of a Content-Type in small letters, without its
// parameters.
func MediaType(contentType string) string {
	t, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(t))
}

// IsJSON reports whether a media type is JSON. None counts as JSON.
func IsJSON(media string) bool {
	return media == "application/json" || media == "" || strings.HasSuffix(media, "+json")
}

// Unreadable reports whether the bytes arrived but are invalid.
func Unreadable(err error) bool {
	for _, e := range [...]error{contentcoding.ErrTooLarge, contentcoding.ErrCorrupt, ErrUnreadableFrame,
		ErrTornEvent, sse.ErrTooLarge, eventstream.ErrTooLarge, eventstream.ErrCorrupt} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// IsEvents reports whether a body of this type is a stream of server-sent events.
func IsEvents(contentType string) bool { return MediaType(contentType) == MediaEvents }

// MayHoldText reports whether a body of this type is JSON or events, which can
// be inspected.
func MayHoldText(contentType string) bool {
	return IsEvents(contentType) || IsJSON(MediaType(contentType))
}

// Split splits server-sent events.
func Split(b []byte) []sse.Event { return all(sse.NewReader(bytes.NewReader(b), len(b)+1)) }

// SplitMessages splits the messages of an AWS event stream.
func SplitMessages(b []byte) []sse.Event {
	return all(binary{eventstream.NewReader(bytes.NewReader(b), len(b)+1)})
}

// all returns copies of all frames.
func all(r Reader) (list []sse.Event) {
	for {
		e, err := r.Next()
		if err != nil {
			return list
		}
		list = append(list, e.Clone())
	}
}
