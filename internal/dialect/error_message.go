package dialect

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"modelgate/internal/format/jsonedit"
)

// maxMessage is the number of characters of a provider's text that go into an
// error. Descriptions of what is wrong with a schema are long.
const maxMessage = 4 << 10

// FailureMessage returns the message for the error response of a provider: its status
// and the readable part of its body.
func FailureMessage(provider string, status int, body []byte) string {
	message := provider + " answered " + strconv.Itoa(status)
	if text := ErrorMessage(body); text != "" {
		return message + ": " + text
	}
	return message + " with an empty body"
}

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
		return joinMessages(v, depth-1)
	case jsonedit.Object:
		for _, name := range [...]string{"message", "Message", "error", "detail", "errors", "msg", "error_msg", "status_msg", "base_resp",
			"faultstring", "fault", "title"} {
			if inner, ok := v.Get(name); ok {
				if text := findMessage(inner, depth-1); text != "" {
					return withRaw(v, text, depth)
				}
			}
		}
	}
	return ""
}

// withRaw returns the message of an error of OpenRouter with that of the provider behind it.
// https://openrouter.ai/docs/api/reference/errors-and-debugging
func withRaw(e jsonedit.Value, text string, depth int) string {
	metadata, _ := e.Get("metadata")
	raw, _ := metadata.Get("raw")
	behind := findMessage(raw, depth-1)
	if inner, err := jsonedit.ParseValue([]byte(behind)); err == nil { // JSON in a string
		if message := findMessage(inner, depth-1); message != "" {
			behind = message
		}
	}
	if behind == "" || strings.Contains(text, behind) {
		return text
	}
	return text + ": " + behind
}

// joinMessages returns the messages of the elements of an array, each after its
// place in the request if it has one, up to [maxMessage] bytes.
func joinMessages(list jsonedit.Value, depth int) string {
	var out strings.Builder
	for e := range list.Elements() {
		text := findMessage(e, depth)
		if text == "" {
			continue
		}
		if out.Len() > 0 {
			out.WriteString("; ")
		}
		if place := placeOf(e); place != "" {
			out.WriteString(place + ": ")
		}
		if out.WriteString(text); out.Len() > maxMessage {
			break
		}
	}
	return out.String()
}

// placeOf returns the place that an entry of an error names, as FastAPI writes
// it: ["body","messages",0] becomes body.messages.0.
// https://fastapi.tiangolo.com/tutorial/handling-errors/
func placeOf(entry jsonedit.Value) string {
	var names []string
	size := 0
	loc, _ := entry.Get("loc")
	for e := range loc.Elements() {
		name, ok := e.Text()
		if !ok {
			name = string(e.Raw())
		}
		names = append(names, name)
		if size += len(name); size > maxMessage {
			break
		}
	}
	return strings.Join(names, ".")
}

// CodeModelNotFound is the code of the error for a model that a provider does
// not have.
const CodeModelNotFound = "model_not_found"

// IsModelNotFound reports whether a provider's error says that it does not have
// the model: it has the status 404 and is about a model or a deployment.
// Providers have no code for it in common. A 404 for a model that exists and
// needs another endpoint is not one.
func IsModelNotFound(status int, body []byte) bool {
	if status != http.StatusNotFound {
		return false
	}
	text := strings.ToLower(ErrorMessage(body))
	about := strings.Contains(text, "model") || strings.Contains(text, "deployment")
	return about && !strings.Contains(text, "endpoint")
}

// RetryDelay returns how long an error in Google's format asks to wait.
// https://cloud.google.com/apis/design/errors#error_details
func RetryDelay(body []byte) (time.Duration, bool) {
	if !bytes.Contains(body, []byte("retryDelay")) {
		return 0, false
	}
	v, err := jsonedit.ParseValue(body)
	if err != nil {
		return 0, false
	}
	if v.Kind() == jsonedit.Array {
		for first := range v.Elements() {
			v = first
			break
		}
	}
	e, _ := v.Get("error")
	details, _ := e.Get("details")
	for d := range details.Elements() {
		delay, _ := d.Get("retryDelay")
		text, _ := delay.Text()
		if wait, err := time.ParseDuration(text); err == nil && wait >= 0 {
			return wait, true
		}
	}
	return 0, false
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
