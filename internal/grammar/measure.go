package grammar

import "unicode/utf8"

// measure counts the Unicode characters and the bytes of UTF-8 that the text of
// a valid JSON string spells. A surrogate pair is one character.
func measure(text []byte) (chars, bytes int) {
	for i := 0; i < len(text); {
		if text[i] != '\\' {
			if utf8.RuneStart(text[i]) {
				chars++
			}
			bytes++
			i++
			continue
		}
		unit, n := escape(text[i:])
		i += n
		if chars++; unit >= 0xdc00 && unit <= 0xdfff {
			chars-- // the second half of a pair
			bytes++ // 3 + 1 = the four bytes of the character
			continue
		}
		bytes += spelt(unit)
	}
	return chars, bytes
}

// escape returns the unit that the escape at the start of b spells and the
// escape's length. Only its size matters for the short forms.
func escape(b []byte) (unit, n int) {
	if len(b) < 2 || b[1] != 'u' || len(b) < 6 {
		return 0, min(2, len(b))
	}
	for _, ch := range b[2:6] {
		digit := int(ch - '0')
		if digit > 9 {
			digit = int(ch|0x20) - 'a' + 10
		}
		unit = unit<<4 | digit
	}
	return unit, 6
}

// spelt is how many bytes of UTF-8 a unit takes.
func spelt(unit int) int {
	switch {
	case unit < 0x80:
		return 1
	case unit < 0x800:
		return 2
	}
	return 3
}
