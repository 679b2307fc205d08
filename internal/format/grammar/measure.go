package grammar

import "unicode/utf8"

// measure returns the number of characters and of UTF-8 bytes of a valid JSON
// string after unescaping. A surrogate pair is one character.
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
		bytes += utf8Len(unit)
	}
	return chars, bytes
}

// escape returns the code unit of the escape at the start of b, and the
// escape's length. For short forms only the size of the unit is right.
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

// utf8Len returns the number of UTF-8 bytes of a code unit.
func utf8Len(unit int) int {
	switch {
	case unit < 0x80:
		return 1
	case unit < 0x800:
		return 2
	}
	return 3
}
