// Package sse reads and writes server-sent events.
//
// It guarantees that an event is returned as soon as its last byte has arrived,
// with the bytes exactly as received, so that a stream can be forwarded
// unchanged and inspected on the way; however the network cuts the stream, the
// events are the same, except that blank lines without an event are joined as
// they arrive. It follows the event stream format of the HTML standard
// (https://html.spec.whatwg.org/multipage/server-sent-events.html) with two
// exceptions: the retry field is only in Raw, and an event without a final
// blank line is returned and marked as unterminated instead of being dropped.
//
// It does not interpret data, flush or time out.
package sse

import (
	"bytes"
	"errors"
)

// ErrTooLarge is returned by [Reader.Next] for an event larger than the
// reader's limit. The stream cannot be read any further.
var ErrTooLarge = errors.New("sse: the event is larger than the limit")

// Event is one event as received: everything up to and including a blank line.
// Its slices belong to the [Reader] that returned it.
type Event struct {
	// Raw holds exactly the bytes received for the event, including its blank
	// line and the comments before it. The Raw of all events in order is the
	// stream, byte for byte: a byte order mark belongs to the first event, and
	// if the line feed of a final CR LF arrives late, it begins the next event.
	Raw []byte
	// Type is the value of the event field, nil if absent.
	Type []byte
	// ID is the value of the id field, nil if absent. An id with a NUL counts
	// as absent.
	ID []byte
	// Data holds the values of the data fields joined by line feeds. It is nil
	// if the event has none (only comments or a blank line), and empty but not
	// nil if the data is empty. A single line is a view of Raw.
	Data []byte
	// Unterminated is true if the stream ended cleanly without the blank line.
	// Readers that follow the HTML standard drop such an event.
	Unterminated bool
}

// Clone returns a copy of e that remains valid when the reader goes on. Data stays a
// part of Raw where it is one.
func (e Event) Clone() Event {
	raw, data := bytes.Clone(e.Raw), e.Data
	if i := bytes.Index(e.Raw, data); data != nil && i >= 0 {
		data = raw[i : i+len(data) : i+len(data)]
	} else {
		data = bytes.Clone(data)
	}
	return Event{Raw: raw, Type: bytes.Clone(e.Type), ID: bytes.Clone(e.ID), Data: data, Unterminated: e.Unterminated}
}

// RawOffset returns the offset in Raw of the byte of Data at offset i.
func (e Event) RawOffset(i int) int {
	for at := 0; at < len(e.Raw); {
		line := e.Raw[at:]
		end := bytes.IndexAny(line, "\r\n")
		if end >= 0 {
			line = line[:end]
		}
		from := 0
		if at == 0 && bytes.HasPrefix(line, byteOrderMark) {
			from = len(byteOrderMark)
		}
		if value, ok := bytes.CutPrefix(line[from:], []byte("data:")); ok {
			value = bytes.TrimPrefix(value, []byte(" "))
			if i < len(value) {
				return at + len(line) - len(value) + i
			}
			i -= len(value) + 1 // and the line feed that joins the lines
		} else if string(line[from:]) == "data" {
			i--
		}
		at += len(line) + 1
	}
	return len(e.Raw)
}
