package simulator

import (
	"encoding/binary"
	"math/bits"
)

// maxDepth is the maximum nesting of a request body.
const maxDepth = 512

// A scanner reads one JSON document without building it: strings are returned
// as the raw bytes between their quotes. After the first mistake every method
// returns a zero value and bad stays true.
type scanner struct {
	data  []byte
	pos   int
	depth int
	bad   bool
	wrong int // offset of the mistake
}

func (s *scanner) fail() {
	if !s.bad {
		s.bad, s.wrong = true, min(s.pos, len(s.data))
	}
	s.pos = len(s.data)
}

// peek returns the first byte of the next token, or 0 at the end.
func (s *scanner) peek() byte {
	for s.pos < len(s.data) {
		c := s.data[s.pos]
		if c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return c
		}
		s.pos++
	}
	return 0
}

// end reports whether the document was valid and nothing follows it.
func (s *scanner) end() bool {
	if s.peek() != 0 || s.pos < len(s.data) {
		s.fail()
	}
	return !s.bad
}

// object calls member with the raw key of each member; member must consume the
// value.
func (s *scanner) object(member func(key []byte)) {
	if !s.open('{') {
		return
	}
	for first := true; !s.close('}', first); first = false {
		if s.peek() != '"' {
			s.fail()
			return
		}
		key := s.text()
		if s.peek() != ':' {
			s.fail()
			return
		}
		s.pos++
		member(key)
	}
}

// array calls element for each element; element must consume it.
func (s *scanner) array(element func()) {
	if !s.open('[') {
		return
	}
	for first := true; !s.close(']', first); first = false {
		element()
	}
}

func (s *scanner) open(bracket byte) bool {
	if s.peek() != bracket || s.depth >= maxDepth {
		s.fail()
		return false
	}
	s.pos++
	s.depth++
	return true
}

// close reads the separator of two elements. It reports whether the list is
// over, validly or not.
func (s *scanner) close(bracket byte, first bool) bool {
	c := s.peek()
	if s.bad {
		return true
	}
	if c == bracket {
		s.pos++
		s.depth--
		return true
	}
	if first {
		return false
	}
	if c != ',' {
		s.fail()
		return true
	}
	s.pos++
	if s.peek() == bracket {
		s.fail()
		return true
	}
	return false
}

// raw consumes any value and returns its bytes.
func (s *scanner) raw() []byte {
	s.peek()
	start := s.pos
	s.skip()
	if s.bad {
		return nil
	}
	return s.data[start:s.pos]
}

func (s *scanner) skip() {
	switch c := s.peek(); {
	case c == '"':
		s.text()
	case c == '{':
		s.object(func([]byte) { s.skip() })
	case c == '[':
		s.array(s.skip)
	case c == 't':
		s.word("true")
	case c == 'f':
		s.word("false")
	case c == 'n':
		s.word("null")
	default:
		s.number()
	}
}

func (s *scanner) word(w string) {
	if len(s.data)-s.pos < len(w) || string(s.data[s.pos:s.pos+len(w)]) != w {
		s.fail()
		return
	}
	s.pos += len(w)
}

// text consumes a string and returns the bytes between the quotes.
func (s *scanner) text() []byte {
	start := s.pos + 1
	for i := plainEnd(s.data, start); i < len(s.data); i = plainEnd(s.data, i) {
		switch s.data[i] {
		case '"':
			s.pos = i + 1
			return s.data[start:i]
		case '\\':
			n := escapeLen(s.data[i:])
			if n == 0 {
				s.pos = i
				s.fail()
				return nil
			}
			i += n
		default: // a control character
			s.pos = i
			s.fail()
			return nil
		}
	}
	s.pos = len(s.data)
	s.fail()
	return nil
}

// plainEnd returns the offset of the first byte from i on that is a quote, a
// backslash or a control character. It examines eight bytes at a time.
func plainEnd(data []byte, i int) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(data); i += 8 {
		v := binary.LittleEndian.Uint64(data[i:])
		quote, slash := v^(ones*'"'), v^(ones*'\\')
		hits := ((v - ones*0x20) & ^v) | ((quote - ones) & ^quote) | ((slash - ones) & ^slash)
		if hits &= highs; hits != 0 {
			return i + bits.TrailingZeros64(hits)/8
		}
	}
	for ; i < len(data); i++ {
		if c := data[i]; c == '"' || c == '\\' || c < 0x20 {
			return i
		}
	}
	return i
}

// escapeLen returns the length of the escape at the start of b, or 0 if it is
// invalid.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if _, ok := hex4(b[2:]); ok {
			return 6
		}
	}
	return 0
}

func hex4(b []byte) (v rune, ok bool) {
	if len(b) < 4 {
		return 0, false
	}
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			v = v<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			v = v<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return v, true
}

func (s *scanner) number() {
	if s.pos < len(s.data) && s.data[s.pos] == '-' {
		s.pos++
	}
	if s.pos < len(s.data) && s.data[s.pos] == '0' {
		s.pos++
	} else {
		s.digits()
	}
	if s.pos < len(s.data) && s.data[s.pos] == '.' {
		s.pos++
		s.digits()
	}
	if s.pos < len(s.data) && s.data[s.pos]|0x20 == 'e' {
		s.pos++
		if s.pos < len(s.data) && (s.data[s.pos] == '+' || s.data[s.pos] == '-') {
			s.pos++
		}
		s.digits()
	}
}

func (s *scanner) digits() {
	start := s.pos
	for s.pos < len(s.data) && s.data[s.pos] >= '0' && s.data[s.pos] <= '9' {
		s.pos++
	}
	if s.pos == start {
		s.fail()
	}
}
