package dataplane

import (
	"context"

	"modelgate/internal/apierr"
	"modelgate/internal/quota"
)

// checkBudget returns an error for a request with a cost if the budget of its
// key, user or workspace is marked as exhausted.
func (x *exchange) checkBudget() error {
	_, userExhausted := x.snap.UserLimits(x.Identity)
	switch {
	case x.Identity.Exhausted:
		return errKeyExhausted
	case userExhausted:
		return errUserExhausted
	case x.snap.Exhausted(x.Identity.Workspace):
		return errWorkspaceExhausted
	}
	return nil
}

var (
	errKeyExhausted       = newBudgetError("key", "this gateway key")
	errUserExhausted      = newBudgetError("user", "this key's user")
	errWorkspaceExhausted = newBudgetError("workspace", "this key's workspace")
)

func newBudgetError(kind, holder string) error {
	return apierr.New(apierr.BudgetExhausted, "the budget of %s is exhausted; raise it or wait for the next reset", holder).
		WithParam("x-gateway-api-key").WithCause(&quota.Exhausted{Kind: kind})
}

// earlierLimit returns err, or the error of a limit that is checked before the exhausted
// budget that err is about.
func (p *Plane) earlierLimit(ctx context.Context, x *exchange, err error) error {
	return x.EarlierLimit(ctx, p.Engine.Quota, &x.trail, err)
}
