package dialect

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"modelgate/internal/jsonedit"
)

// maxMessage is the number of characters of a provider's text that go into an
// error.
const maxMessage = 300

// ErrorMessage returns the readable part of a provider's error body: the
// message if it is JSON that has one, otherwise the text. It is cut after
// [maxMessage] characters.
func ErrorMessage(body []byte) string {
	v, err := jsonedit.ParseValue(body)
	if err != nil {
		return clean(withoutTags(body))
	}
	if text := findMessage(v, 6); text != "" {
		return clean([]byte(text))
	}
	switch v.Kind() {
	case jsonedit.Null, jsonedit.String:
		return ""
	}
	return clean(v.Raw())
}

// findMessage looks for a message in the forms that providers use: a string, an
// object with one of the members below, or an array of these. Depth bounds the
// search.
func findMessage(v jsonedit.Value, depth int) string {
	if depth == 0 {
		return ""
	}
	switch v.Kind() {
	case jsonedit.String:
		text, _ := v.Text()
		return text
	case jsonedit.Array:
		for e := range v.Elements() {
			if text := findMessage(e, depth-1); text != "" {
				return text
			}
		}
	case jsonedit.Object:
		for _, name := range [...]string{"message", "Message", "error", "detail", "errors", "msg", "faultstring", "fault", "title"} {
			if inner, ok := v.Get(name); ok {
				if text := findMessage(inner, depth-1); text != "" {
					return text
				}
			}
		}
	}
	return ""
}

// withoutTags removes the tags and the head of an HTML page.
func withoutTags(b []byte) []byte {
	b = bytes.TrimSpace(b)
	if len(b) == 0 || b[0] != '<' {
		return b
	}
	if i := bytes.Index(b, []byte("<body")); i >= 0 {
		b = b[i:]
	}
	var out []byte
	for len(b) > 0 && len(out) < 8*maxMessage {
		from := bytes.IndexByte(b, '<')
		if from < 0 {
			return append(out, b...)
		}
		out = append(append(out, b[:from]...), ' ')
		to := bytes.IndexByte(b[from:], '>')
		if to < 0 {
			return out
		}
		b = b[from+to+1:]
	}
	return out
}

// clean turns text into one line: it replaces runs of white space and control
// characters with a space, removes invalid UTF-8 and cuts after [maxMessage]
// characters.
func clean(b []byte) string {
	var out strings.Builder
	gap := false
	for n := 0; len(b) > 0 && n < maxMessage; {
		r, size := utf8.DecodeRune(b)
		b = b[size:]
		switch {
		case r == utf8.RuneError && size == 1, unicode.Is(unicode.Cf, r):
			continue
		case unicode.IsSpace(r) || unicode.IsControl(r):
			gap = n > 0
			continue
		case gap:
			out.WriteByte(' ')
			gap = false
			n++
		}
		if n++; n <= maxMessage {
			out.WriteRune(r)
		}
	}
	return strings.TrimSuffix(out.String(), " ")
}
