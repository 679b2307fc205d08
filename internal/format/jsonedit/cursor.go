package jsonedit

import "bytes"

// Cursor reads JSON text forward, one value at a time, without validating it
// first. In valid text it finds every value; in other text it ends early,
// [Cursor.Failed] returns true, and it never reads beyond the text. Every
// method leaves the cursor after what it has read.
type Cursor struct {
	b      []byte
	i      int
	failed bool
}

// NewCursor returns a cursor at the start of b.
func NewCursor(b []byte) *Cursor { return &Cursor{b: b} }

// Reset moves the cursor to the start of b.
func (c *Cursor) Reset(b []byte) { *c = Cursor{b: b} }

// Bytes returns the text that the cursor reads.
func (c *Cursor) Bytes() []byte { return c.b }

// Failed reports whether the text has been found not to be JSON.
func (c *Cursor) Failed() bool { return c.failed }

func (c *Cursor) fail() {
	c.i, c.failed = len(c.b), true
}

// Peek skips white space and returns the first byte of the next token, or 0 at
// the end.
func (c *Cursor) Peek() byte {
	for c.i < len(c.b) {
		if ch := c.b[c.i]; ch > ' ' {
			return ch
		}
		c.i++
	}
	return 0
}

// Offset returns the number of bytes read; after Peek, the offset of the next
// token.
func (c *Cursor) Offset() int { return c.i }

// Kind returns the kind of the next value, or [Null] at the end.
func (c *Cursor) Kind() Kind { return kindFrom(c.Peek()) }

// Enter reads the opening bracket if it is next, and reports whether it was.
func (c *Cursor) Enter(bracket byte) bool {
	if c.Peek() != bracket {
		return false
	}
	c.i++
	return true
}

// Field reads the next key of the current object and returns its text as it is
// between the quotes; the value is next. After the last member it reads the
// closing brace and returns false.
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

// Element reports whether the current array has another element. If not, it
// reads the closing bracket.
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

// Text reads a string, which must be next, and returns it as it is between the
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

// escapedAt reports whether an odd number of backslashes precedes b[i].
func escapedAt(b []byte, i int) bool {
	n := i
	for n > 0 && b[n-1] == '\\' {
		n--
	}
	return (i-n)%2 == 1
}

// Raw reads the next value and returns it as it is in the text.
func (c *Cursor) Raw() []byte {
	c.Peek()
	from := c.i
	c.Skip()
	return c.b[from:c.i]
}

// Value reads the next value and returns a view of it. The text must be valid.
func (c *Cursor) Value() Value { return Value{c.Raw()} }

// Skip reads the next value and ignores it.
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

// scalar reads a number, true, false or null. At the end of the text it may be
// incomplete.
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

// leaveFlat reads the rest of an array of numbers including its bracket. If the
// array has any other element, it reads nothing and returns false. It makes
// reading of long vectors cheap.
func (c *Cursor) leaveFlat() bool {
	rest := c.b[c.i:]
	n := bytes.IndexByte(rest, ']')
	if n < 0 || bytes.IndexByte(rest[:n], '"') >= 0 || bytes.IndexByte(rest[:n], '{') >= 0 || bytes.IndexByte(rest[:n], '[') >= 0 {
		return false
	}
	c.i += n + 1
	return true
}

// Leave reads the rest of the current object or array, including its closing
// bracket.
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

// Token reads up to the next bracket, comma, colon or string, wherever it is, and
// returns its first byte and the text of a string, as it is between the quotes. At
// the end it returns 0. It is for text that need not be JSON: a string that does
// not end reaches to the end of the text.
func (c *Cursor) Token() (first byte, text []byte) {
	for c.i < len(c.b) {
		switch ch := c.b[c.i]; ch {
		case '"':
			return ch, c.lenientText()
		case '{', '}', '[', ']', ',', ':':
			c.i++
			return ch, nil
		}
		c.i++
	}
	return 0, nil
}

// NextText reads up to the end of the next string, as [Cursor.Token] does, and
// returns its text. ok is false if there is none.
func (c *Cursor) NextText() (text []byte, ok bool) {
	n := bytes.IndexByte(c.b[c.i:], '"')
	if n < 0 {
		c.i = len(c.b)
		return nil, false
	}
	c.i += n
	return c.lenientText(), true
}

func (c *Cursor) lenientText() []byte {
	from := c.i + 1
	text := c.Text()
	if c.failed {
		return c.b[from:]
	}
	return text
}
