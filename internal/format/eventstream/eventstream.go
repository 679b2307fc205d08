// Package eventstream reads and writes the binary event streams of AWS.
//
// It guarantees that a message is returned as soon as its last byte has
// arrived, with the bytes as received, and only if both of its checksums are
// valid; however the network cuts the stream, the messages are the same. The
// format is described at https://smithy.io/2.0/aws/amazon-eventstream.html. It
// does not interpret messages, flush or time out.
package eventstream

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"iter"
)

var (
	// ErrTooLarge is returned by [Reader.Next] for a message larger than the
	// reader's limit.
	ErrTooLarge = errors.New("eventstream: the message is larger than the limit")

	// ErrCorrupt is wrapped by the errors of [Reader.Next] for bytes that are
	// not a message. The start of the next message is unknown then.
	ErrCorrupt = errors.New("eventstream: the bytes are not a message")
)

// ContentType is the media type of these streams.
const ContentType = "application/vnd.amazon.eventstream"

const (
	preludeSize = 12 // length of the message, length of its headers, checksum
	frameSize   = preludeSize + 4
)

// Message is one message of a stream. Its slices belong to the [Reader] that
// returned it.
type Message struct {
	Raw     []byte // the complete message, including checksums
	Payload []byte
	headers []byte
}

// Kind is the type of a header value.
type Kind uint8

// Kinds of header values.
const (
	String    Kind = iota
	Bool           // Int is 0 or 1
	Byte           // Int, 8 bits
	Short          // Int, 16 bits
	Int            // Int, 32 bits
	Long           // Int, 64 bits
	Bytes          // Text
	Timestamp      // Int, milliseconds since 1970
	UUID           // Text, 16 bytes
)

// Header is a header of a message. Its value is Text or Int, depending on Kind;
// the zero Kind is a string.
type Header struct {
	Name string
	Kind Kind
	Text string
	Int  int64
}

// Header returns the value of a string header, and false if the message has
// none of that name. The first of several headers with a name wins.
func (m Message) Header(name string) (string, bool) {
	v, ok := m.text(name)
	return string(v), ok
}

// Headers yields all headers in order.
func (m Message) Headers() iter.Seq[Header] {
	return func(yield func(Header) bool) {
		for f, rest, ok := cut(m.headers); ok; f, rest, ok = cut(rest) {
			if !yield(f.header()) {
				return
			}
		}
	}
}

// Type returns the event type of a message, the type of its exception, or its
// error code; nil if it has none of these. It is a view.
func (m Message) Type() []byte {
	for _, name := range [...]string{":event-type", ":exception-type", ":error-code"} {
		if v, ok := m.text(name); ok {
			return v
		}
	}
	return nil
}

// Data returns the payload. An error has its message in a header and no
// payload; Data then returns a JSON object with that message.
func (m Message) Data() []byte {
	if len(m.Payload) > 0 {
		return m.Payload
	}
	text, ok := m.Header(":error-message")
	if !ok {
		return m.Payload
	}
	data, err := json.Marshal(struct {
		Message string `json:"message"`
	}{text})
	if err != nil {
		return m.Payload
	}
	return data
}

func (m Message) text(name string) ([]byte, bool) {
	for f, rest, ok := cut(m.headers); ok; f, rest, ok = cut(rest) {
		if f.wire == wireString && string(f.name) == name {
			return f.value, true
		}
	}
	return nil, false
}

// Types of values on the wire.
const (
	wireTrue = iota
	wireFalse
	wireByte
	wireShort
	wireInt
	wireLong
	wireBytes
	wireString
	wireTimestamp
	wireUUID
)

// sizes holds the size of a value by type; 0 means that its length precedes it.
var sizes = [...]int{wireByte: 1, wireShort: 2, wireInt: 4, wireLong: 8, wireBytes: 0, wireString: 0, wireTimestamp: 8, wireUUID: 16}

// field is an undecoded header.
type field struct {
	name, value []byte
	wire        byte
}

// cut splits the first header off b. It returns false if b does not begin with
// a header.
func cut(b []byte) (f field, rest []byte, ok bool) {
	if len(b) == 0 || b[0] == 0 || len(b) < 2+int(b[0]) {
		return f, nil, false
	}
	n := 1 + int(b[0])
	f.name, f.wire, b = b[1:n], b[n], b[n+1:]
	if int(f.wire) >= len(sizes) {
		return f, nil, false
	}
	size := sizes[f.wire]
	if f.wire == wireBytes || f.wire == wireString {
		if len(b) < 2 {
			return f, nil, false
		}
		size, b = int(binary.BigEndian.Uint16(b)), b[2:]
	}
	if len(b) < size {
		return f, nil, false
	}
	f.value = b[:size:size]
	return f, b[size:], true
}

// header returns the decoded header. Its strings are copies.
func (f field) header() Header {
	h := Header{Name: string(f.name)}
	switch f.wire {
	case wireTrue, wireFalse:
		h.Kind = Bool
		if f.wire == wireTrue {
			h.Int = 1
		}
	case wireByte:
		h.Kind, h.Int = Byte, int64(int8(f.value[0]))
	case wireShort:
		h.Kind, h.Int = Short, int64(int16(binary.BigEndian.Uint16(f.value)))
	case wireInt:
		h.Kind, h.Int = Int, int64(int32(binary.BigEndian.Uint32(f.value)))
	case wireLong:
		h.Kind, h.Int = Long, int64(binary.BigEndian.Uint64(f.value))
	case wireTimestamp:
		h.Kind, h.Int = Timestamp, int64(binary.BigEndian.Uint64(f.value))
	case wireBytes:
		h.Kind, h.Text = Bytes, string(f.value)
	case wireUUID:
		h.Kind, h.Text = UUID, string(f.value)
	default:
		h.Text = string(f.value)
	}
	return h
}
