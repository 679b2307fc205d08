package bodytext

import (
	"bytes"
	"strings"

	"modelgate/internal/format/jsonedit"
)

// Sequence finds the end of JSON values that follow each other, in lines or not, as their
// bytes arrive. The zero value is ready.
type Sequence struct {
	depth                  int
	quoted, escaped, begun bool
}

// between are the bytes between values, with the mark in front of each text in a sequence of JSON texts.
// https://www.rfc-editor.org/rfc/rfc7464
const between = " \t\r\n\x1e"

// Next reads the next byte. done is true for the last byte of an object, an array or a string; then
// the next value may follow. ok is false for a byte that begins none of them.
func (s *Sequence) Next(c byte) (done, ok bool) {
	switch {
	case s.escaped:
		s.escaped = false
	case s.quoted && c == '\\':
		s.escaped = true
	case c == '"':
		s.quoted, s.begun = !s.quoted, true
	case s.quoted:
	case c == '{' || c == '[':
		s.depth++
		s.begun = true
	case c == '}' || c == ']':
		s.depth--
	case s.depth == 0:
		return false, strings.IndexByte(between, c) >= 0
	}
	if !s.begun {
		return false, false
	}
	if s.depth > 0 || s.quoted {
		return false, true
	}
	*s = Sequence{}
	return true, true
}

// IsEmpty reports whether no value has begun.
func (s *Sequence) IsEmpty() bool { return !s.begun }

// IsSequence reports whether body is JSON values after each other, each of which is an object, an array or a string.
func IsSequence(body []byte) bool {
	var s Sequence
	n, from := 0, 0
	for i, c := range body {
		done, ok := s.Next(c)
		if !ok {
			return false
		}
		if !done {
			continue
		}
		if _, err := jsonedit.ParseValue(bytes.TrimLeft(body[from:i+1], between)); err != nil {
			return false
		}
		from = i + 1
		n++
	}
	return n > 0 && s.IsEmpty()
}
