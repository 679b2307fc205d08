package dataplane

import (
	"context"
	"modelgate/internal/pipeline/metering"
)

// checkBudget returns an error for a request with a cost if the budget of its
// key, user or workspace is marked as exhausted.
func (a *admission) checkBudget() error {
	_, userExhausted := a.snap.UserLimits(a.request.Identity)
	switch {
	case a.request.Identity.Exhausted:
		return metering.BudgetError(a.request.Limiting.Limits, "key")
	case userExhausted:
		return metering.BudgetError(a.request.Limiting.Limits, "user")
	case a.snap.Exhausted(a.request.Identity.Workspace):
		return metering.BudgetError(a.request.Limiting.Limits, "workspace")
	}
	return nil
}

// earlierLimit returns err, or the error of a limit that is checked before the exhausted
// budget that err is about.
func (p *Plane) earlierLimit(ctx context.Context, a *admission, err error) error {
	return metering.EarlierLimit(ctx, &a.request, p.Engine.Quota, a.trail, err)
}
