// Package sse reads and writes server-sent events.
//
// It promises to give out an event as soon as its last byte has arrived, with
// the bytes exactly as they were received, so that a stream can be forwarded
// untouched and looked at on the way; however the network cuts the stream, the
// events are the same. It follows the event stream format of the HTML standard
// (https://html.spec.whatwg.org/multipage/server-sent-events.html), except that
// the retry field is left to who reads Raw, and that an event without a final
// blank line is given out, marked as such, rather than thrown away.
//
// It leaves to others what the data means, flushing, and timeouts.
package sse

import "errors"

// ErrTooLarge is returned by [Reader.Next] for an event that has more bytes than
// the reader was allowed to hold. The stream cannot be read any further.
var ErrTooLarge = errors.New("sse: the event is larger than the reader may hold")

// Event is one event as it was on the wire: everything up to and including a
// blank line. Its slices belong to the [Reader] that gave it out.
type Event struct {
	// Raw is exactly the bytes received for the event, including its blank line
	// and the comments before it. The Raw of all events, one after the other,
	// are the stream, byte for byte: a byte order mark stays in the first, and
	// when the line feed of a final CR LF arrives late, it begins the next.
	Raw []byte
	// Type is the value of the event field, nil when absent.
	Type []byte
	// ID is the value of the id field, nil when absent. An id that holds a NUL
	// counts as absent.
	ID []byte
	// Data is the values of the data fields joined by line feeds. It is nil when
	// the event has none (comments alone, or a blank line alone), and empty but
	// not nil when a data field is there and empty. A single line is a view into
	// Raw.
	Data []byte
	// Unterminated says that the stream ended cleanly without the blank line.
	// Readers of the HTML standard throw such an event away.
	Unterminated bool
}
