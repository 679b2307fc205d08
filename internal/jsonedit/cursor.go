package jsonedit

import "bytes"

// Cursor reads JSON text forward, a value at a time, without checking it first.
// On valid text it sees every value; on other text it ends early and [Cursor.Failed]
// is true, and it never reads beyond the text. Every method leaves the cursor
// after what it has read.
type Cursor struct {
	b      []byte
	i      int
	failed bool
}

// NewCursor returns a cursor at the start of b.
func NewCursor(b []byte) *Cursor { return &Cursor{b: b} }

// Reset puts the cursor at the start of b.
func (c *Cursor) Reset(b []byte) { *c = Cursor{b: b} }

// Bytes returns the text that the cursor reads.
func (c *Cursor) Bytes() []byte { return c.b }

// Failed reports whether the text has turned out not to be JSON.
func (c *Cursor) Failed() bool { return c.failed }

func (c *Cursor) fail() {
	c.i, c.failed = len(c.b), true
}

// Peek skips white space and returns the byte that begins the next token,
// or 0 at the end.
func (c *Cursor) Peek() byte {
	for c.i < len(c.b) {
		if ch := c.b[c.i]; ch > ' ' {
			return ch
		}
		c.i++
	}
	return 0
}

// Offset returns how much of the text was read; after a look at what is next, that
// is where it begins.
func (c *Cursor) Offset() int { return c.i }

// Kind returns the kind of the next value, [Null] at the end.
func (c *Cursor) Kind() Kind { return kindFrom(c.Peek()) }

// Enter takes the opening bracket if it is next, and reports whether it was.
func (c *Cursor) Enter(bracket byte) bool {
	if c.Peek() != bracket {
		return false
	}
	c.i++
	return true
}

// Field takes the next key of the object that the cursor is in and returns its
// text as it is between the quotes; the value is next. It is false after the last
// member, with the closing brace taken.
func (c *Cursor) Field() ([]byte, bool) {
	ch := c.Peek()
	if ch == ',' {
		c.i++
		ch = c.Peek()
	}
	if ch != '"' {
		if ch != '}' {
			c.fail()
			return nil, false
		}
		c.i++
		return nil, false
	}
	key := c.Text()
	if c.Peek() != ':' {
		c.fail()
		return nil, false
	}
	c.i++
	return key, true
}

// Element reports whether the array that the cursor is in has a next element. If
// not, it takes the closing bracket.
func (c *Cursor) Element() bool {
	ch := c.Peek()
	if ch == ',' {
		c.i++
		ch = c.Peek()
	}
	switch ch {
	case ']':
		c.i++
		return false
	case 0:
		c.fail()
		return false
	}
	return true
}

// Text takes a string, which must be next, and returns it as it is between the
// quotes.
func (c *Cursor) Text() []byte {
	from := c.i + 1
	for i := from; ; {
		n := bytes.IndexByte(c.b[i:], '"')
		if n < 0 {
			c.fail()
			return nil
		}
		i += n + 1
		if c.b[i-2] != '\\' || !escapedAt(c.b[from:], i-1-from) {
			c.i = i
			return c.b[from : i-1]
		}
	}
}

// escapedAt reports whether an odd number of backslashes is before b[i].
func escapedAt(b []byte, i int) bool {
	n := i
	for n > 0 && b[n-1] == '\\' {
		n--
	}
	return (i-n)%2 == 1
}

// Raw takes the next value and returns it as it is in the text.
func (c *Cursor) Raw() []byte {
	c.Peek()
	from := c.i
	c.Skip()
	return c.b[from:c.i]
}

// Value takes the next value and returns a view of it. The text must be valid.
func (c *Cursor) Value() Value { return Value{c.Raw()} }

// Skip takes the next value.
func (c *Cursor) Skip() {
	switch c.Peek() {
	case '"':
		c.Text()
	case '{':
		c.i++
		c.Leave()
	case '[':
		c.i++
		if !c.leaveFlat() {
			c.Leave()
		}
	case 0, '}', ']', ',', ':':
		c.fail()
	default:
		c.scalar()
	}
}

// scalar takes a number, true, false or null. At the end of the text it may be
// the first half of one.
func (c *Cursor) scalar() {
	for c.i < len(c.b) {
		switch ch := c.b[c.i]; ch {
		case ',', '}', ']':
			return
		default:
			if ch <= ' ' {
				return
			}
		}
		c.i++
	}
	c.failed = true
}

// leaveFlat takes the rest of an array of numbers up to and with its bracket. It
// is false, and takes nothing, when the array holds anything else. Vectors are
// long, and this way they cost next to nothing.
func (c *Cursor) leaveFlat() bool {
	rest := c.b[c.i:]
	n := bytes.IndexByte(rest, ']')
	if n < 0 || bytes.IndexByte(rest[:n], '"') >= 0 || bytes.IndexByte(rest[:n], '{') >= 0 || bytes.IndexByte(rest[:n], '[') >= 0 {
		return false
	}
	c.i += n + 1
	return true
}

// Leave takes the rest of the object or array that the cursor is in, with its
// closing bracket.
func (c *Cursor) Leave() {
	for depth := 1; c.i < len(c.b); {
		switch c.b[c.i] {
		case '"':
			c.Text()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		c.i++
		if depth == 0 {
			return
		}
	}
	c.fail()
}
