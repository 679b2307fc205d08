package dataplane

import "modelgate/internal/apierr"

// exhausted refuses what costs something for a key, or in a workspace, that has
// used up its budget.
func (x *exchange) exhausted() error {
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
