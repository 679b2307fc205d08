package simulator

import (
	"encoding/json"
	"unicode/utf16"
	"unicode/utf8"
)

// bytesPerToken is the number of bytes of a token in the simulator.
const bytesPerToken = 4

// filler continues a response after the echo. It needs no escaping in JSON.
const filler = "and so the simulator goes on in plain words, one after the other, until the answer is as long as it was asked to be; "

// tokensOf returns the number of tokens in n bytes of text.
func tokensOf(n int) int { return (n + bytesPerToken - 1) / bytesPerToken }

// advance moves over raw JSON string bytes from the offset on until n bytes of
// text or the end is reached. It does not stop inside an escape, a surrogate
// pair or a character. It returns the new offset and the bytes of text passed.
func advance(raw []byte, from, n int) (to, passed int) {
	to = from
	for to < len(raw) && passed < n {
		width, text := unit(raw[to:])
		to += width
		passed += text
	}
	return to, passed
}

// unit returns the length of the character at the start of raw, as written and
// as text. raw must be from a valid JSON string.
func unit(raw []byte) (width, text int) {
	if raw[0] < utf8.RuneSelf && raw[0] != '\\' {
		return 1, 1
	}
	if raw[0] != '\\' {
		_, size := utf8.DecodeRune(raw)
		return size, size
	}
	if raw[1] != 'u' {
		return 2, 1
	}
	r, _ := hex4(raw[2:])
	if !utf16.IsSurrogate(r) {
		return 6, utf8.RuneLen(r)
	}
	if len(raw) >= 12 && raw[6] == '\\' && raw[7] == 'u' {
		if low, ok := hex4(raw[8:]); ok && utf16.DecodeRune(r, low) != utf8.RuneError {
			return 12, 4
		}
	}
	return 6, utf8.RuneLen(utf8.RuneError)
}

// textLen returns the number of bytes of the text in raw.
func textLen(raw []byte) int {
	if plainEnd(raw, 0) == len(raw) {
		return len(raw)
	}
	_, n := advance(raw, 0, len(raw))
	return n
}

// plainText returns the text in raw.
func plainText(raw []byte) string {
	if plainEnd(raw, 0) == len(raw) {
		return string(raw)
	}
	quoted := append(append([]byte{'"'}, raw...), '"')
	var text string
	if json.Unmarshal(quoted, &text) != nil {
		return string(raw)
	}
	return text
}

// appendRaw appends text as raw JSON string bytes, without quotes.
func appendRaw(dst []byte, text string) []byte {
	quoted, err := json.Marshal(text)
	if err != nil {
		return dst
	}
	return append(dst, quoted[1:len(quoted)-1]...)
}

// appendFiller appends n bytes of filler.
func appendFiller(dst []byte, n int) []byte {
	for n > len(filler) {
		dst = append(dst, filler...)
		n -= len(filler)
	}
	return append(dst, filler[:max(n, 0)]...)
}
