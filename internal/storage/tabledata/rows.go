package tabledata

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/big"
)

// The form of rows: a signature with eight bytes of flags, then for each row the number of
// its fields in two bytes and for each field its length in four bytes, -1 for NULL, and its
// value; -1 in two bytes at the end. Numbers are big-endian.
// https://www.postgresql.org/docs/current/sql-copy.html
const (
	signature = "PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	trailer   = "\xff\xff"
)

// maxRow is the limit of a row, in bytes. No table holds values that are as large.
const maxRow = 256 << 20

// errRows means that data is not in the form of rows.
var errRows = errors.New("the data is not rows of a table")

// Splitter is a writer of rows in the form of this package that passes on each row. It
// holds only the part of a row that has not arrived completely.
type Splitter struct {
	Columns int                       // of the table
	Row     func(fields []byte) error // gets a row without the number of its fields, valid until it returns

	rest  []byte
	state int // what comes next
}

// States of a splitter.
const (
	beforeRows = iota
	inRows
	afterRows
)

// Write implements io.Writer.
func (s *Splitter) Write(p []byte) (int, error) {
	b := p
	if len(s.rest) > 0 {
		s.rest = append(s.rest, p...)
		b = s.rest
	}
	left, err := s.split(b)
	if err != nil {
		return 0, err
	}
	if len(left) > maxRow {
		return 0, fmt.Errorf("%w: a row is too large", errRows)
	}
	s.rest = append(s.rest[:0], left...)
	return len(p), nil
}

// End returns an error unless all rows were written.
func (s *Splitter) End() error {
	if s.state != afterRows || len(s.rest) > 0 {
		return fmt.Errorf("%w: they end too early", errRows)
	}
	return nil
}

// split passes on the complete rows of b and returns the rest.
func (s *Splitter) split(b []byte) ([]byte, error) {
	if s.state == beforeRows {
		if len(b) < len(signature) {
			return b, nil
		}
		if string(b[:len(signature)]) != signature {
			return nil, errRows
		}
		b, s.state = b[len(signature):], inRows
	}
	for s.state == inRows && len(b) >= 2 {
		if string(b[:2]) == trailer {
			b, s.state = b[2:], afterRows
			break
		}
		if int(binary.BigEndian.Uint16(b)) != s.Columns {
			return nil, fmt.Errorf("%w: a row has another number of fields", errRows)
		}
		n, err := rowSize(b[2:], s.Columns)
		if err != nil {
			return nil, err
		}
		if n < 0 {
			return b, nil
		}
		if err := s.Row(b[2 : 2+n]); err != nil {
			return nil, err
		}
		b = b[2+n:]
	}
	if s.state == afterRows && len(b) > 0 {
		return nil, fmt.Errorf("%w: something follows them", errRows)
	}
	return b, nil
}

// rowSize returns the size of the fields at the beginning of b, -1 if they are incomplete.
func rowSize(b []byte, columns int) (int, error) {
	at := 0
	for range columns {
		if len(b)-at < 4 {
			return -1, nil
		}
		n := int(int32(binary.BigEndian.Uint32(b[at:])))
		if n < -1 || n > maxRow {
			return 0, fmt.Errorf("%w: a field has the length %d", errRows, n)
		}
		if at += 4 + max(n, 0); at > len(b) {
			return -1, nil
		}
	}
	return at, nil
}

// next returns the first field of fields, nil for NULL, and the other fields.
func next(fields []byte) (value, rest []byte) {
	n := int32(binary.BigEndian.Uint32(fields))
	if n < 0 {
		return nil, fields[4:]
	}
	return fields[4 : 4+n : 4+n], fields[4+n:]
}

// Values returns the values of a row by column: a string, an int64, a bool, a float64 or
// bytes; nil for NULL.
func (t Table) Values(fields []byte) (map[string]any, error) {
	row := make(map[string]any, len(t.Columns))
	for _, c := range t.Columns {
		var b []byte
		b, fields = next(fields)
		v, err := parseField(c.Type, b)
		if err != nil {
			return nil, fmt.Errorf("table %s, column %s: %w", t.Name, c.Name, err)
		}
		row[c.Name] = v
	}
	return row, nil
}

// Batch collects rows to be loaded together.
type Batch struct {
	Columns int
	Rows    int
	buf     bytes.Buffer
}

// Add appends a row.
func (b *Batch) Add(fields []byte) {
	if b.Rows == 0 {
		b.buf.Reset()
		b.buf.WriteString(signature)
	}
	b.Rows++
	b.buf.Write(binary.BigEndian.AppendUint16(nil, uint16(b.Columns)))
	b.buf.Write(fields)
}

// Size returns the size of the rows in bytes.
func (b *Batch) Size() int { return b.buf.Len() }

// Reader returns a reader of the rows, and empties the batch once Add is called again.
func (b *Batch) Reader() io.Reader {
	b.Rows = 0
	b.buf.WriteString(trailer)
	return &b.buf
}

// Sums are what two copies of a table are compared by. Rows may be added in any order.
type Sums struct {
	Rows    int64               `json:"rows"`
	Hash    [4]uint64           `json:"hash"`              // sum of the SHA-256 of each row, in four parts
	Columns map[string]*big.Int `json:"columns,omitempty"` // sums of those columns of integers that have one

	table Table
	value big.Int
}

// NewSums returns empty sums of a table, with the sums of these columns of integers.
func NewSums(t Table, columns ...string) *Sums {
	s := &Sums{table: t}
	for _, c := range t.Columns {
		for _, name := range columns {
			if c.Name == name && (c.Type == Bigint || c.Type == Integer) {
				if s.Columns == nil {
					s.Columns = make(map[string]*big.Int)
				}
				s.Columns[name] = new(big.Int)
			}
		}
	}
	return s
}

// Add adds a row.
func (s *Sums) Add(fields []byte) {
	s.Rows++
	sum := sha256.Sum256(fields)
	for i := range s.Hash {
		s.Hash[i] += binary.BigEndian.Uint64(sum[8*i:])
	}
	if s.Columns == nil {
		return
	}
	for _, c := range s.table.Columns {
		var v []byte
		v, fields = next(fields)
		sum := s.Columns[c.Name]
		switch {
		case sum == nil:
		case len(v) == 8:
			sum.Add(sum, s.value.SetInt64(int64(binary.BigEndian.Uint64(v))))
		case len(v) == 4:
			sum.Add(sum, s.value.SetInt64(int64(int32(binary.BigEndian.Uint32(v)))))
		}
	}
}

// Equal reports whether both are sums of the same rows.
func (s *Sums) Equal(o *Sums) bool { return s.Rows == o.Rows && s.Hash == o.Hash }

// Field returns the value of a field of a row, nil for NULL.
func Field(fields []byte, at int) []byte {
	var v []byte
	for range at + 1 {
		v, fields = next(fields)
	}
	return v
}
