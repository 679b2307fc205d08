package converse

import (
	"cmp"
	"net/http"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/format/eventstream"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// errorTypes are the error names of the SDKs, which read them from __type. A
// member code would take precedence and is not written.
// https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html
var errorTypes = map[apierr.Kind]string{
	apierr.Unauthenticated: "UnrecognizedClientException",
	apierr.Forbidden:       "AccessDeniedException",
	apierr.NotFound:        "ResourceNotFoundException",
	apierr.Timeout:         "ModelTimeoutException",
	apierr.Conflict:        "ConflictException",
	apierr.BudgetExhausted: "ServiceQuotaExceededException",
	apierr.RateLimited:     "ThrottlingException",
	apierr.Denied:          "AccessDeniedException",
	apierr.UpstreamFailed:  "ModelErrorException",
	apierr.Unavailable:     "ServiceUnavailableException",
	apierr.UpstreamTimeout: "ModelTimeoutException",
	apierr.Internal:        "InternalServerException",
}

func errorType(k apierr.Kind) string { return cmp.Or(errorTypes[k], "ValidationException") }

// Error returns the body of e for a response that has not begun.
func (Dialect) Error(e *apierr.Error) []byte {
	var b jsonedit.Builder
	b.Open('{')
	b.Name("message")
	b.String(e.Message)
	b.Name("__type")
	b.String(errorType(e.Kind))
	if e.Param != "" {
		b.Name("param")
		b.String(e.Param)
	}
	b.Name("reason")
	b.String(e.CodeOrDefault())
	b.Name("source")
	b.String("gateway")
	b.Close('}')
	return b.Bytes()
}

// ErrorEvent appends e as an exception, which ends the stream.
func (Dialect) ErrorEvent(dst []byte, e *apierr.Error) []byte {
	exception := "validationException"
	switch e.Kind {
	case apierr.Internal:
		exception = "internalServerException"
	case apierr.RateLimited, apierr.BudgetExhausted:
		exception = "throttlingException"
	case apierr.Unavailable:
		exception = "serviceUnavailableException"
	case apierr.UpstreamFailed, apierr.UpstreamTimeout, apierr.Timeout:
		exception = "modelStreamErrorException"
	}
	return appendException(dst, exception, e.Message)
}

// appendException appends an exception of a stream.
func appendException(dst []byte, exception, message string) []byte {
	return eventstream.Append(dst, []eventstream.Header{
		{Name: ":exception-type", Text: exception},
		{Name: ":content-type", Text: "application/json"},
		{Name: ":message-type", Text: "exception"},
	}, wrap("message", jsonedit.AppendString(nil, message)))
}

// exceptionFor returns the exception for an error inside a provider's stream,
// in any dialect.
func exceptionFor(f *llm.ProviderError) string {
	said := strings.ToLower(f.Type + " " + f.Code)
	for _, known := range [...]struct{ part, exception string }{
		{"throttl", "throttlingException"}, {"rate", "throttlingException"}, {"overload", "throttlingException"},
		{"exhausted", "throttlingException"}, {"429", "throttlingException"},
		{"validation", "validationException"}, {"invalid", "validationException"},
		{"unavailable", "serviceUnavailableException"}, {"internal", "internalServerException"}, {"server_error", "internalServerException"},
		{"api_error", "internalServerException"},
	} {
		if strings.Contains(said, known.part) {
			return known.exception
		}
	}
	return "modelStreamErrorException"
}

// ProviderError appends the body that reports a provider's error. A body of
// this dialect is kept, with source and provider added.
func (Dialect) ProviderError(dst, body []byte, provider string, status int) []byte {
	var d jsonedit.Doc
	id := jsonedit.AppendString(nil, provider)
	lost := dialect.IsModelNotFound(status, body)
	if d.Scan(body) == nil {
		for _, member := range [...]string{"message", "Message"} {
			if v, ok := d.Find(member); ok && v.Kind() == jsonedit.String {
				edits := []jsonedit.Edit{{Name: "source", Value: []byte(`"provider"`)}, {Name: "provider", Value: id}}
				if _, typed := d.Find("__type"); !typed { // it was in a header, or the body is of another protocol
					edits = append(edits, jsonedit.Edit{Name: "__type", Value: jsonedit.AppendString(nil, typeFor(status))})
				}
				if lost {
					edits = append(edits, jsonedit.Edit{Name: "reason", Value: jsonedit.AppendString(nil, dialect.CodeModelNotFound)})
				}
				return d.Apply(dst, edits...)
			}
		}
	}
	message := dialect.FailureMessage(provider, status, body)
	b := jsonedit.Append(dst)
	b.Open('{')
	b.Name("message")
	b.String(message)
	b.Name("__type")
	b.String(typeFor(status))
	if lost {
		b.Name("reason")
		b.String(dialect.CodeModelNotFound)
	}
	b.Name("source")
	b.String("provider")
	b.Name("provider")
	b.Raw(id)
	b.Close('}')
	return b.Bytes()
}

func typeFor(status int) string {
	switch {
	case status == http.StatusUnauthorized:
		return "UnrecognizedClientException"
	case status == http.StatusForbidden:
		return "AccessDeniedException"
	case status == http.StatusNotFound:
		return "ResourceNotFoundException"
	case status == http.StatusTooManyRequests, status == 529:
		return "ThrottlingException"
	case status == http.StatusRequestTimeout, status == http.StatusGatewayTimeout:
		return "ModelTimeoutException"
	case status == http.StatusServiceUnavailable:
		return "ServiceUnavailableException"
	case status == http.StatusInternalServerError:
		return "InternalServerException"
	case status >= 400 && status < 500:
		return "ValidationException"
	}
	return "ModelErrorException"
}
