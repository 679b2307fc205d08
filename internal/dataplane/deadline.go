package dataplane

import (
	"context"
	"net/http"
	"time"

	"modelgate/internal/base/apierr"
)

// deadlineError is the cause with which the context of a request ends at the deadline
// that its client has set. Everything below treats it like a client that disconnected:
// no other attempt follows, and no provider is to blame.
type deadlineError struct{ limit time.Duration }

// Error implements error.
func (e *deadlineError) Error() string {
	return "the request's timeout of " + e.limit.String() + " ended"
}

// Is reports that the context was cancelled for this client: other clients that share
// the response are not affected.
func (*deadlineError) Is(target error) bool { return target == context.Canceled }

func (e *deadlineError) clientError() *apierr.Error {
	return apierr.New(apierr.Timeout, "the response was not complete within the request timeout of %d ms; raise x-gateway-request-timeout", e.limit.Milliseconds()).
		WithParam("x-gateway-request-timeout")
}

// limitTime returns r with a context that ends at the deadline of the request, which
// includes everything from its arrival to the last byte of its response. stop releases
// the timer.
func (a *admission) limitTime(r *http.Request) (_ *http.Request, stop func()) {
	if a.request.Deadline.IsZero() {
		return r, func() {}
	}
	ctx, cancel := context.WithDeadlineCause(r.Context(), a.request.Deadline, &deadlineError{a.opts.timeout})
	return r.WithContext(ctx), cancel
}
