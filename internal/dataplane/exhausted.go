package dataplane

import "modelgate/internal/apierr"

// checkBudget returns an error for a request with a cost if the budget of its
// key or workspace is exhausted.
func (x *exchange) checkBudget() error {
	switch {
	case x.Identity.Exhausted:
		return errExhausted
	case x.snap.Exhausted(x.Identity.Workspace):
		return errWorkspaceExhausted
	}
	return nil
}

var (
	errExhausted = apierr.New(apierr.BudgetExhausted, "the budget of this gateway key is exhausted; raise it or wait for the next reset").
			WithParam("x-gateway-api-key")
	errWorkspaceExhausted = apierr.New(apierr.BudgetExhausted, "the budget of this key's workspace is exhausted; raise it or wait for the next reset").
				WithParam("x-gateway-api-key")
)
