// Package apierr is the one error a client may see.
//
// An [Error] has a kind, which fixes its HTTP status, and a message that says
// what the client can do. Every other error becomes an internal one whose cause
// is for the log only. The body is written here in the chat dialect; the other
// dialects bring their own shape. Recording and logging are left to the callers.
package apierr

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Kind classes errors by what a client can do about them.
type Kind uint8

// The kinds, with the status of each in the table below. Statuses are those of
// the settled readings: 408 timeout, 412 budget, 446 guardrail, 499 client gone.
const (
	Internal Kind = iota
	Invalid
	Unauthenticated
	Forbidden
	NotFound
	MethodNotAllowed
	Timeout
	Conflict
	BudgetExhausted
	TooLarge
	RateLimited
	Denied
	ClientGone
	Unsupported
	UpstreamFailed
	Unavailable
	UpstreamTimeout
	HeadersTooLarge
)

var kinds = [...]struct {
	status int
	typ    string
	code   string
}{
	Internal:         {http.StatusInternalServerError, "server_error", "internal_error"},
	Invalid:          {http.StatusBadRequest, "invalid_request_error", "invalid_request"},
	Unauthenticated:  {http.StatusUnauthorized, "authentication_error", "invalid_api_key"},
	Forbidden:        {http.StatusForbidden, "permission_error", "forbidden"},
	NotFound:         {http.StatusNotFound, "invalid_request_error", "not_found"},
	MethodNotAllowed: {http.StatusMethodNotAllowed, "invalid_request_error", "method_not_allowed"},
	Timeout:          {http.StatusRequestTimeout, "timeout_error", "timeout"},
	Conflict:         {http.StatusConflict, "invalid_request_error", "conflict"},
	BudgetExhausted:  {http.StatusPreconditionFailed, "budget_error", "budget_exhausted"},
	TooLarge:         {http.StatusRequestEntityTooLarge, "invalid_request_error", "request_too_large"},
	RateLimited:      {http.StatusTooManyRequests, "rate_limit_error", "rate_limited"},
	Denied:           {446, "guardrail_error", "denied_by_guardrail"},
	ClientGone:       {499, "client_error", "client_closed_request"},
	Unsupported:      {http.StatusNotImplemented, "invalid_request_error", "unsupported_operation"},
	UpstreamFailed:   {http.StatusBadGateway, "upstream_error", "upstream_failed"},
	Unavailable:      {http.StatusServiceUnavailable, "server_error", "unavailable"},
	UpstreamTimeout:  {http.StatusGatewayTimeout, "upstream_error", "upstream_timeout"},
	HeadersTooLarge:  {http.StatusRequestHeaderFieldsTooLarge, "invalid_request_error", "request_headers_too_large"},
}

// Error is an error made by the gateway. Treat it as immutable once it is
// returned: the With methods are for building one.
type Error struct {
	Kind    Kind
	Code    string // machine word; empty means the kind's own
	Message string // for the client: what is wrong and what to do
	Param   string // the parameter or header at fault, empty when there is none

	// RetryAfter tells the client when to come back. Zero sends no header.
	RetryAfter time.Duration

	// Err is the cause. It is logged and never sent.
	Err error
}

// New returns an error of kind k whose message is the formatted text.
func New(k Kind, format string, args ...any) *Error {
	return &Error{Kind: k, Message: fmt.Sprintf(format, args...)}
}

// WithParam names the parameter at fault and returns e.
func (e *Error) WithParam(param string) *Error { e.Param = param; return e }

// WithCode sets a machine word more exact than the kind's own and returns e.
func (e *Error) WithCode(code string) *Error { e.Code = code; return e }

// WithCause keeps err for the log and returns e.
func (e *Error) WithCause(err error) *Error { e.Err = err; return e }

// Error returns the message, and the cause behind it when there is one.
func (e *Error) Error() string {
	if e.Err != nil {
		return e.Message + ": " + e.Err.Error()
	}
	return e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Status returns the HTTP status of the error's kind.
func (e *Error) Status() int { return kinds[e.Kind].status }

// Type returns the word that clients of the chat dialect switch on.
func (e *Error) Type() string { return kinds[e.Kind].typ }

// CodeOrDefault returns Code, or the kind's own word.
func (e *Error) CodeOrDefault() string {
	if e.Code != "" {
		return e.Code
	}
	return kinds[e.Kind].code
}

// BodyMemoryFull returns the error for a body that limits.body_memory has no room
// for.
func BodyMemoryFull() *Error {
	e := New(Unavailable, "the gateway is out of body memory; try again shortly (limits.body_memory)").WithCode("body_memory_full")
	e.RetryAfter = time.Second
	return e
}

// IsNotFound reports whether err is an *Error of the kind NotFound.
func IsNotFound(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Kind == NotFound
}

// From returns err as an *Error. An error of another type becomes an internal
// one whose message tells nothing; its cause is kept for the log. From(nil) is nil.
func From(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Kind: Internal, Message: "internal error; look up the request id in the gateway's process log", Err: err}
}
