package dataplane

import (
	"net/http"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/jsonrpc"
)

// agentErrors are the codes of errors that A2A has names for.
// https://a2a-protocol.org/v1.0.0/specification/#54-error-code-mappings
var agentErrors = map[string]struct {
	code   int    // of JSON-RPC
	reason string // of the binding HTTP+JSON
}{
	"a2a_task_not_found":          {-32001, "TASK_NOT_FOUND"},
	"a2a_push_not_supported":      {-32003, "PUSH_NOTIFICATION_NOT_SUPPORTED"},
	"a2a_operation_not_supported": {-32004, "UNSUPPORTED_OPERATION"},
	"a2a_version_not_supported":   {-32009, "VERSION_NOT_SUPPORTED"},
	"a2a_method_not_found":        {jsonrpc.MethodNotFound, ""},
	"a2a_invalid_params":          {jsonrpc.InvalidParams, ""},
}

// IsAgentError reports whether an error is one of A2A, which its binding of JSON-RPC answers
// with the status 200.
func IsAgentError(e *apierr.Error) bool {
	_, ok := agentErrors[e.Code]
	return ok
}

// Names of statuses in the binding HTTP+JSON.
// https://github.com/googleapis/googleapis/blob/master/google/rpc/code.proto
var statusNames = map[int]string{
	http.StatusBadRequest: "INVALID_ARGUMENT", http.StatusUnauthorized: "UNAUTHENTICATED", http.StatusForbidden: "PERMISSION_DENIED",
	http.StatusNotFound: "NOT_FOUND", http.StatusConflict: "ABORTED", http.StatusTooManyRequests: "RESOURCE_EXHAUSTED",
	http.StatusInternalServerError: "INTERNAL", http.StatusNotImplemented: "UNIMPLEMENTED", http.StatusServiceUnavailable: "UNAVAILABLE",
	http.StatusGatewayTimeout: "DEADLINE_EXCEEDED",
}

// agentError returns an error in the form of the binding HTTP+JSON of A2A.
func agentError(e *apierr.Error) []byte {
	name, reason := statusNames[e.Status()], agentErrors[e.Code].reason
	if name == "" {
		name = "UNKNOWN"
	}
	domain := "a2a-protocol.org"
	if reason == "" {
		domain, reason = "gateway", strings.ToUpper(e.CodeOrDefault())
	}
	var b jsonedit.Builder
	b.Open('{')
	b.Name("error")
	b.Open('{')
	b.Name("code")
	b.Int(int64(e.Status()))
	b.Name("status")
	b.String(name)
	b.Name("message")
	b.String(e.Message)
	b.Name("details")
	b.Open('[')
	b.Open('{')
	b.Name("@type")
	b.String("type.googleapis.com/google.rpc.ErrorInfo")
	b.Name("reason")
	b.String(reason)
	b.Name("domain")
	b.String(domain)
	b.Close('}')
	b.Close(']')
	if e.Details != nil {
		b.Name("hook_results")
		b.Raw(e.Details)
	}
	b.Close('}')
	b.Close('}')
	return b.Bytes()
}

// ErrorBody returns the body of an error in the form of the request, for a response of which the
// status does not say that it failed, and records the error.
func (t *ToolRequest) ErrorBody(e *apierr.Error) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	rec := &t.trip.entry
	rec.ErrorSource, rec.ErrorCode, rec.ErrorMessage = "gateway", e.CodeOrDefault(), truncate(e.Message)
	return t.trip.errorBody(e)
}
