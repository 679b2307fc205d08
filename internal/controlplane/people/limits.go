package people

import (
	"context"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
)

// Reserve counts an attempt under limits before its outcome is known. If one does not allow it,
// the error is of kind RateLimited and says when to try again; what is there too much of, such
// as "too many wrong passwords".
func Reserve(ctx context.Context, c *route.Caller, db *store.DB, what string, limits ...store.AttemptLimit) error {
	wait, err := db.ReserveAttempt(ctx, c.Now, limits...)
	if err != nil || wait <= 0 {
		return err
	}
	e := apierr.New(apierr.RateLimited, "%s; try again in %s", what, wait.Round(time.Second))
	e.RetryAfter = wait
	return e
}

// IsLimited reports whether err is of [Reserve], which does not allow the attempt.
func IsLimited(err error) bool { return err != nil && apierr.From(err).Kind == apierr.RateLimited }

// AddressLimit returns the limit of failed sign-ins of a client's address, over all accounts. An
// attempt is counted before it is checked, and uncounted if it succeeds.
func AddressLimit(group string) store.AttemptLimit {
	return store.AttemptLimit{ID: LimitID("address", group), Free: 50, Wait: 30 * time.Second, MaxWait: 15 * time.Minute, Forget: time.Minute}
}

// FactorLimit returns the limit of wrong second factors of a member, from all addresses: only those
// who proved another factor can try.
func FactorLimit(organisation, user string) store.AttemptLimit {
	return store.AttemptLimit{ID: LimitID("factor", organisation, user), Free: 5, Wait: time.Minute, MaxWait: time.Hour, Forget: time.Hour}
}
