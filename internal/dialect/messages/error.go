package messages

import (
	"net/http"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
)

// Error returns the body of e for a response that has not begun.
func (Dialect) Error(e *apierr.Error) []byte { return appendFailure(nil, e) }

// ErrorEvent appends e as an error event, which clients raise as an error.
func (Dialect) ErrorEvent(dst []byte, e *apierr.Error) []byte {
	dst = append(dst, "event: error\ndata: "...)
	dst = appendFailure(dst, e)
	return append(dst, "\n\n"...)
}

// appendFailure writes the protocol's error, with the gateway's parameter and
// code next to the message.
func appendFailure(dst []byte, e *apierr.Error) []byte {
	b := jsonedit.Append(dst)
	openFailure(&b, wordFor(e.Status()), e.Message)
	if e.Param != "" {
		b.Name("param")
		b.String(e.Param)
	}
	b.Name("code")
	b.String(e.CodeOrDefault())
	if e.Code == codeThread {
		threadDetails(&b, e.Param)
	}
	b.Name("source")
	b.String("gateway")
	b.Close('}')
	b.Close('}')
	return b.Bytes()
}

// codeThread is the protocol's code for a request that cannot continue or begin
// a conversation stored at the server.
const codeThread = "thread_unsupported_request"

// threadDetails writes the code where clients look for it.
// https://github.com/anthropics/anthropic-sdk-typescript/blob/main/src/lib/internal/threads/ThreadState.ts
func threadDetails(b *jsonedit.Builder, name string) {
	b.Name("details")
	b.Open('{')
	b.Name("error_code")
	b.String(codeThread)
	b.Name("unsupported")
	b.Open('[')
	b.String(name)
	b.Close(']')
	b.Close('}')
}

// openFailure begins an error and leaves both of its objects open.
func openFailure(b *jsonedit.Builder, word, message string) {
	b.Open('{')
	b.Name("type")
	b.String("error")
	b.Name("error")
	b.Open('{')
	b.Name("type")
	b.String(word)
	b.Name("message")
	b.String(message)
}

// errorWords are the types of errors by status.
// https://docs.claude.com/en/api/errors
var errorWords = map[int]string{
	http.StatusUnauthorized:          "authentication_error",
	http.StatusPaymentRequired:       "billing_error",
	http.StatusForbidden:             "permission_error",
	http.StatusNotFound:              "not_found_error",
	http.StatusRequestTimeout:        "timeout_error",
	http.StatusPreconditionFailed:    "billing_error", // the budget is exhausted
	http.StatusRequestEntityTooLarge: "request_too_large",
	http.StatusTooManyRequests:       "rate_limit_error",
	http.StatusServiceUnavailable:    "overloaded_error",
	http.StatusGatewayTimeout:        "timeout_error",
	http.StatusNotImplemented:        "invalid_request_error", // the target does not support it
	statusDenied:                     "permission_error",
	statusOverloaded:                 "overloaded_error",
}

const (
	statusDenied     = 446 // by a guardrail
	statusOverloaded = 529
)

func wordFor(status int) string {
	if word, ok := errorWords[status]; ok {
		return word
	}
	if status >= 500 {
		return "api_error"
	}
	return "invalid_request_error"
}

// ProviderError appends the body that reports a provider's error. An error of
// this dialect is kept, with "source" added to it and "provider" next to it.
// Any other body becomes an error whose message names the provider and status
// and has the start of its text.
func (Dialect) ProviderError(dst, body []byte, provider string, status int) []byte {
	var d jsonedit.Doc
	lost := dialect.IsModelNotFound(status, body)
	if d.Scan(body) == nil {
		if marked := markedError(&d, lost); marked != nil {
			id := jsonedit.AppendString(nil, provider)
			return d.Apply(dst, jsonedit.Edit{Name: "error", Value: marked}, jsonedit.Edit{Name: "provider", Value: id})
		}
	}
	message := dialect.FailureMessage(provider, status, body)
	b := jsonedit.Append(dst)
	openFailure(&b, wordFor(status), message)
	if lost {
		b.Name("code")
		b.String(dialect.CodeModelNotFound)
	}
	b.Name("source")
	b.String("provider")
	b.Close('}')
	b.Name("provider")
	b.String(provider)
	b.Close('}')
	return b.Bytes()
}

// markedError returns the error object of a body of this dialect with its
// source added, and the code of a model that is not found, or nil for other
// bodies.
func markedError(d *jsonedit.Doc, lost bool) []byte {
	kind, _ := d.Find("type")
	if word, _ := kind.Text(); word != "error" {
		return nil
	}
	inner, _ := d.Find("error")
	if inner.Kind() != jsonedit.Object || fieldsOf(inner).word("type") == "" {
		return nil
	}
	marked, err := jsonedit.Set(nil, inner.Raw(), sourcePath, []byte(`"provider"`))
	if err == nil && lost {
		marked, err = jsonedit.Set(nil, marked, codePath, jsonedit.AppendString(nil, dialect.CodeModelNotFound))
	}
	if err != nil {
		return nil
	}
	return marked
}

var sourcePath, codePath = mustPath("source"), mustPath("code")

func mustPath(s string) jsonedit.Path {
	p, err := jsonedit.ParsePath(s)
	if err != nil {
		panic(err)
	}
	return p
}
