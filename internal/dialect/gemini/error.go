package gemini

import (
	"net/http"
	"strconv"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// Error returns the body of e for a response that has not begun.
func (Dialect) Error(e *apierr.Error) []byte { return appendError(nil, e) }

// ErrorEvent appends e as an event that ends a stream.
func (Dialect) ErrorEvent(dst []byte, e *apierr.Error) []byte {
	dst = append(dst, "data: "...)
	return append(appendError(dst, e), "\r\n\r\n"...)
}

// statusWord returns the name in google.rpc.Code for an HTTP status.
// https://cloud.google.com/apis/design/errors#handling_errors
func statusWord(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "UNAUTHENTICATED"
	case http.StatusForbidden:
		return "PERMISSION_DENIED"
	case http.StatusNotFound:
		return "NOT_FOUND"
	case http.StatusConflict:
		return "ABORTED"
	case http.StatusPreconditionFailed, 446:
		return "FAILED_PRECONDITION"
	case http.StatusTooManyRequests:
		return "RESOURCE_EXHAUSTED"
	case 499:
		return "CANCELLED"
	case http.StatusNotImplemented, http.StatusMethodNotAllowed:
		return "UNIMPLEMENTED"
	case http.StatusBadGateway, http.StatusServiceUnavailable, 529:
		return "UNAVAILABLE"
	case http.StatusGatewayTimeout, http.StatusRequestTimeout:
		return "DEADLINE_EXCEEDED"
	}
	if status >= 500 {
		return "INTERNAL"
	}
	return "INVALID_ARGUMENT"
}

// appendError appends an error of the gateway in Google's format.
func appendError(dst []byte, e *apierr.Error) []byte {
	b := jsonedit.Append(dst)
	openError(&b, e.Status(), statusWord(e.Status()), e.Message)
	b.Name("details")
	b.Open('[')
	detail(&b, "ErrorInfo")
	text(&b, "reason", e.CodeOrDefault())
	text(&b, "domain", "modelgate")
	b.Close('}')
	if e.Param != "" {
		detail(&b, "BadRequest")
		b.Name("fieldViolations")
		b.Open('[')
		b.Open('{')
		text(&b, "field", e.Param)
		text(&b, "description", e.Message)
		b.Close('}')
		b.Close(']')
		b.Close('}')
	}
	if e.RetryAfter > 0 {
		detail(&b, "RetryInfo")
		text(&b, "retryDelay", strconv.FormatFloat(e.RetryAfter.Seconds(), 'f', -1, 64)+"s")
		b.Close('}')
	}
	b.Close(']')
	text(&b, "source", "gateway")
	b.Close('}')
	b.Close('}')
	return b.Bytes()
}

// openError begins an error object; the caller closes two braces.
func openError(b *jsonedit.Builder, code int, status, message string) {
	b.Open('{')
	b.Name("error")
	b.Open('{')
	b.Name("code")
	b.Int(int64(code))
	text(b, "message", message)
	text(b, "status", status)
}

func detail(b *jsonedit.Builder, name string) {
	b.Open('{')
	text(b, "@type", "type.googleapis.com/google.rpc."+name)
}

// text writes a member that is a string.
func text(b *jsonedit.Builder, name, value string) {
	b.Name(name)
	b.String(value)
}

// ProviderError appends the body that reports a provider's error. An error of
// this dialect is kept, with "source" added to it and "provider" next to it; of
// a list, which streams return, the first error is used. Any other body becomes
// an error of this dialect.
func (Dialect) ProviderError(dst, body []byte, provider string, status int) []byte {
	if first, ok := firstError(body); ok {
		var d jsonedit.Doc
		if d.Scan(first) == nil {
			e, _ := d.Find("error")
			marked := withSource(e)
			id := jsonedit.AppendString(nil, provider)
			return d.Apply(dst, jsonedit.Edit{Name: "error", Value: marked}, jsonedit.Edit{Name: "provider", Value: id})
		}
	}
	message := dialect.FailureMessage(provider, status, body)
	b := jsonedit.Append(dst)
	openError(&b, status, statusWord(status), message)
	b.Name("details")
	b.Open('[')
	if dialect.IsModelNotFound(status, body) {
		detail(&b, "ErrorInfo")
		text(&b, "reason", dialect.CodeModelNotFound)
		text(&b, "domain", "modelgate")
		b.Close('}')
	}
	b.Close(']')
	text(&b, "source", "provider")
	b.Close('}')
	text(&b, "provider", provider)
	b.Close('}')
	return b.Bytes()
}

// firstError returns the object in body that holds an error of this dialect: it
// has a message and a status or code.
func firstError(body []byte) ([]byte, bool) {
	v, err := jsonedit.ParseValue(body)
	if err != nil {
		return nil, false
	}
	if v.Kind() == jsonedit.Array {
		for first := range v.Elements() {
			v = first
			break
		}
	}
	e, _ := v.Get("error")
	if message, _ := e.Get("message"); message.Kind() != jsonedit.String {
		return nil, false
	}
	status, _ := e.Get("status")
	code, _ := e.Get("code")
	return v.Raw(), status.Kind() == jsonedit.String || code.Kind() == jsonedit.Number
}

// withSource returns an error object with "source" set.
func withSource(e jsonedit.Value) []byte {
	b := jsonedit.Append(nil)
	b.Open('{')
	for key, v := range e.Fields() {
		if !key.Is("source") {
			b.Key(key.String())
			b.Raw(v.Raw())
		}
	}
	text(&b, "source", "provider")
	b.Close('}')
	return b.Bytes()
}

// faultOf reads the error of a frame.
func faultOf(e jsonedit.Value) *llm.ProviderError {
	f := &llm.ProviderError{Raw: append([]byte(nil), e.Raw()...)}
	for key, v := range e.Fields() {
		switch string(key.Raw()) {
		case `"status"`:
			f.Type, _ = v.Text()
		case `"message"`:
			f.Message, _ = v.Text()
		case `"code"`:
			if f.Code, _ = v.Text(); f.Code == "" {
				f.Code = string(v.Raw())
			}
		}
	}
	if f.Message == "" {
		f.Message = dialect.ErrorMessage(e.Raw())
	}
	return f
}

// appendFault appends a provider's error inside a stream.
func appendFault(dst []byte, f *llm.ProviderError) []byte {
	code, status := faultStatus(f)
	b := jsonedit.Append(append(dst, "data: "...))
	message := "the provider reported an error"
	if f.Message != "" {
		message = f.Message
	}
	openError(&b, code, status, message)
	b.Name("details")
	b.Open('[')
	b.Close(']')
	text(&b, "source", f.Source())
	b.Close('}')
	b.Close('}')
	return append(b.Bytes(), "\r\n\r\n"...)
}

// faultStatus returns the status code and name for an error that any provider
// may have sent.
func faultStatus(f *llm.ProviderError) (int, string) {
	if code, err := strconv.Atoi(f.Code); err == nil && code >= 400 && code < 600 {
		return code, statusWord(code)
	}
	code := http.StatusInternalServerError
	switch f.Type {
	case "overloaded_error", "serviceUnavailableException", "UNAVAILABLE":
		code = http.StatusServiceUnavailable
	case "rate_limit_error", "throttlingException", "RESOURCE_EXHAUSTED":
		code = http.StatusTooManyRequests
	case "invalid_request_error", "validationException", "INVALID_ARGUMENT":
		code = http.StatusBadRequest
	case "timeout_error", "modelTimeoutException", "DEADLINE_EXCEEDED":
		code = http.StatusGatewayTimeout
	}
	return code, statusWord(code)
}
