package chat

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"modelgate/internal/jsonedit"
)

// maxMessage is how many characters of a provider's text go into an error.
const maxMessage = 300

var sourcePath = mustPath("source")

func mustPath(s string) jsonedit.Path {
	p, err := jsonedit.ParsePath(s)
	if err != nil {
		panic(err)
	}
	return p
}

// ProviderError appends the body that tells a client of a provider's error. An
// error object of this dialect stays as it is, but that "source" is put into it
// and "provider" beside it. Any other body becomes one whose message says which
// provider answered what, with the beginning of the text it sent.
func (Dialect) ProviderError(dst, body []byte, provider string, status int) []byte {
	var d jsonedit.Doc
	id := jsonedit.AppendString(nil, provider)
	if d.Scan(body) == nil {
		if e, ok := d.Find("error"); ok && e.Kind() == jsonedit.Object {
			if marked, err := jsonedit.Set(nil, e.Raw(), sourcePath, []byte(`"provider"`)); err == nil {
				return d.Apply(dst, jsonedit.Edit{Name: "error", Value: marked}, jsonedit.Edit{Name: "provider", Value: id})
			}
		}
	}
	return appendError(dst, &d, body, provider, status)
}

// appendError makes an error object of what a provider sent.
func appendError(dst []byte, d *jsonedit.Doc, body []byte, provider string, status int) []byte {
	message := provider + " answered " + strconv.Itoa(status)
	if text := spoken(body); text != "" {
		message += ": " + text
	} else {
		message += " with an empty body"
	}
	dst = append(dst, `{"error":{"message":`...)
	dst = jsonedit.AppendString(dst, message)
	dst = append(dst, `,"type":`...)
	dst = appendWord(dst, d, "type", typeFor(status))
	dst = append(dst, `,"param":null,"code":`...)
	dst = appendWord(dst, d, "code", "")
	dst = append(dst, `,"source":"provider"},"provider":`...)
	dst = jsonedit.AppendString(dst, provider)
	return append(dst, '}')
}

// appendWord appends a string of the provider's body as it stands there, or
// fallback, or null.
func appendWord(dst []byte, d *jsonedit.Doc, name, fallback string) []byte {
	if v, ok := d.Find(name); ok && v.Kind() == jsonedit.String && len(v.Raw()) < 100 {
		return append(dst, v.Raw()...)
	}
	if fallback == "" {
		return append(dst, "null"...)
	}
	return jsonedit.AppendString(dst, fallback)
}

// typeFor is the word that clients of the dialect expect for a status.
func typeFor(status int) string {
	switch {
	case status == http.StatusUnauthorized:
		return "authentication_error"
	case status == http.StatusForbidden:
		return "permission_error"
	case status == http.StatusTooManyRequests:
		return "rate_limit_error"
	case status >= 400 && status < 500:
		return "invalid_request_error"
	}
	return "upstream_error"
}

// failure is the message of an error value or of an event that is one.
func failure(b []byte) string {
	if text := spoken(b); text != "" {
		return text
	}
	return "the provider reported an error without a message"
}

// spoken is what a provider's body says to people: its message where it is JSON
// that has one, else its text. It is cut after [maxMessage] characters.
func spoken(body []byte) string {
	v, err := jsonedit.ParseValue(body)
	if err != nil {
		return clean(withoutTags(body))
	}
	if text := said(v, 6); text != "" {
		return clean([]byte(text))
	}
	switch v.Kind() {
	case jsonedit.Null, jsonedit.String:
		return ""
	}
	return clean(v.Raw())
}

// said looks for a message in the forms that providers have: a string; an object
// with one of the members below; an array of such. Depth bounds the search.
func said(v jsonedit.Value, depth int) string {
	if depth == 0 {
		return ""
	}
	switch v.Kind() {
	case jsonedit.String:
		text, _ := v.Text()
		return text
	case jsonedit.Array:
		for e := range v.Elements() {
			if text := said(e, depth-1); text != "" {
				return text
			}
		}
	case jsonedit.Object:
		for _, name := range [...]string{"message", "Message", "error", "detail", "errors", "msg", "faultstring", "fault", "title"} {
			if inner, ok := v.Get(name); ok {
				if text := said(inner, depth-1); text != "" {
					return text
				}
			}
		}
	}
	return ""
}

// withoutTags leaves the tags out of a page, and its head.
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

// clean makes one line of text: runs of white space and control characters
// become one space, what is not UTF-8 is left out, and no more than
// [maxMessage] characters stay.
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
