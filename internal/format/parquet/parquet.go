// Package parquet writes tables as Parquet files.
//
// It supports flat tables of the types that exports have, with plain encoding and gzip,
// which every reader supports; the public Parquet modules would add every type, encoding
// and compression to the binary. Rows are written in groups of limited size, so that
// memory does not grow with the file. It does not read files.
package parquet

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"time"
)

// Type is what a column holds.
type Type int

// The types, and what [Writer.Append] takes for them. A nil is null.
const (
	Text    Type = iota // string, UTF-8
	JSON                // string, a JSON value
	Bool                // bool
	Int                 // int64
	Float               // float64
	Moment              // time.Time, kept as milliseconds in UTC
	Decimal             // int64, the number without its point: see Scale
)

// Column is a column of a table.
type Column struct {
	Name  string
	Type  Type
	Null  bool // it may be null
	Scale int  // digits behind the point of a Decimal, which has 18 in all
}

// Bounds of what is gathered before it is written.
const (
	groupRows  = 1 << 16
	groupBytes = 8 << 20
)

// Writer writes one file. It is for one goroutine.
type Writer struct {
	out     io.Writer
	offset  int64
	columns []Column
	chunks  []chunk
	rows    int64 // of the group
	groups  []group
	total   int64
	err     error // the first, which stays
	zip     *gzip.Writer
}

// chunk gathers a column of the current group.
type chunk struct {
	values  bytes.Buffer
	bits    uint // of booleans, which are packed
	present []bool
}

// group is a group that was written.
type group struct {
	rows, bytes int64
	columns     []place
}

// place is where the column of a group stands.
type place struct{ offset, packed, unpacked, values int64 }

const magic = "PAR1"

// NewWriter returns a writer of a table to out. The columns have names of their
// own; they are not changed any more.
func NewWriter(out io.Writer, columns []Column) (*Writer, error) {
	zip, err := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	w := &Writer{out: out, columns: columns, chunks: make([]chunk, len(columns)), zip: zip}
	w.write([]byte(magic))
	return w, w.err
}

// Append adds a row: a value for each column. After an error the file is of no
// use.
func (w *Writer) Append(row []any) error {
	if w.err != nil {
		return w.err
	}
	if len(row) != len(w.columns) {
		return fmt.Errorf("parquet: a row of %d values for %d columns", len(row), len(w.columns))
	}
	size := 0
	for i := range row {
		if err := w.chunks[i].add(&w.columns[i], row[i]); err != nil {
			w.err = fmt.Errorf("parquet: column %s: %w", w.columns[i].Name, err)
			return w.err
		}
		size += w.chunks[i].values.Len()
	}
	w.rows++
	if w.rows >= groupRows || size >= groupBytes {
		w.flush()
	}
	return w.err
}

// Close writes what is left and the end of the file. It does not close what it
// writes to.
func (w *Writer) Close() error {
	if w.rows > 0 {
		w.flush()
	}
	footer := w.footer()
	w.write(footer)
	w.write(binary.LittleEndian.AppendUint32(nil, uint32(len(footer))))
	w.write([]byte(magic))
	return w.err
}

func (w *Writer) write(b []byte) {
	if w.err != nil {
		return
	}
	n, err := w.out.Write(b)
	w.offset += int64(n)
	w.err = err
}

// flush writes the current group.
func (w *Writer) flush() {
	g := group{rows: w.rows}
	for i := range w.columns {
		p := w.page(i)
		g.columns = append(g.columns, p)
		g.bytes += p.unpacked
		w.chunks[i].reset()
	}
	w.groups = append(w.groups, g)
	w.total += w.rows
	w.rows = 0
}

// page writes a column of the current group as one page.
func (w *Writer) page(i int) place {
	c, col := &w.chunks[i], &w.columns[i]
	var body bytes.Buffer
	if col.Null {
		body.Write(levels(c.present))
	}
	body.Write(c.values.Bytes())
	var packed bytes.Buffer
	w.zip.Reset(&packed)
	w.zip.Write(body.Bytes()) // writing to a buffer does not fail
	w.zip.Close()

	var t thrift
	t.i32(1, 0) // a data page
	t.i32(2, int64(body.Len()))
	t.i32(3, int64(packed.Len()))
	t.open(5)
	t.i32(1, int64(len(c.present)))
	t.i32(2, encodingPlain)
	t.i32(3, encodingRLE)
	t.i32(4, encodingRLE)
	t.close()
	header := t.end()

	p := place{offset: w.offset, values: int64(len(c.present))}
	p.packed, p.unpacked = int64(len(header)+packed.Len()), int64(len(header)+body.Len())
	w.write(header)
	w.write(packed.Bytes())
	return p
}

func (c *chunk) reset() {
	c.values.Reset()
	c.bits, c.present = 0, c.present[:0]
}

func (c *chunk) add(col *Column, v any) error {
	c.present = append(c.present, v != nil)
	if v == nil {
		if !col.Null {
			return errors.New("it is never null")
		}
		return nil
	}
	switch v := v.(type) {
	case string:
		if col.Type == Text || col.Type == JSON {
			c.values.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(v))))
			c.values.WriteString(v)
			return nil
		}
	case bool:
		if col.Type == Bool {
			c.bit(v)
			return nil
		}
	case int64:
		if col.Type == Int || col.Type == Decimal {
			c.number(uint64(v))
			return nil
		}
	case float64:
		if col.Type == Float {
			c.number(math.Float64bits(v))
			return nil
		}
	case time.Time:
		if col.Type == Moment {
			c.number(uint64(v.UnixMilli()))
			return nil
		}
	}
	return fmt.Errorf("it does not hold a %T", v)
}

func (c *chunk) number(n uint64) { c.values.Write(binary.LittleEndian.AppendUint64(nil, n)) }

func (c *chunk) bit(v bool) {
	if c.bits%8 == 0 {
		c.values.WriteByte(0)
	}
	if v {
		b := c.values.Bytes()
		b[len(b)-1] |= 1 << (c.bits % 8)
	}
	c.bits++
}

// levels says of each value whether it is there: runs, each its length and 0 or
// 1, behind the number of bytes that they take.
func levels(present []bool) []byte {
	out := make([]byte, 4)
	for i := 0; i < len(present); {
		run := 1
		for i+run < len(present) && present[i+run] == present[i] {
			run++
		}
		out = binary.AppendUvarint(out, uint64(run)<<1)
		level := byte(0)
		if present[i] {
			level = 1
		}
		out = append(out, level)
		i += run
	}
	binary.LittleEndian.PutUint32(out, uint32(len(out)-4))
	return out
}
