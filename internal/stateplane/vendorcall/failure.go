package vendorcall

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
)

// statusError is the cause of an error: a response with an error status.
type statusError struct {
	Status int
	Unsent bool // see [Response]
}

// Error returns the status.
func (f *statusError) Error() string { return "status " + strconv.Itoa(f.Status) }

// kinds are the kinds of errors by status. Other statuses from 400 to 499 are invalid
// requests, and all others failures of the vendor. A refused credential is not the
// client's.
var kinds = map[int]apierr.Kind{
	http.StatusUnauthorized:          apierr.UpstreamFailed,
	http.StatusForbidden:             apierr.UpstreamFailed,
	http.StatusNotFound:              apierr.NotFound,
	http.StatusRequestTimeout:        apierr.UpstreamTimeout,
	http.StatusConflict:              apierr.Conflict,
	http.StatusRequestEntityTooLarge: apierr.TooLarge,
	http.StatusTooManyRequests:       apierr.RateLimited,
	http.StatusNotImplemented:        apierr.Unsupported,
	http.StatusServiceUnavailable:    apierr.Unavailable,
	http.StatusGatewayTimeout:        apierr.UpstreamTimeout,
	529:                              apierr.Unavailable, // overloaded
}

// refusals are the kinds of errors by status if the gateway refused the request.
var refusals = map[int]apierr.Kind{
	http.StatusUnauthorized:       apierr.Unauthenticated,
	http.StatusForbidden:          apierr.Forbidden,
	http.StatusPreconditionFailed: apierr.BudgetExhausted,
	446:                           apierr.Denied,
}

// failure returns the error of a response with an error status.
func (c Client) failure(r *Response, body []byte) error {
	f := &statusError{Status: r.Status, Unsent: r.Unsent}
	e := apierr.New(kindOf(f), "%s", dialect.FailureMessage(c.Provider, r.Status, body)).WithParam(paramOf(body)).WithCause(f)
	if r.Unsent {
		e.Message = dialect.ErrorMessage(body)
	} else if r.Status == http.StatusUnauthorized || r.Status == http.StatusForbidden {
		e.Code = "provider_credential_refused"
	}
	if seconds, err := strconv.Atoi(r.Header.Get("Retry-After")); err == nil && seconds > 0 && seconds <= 24*60*60 {
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	return e
}

func kindOf(f *statusError) apierr.Kind {
	if kind, ok := refusals[f.Status]; ok && f.Unsent {
		return kind
	}
	if kind, ok := kinds[f.Status]; ok {
		return kind
	}
	if f.Status >= 400 && f.Status < 500 {
		return apierr.Invalid
	}
	return apierr.UpstreamFailed
}

// paramOf returns the parameter that an error in the format of OpenAI names.
func paramOf(body []byte) string {
	v, err := jsonedit.ParseValue(body)
	if err != nil {
		return ""
	}
	inner, _ := v.Get("error")
	param := inner.TextOf("param")
	if len(param) > 100 || strings.ContainsFunc(param, func(r rune) bool { return r < ' ' }) {
		return ""
	}
	return param
}

// IsTemporary reports whether a status says that the same request may succeed later.
func IsTemporary(status int) bool {
	return status == http.StatusRequestTimeout || status == http.StatusTooManyRequests || status >= 500
}
