package eventstream

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
)

const (
	// defaultMax is the default limit of a message in bytes. It is also the
	// limit of the format.
	defaultMax = 16 << 20

	firstBuffer = 4 << 10  // enough for common messages of a conversation
	keptBuffer  = 64 << 10 // a larger buffer is released when it is not needed any more
	smallReads  = 64       // a buffer is not needed any more after this many reads that fit into keptBuffer
)

// Reader reads messages from a byte stream. It is not safe for concurrent use.
type Reader struct {
	src io.Reader
	max int
	err error // the error that ended reading, returned after the complete messages

	buf        []byte
	start, end int // the current message begins at start, the buffered bytes end at end
	total      int // its length, 0 until the prelude has been read
	complete   bool
	small      int // consecutive reads that would fit into keptBuffer
}

// NewReader returns a reader of the messages of r. Max is the limit of a
// message in bytes; a larger one ends reading with [ErrTooLarge]. A max below 1
// means 16 MB.
func NewReader(r io.Reader, max int) *Reader {
	if max < 1 {
		max = defaultMax
	}
	return &Reader{src: r, max: max}
}

// Reset makes the reader read from src as if it were new. A buffer of usual
// size is reused.
func (r *Reader) Reset(src io.Reader) {
	*r = Reader{src: src, max: r.max, buf: r.buf}
	if cap(r.buf) > keptBuffer {
		r.buf = nil
	}
}

// Next returns the next message as soon as its last byte has arrived, without
// waiting for a later one. The message is valid until the following call of
// Next or Reset.
//
// At the end of a stream Next returns io.EOF, or io.ErrUnexpectedEOF if the
// stream ends inside a message. For bytes that are not a message it returns an
// error that wraps [ErrCorrupt]. Any other error of the source is returned
// unchanged, after the complete messages before it. After an error, every call
// returns the same error.
func (r *Reader) Next() (Message, error) {
	for !r.complete && !r.parse() {
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
	r.total, r.complete = 0, false
	payload := preludeSize + int(binary.BigEndian.Uint32(raw[4:]))
	return Message{Raw: raw, headers: raw[preludeSize:payload:payload], Payload: raw[payload : len(raw)-4 : len(raw)-4]}, nil
}

// More reports whether another complete message is buffered, so that a writer
// can flush once per read. It does not read, and the last message stays valid.
func (r *Reader) More() bool { return r.complete || r.parse() }

// parse reports whether the buffered bytes begin with a complete message.
func (r *Reader) parse() bool {
	w := r.buf[r.start:r.end]
	if r.total == 0 && len(w) >= preludeSize {
		r.prelude(w[:preludeSize])
	}
	if r.total == 0 || len(w) < r.total {
		return false
	}
	r.complete = r.check(w[:r.total])
	return r.complete
}

// prelude reads the length of a message from its first bytes.
func (r *Reader) prelude(b []byte) {
	total, headers := int64(binary.BigEndian.Uint32(b)), int64(binary.BigEndian.Uint32(b[4:]))
	switch {
	case crc32.ChecksumIEEE(b[:8]) != binary.BigEndian.Uint32(b[8:]):
		r.corrupt("the checksum of the prelude is wrong")
	case headers+frameSize > total:
		r.corrupt("its length is too small for its headers")
	case total > int64(r.max):
		r.fail(ErrTooLarge)
	default:
		r.total = int(total)
	}
}

// check reports whether the bytes w, of the right length, are a valid message.
func (r *Reader) check(w []byte) bool {
	sum := len(w) - 4
	if crc32.ChecksumIEEE(w[:sum]) != binary.BigEndian.Uint32(w[sum:]) {
		r.corrupt("the checksum is wrong")
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

// fail ends reading. Buffered bytes are dropped.
func (r *Reader) fail(err error) {
	r.err, r.end, r.total = err, r.start, 0
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

// makeRoom moves the incomplete message to the start of a buffer with room for
// more. The buffer grows with the bytes that arrive, not to the length in a
// prelude.
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
		return // there is room, and a copy for each small read would be expensive
	}
	to := r.buf
	if size != len(r.buf) {
		to = make([]byte, size)
	}
	copy(to, r.buf[r.start:r.end])
	r.buf, r.start, r.end = to, 0, n
}
