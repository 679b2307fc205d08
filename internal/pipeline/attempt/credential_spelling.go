package attempt

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"
)

// encodings returns what a text becomes in base64 and in hexadecimal digits. In base64 it may
// follow other text, such as a user's name, which moves it by up to two bytes: what is
// returned are the characters that depend on the text only.
func encodings(text string) []string {
	hexadecimal := hex.EncodeToString([]byte(text))
	all := []string{hexadecimal, strings.ToUpper(hexadecimal)}
	for before := range 3 {
		raw := append(make([]byte, before), text...)
		first, last := (before*8+5)/6, len(raw)*8/6
		for _, of := range [...]*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			if e := of.EncodeToString(raw)[first:last]; len(e) >= minSecret {
				all = append(all, e)
			}
		}
	}
	return all
}

// hideSpelled replaces a text in body, in every spelling that readers of JSON, URLs and
// HTML take for it. It returns body if the text is not in it, otherwise a new slice.
func hideSpelled(body []byte, text string) []byte {
	var out []byte
	from := 0
	for i := 0; i < len(body); {
		n := bytes.IndexAny(body[i:], text[:1]+`\%&`)
		if n < 0 {
			break
		}
		i += n
		size := spelled(body[i:], text)
		if size == 0 {
			i++
			continue
		}
		out = append(append(out, body[from:i]...), hiddenCredential...)
		i += size
		from = i
	}
	if from == 0 {
		return body
	}
	return append(out, body[from:]...)
}

// spelled returns the length of the text at the beginning of body, 0 if it is not there.
func spelled(body []byte, text string) int {
	at := 0
	for i := range len(text) {
		c, size := character(body[at:])
		if size == 0 || c != text[i] {
			return 0
		}
		at += size
	}
	return at
}

// maxBackslashes is the number of backslashes before a character that are read: JSON in
// a string of JSON has two.
const maxBackslashes = 8

// character returns the character that a body begins with, which may be escaped as in JSON,
// URLs or HTML, and its length; the length is 0 at the end.
func character(body []byte) (c byte, size int) {
	if len(body) == 0 {
		return 0, 0
	}
	n := 0
	for n < maxBackslashes && n < len(body)-1 && body[n] == '\\' {
		n++
	}
	rest := body[n:]
	switch {
	case n > 0 && rest[0] == 'u' && len(rest) > 4:
		return digits(rest[1:5], 16, n+5)
	case n > 0 && rest[0] == 'x' && len(rest) > 2:
		return digits(rest[1:3], 16, n+3)
	case n > 0 && bytes.IndexByte([]byte(`/"+=-_.`), rest[0]) < 0:
		return body[0], 1
	case rest[0] == '%' && len(rest) > 2:
		if c, size := digits(rest[1:3], 16, n+3); size > 0 {
			return c, size
		}
	case bytes.HasPrefix(rest, []byte("&#")):
		return reference(rest, n)
	}
	return rest[0], n + 1
}

// reference returns the character of a numeric reference of HTML after n other bytes.
func reference(rest []byte, n int) (c byte, size int) {
	end := bytes.IndexByte(rest[:min(len(rest), 10)], ';')
	if end < 3 {
		return '&', n + 1
	}
	if number, base := rest[2:end], 10; number[0] == 'x' || number[0] == 'X' {
		return digits(number[1:], base+6, n+end+1)
	}
	return digits(rest[2:end], 10, n+end+1)
}

// digits returns the character with a number of ASCII, and size; the size is 0 for others.
func digits(number []byte, base, size int) (byte, int) {
	v, err := strconv.ParseUint(string(number), base, 7)
	if err != nil {
		return 0, 0
	}
	return byte(v), size
}
