package jsonedit

import (
	"bytes"
	"math"
	"strconv"
)

// Builder writes JSON. Begin with its zero value, or with a builder from
// [Append]. It adds the commas; the caller must alternate names and values and
// match brackets. It is not safe for concurrent use.
type Builder struct {
	buf     []byte
	next    bool // an element of the same level precedes
	oneLine bool // no line breaks in raw values
}

// Append returns a builder that appends to dst.
func Append(dst []byte) Builder { return Builder{buf: dst} }

// AppendLine returns a builder that appends a single line to dst, as the data of
// a server-sent event must be: line breaks in raw values become spaces.
func AppendLine(dst []byte) Builder { return Builder{buf: dst, oneLine: true} }

// Bytes returns the JSON written so far, after the bytes that [Append] was
// given.
func (b *Builder) Bytes() []byte { return b.buf }

// Open begins an object or an array: { or [.
func (b *Builder) Open(bracket byte) {
	b.comma()
	b.buf = append(b.buf, bracket)
	b.next = false
}

// Close ends the innermost object or array: } or ].
func (b *Builder) Close(bracket byte) {
	b.buf = append(b.buf, bracket)
	b.next = true
}

// Name begins a member of an object. The name is written unchanged: it must
// need no escapes.
func (b *Builder) Name(name string) {
	b.comma()
	b.buf = append(b.buf, '"')
	b.buf = append(b.buf, name...)
	b.buf = append(b.buf, '"', ':')
	b.next = false
}

// Key begins a member with any name.
func (b *Builder) Key(name string) {
	b.comma()
	b.buf = AppendString(b.buf, name)
	b.buf = append(b.buf, ':')
	b.next = false
}

// String writes a string value.
func (b *Builder) String(s string) {
	b.comma()
	b.buf = AppendString(b.buf, s)
}

// Int writes an integer.
func (b *Builder) Int(n int64) {
	b.comma()
	b.buf = strconv.AppendInt(b.buf, n, 10)
}

// Float writes a number in its shortest form; infinities and NaN become null.
func (b *Builder) Float(f float64) {
	b.comma()
	if math.IsNaN(f) || math.IsInf(f, 0) {
		b.buf = append(b.buf, "null"...)
		return
	}
	format := byte('f')
	if a := math.Abs(f); a != 0 && (a < 1e-6 || a >= 1e21) {
		format = 'e'
	}
	b.buf = strconv.AppendFloat(b.buf, f, format, -1, 64)
}

// Bool writes true or false.
func (b *Builder) Bool(v bool) {
	b.comma()
	b.buf = strconv.AppendBool(b.buf, v)
}

// Raw writes a value that is JSON; nil becomes null.
func (b *Builder) Raw(value []byte) {
	b.comma()
	if value == nil {
		value = null
	}
	b.buf = append(b.buf, value...)
	if b.oneLine {
		spaceLines(b.buf[len(b.buf)-len(value):])
	}
}

// spaceLines replaces the line breaks of a JSON value, which are white space:
// strings have none.
func spaceLines(value []byte) {
	for _, c := range [...]byte{'\n', '\r'} {
		rest := value
		for i := bytes.IndexByte(rest, c); i >= 0; i = bytes.IndexByte(rest, c) {
			rest[i] = ' '
			rest = rest[i+1:]
		}
	}
}

var null = []byte("null")

// Null writes null.
func (b *Builder) Null() { b.Raw(nil) }

func (b *Builder) comma() {
	if b.next {
		b.buf = append(b.buf, ',')
	}
	b.next = true
}
