package access

import (
	"errors"
	"net/mail"
	"strings"
)

// errEmail is the error of [ParseEmail].
var errEmail = errors.New("must be an e-mail address of letters, digits and signs of ASCII; write other domains as xn--…")

// ParseEmail returns an e-mail address in the form in which accounts have it: in lower
// case. It refuses characters beyond ASCII, because some look like others or have no
// width, and some become ASCII letters in lower case: two accounts would look the same.
func ParseEmail(text string) (string, error) {
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c >= 0x7f {
			return "", errEmail
		}
	}
	a, err := mail.ParseAddress(text)
	if err != nil || a.Name != "" || a.Address != text {
		return "", errEmail
	}
	return strings.ToLower(a.Address), nil
}

// UserName returns a text that names a user by id or e-mail address in the form in which
// accounts have both. A text with characters beyond ASCII is returned unchanged: it names
// no account, and must not become the name of one in lower case.
func UserName(text string) string {
	for i := range len(text) {
		if text[i] >= 0x80 {
			return text
		}
	}
	return strings.ToLower(text)
}
