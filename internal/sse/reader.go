package sse

import (
	"bytes"
	"io"
)

const (
	// DefaultMax is the largest event, in bytes, of a reader made without a
	// bound of its own.
	DefaultMax = 16 << 20

	firstBuffer = 4 << 10  // enough for the usual chunk of a chat stream
	keptBuffer  = 64 << 10 // a larger buffer is let go when it is no longer needed
	smallReads  = 64       // it is no longer needed after so many reads that would fit keptBuffer
)

// Reader reads events from a byte stream. It is not safe for concurrent use.
type Reader struct {
	src io.Reader
	max int
	err error // what ended src, given out after the buffered events

	buf        []byte
	start, end int // the event being read begins at start, the buffered bytes end at end
	small      int // reads in a row after which a kept buffer would have done

	ev      pending
	joined  []byte // data of several lines of the event being read
	given   []byte // the same of the event given out last
	first   bool   // no line was read yet: a byte order mark may come
	afterCR bool   // the last byte looked at is a CR: an LF now belongs to it
}

// pending is what is known of an event of which the end may not have arrived.
// Offsets count from the start of the event.
type pending struct {
	whole  bool
	lead   int // 1 when the event begins with the LF of the CR before it
	line   int // where the current line begins
	cr, lf int // no CR (LF) stands between line and here
	lines  int // number of data fields
	typ    span
	id     span
	data   span // the first data field
}

// span is a part of an event; no field's value can begin at 0.
type span struct{ from, to int }

func (s span) of(b []byte) []byte {
	if s.from == 0 {
		return nil
	}
	return b[s.from:s.to:s.to]
}

// NewReader returns a reader of the events of r. Max is the largest event in
// bytes; a larger one ends the reading with [ErrTooLarge]. A max below 1 means
// [DefaultMax].
func NewReader(r io.Reader, max int) *Reader {
	if max < 1 {
		max = DefaultMax
	}
	reader := &Reader{max: max}
	reader.Reset(r)
	return reader
}

// Reset makes the reader read src from its beginning, whatever state it was in.
// It keeps the buffer (unless it has grown beyond 64 KB) and the bound.
func (r *Reader) Reset(src io.Reader) {
	*r = Reader{
		src: src, max: r.max, first: true,
		buf: reuse(r.buf), joined: reuse(r.joined)[:0], given: reuse(r.given)[:0],
	}
}

func reuse(b []byte) []byte {
	if cap(b) > keptBuffer {
		return nil
	}
	return b
}

// Next returns the next event as soon as its last byte has arrived; it never
// waits for a later one. The event is valid until the following Next or Reset.
//
// After the last event of a stream that ends cleanly, Next returns io.EOF; what
// follows the last blank line is given out before as an unterminated event. Any
// other error of the source is returned as it is, after the whole events that
// came before it; the incomplete event is dropped, so that nobody is shown half
// an event, and callers must not take it for a clean end. Errors are lasting.
func (r *Reader) Next() (ev Event, err error) {
	for !r.ev.whole && !r.parse() {
		if r.size() > r.max {
			r.err = ErrTooLarge
		}
		if r.err == io.EOF && r.end > r.start {
			r.last(&ev)
			return ev, nil
		}
		if r.err != nil {
			return ev, r.err
		}
		r.fill()
	}
	if r.ev.line-r.ev.lead > r.max {
		r.err, r.end, r.ev = ErrTooLarge, r.start, pending{}
		return ev, r.err
	}
	r.emit(&ev)
	return ev, nil
}

// More reports whether a further whole event is already buffered, so that a
// writer can flush once per read. It reads nothing, and leaves the event given
// out last valid.
func (r *Reader) More() bool {
	return r.ev.whole || r.parse()
}

// size is the number of bytes of the incomplete event that count for the bound.
func (r *Reader) size() int { return r.end - r.start - r.ev.lead }

// last gives out what stands after the last blank line.
func (r *Reader) last(ev *Event) {
	w := r.buf[r.start:r.end]
	r.field(w, r.ev.line, len(w))
	r.ev.line = len(w)
	ev.Unterminated = len(w) > r.ev.lead
	r.emit(ev)
}

// emit fills in ev with the pending event, which ends where the current line
// begins.
func (r *Reader) emit(ev *Event) {
	w := r.buf[r.start:r.end]
	n := r.ev.line
	if r.afterCR && n < len(w) && w[n] == '\n' {
		n++
		r.afterCR = false
	}
	ev.Raw = w[:n:n]
	ev.Type, ev.ID, ev.Data = r.ev.typ.of(w), r.ev.id.of(w), r.ev.data.of(w)
	if r.ev.lines > 1 {
		r.joined, r.given = r.given[:0], r.joined
		ev.Data = r.given
	}
	r.start += n
	r.ev = pending{cr: max(r.ev.cr-n, 0), lf: max(r.ev.lf-n, 0)}
}

// parse goes on with the pending event as far as the buffer reaches, and reports
// whether a blank line ended it.
func (r *Reader) parse() bool {
	w := r.buf[r.start:r.end]
	e := &r.ev
	for e.line < len(w) {
		if r.afterCR {
			r.afterCR = false
			if w[e.line] == '\n' {
				if e.line == 0 {
					e.lead = 1
				}
				e.line++
				continue
			}
		}
		if w[e.line] == '\n' { // the usual blank line, without further looking
			r.first = false
			e.line++
			e.whole = true
			return true
		}
		if e.cr != len(w) { // else the usual stream, without any CR
			e.cr = find(w, e.line, e.cr, '\r')
		}
		e.lf = find(w, e.line, e.lf, '\n')
		to := min(e.lf, e.cr)
		if to == len(w) {
			return false
		}
		blank := r.field(w, e.line, to)
		e.line = to + 1
		r.afterCR = to == e.cr
		if blank {
			e.whole = true
			return true
		}
	}
	return false
}

// find returns where c stands next at or after from, or len(w). It is known that
// c does not stand between from and known: no byte is looked at twice, however
// the lines end and the bytes arrive.
func find(w []byte, from, known int, c byte) int {
	known = max(known, from)
	if known >= len(w) || w[known] == c {
		return min(known, len(w))
	}
	if i := bytes.IndexByte(w[known:], c); i >= 0 {
		return known + i
	}
	return len(w)
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// field takes in the line w[from:to] and reports whether it is blank.
func (r *Reader) field(w []byte, from, to int) bool {
	if r.first {
		r.first = false
		if bytes.HasPrefix(w[from:to], byteOrderMark) {
			from += len(byteOrderMark)
		}
	}
	line := w[from:to]
	if len(line) == 0 {
		return true
	}
	colon := 4 // nearly every line is "data: …"
	if len(line) < 5 || string(line[:5]) != "data:" {
		colon = bytes.IndexByte(line, ':')
	}
	value := span{to, to}
	name := line
	if colon >= 0 {
		name, value.from = line[:colon], from+colon+1
	}
	if value.from < to && w[value.from] == ' ' {
		value.from++
	}
	r.set(w, name, value)
	return false
}

// set keeps the value of a field. Unknown fields and comments (which have no
// name) are kept in Raw only.
func (r *Reader) set(w, name []byte, value span) {
	switch string(name) {
	case "data":
		r.add(w, value)
	case "event":
		r.ev.typ = value
	case "id":
		if bytes.IndexByte(w[value.from:value.to], 0) < 0 {
			r.ev.id = value
		}
	}
}

// add keeps one line of data: the first as a view, further ones joined.
func (r *Reader) add(w []byte, value span) {
	r.ev.lines++
	switch r.ev.lines {
	case 1:
		r.ev.data = value
		return
	case 2:
		r.joined = append(r.joined[:0], r.ev.data.of(w)...)
	}
	r.joined = append(r.joined, '\n')
	r.joined = append(r.joined, w[value.from:value.to]...)
}

// fill reads once into the free part of the buffer, which it moves, grows or
// shrinks as needed.
func (r *Reader) fill() {
	r.makeRoom()
	for range 100 {
		n, err := r.src.Read(r.buf[r.end:])
		r.end += n
		r.err = err
		if n > 0 || err != nil {
			return
		}
	}
	r.err = io.ErrNoProgress
}

// makeRoom moves the incomplete event to the start of a buffer in which it
// leaves room. A buffer never needs to grow beyond the bound and the two bytes
// that do not count or tell that the bound is passed.
func (r *Reader) makeRoom() {
	n := r.end - r.start
	size := max(len(r.buf), firstBuffer)
	if n == size {
		size = min(2*size, max(r.max+2, firstBuffer))
	}
	r.small++
	if n >= keptBuffer/2 {
		r.small = 0
	}
	if size > keptBuffer && r.small > smallReads {
		size = keptBuffer
	}
	to := r.buf
	if size != len(r.buf) {
		to = make([]byte, size)
	}
	copy(to, r.buf[r.start:r.end])
	r.buf, r.start, r.end = to, 0, n
}
