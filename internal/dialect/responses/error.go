package responses

import (
	"net/http"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
)

// Error returns the body of e for a response that has not begun. The protocol
// has the chat dialect's error format.
func (Dialect) Error(e *apierr.Error) []byte { return e.Body() }

// ErrorEvent appends e as the only event of a stream.
func (d Dialect) ErrorEvent(dst []byte, e *apierr.Error) []byte {
	return d.NumberedErrorEvent(dst, e, 0)
}

var _ dialect.NumberedErrors = Dialect{}

// NumberedErrorEvent appends e as the event that ends a stream. Its members are those
// of the protocol's error event. An error object is added as the provider does,
// since official clients only raise an error if there is one.
func (Dialect) NumberedErrorEvent(dst []byte, e *apierr.Error, number int64) []byte {
	b := jsonedit.Append(append(dst, "event: error\ndata: "...))
	b.Open('{')
	b.Name("type")
	b.String("error")
	writeFault(&b, e)
	b.Name("sequence_number")
	b.Int(number)
	b.Name("error")
	b.Open('{')
	b.Name("type")
	b.String(e.Type())
	writeFault(&b, e)
	b.Close('}')
	b.Close('}')
	return append(b.Bytes(), "\n\n"...)
}

func writeFault(b *jsonedit.Builder, e *apierr.Error) {
	b.Name("code")
	b.String(e.CodeOrDefault())
	b.Name("message")
	b.String(e.Message)
	b.Name("param")
	if e.Param == "" {
		b.Null()
		return
	}
	b.String(e.Param)
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
			marked := markSource(e, status, dialect.IsModelNotFound(status, body))
			return d.Apply(dst, jsonedit.Edit{Name: "error", Value: marked}, jsonedit.Edit{Name: "provider", Value: id})
		}
	}
	return appendError(dst, &d, body, provider, status)
}

// markSource returns the error object with its source added, and the code of a
// model that is not found. An error in Google's format has no type and a number
// as code; both become strings.
// https://cloud.google.com/apis/design/errors
func markSource(e jsonedit.Value, status int, lost bool) []byte {
	code, _ := e.Get("code")
	word, _ := e.Get("status")
	_, typed := e.Get("type")
	foreign := code.Kind() == jsonedit.Number && word.Kind() == jsonedit.String && !typed
	b := jsonedit.Append(nil)
	b.Open('{')
	for key, v := range e.Fields() {
		switch {
		case key.Is("source"), lost && key.Is("code"):
			continue
		case foreign && key.Is("code"):
			v = word
		}
		b.Key(key.String())
		b.Raw(v.Raw())
	}
	if foreign {
		b.Name("type")
		b.String(typeFor(status))
	}
	if lost {
		b.Name("code")
		b.String(dialect.CodeModelNotFound)
	}
	b.Name("source")
	b.String("provider")
	b.Close('}')
	return b.Bytes()
}

func appendError(dst []byte, d *jsonedit.Doc, body []byte, provider string, status int) []byte {
	message := dialect.FailureMessage(provider, status, body)
	b := jsonedit.Append(dst)
	b.Open('{')
	b.Name("error")
	b.Open('{')
	b.Name("message")
	b.String(message)
	b.Name("type")
	writeWord(&b, d, "type", typeFor(status))
	b.Name("param")
	b.Null()
	b.Name("code")
	if dialect.IsModelNotFound(status, body) {
		b.String(dialect.CodeModelNotFound)
	} else {
		writeWord(&b, d, "code", "")
	}
	b.Name("source")
	b.String("provider")
	b.Close('}')
	b.Name("provider")
	b.String(provider)
	b.Close('}')
	return b.Bytes()
}

// writeWord writes a string of the provider's body unchanged, or fallback, or
// null.
func writeWord(b *jsonedit.Builder, d *jsonedit.Doc, name, fallback string) {
	v, ok := d.Find(name)
	switch {
	case ok && v.Kind() == jsonedit.String && len(v.Raw()) < 100:
		b.Raw(v.Raw())
	case fallback == "":
		b.Null()
	default:
		b.String(fallback)
	}
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
