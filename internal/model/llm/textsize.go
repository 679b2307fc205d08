package llm

// TextSize returns the length in bytes of English text that has about as many tokens as
// text. Tokenizers merge the small letters of words; they merge few capitals, digits, signs,
// line breaks and characters of other scripts. It is at least the number of bytes.
func TextSize[T string | []byte](text T) int64 {
	halves := 0
	for i := range len(text) {
		halves += int(textHalves[text[i]])
	}
	return int64(halves+1) / 2
}

// textHalves are the sizes of bytes, in halves. A character of a script that tokenizers
// know from few texts counts as much as three tokens may need, the others by their length.
var textHalves = func() (size [256]uint8) {
	for c := range size {
		switch {
		case c == ' ', c >= 'a' && c <= 'z', c >= 0x80 && c <= 0xBF:
			size[c] = 2
		case c >= '0' && c <= '9':
			size[c] = 3
		case c < 0x80: // capitals, signs and control characters
			size[c] = 4
		case c >= 0xF0: // the first of four bytes
			size[c] = 8
		case c >= 0xE0: // of three
			size[c] = 5
		case c <= 0xC9, c >= 0xCE && c <= 0xD3, c >= 0xD7 && c <= 0xDB: // of two: Latin, Greek, Cyrillic, Hebrew, Arabic
			size[c] = 2
		default: // of two, in scripts with few texts
			size[c] = 5
		}
	}
	return size
}()
