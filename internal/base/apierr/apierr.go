// Package apierr defines the error that clients see.
//
// An [Error] has a kind, which determines its HTTP status, and a message that says what
// the client can do. Every other error becomes an internal error whose cause is only
// logged. The body has the chat dialect's format; other dialects write their own. The
// package does not record or log errors.
package apierr

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Kind classifies errors by what a client can do about them.
type Kind uint8

// Kinds, with their statuses in the table below. Notable statuses: 408 timeout, 412
// budget, 446 guardrail, 499 client left.
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
	UpgradeRefused
	StateChanged
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
	Denied:           {446, "hooks_failed", "denied_by_guardrail"},
	ClientGone:       {499, "client_error", "client_closed_request"},
	Unsupported:      {http.StatusNotImplemented, "invalid_request_error", "unsupported_operation"},
	UpstreamFailed:   {http.StatusBadGateway, "upstream_error", "upstream_failed"},
	Unavailable:      {http.StatusServiceUnavailable, "server_error", "unavailable"},
	UpstreamTimeout:  {http.StatusGatewayTimeout, "upstream_error", "upstream_timeout"},
	StateChanged:     {http.StatusPreconditionFailed, "invalid_request_error", "precondition_failed"},
	UpgradeRefused:   {http.StatusUpgradeRequired, "invalid_request_error", "websocket_unsupported"},
	HeadersTooLarge:  {http.StatusRequestHeaderFieldsTooLarge, "invalid_request_error", "request_headers_too_large"},
}

// Error is an error made by the gateway. Treat it as immutable once returned: the With
// methods are for building it.
type Error struct {
	Kind    Kind
	Code    string // error code; empty means the kind's default
	Message string // for the client: what is wrong and what to do
	Param   string // invalid parameter or header, empty for none

	// RetryAfter tells the client when to retry. Zero sends no header.
	RetryAfter time.Duration

	// Limit is the limit that the request exceeds, of an error of the kind
	// RateLimited or BudgetExhausted. Nil for other errors.
	Limit *RateLimit

	// Details is JSON that the response has as hook_results: the results of the
	// checks that denied a request. Nil for other errors.
	Details []byte

	// Err is the cause. It is logged and never sent.
	Err error
}

// RateLimit is the state of a limit that refused a request.
type RateLimit struct {
	Measure          string // "requests", "tokens" or "cost"
	Limit, Remaining int64  // in the window; zero for a budget
	Reset            time.Time
	// Shared limits are those of a provider: another target may serve the
	// request.
	Shared bool
}

// New returns an error of kind k with a formatted message.
func New(k Kind, format string, args ...any) *Error {
	return &Error{Kind: k, Message: fmt.Sprintf(format, args...)}
}

// WithParam sets the invalid parameter and returns e.
func (e *Error) WithParam(param string) *Error { e.Param = param; return e }

// WithCode sets a more specific code than the kind's default and returns e.
func (e *Error) WithCode(code string) *Error { e.Code = code; return e }

// WithCause sets the cause, which is only logged, and returns e.
func (e *Error) WithCause(err error) *Error { e.Err = err; return e }

// Error returns the message, followed by the cause if there is one.
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

// Type returns the error type of the chat dialect.
func (e *Error) Type() string { return kinds[e.Kind].typ }

// CodeOrDefault returns Code, or the kind's default.
func (e *Error) CodeOrDefault() string {
	if e.Code != "" {
		return e.Code
	}
	return kinds[e.Kind].code
}

// BodyMemoryFull returns the error for a body that exceeds limits.body_memory, or a share
// of it. The cause, an error of bytepool, says which.
func BodyMemoryFull(cause error) *Error {
	e := New(Unavailable, "%v; try again shortly (limits.body_memory)", cause).WithCode("body_memory_full").WithCause(cause)
	e.RetryAfter = time.Second
	return e
}

// IsNotFound reports whether err is an *Error of the kind NotFound.
func IsNotFound(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Kind == NotFound
}

// From returns err as an *Error. Any other error becomes an internal error with a
// generic message and err as its cause. From(nil) is nil.
func From(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Kind: Internal, Message: "internal error; look up the request id in the gateway's process log", Err: err}
}
