package sse

import (
	"bytes"
	"io"
)

const (
	// defaultMax is the default limit of an event in bytes.
	defaultMax = 16 << 20

	firstBuffer = 4 << 10  // enough for common chunks of a chat stream
	keptBuffer  = 64 << 10 // a larger buffer is released when it is not needed any more
	smallReads  = 64       // a buffer is not needed any more after this many reads that fit into keptBuffer
)

// Reader reads events from a byte stream. It is not safe for concurrent use.
type Reader struct {
	src io.Reader
	max int
	err error // the error that ended src, returned after the buffered events

	buf        []byte
	start, end int // the current event begins at start, the buffered bytes end at end
	small      int // consecutive reads that would fit into keptBuffer

	ev      pending
	joined  []byte // data of the current event if it has several lines
	given   []byte // joined of the event returned last
	first   bool   // no line has been read: a byte order mark may follow
	afterCR bool   // the last byte was a CR: a following LF belongs to it
}

// pending is the state of an event whose end may not have arrived. Offsets
// count from the start of the event.
type pending struct {
	complete bool
	lead     int // 1 if the event begins with the LF of the preceding CR
	line     int // start of the current line
	cr, lf   int // no CR (LF) between line and this offset
	lines    int // number of data fields
	typ      span
	id       span
	data     span // the first data field
}

// span is a byte range of an event. The zero span means no value, since no
// value can begin at 0.
type span struct{ from, to int }

func (s span) of(b []byte) []byte {
	if s.from == 0 {
		return nil
	}
	return b[s.from:s.to:s.to]
}

// NewReader returns a reader of the events of r. Max is the limit of an event
// in bytes; a larger one ends reading with [ErrTooLarge]. A max below 1 means
// 16 MB.
func NewReader(r io.Reader, max int) *Reader {
	if max < 1 {
		max = defaultMax
	}
	reader := &Reader{max: max}
	reader.Reset(r)
	return reader
}

// Reset makes the reader read src from its beginning, whatever its state was.
// It keeps the limit, and the buffer unless that has grown beyond 64 KB.
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

// Next returns the next event as soon as its last byte has arrived, without
// waiting for a later one. The event is valid until the following call of Next
// or Reset.
//
// If the stream ends cleanly, Next returns io.EOF; bytes after the last blank
// line are returned before as an unterminated event. Any other error of the
// source is returned unchanged, after the complete events before it. The
// incomplete event is dropped in that case, and callers must not take the error
// for a clean end. After an error, every call returns the same error.
func (r *Reader) Next() (ev Event, err error) {
	for !r.ev.complete && !r.parse() {
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

// More reports whether another complete event is buffered, so that a writer can
// flush once per read. It does not read, and the last event stays valid.
func (r *Reader) More() bool {
	return r.ev.complete || r.parse()
}

// size returns the number of bytes of the incomplete event, which are limited
// by max.
func (r *Reader) size() int { return r.end - r.start - r.ev.lead }

// last returns the bytes after the last blank line as an event.
func (r *Reader) last(ev *Event) {
	w := r.buf[r.start:r.end]
	r.field(w, r.ev.line, len(w))
	r.ev.line = len(w)
	ev.Unterminated = len(w) > r.ev.lead
	r.emit(ev)
}

// emit fills in ev with the pending event, which ends before the current line.
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

// parse continues the pending event up to the end of the buffer, and reports
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
		if w[e.line] == '\n' { // the usual blank line, without further checks
			r.first = false
			r.complete(w, e.line, e.line+1)
			return true
		}
		if e.cr != len(w) { // otherwise the usual stream, without any CR
			e.cr = find(w, e.line, e.cr, '\r')
		}
		e.lf = find(w, e.line, e.lf, '\n')
		to := min(e.lf, e.cr)
		if to == len(w) {
			return false
		}
		blank := r.field(w, e.line, to)
		r.afterCR = to == e.cr
		if blank {
			r.complete(w, e.line, to+1)
			return true
		}
		e.line = to + 1
	}
	return false
}

// complete ends the event with the blank line w[from:to]. Blank lines that follow a blank
// line end no event, so an event without lines takes those that have arrived: otherwise
// each byte of a hostile stream would cost as much as an event.
func (r *Reader) complete(w []byte, from, to int) {
	e := &r.ev
	if from == e.lead {
		limit := min(len(w), e.lead+r.max)
		for to < limit && (w[to] == '\n' || w[to] == '\r') {
			r.afterCR = w[to] == '\r'
			to++
		}
	}
	e.line, e.complete = to, true
}

// find returns the index of the next c at or after from, or len(w). c must not
// occur between from and known, so that no byte is examined twice, whatever the
// line ends and however the bytes arrive.
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

// field parses the line w[from:to] and reports whether it is blank.
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

// set stores the value of a field. Unknown fields, and comments, which have no
// name, are only in Raw.
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

// add appends one line of data: the first is a view, later ones are joined in a
// copy.
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

// fill reads once into the free part of the buffer. It moves, grows or shrinks
// the buffer as needed.
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

// makeRoom moves the incomplete event to the start of a buffer with room for
// more. A buffer never needs to grow beyond the limit by more than two bytes:
// one that is not part of the event and one that shows that the limit is
// exceeded.
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
