package dataplane

import (
	"context"

	"modelgate/internal/base/apierr"
	"modelgate/internal/limits/quota"
)

// checkBudget returns an error for a request with a cost if the budget of its
// key, user or workspace is marked as exhausted.
func (x *exchange) checkBudget() error {
	_, userExhausted := x.snap.UserLimits(x.Identity)
	switch {
	case x.Identity.Exhausted:
		return x.budgetError("key", "this gateway key")
	case userExhausted:
		return x.budgetError("user", "this key's user")
	case x.snap.Exhausted(x.Identity.Workspace):
		return x.budgetError("workspace", "this key's workspace")
	}
	return nil
}

// budgetError names the budget of a holder, with its amount and reset.
func (x *exchange) budgetError(kind, holder string) error {
	terms := ""
	if l := quota.FindBudget(x.Limiting.Limits, kind); l != nil {
		terms = ": " + l.Terms()
	}
	return apierr.New(apierr.BudgetExhausted, "the budget of %s is exhausted%s; raise it or wait for the next reset", holder, terms).
		WithParam("x-gateway-api-key").WithCause(&quota.Exhausted{Kind: kind})
}

// earlierLimit returns err, or the error of a limit that is checked before the exhausted
// budget that err is about.
func (p *Plane) earlierLimit(ctx context.Context, x *exchange, err error) error {
	return x.EarlierLimit(ctx, p.Engine.Quota, &x.trail, err)
}
