package jsonedit

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// scanner validates JSON text. Each method takes the index at which its part
// begins and returns the index after it, or -1 if the text is invalid; at and
// problem are set then.
type scanner struct {
	b       []byte
	at      int
	problem string
}

func (s *scanner) fail(at int, problem string) int {
	s.at, s.problem = at, problem
	return -1
}

func (s *scanner) error() error {
	line, column := position(s.b, s.at)
	return &SyntaxError{Offset: s.at, Line: line, Column: column, Problem: s.problem}
}

// space returns the index of the first byte at or after i that is not white
// space.
func space(b []byte, i int) int {
	if i < len(b) && b[i] <= ' ' {
		return spaces(b, i)
	}
	return i
}

func spaces(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// document reads exactly one value with surrounding white space and returns
// where the value begins and ends.
func (s *scanner) document() (from, to int) {
	from = space(s.b, 0)
	to = s.value(from, 0)
	if to >= 0 {
		to = s.end(to)
	}
	return from, to
}

// end reads the white space after a document that ends at i.
func (s *scanner) end(i int) int {
	if j := space(s.b, i); j < len(s.b) {
		return s.fail(j, "expected nothing after the document")
	}
	return i
}

func (s *scanner) value(i, depth int) int {
	b := s.b
	if i >= len(b) {
		return s.fail(i, "expected a value, found the end")
	}
	switch c := b[i]; c {
	case '"':
		return s.str(i + 1)
	case '{':
		return s.object(i+1, depth+1)
	case '[':
		return s.array(i+1, depth+1)
	case 't':
		return s.literal(i, "true")
	case 'f':
		return s.literal(i, "false")
	case 'n':
		return s.literal(i, "null")
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return s.number(i)
	}
	return s.fail(i, "expected a value")
}

func (s *scanner) literal(i int, word string) int {
	if end := i + len(word); end <= len(s.b) && string(s.b[i:end]) == word {
		return end
	}
	return s.fail(i, "expected a value, such as "+word)
}

// object starts after the opening brace.
func (s *scanner) object(i, depth int) int {
	b := s.b
	if depth > MaxDepth {
		return s.fail(i-1, tooDeep)
	}
	i = space(b, i)
	if i < len(b) && b[i] == '}' {
		return i + 1
	}
	for {
		if i = s.key(i); i < 0 {
			return -1
		}
		if i = s.value(i, depth); i < 0 {
			return -1
		}
		i = space(b, i)
		if i >= len(b) || b[i] != ',' && b[i] != '}' {
			return s.fail(i, "expected ',' or '}' after a member")
		}
		if b[i] == '}' {
			return i + 1
		}
		i = space(b, i+1)
	}
}

const tooMany = "expected at most 1024 members"

const tooDeep = "expected at most 512 arrays and objects inside each other"

// key reads a key and its colon, and returns where the value begins.
func (s *scanner) key(i int) int {
	b := s.b
	if i >= len(b) || b[i] != '"' {
		return s.fail(i, "expected a key in double quotes")
	}
	if i = s.str(i + 1); i < 0 {
		return -1
	}
	i = space(b, i)
	if i >= len(b) || b[i] != ':' {
		return s.fail(i, "expected ':' after a key")
	}
	return space(b, i+1)
}

// array starts after the opening bracket.
func (s *scanner) array(i, depth int) int {
	b := s.b
	if depth > MaxDepth {
		return s.fail(i-1, tooDeep)
	}
	i = space(b, i)
	if i < len(b) && b[i] == ']' {
		return i + 1
	}
	for {
		if i = s.value(i, depth); i < 0 {
			return -1
		}
		i = space(b, i)
		if i >= len(b) || b[i] != ',' && b[i] != ']' {
			return s.fail(i, "expected ',' or ']' after an element")
		}
		if b[i] == ']' {
			return i + 1
		}
		i = space(b, i+1)
	}
}

func (s *scanner) number(i int) int {
	b := s.b
	if b[i] == '-' {
		i++
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else if i = s.digits(i); i < 0 {
		return -1
	}
	if i < len(b) && b[i] == '.' {
		if i = s.digits(i + 1); i < 0 {
			return -1
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		return s.digits(i)
	}
	return i
}

// digits reads one or more digits.
func (s *scanner) digits(i int) int {
	from := i
	for i < len(s.b) && s.b[i]-'0' <= 9 {
		i++
	}
	if i == from {
		return s.fail(i, "expected a digit")
	}
	return i
}

const (
	ones  = 0x0101010101010101 // every byte 1
	highs = 0x80 * ones        // the highest bit of every byte
)

// stops marks the bytes of x that end plain text of a string: a quote, a
// backslash, a control character. Only the lowest mark is reliable. Bytes above
// 0x7f are not marked.
func stops(x uint64) uint64 {
	// With bit 1 flipped, the quote (0x22) is adjacent to the control
	// characters.
	low := (x ^ 0x02*ones) - 0x21*ones
	backslash := (x ^ '\\'*ones) - ones
	return (low | backslash) &^ x & highs
}

// str starts after the opening quote. It examines eight bytes at a time, and
// checks the encoding only if there was a byte above 0x7f.
func (s *scanner) str(i int) int {
	b := s.b
	from := i
	high := uint64(0)
	for i+8 <= len(b) {
		x := binary.LittleEndian.Uint64(b[i:])
		m := stops(x)
		if m == 0 {
			high |= x
			i += 8
			continue
		}
		n := bits.TrailingZeros64(m) &^ 7
		high |= x & (1<<n - 1)
		i += n / 8
		if byte(x>>n) == '\\' {
			if i = s.escape(i + 1); i < 0 {
				return -1
			}
			continue
		}
		return s.quote(from, i, high&highs != 0)
	}
	return s.tail(from, i, high)
}

// tail continues with a string near the end of the text, byte by byte.
func (s *scanner) tail(from, i int, high uint64) int {
	b := s.b
	for i < len(b) && b[i] != '"' && b[i] >= ' ' {
		high |= uint64(b[i])
		if i++; b[i-1] == '\\' {
			if i = s.escape(i); i < 0 {
				return -1
			}
		}
	}
	return s.quote(from, i, high&highs != 0)
}

// quote reads the quote that ends the string b[from:i].
func (s *scanner) quote(from, i int, high bool) int {
	switch {
	case high && !utf8.Valid(s.b[from:i]):
		return s.fail(from+invalid(s.b[from:i]), "expected UTF-8 within a string")
	case i == len(s.b):
		return s.fail(i, "expected a double quote to end the string, found the end")
	case s.b[i] != '"':
		return s.fail(i, "expected control characters and line ends within a string to be escaped")
	}
	return i + 1
}

// invalid returns the index of the first byte of b that is not UTF-8.
func invalid(b []byte) int {
	i := 0
	for i < len(b) {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		i += n
	}
	return i
}

// escape starts after the backslash.
func (s *scanner) escape(i int) int {
	b := s.b
	if i >= len(b) {
		return s.fail(i, "expected an escape after the backslash, found the end")
	}
	switch b[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 1
	case 'u':
		for j := i + 1; j < i+5; j++ {
			if j >= len(b) || !isHex(b[j]) {
				return s.fail(j, "expected four hexadecimal digits after \\u")
			}
		}
		return i + 5
	}
	return s.fail(i, `expected one of "\/bfnrtu after a backslash`)
}

func isHex(c byte) bool {
	return c-'0' <= 9 || c|0x20 >= 'a' && c|0x20 <= 'f'
}
