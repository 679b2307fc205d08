package oauth

import (
	"crypto/rand"
	"strings"
)

// userCodeLetters are consonants that are not mistaken for one another, and form no words
// (RFC 8628, section 6.1).
const userCodeLetters = "BCDFGHJKLMNPQRSTVWXZ"

// userCodeLength gives 34 bits: 20^8 codes.
const userCodeLength = 8

// NewUserCode returns a random user code, as it is shown.
func NewUserCode() string {
	code := make([]byte, 0, userCodeLength)
	const most = 256 - 256%len(userCodeLetters) // bytes from here on would favour some letters
	for len(code) < userCodeLength {
		var b [16]byte
		rand.Read(b[:]) // never fails
		for _, v := range b {
			if int(v) < most && len(code) < userCodeLength {
				code = append(code, userCodeLetters[int(v)%len(userCodeLetters)])
			}
		}
	}
	return showUserCode(string(code))
}

// showUserCode returns a user code in the form in which people read it.
func showUserCode(code string) string { return code[:userCodeLength/2] + "-" + code[userCodeLength/2:] }

// ParseUserCode returns what a person entered as a user code, without what they may have
// added or left out, and false if it cannot be one.
func ParseUserCode(text string) (string, bool) {
	code := strings.Map(func(r rune) rune {
		if r == '-' || r == ' ' {
			return -1
		}
		return r
	}, strings.ToUpper(text))
	return code, len(code) == userCodeLength && strings.Trim(code, userCodeLetters) == ""
}
