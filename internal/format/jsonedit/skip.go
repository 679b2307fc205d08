package jsonedit

import (
	"encoding/binary"
	"math/bits"
)

// The functions here skip over text that a scanner has validated. They take the
// index at which their part begins and return the index after it.

// skip returns the index after a value inside an object or array.
func skip(b []byte, i int) int {
	switch b[i] {
	case '"':
		return skipString(b, i+1)
	case '{', '[':
		return skipNested(b, i)
	}
	for b[i] > ' ' && b[i] != ',' && b[i] != '}' && b[i] != ']' {
		i++
	}
	return i
}

// skipNested skips an object or array by counting brackets.
func skipNested(b []byte, i int) int {
	for depth := 0; ; {
		c := b[i]
		i++
		switch c {
		case '"':
			i = skipString(b, i)
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i
			}
		}
	}
}

// skipString starts after the opening quote.
func skipString(b []byte, i int) int {
	for i+8 <= len(b) {
		x := binary.LittleEndian.Uint64(b[i:])
		m := stops(x)
		if m == 0 {
			i += 8
			continue
		}
		n := bits.TrailingZeros64(m) &^ 7
		i += n/8 + 1
		if byte(x>>n) == '"' {
			return i
		}
		i++ // past the escaped character
	}
	for b[i] != '"' {
		if b[i] == '\\' {
			i++
		}
		i++
	}
	return i + 1
}

// comma skips the comma after an item, and the white space around it.
func comma(b []byte, i int) int {
	if i = space(b, i); b[i] == ',' {
		return space(b, i+1)
	}
	return i
}

// colon skips the colon after a key, and the white space around it.
func colon(b []byte, i int) int { return space(b, space(b, i)+1) }
