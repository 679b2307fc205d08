package dataplane

import (
	"context"

	"modelgate/internal/base/apierr"
	"modelgate/internal/limits/quota"
	"modelgate/internal/pipeline"
)

// checkBudget returns an error for a request with a cost if the budget of its
// key, user or workspace is marked as exhausted.
func (a *admission) checkBudget() error {
	_, userExhausted := a.snap.UserLimits(a.request.Identity)
	switch {
	case a.request.Identity.Exhausted:
		return budgetError(a.request.Limiting.Limits, "key", "this gateway key")
	case userExhausted:
		return budgetError(a.request.Limiting.Limits, "user", "this key's user")
	case a.snap.Exhausted(a.request.Identity.Workspace):
		return budgetError(a.request.Limiting.Limits, "workspace", "this key's workspace")
	}
	return nil
}

// budgetError names the budget of a holder, with its amount and reset.
func budgetError(limits []*quota.Limit, kind, holder string) error {
	terms := ""
	if l := quota.FindBudget(limits, kind); l != nil {
		terms = ": " + l.Terms()
	}
	return apierr.New(apierr.BudgetExhausted, "the budget of %s is exhausted%s; raise it or wait for the next reset", holder, terms).
		WithParam("x-gateway-api-key").WithCause(&quota.Exhausted{Kind: kind})
}

// earlierLimit returns err, or the error of a limit that is checked before the exhausted
// budget that err is about.
func (p *Plane) earlierLimit(ctx context.Context, a *admission, err error) error {
	return pipeline.EarlierLimit(ctx, &a.request, p.Engine.Quota, a.trail, err)
}
