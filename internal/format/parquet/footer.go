package parquet

import "encoding/binary"

// Numbers of the format.
// https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
const (
	encodingPlain = 0
	encodingRLE   = 3
	codecGzip     = 2
)

// form is how a type is kept: the physical type, the older mark of what it means
// and the newer one, each by its number.
type form struct{ physical, converted, logical int64 }

const none = -1

var forms = [...]form{
	Text:    {6, 0, 1},
	JSON:    {6, 19, 12},
	Bool:    {0, none, none},
	Int:     {2, none, none},
	Float:   {5, none, none},
	Moment:  {2, 9, 8},
	Decimal: {2, 5, 5},
}

// precision of decimals: the most that 64 bits hold whatever the digits are.
const precision = 18

// footer returns what is at the end of the file: columns and groups.
func (w *Writer) footer() []byte {
	var t thrift
	t.i32(1, 1)
	t.list(2, len(w.columns)+1, kindStruct)
	t.element()
	t.text(4, "export")
	t.i32(5, int64(len(w.columns)))
	t.close()
	for i := range w.columns {
		w.columns[i].describe(&t)
	}
	t.i64(3, w.total)
	t.list(4, len(w.groups), kindStruct)
	for i := range w.groups {
		w.describe(&t, &w.groups[i])
	}
	t.text(6, "modelgate")
	return t.end()
}

// describe writes the element of the schema that is the column.
func (c *Column) describe(t *thrift) {
	f := forms[c.Type]
	t.element()
	t.i32(1, f.physical)
	repetition := int64(0)
	if c.Null {
		repetition = 1
	}
	t.i32(3, repetition)
	t.text(4, c.Name)
	if f.converted != none {
		t.i32(6, f.converted)
	}
	if c.Type == Decimal {
		t.i32(7, int64(c.Scale))
		t.i32(8, precision)
	}
	if f.logical != none {
		t.open(10)
		t.open(int(f.logical))
		switch c.Type {
		case Decimal:
			t.i32(1, int64(c.Scale))
			t.i32(2, precision)
		case Moment:
			t.yes(1) // it is in UTC
			t.open(2)
			t.open(1) // milliseconds
			t.close()
			t.close()
		}
		t.close()
		t.close()
	}
	t.close()
}

// describe writes where a group stands.
func (w *Writer) describe(t *thrift, g *group) {
	packed := int64(0)
	t.element()
	t.list(1, len(g.columns), kindStruct)
	for i, p := range g.columns {
		packed += p.packed
		t.element()
		t.i64(2, p.offset)
		t.open(3)
		t.i32(1, forms[w.columns[i].Type].physical)
		t.list(2, 2, kindI32)
		t.zigzag(encodingPlain)
		t.zigzag(encodingRLE)
		t.list(3, 1, kindText)
		t.bytes(w.columns[i].Name)
		t.i32(4, codecGzip)
		t.i64(5, p.values)
		t.i64(6, p.unpacked)
		t.i64(7, p.packed)
		t.i64(9, p.offset)
		t.close()
		t.close()
	}
	t.i64(2, g.bytes)
	t.i64(3, g.rows)
	t.i64(5, g.columns[0].offset)
	t.i64(6, packed)
	t.close()
}

// Kinds of values in Thrift's compact protocol.
// https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
const (
	kindTrue   = 1
	kindI32    = 5
	kindI64    = 6
	kindText   = 8
	kindList   = 9
	kindStruct = 12
)

// thrift writes a struct in Thrift's compact protocol. The zero value is at its
// beginning.
type thrift struct {
	out  []byte
	last int   // number of the field before
	up   []int // the same, of the structs around
}

func (t *thrift) field(number, kind int) {
	t.out = append(t.out, byte(number-t.last)<<4|byte(kind)) // fields are few: no step is above 15
	t.last = number
}

func (t *thrift) zigzag(n int64) { t.out = binary.AppendVarint(t.out, n) }

func (t *thrift) i32(number int, n int64) { t.field(number, kindI32); t.zigzag(n) }
func (t *thrift) i64(number int, n int64) { t.field(number, kindI64); t.zigzag(n) }
func (t *thrift) yes(number int)          { t.field(number, kindTrue) }

func (t *thrift) text(number int, s string) { t.field(number, kindText); t.bytes(s) }

func (t *thrift) bytes(s string) {
	t.out = append(binary.AppendUvarint(t.out, uint64(len(s))), s...)
}

// list begins a list of n values, which follow; each struct among them begins
// with element.
func (t *thrift) list(number, n, kind int) {
	t.field(number, kindList)
	if n < 15 {
		t.out = append(t.out, byte(n)<<4|byte(kind))
		return
	}
	t.out = binary.AppendUvarint(append(t.out, 0xf0|byte(kind)), uint64(n))
}

// open begins a struct that is a field, element one of a list. Both end with
// close.
func (t *thrift) open(number int) { t.field(number, kindStruct); t.element() }
func (t *thrift) element()        { t.up = append(t.up, t.last); t.last = 0 }

func (t *thrift) close() {
	t.out = append(t.out, 0)
	t.last, t.up = t.up[len(t.up)-1], t.up[:len(t.up)-1]
}

// end ends the structure and returns it.
func (t *thrift) end() []byte { return append(t.out, 0) }
