package pipeline

import "bytes"

// isCompleteJSON reports whether b is an object or array that ends with its
// closing bracket: it fails for a truncated body and for one with anything
// behind it. The content is not validated, which would cost as much as
// everything else.
func isCompleteJSON(b []byte) bool {
	b = bytes.TrimSpace(b)
	if len(b) == 0 || b[0] != '{' && b[0] != '[' {
		return false
	}
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i == len(b)-1
			}
		case '"':
			i = endOfString(b, i+1)
		}
	}
	return false
}

// endOfString returns the index of the quote that ends the string at i, or the
// length of b.
func endOfString(b []byte, i int) int {
	for from := i; ; i++ {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return len(b)
		}
		i += n
		slashes := 0
		for i-slashes > from && b[i-slashes-1] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return i
		}
	}
}
