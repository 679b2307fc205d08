package route

import (
	"slices"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/identity/access"
)

// FreshTime is for how long a sign-in, or a confirmation of it, allows [Route.Fresh] routes.
const FreshTime = 10 * time.Minute

// Codes of the errors that tell people who signed in what to do next.
const (
	CodeFactorRequired    = "second_factor_required"
	CodeEnrolmentRequired = "enrolment_required"
	CodeFreshRequired     = "fresh_sign_in_required"
)

// Fresh returns r as a [Route.Fresh] route.
func Fresh(r Route) Route {
	r.Fresh = true
	return r
}

// checkHolder returns an error for a caller of a kind that the route is not for. It is the one
// place that keeps pending sessions from everything but what they wait for: they have no scopes
// either.
func (r *Route) checkHolder(id *access.Identity) error {
	switch {
	case id.Type == access.PendingSession:
		if slices.Contains(r.Pending, id.Pending) {
			return nil
		}
		return PendingError(id)
	case r.protocol != nil && id.Type != r.protocol.Holder:
		return apierr.New(apierr.Forbidden, "only a token of kind %s may call this route", r.protocol.Holder).WithCode("AB03")
	case r.protocol == nil && id.Type == access.Directory:
		return apierr.New(apierr.Forbidden, "tokens of directories may call only SCIM").WithCode("AB03")
	}
	return nil
}

// PendingError returns the error for a pending session, which says what it waits for.
func PendingError(id *access.Identity) error {
	if id.Pending == "enrolment" {
		return apierr.New(apierr.Forbidden, "your organisation requires a second factor; add a passkey or one-time codes first, with POST /auth/passkeys or POST /auth/one-time-codes, or at /login").
			WithCode(CodeEnrolmentRequired)
	}
	return apierr.New(apierr.Forbidden, "the sign-in is not complete; send your second factor to POST /auth/second-factor, or open /login").
		WithCode(CodeFactorRequired)
}

// CheckFresh returns an error for a session whose user has not proved for [FreshTime] who they
// are, and for a short-lived key, from which no lasting right may follow. It is for routes
// only some of whose requests must be fresh; others are declared [Route.Fresh]. Other keys are not
// affected.
func (c *Caller) CheckFresh() error {
	if c.Workload != "" {
		return apierr.New(apierr.Forbidden, "a short-lived key of a workload identity cannot do this; use a session or another key").WithCode("AB03")
	}
	if c.Type != access.Session || c.Now.Sub(c.ProvedAt) <= FreshTime {
		return nil
	}
	return apierr.New(apierr.Forbidden, "this needs a sign-in of the last %d minutes; confirm yours with POST /auth/confirm, or sign in again",
		int(FreshTime.Minutes())).WithCode(CodeFreshRequired)
}
