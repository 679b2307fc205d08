package chat

import (
	"net/http"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
)

// Error returns the body of e for a response that has not begun.
func (Dialect) Error(e *apierr.Error) []byte { return e.Body() }

// ErrorEvent appends e as the last event of a stream: a data field with an
// error object, which official clients raise as an error.
func (Dialect) ErrorEvent(dst []byte, e *apierr.Error) []byte {
	dst = append(dst, "data: "...)
	dst = append(dst, e.Body()...)
	return append(dst, "\n\n"...)
}

var sourcePath = mustPath("source")

func mustPath(s string) jsonedit.Path {
	p, err := jsonedit.ParsePath(s)
	if err != nil {
		panic(err)
	}
	return p
}

// ProviderError appends the body that reports a provider's error. An error
// object of this dialect is kept, with "source" added to it and "provider" next
// to it. Any other body becomes an error object whose message names the
// provider and status and has the start of its text.
func (Dialect) ProviderError(dst, body []byte, provider string, status int) []byte {
	var d jsonedit.Doc
	id := jsonedit.AppendString(nil, provider)
	if d.Scan(body) == nil {
		if e, ok := d.Find("error"); ok && e.Kind() == jsonedit.Object {
			lost := dialect.IsModelNotFound(status, body)
			if word, ok := isGoogleError(e); ok {
				if lost {
					word = modelNotFound
				}
				return d.Apply(dst, jsonedit.Edit{Name: "error", Value: appendGoogles(nil, e, word, status)},
					jsonedit.Edit{Name: "provider", Value: id})
			}
			if marked, err := markError(e, lost); err == nil {
				return d.Apply(dst, jsonedit.Edit{Name: "error", Value: marked}, jsonedit.Edit{Name: "provider", Value: id})
			}
		}
	}
	return appendError(dst, &d, body, provider, status)
}

var (
	codePath         = mustPath("code")
	modelNotFound, _ = jsonedit.ParseValue([]byte(`"` + dialect.CodeModelNotFound + `"`))
)

// markError returns an error object of this dialect with its source, and with
// the code of a model that is not found.
func markError(e jsonedit.Value, lost bool) ([]byte, error) {
	marked, err := jsonedit.Set(nil, e.Raw(), sourcePath, []byte(`"provider"`))
	if err != nil || !lost {
		return marked, err
	}
	return jsonedit.Set(nil, marked, codePath, modelNotFound.Raw())
}

// isGoogleError reports whether e is an error in Google's format, and returns
// its status. Its code is a number where clients of this dialect expect a
// string, and it has no type.
// https://cloud.google.com/apis/design/errors
func isGoogleError(e jsonedit.Value) (word jsonedit.Value, ok bool) {
	code, _ := e.Get("code")
	word, _ = e.Get("status")
	_, typed := e.Get("type")
	return word, code.Kind() == jsonedit.Number && word.Kind() == jsonedit.String && !typed
}

// appendGoogles appends an error in Google's format as one of this dialect,
// without loss.
func appendGoogles(dst []byte, e, word jsonedit.Value, status int) []byte {
	b := jsonedit.Append(dst)
	b.Open('{')
	for key, v := range e.Fields() {
		switch {
		case key.Is("code"):
			v = word
		case key.Is("param"), key.Is("source"):
			continue
		}
		b.Key(key.String())
		b.Raw(v.Raw())
	}
	b.Name("type")
	b.String(typeFor(status))
	b.Name("param")
	b.Null()
	b.Name("source")
	b.String("provider")
	b.Close('}')
	return b.Bytes()
}

// appendError appends an error object built from a provider's body.
func appendError(dst []byte, d *jsonedit.Doc, body []byte, provider string, status int) []byte {
	message := dialect.FailureMessage(provider, status, body)
	dst = append(dst, `{"error":{"message":`...)
	dst = jsonedit.AppendString(dst, message)
	dst = append(dst, `,"type":`...)
	dst = appendWord(dst, d, "type", typeFor(status))
	dst = append(dst, `,"param":null,"code":`...)
	if dialect.IsModelNotFound(status, body) {
		dst = append(dst, modelNotFound.Raw()...)
	} else {
		dst = appendWord(dst, d, "code", "")
	}
	dst = append(dst, `,"source":"provider"},"provider":`...)
	dst = jsonedit.AppendString(dst, provider)
	return append(dst, '}')
}

// appendWord appends a string of the provider's body unchanged, or fallback, or
// null.
func appendWord(dst []byte, d *jsonedit.Doc, name, fallback string) []byte {
	if v, ok := d.Find(name); ok && v.Kind() == jsonedit.String && len(v.Raw()) < 100 {
		return append(dst, v.Raw()...)
	}
	if fallback == "" {
		return append(dst, "null"...)
	}
	return jsonedit.AppendString(dst, fallback)
}

// typeFor returns the error type that clients of this dialect expect for a
// status.
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

// failure returns the message of an error value, or of an event that is one.
func failure(b []byte) string {
	if text := dialect.ErrorMessage(b); text != "" {
		return text
	}
	return "the provider reported an error without a message"
}
