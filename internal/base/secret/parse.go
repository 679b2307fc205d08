package secret

import (
	"errors"
	"strings"
)

// errControl is the error of [Parse].
var errControl = errors.New("contains a control character or, outside of JSON and PEM, a line break; it was probably cut or pasted wrongly")

// Parse returns the credential in a text that comes from a file or the environment, or that a
// secret manager holds, without white space and line breaks around it. The error never holds
// the text.
func Parse(text string) (String, error) {
	text = strings.Trim(text, " \t\r\n\ufeff")
	lines := strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[") || strings.Contains(text, "-----BEGIN ")
	for i := range len(text) {
		switch c := text[i]; {
		case c == '\t', lines && (c == '\n' || c == '\r'):
		case c < ' ', c == 0x7f:
			return String{}, errControl
		}
	}
	return New(text), nil
}
