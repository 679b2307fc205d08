package chat

import "bytes"

// cursor walks forward over JSON text without checking it. On valid text it
// sees every value; on anything else it ends early with bad set, and never
// beyond the text. Every method leaves it after what it has taken.
type cursor struct {
	b   []byte
	i   int
	bad bool
}

func (c *cursor) fail() {
	c.i, c.bad = len(c.b), true
}

// peek skips white space and returns the byte that begins the next token,
// or 0 at the end.
func (c *cursor) peek() byte {
	for c.i < len(c.b) {
		if ch := c.b[c.i]; ch > ' ' {
			return ch
		}
		c.i++
	}
	return 0
}

// enter takes the opening bracket, which must be next.
func (c *cursor) enter(bracket byte) bool {
	if c.peek() != bracket {
		return false
	}
	c.i++
	return true
}

// field takes the next key of the object the cursor is in and returns its text
// unchanged between the quotes; the value is next. It is false after the
// last, with the closing brace taken.
func (c *cursor) field() ([]byte, bool) {
	ch := c.peek()
	if ch == ',' {
		c.i++
		ch = c.peek()
	}
	if ch != '"' {
		if ch != '}' {
			c.fail()
			return nil, false
		}
		c.i++
		return nil, false
	}
	key := c.text()
	if c.peek() != ':' {
		c.fail()
		return nil, false
	}
	c.i++
	return key, true
}

// element is true when the array the cursor is in has a next element; else the
// closing bracket is taken.
func (c *cursor) element() bool {
	ch := c.peek()
	if ch == ',' {
		c.i++
		ch = c.peek()
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

// text takes a string, which must be next, and returns it unchanged between
// the quotes.
func (c *cursor) text() []byte {
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

// raw takes the next value and returns it unchanged.
func (c *cursor) raw() []byte {
	c.peek()
	from := c.i
	c.skip()
	return c.b[from:c.i]
}

// skip takes the next value.
func (c *cursor) skip() {
	switch c.peek() {
	case '"':
		c.text()
	case '{':
		c.i++
		c.leave()
	case '[':
		c.i++
		if !c.leaveFlat() {
			c.leave()
		}
	case 0, '}', ']', ',', ':':
		c.fail()
	default:
		c.scalar()
	}
}

// scalar takes a number, true, false or null. At the end of the text it may be
// the first half of one.
func (c *cursor) scalar() {
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
	c.bad = true
}

// leaveFlat takes the rest of an array of numbers up to and with its bracket. It
// is false, and takes nothing, when the array holds anything else. Vectors are
// long, and this way they cost next to nothing.
func (c *cursor) leaveFlat() bool {
	rest := c.b[c.i:]
	n := bytes.IndexByte(rest, ']')
	if n < 0 || bytes.IndexByte(rest[:n], '"') >= 0 || bytes.IndexByte(rest[:n], '{') >= 0 || bytes.IndexByte(rest[:n], '[') >= 0 {
		return false
	}
	c.i += n + 1
	return true
}

// leave takes the rest of an object or array up to and with its bracket.
func (c *cursor) leave() {
	for depth := 1; c.i < len(c.b); {
		switch c.b[c.i] {
		case '"':
			c.text()
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
