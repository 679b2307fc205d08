package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// reader reads the records of one segment in order.
type reader struct {
	file io.ReaderAt
	seed uint32
	end  int64 // end of the part to read; the file may be longer

	at  int64  // position of the next record
	buf []byte // data read from off on
	off int64  // position of buf

	// faults are damaged parts that are followed by a valid record.
	faults []fault
	torn   int64 // invalid bytes at the end
}

// fault is an unreadable part of a segment.
type fault struct{ from, to int64 }

func newReader(f io.ReaderAt, seed uint32, from, end int64) *reader {
	return &reader{file: f, seed: seed, at: from, end: end, off: from}
}

// readAhead is the number of bytes read at once.
const readAhead = 256 << 10

// next returns the next record, valid until the following call, and io.EOF after the
// last. Damaged parts are skipped and recorded.
func (r *reader) next() (Record, error) {
	raw, err := r.raw()
	if err != nil {
		return Record{}, err
	}
	return parse(raw), nil
}

// raw returns the bytes of the next record.
func (r *reader) raw() ([]byte, error) {
	for start := r.at; ; {
		b, err := r.peek(headSize)
		if err != nil {
			return nil, err
		}
		if len(b) < headSize {
			r.torn = r.end - start
			r.at = start
			return nil, io.EOF
		}
		size := int64(binary.LittleEndian.Uint32(b[4:]))
		if binary.LittleEndian.Uint32(b[8:]) == uint32(r.at) && size >= headSize && size <= maxRow {
			if b, err = r.peek(size); err != nil {
				return nil, err
			}
			if rec := completeRecord(b, r.at, r.seed); rec != nil {
				if r.at > start {
					r.faults = append(r.faults, fault{start, r.at})
				}
				r.at += int64(len(rec))
				return rec, nil
			}
		}
		r.at++
	}
}

// peek returns up to n bytes at the position of the next record, fewer only at the end.
func (r *reader) peek(n int64) ([]byte, error) {
	n = min(n, r.end-r.at)
	if skip := r.at - r.off; skip >= 0 && skip+n <= int64(len(r.buf)) {
		return r.buf[skip : skip+n], nil
	}
	want := min(max(n, readAhead), r.end-r.at)
	if int64(cap(r.buf)) < want {
		r.buf = make([]byte, want)
	}
	got, err := r.file.ReadAt(r.buf[:want], r.at)
	r.buf, r.off = r.buf[:got], r.at
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("reading the ledger: %w", err)
	}
	return r.buf[:min(n, int64(got))], nil
}
