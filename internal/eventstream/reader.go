package eventstream

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
)

const (
	// DefaultMax is the largest message, in bytes, of a reader made without a
	// bound of its own; it is the format's own bound.
	DefaultMax = 16 << 20

	firstBuffer = 4 << 10  // enough for the usual messages of a conversation
	keptBuffer  = 64 << 10 // a larger buffer is let go when it is no longer needed
	smallReads  = 64       // it is no longer needed after so many reads that would fit keptBuffer
)

// Reader reads messages from a byte stream. It is not safe for concurrent use.
type Reader struct {
	src io.Reader
	max int
	err error // what ended the reading, given out after the whole messages

	buf        []byte
	start, end int // the message being read begins at start, the buffered bytes end at end
	total      int // its length, 0 while the prelude was not read
	whole      bool
	small      int // reads in a row after which a kept buffer would have done
}

// NewReader returns a reader of the messages of r. Max is the largest message in
// bytes; a larger one ends the reading with [ErrTooLarge]. A max below 1 means
// [DefaultMax].
func NewReader(r io.Reader, max int) *Reader {
	if max < 1 {
		max = DefaultMax
	}
	return &Reader{src: r, max: max}
}

// Reset makes the reader read from r as if it were new. A buffer of usual size
// is kept.
func (r *Reader) Reset(src io.Reader) {
	*r = Reader{src: src, max: r.max, buf: r.buf}
	if cap(r.buf) > keptBuffer {
		r.buf = nil
	}
}

// Next returns the next message as soon as its last byte has arrived; it never
// waits for a later one. The message is valid until the following Next or Reset.
//
// At the end of a stream Next returns io.EOF, and io.ErrUnexpectedEOF when the
// stream ends inside a message. Bytes that are not a message give an error that
// wraps [ErrCorrupt]. Any other error of the source is returned as it is, after
// the whole messages before it. Errors are lasting.
func (r *Reader) Next() (Message, error) {
	for !r.whole && !r.parse() {
		if r.err == io.EOF && r.end > r.start {
			r.err = io.ErrUnexpectedEOF
		}
		if r.err != nil {
			return Message{}, r.err
		}
		r.fill()
	}
	raw := r.buf[r.start : r.start+r.total : r.start+r.total]
	r.start += r.total
	r.total, r.whole = 0, false
	payload := preludeSize + int(binary.BigEndian.Uint32(raw[4:]))
	return Message{Raw: raw, headers: raw[preludeSize:payload:payload], Payload: raw[payload : len(raw)-4 : len(raw)-4]}, nil
}

// More reports whether a further whole message is already buffered, so that a
// writer can flush once per read. It reads nothing, and leaves the message given
// out last valid.
func (r *Reader) More() bool { return r.whole || r.parse() }

// parse looks at the buffered bytes and reports whether they begin with a whole
// message.
func (r *Reader) parse() bool {
	w := r.buf[r.start:r.end]
	if r.total == 0 && len(w) >= preludeSize {
		r.prelude(w[:preludeSize])
	}
	if r.total == 0 || len(w) < r.total {
		return false
	}
	r.whole = r.check(w[:r.total])
	return r.whole
}

// prelude takes the length of the message from the bytes it begins with.
func (r *Reader) prelude(b []byte) {
	total, headers := int64(binary.BigEndian.Uint32(b)), int64(binary.BigEndian.Uint32(b[4:]))
	switch {
	case crc32.ChecksumIEEE(b[:8]) != binary.BigEndian.Uint32(b[8:]):
		r.corrupt("the checksum of the prelude does not hold")
	case headers+frameSize > total:
		r.corrupt("its length is too small for its headers")
	case total > int64(r.max):
		r.fail(ErrTooLarge)
	default:
		r.total = int(total)
	}
}

// check reports whether a message of the right length is one.
func (r *Reader) check(w []byte) bool {
	sum := len(w) - 4
	if crc32.ChecksumIEEE(w[:sum]) != binary.BigEndian.Uint32(w[sum:]) {
		r.corrupt("the checksum does not hold")
		return false
	}
	rest := w[preludeSize : preludeSize+binary.BigEndian.Uint32(w[4:])]
	for len(rest) > 0 {
		var ok bool
		if _, rest, ok = cut(rest); !ok {
			r.corrupt("a header does not end or has an unknown type")
			return false
		}
	}
	return true
}

func (r *Reader) corrupt(why string) { r.fail(fmt.Errorf("%w: %s", ErrCorrupt, why)) }

// fail ends the reading. What is buffered counts no more.
func (r *Reader) fail(err error) {
	r.err, r.end, r.total = err, r.start, 0
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

// makeRoom moves the incomplete message to the start of a buffer in which it
// leaves room. The buffer grows with the bytes that come, not with the length
// that a prelude claims.
func (r *Reader) makeRoom() {
	n := r.end - r.start
	size := max(len(r.buf), firstBuffer)
	if n == size {
		size *= 2
	}
	r.small++
	if n >= keptBuffer/2 {
		r.small = 0
	}
	if size > keptBuffer && r.small > smallReads {
		size = keptBuffer
	}
	if size == len(r.buf) && r.start == 0 {
		return // there is room, and a copy for each small read would add up
	}
	to := r.buf
	if size != len(r.buf) {
		to = make([]byte, size)
	}
	copy(to, r.buf[r.start:r.end])
	r.buf, r.start, r.end = to, 0, n
}
