package dataplane

import "modelgate/internal/apierr"

// checkBudget returns an error for a request with a cost if the budget of its
// key, user or workspace is exhausted.
func (x *exchange) checkBudget() error {
	_, userExhausted := x.snap.UserLimits(x.Identity)
	switch {
	case x.Identity.Exhausted:
		return errExhausted
	case userExhausted:
		return errUserExhausted
	case x.snap.Exhausted(x.Identity.Workspace):
		return errWorkspaceExhausted
	}
	return nil
}

var (
	errExhausted = apierr.New(apierr.BudgetExhausted, "the budget of this gateway key is exhausted; raise it or wait for the next reset").
			WithParam("x-gateway-api-key")
	errUserExhausted = apierr.New(apierr.BudgetExhausted, "the budget of this key's user is exhausted; raise it or wait for the next reset").
				WithParam("x-gateway-api-key")
	errWorkspaceExhausted = apierr.New(apierr.BudgetExhausted, "the budget of this key's workspace is exhausted; raise it or wait for the next reset").
				WithParam("x-gateway-api-key")
)
