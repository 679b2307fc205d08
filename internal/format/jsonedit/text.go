package jsonedit

import (
	"bytes"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// AppendString appends s as a JSON string. It escapes only what RFC 8259
// requires (quote, backslash and control characters); invalid UTF-8 becomes
// U+FFFD.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	done := 0
	for i := plain(s, 0); i < len(s); i = plain(s, i) {
		if s[i] < utf8.RuneSelf {
			dst = appendEscape(append(dst, s[done:i]...), s[i])
			i++
			done = i
		}
		for i < len(s) && s[i] >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				dst = append(append(dst, s[done:i]...), "\ufffd"...)
				done = i + 1
			}
			i += n
		}
	}
	return append(append(dst, s[done:]...), '"')
}

// plain returns the index, from i on, of the first byte of s that needs more
// than copying: an escape or a character beyond ASCII.
func plain(s string, i int) int {
	for ; i+8 <= len(s); i += 8 {
		x := load(s[i : i+8])
		if m := stops(x) | x&highs; m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
	}
	for i < len(s) && s[i] >= ' ' && s[i] < utf8.RuneSelf && s[i] != '"' && s[i] != '\\' {
		i++
	}
	return i
}

// load returns the first eight bytes of s, in little-endian order.
func load(s string) uint64 {
	_ = s[7] // lets the compiler use a single load below
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

func appendEscape(dst []byte, c byte) []byte {
	const hex = "0123456789abcdef"
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, `\b`...)
	case '\f':
		return append(dst, `\f`...)
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	}
	return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
}

// Unescape returns the unescaped text of a valid JSON string: text itself if it
// has no escapes.
func Unescape(text []byte) []byte {
	if bytes.IndexByte(text, '\\') < 0 {
		return text
	}
	return unescaped(text) // separate, so that the usual case is inlined
}

func unescaped(text []byte) []byte { return appendUnescaped(make([]byte, 0, len(text)), text) }

// unescape returns the unescaped text of a valid JSON string.
func unescape(text []byte) string {
	var small [64]byte
	if len(text) <= len(small) {
		return string(appendUnescaped(small[:0], text))
	}
	return string(appendUnescaped(make([]byte, 0, len(text)), text))
}

// appendUnescaped appends the unescaped text of a valid JSON string.
func appendUnescaped(dst, text []byte) []byte {
	for {
		i := bytes.IndexByte(text, '\\')
		if i < 0 {
			return append(dst, text...)
		}
		dst = append(dst, text[:i]...)
		r, n := escaped(text[i:])
		dst = utf8.AppendRune(dst, r)
		text = text[i+n:]
	}
}

// unescapesTo reports whether the unescaped text of a valid JSON string is
// name.
func unescapesTo(text []byte, name string) bool {
	for {
		i := bytes.IndexByte(text, '\\')
		if i < 0 {
			return string(text) == name
		}
		if len(name) < i || string(text[:i]) != name[:i] {
			return false
		}
		r, n := escaped(text[i:])
		var buf [utf8.UTFMax]byte
		spelt := utf8.AppendRune(buf[:0], r)
		text, name = text[i+n:], name[i:]
		if len(name) < len(spelt) || string(spelt) != name[:len(spelt)] {
			return false
		}
		name = name[len(spelt):]
	}
}

// escaped returns the rune of the escape at the start of text, and the length
// of the escape.
func escaped(text []byte) (rune, int) {
	switch text[1] {
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		return escapedUnit(text)
	}
	return rune(text[1]), 2
}

// escapedUnit reads \uXXXX, and a second one if the two are a surrogate pair.
// Half a pair is U+FFFD.
func escapedUnit(text []byte) (rune, int) {
	r := hex4(text[2:])
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	if len(text) >= 12 && text[6] == '\\' && text[7] == 'u' {
		if pair := utf16.DecodeRune(r, hex4(text[8:])); pair != utf8.RuneError {
			return pair, 12
		}
	}
	return utf8.RuneError, 6
}

func hex4(b []byte) rune {
	r := rune(0)
	for _, c := range b[:4] {
		digit := c - '0'
		if digit > 9 {
			digit = (c | 0x20) - 'a' + 10
		}
		r = r<<4 | rune(digit)
	}
	return r
}

// StringBegins reports whether a quotation mark in body is followed by one of the
// prefixes, none of which is empty. It is a quick test of whether a search is
// worthwhile: it decodes nothing, so it does not find letters that are written as
// escapes, and finds escaped quotation marks inside of strings too. It looks at each
// quotation mark once; searching for prefixes with bytes.Contains takes fifty times
// as long, because JSON is full of their first byte.
func StringBegins(body []byte, prefixes ...string) bool {
	for {
		i := bytes.IndexByte(body, '"')
		if i < 0 {
			return false
		}
		body = body[i+1:]
		for _, p := range prefixes {
			if len(body) >= len(p) && body[0] == p[0] && string(body[:len(p)]) == p {
				return true
			}
		}
	}
}
