package dataplane

import (
	"net/http"

	"modelgate/internal/identity/access"
	"modelgate/internal/limits/quota"
	"modelgate/internal/pipeline"
	"modelgate/internal/pipeline/exchange"
)

// BudgetUse is what a request may use of a budget.
type BudgetUse struct {
	Limit  *quota.Limit
	Amount int64 // positive
}

// HasBudgets reports whether budgets may bind requests of an identity.
func (p *Plane) HasBudgets(id *access.Identity) bool {
	snap := p.Snapshot.Load()
	if !snap.Policies.Empty() || snap.HasProviderBudgets(id.Workspace) {
		return true
	}
	users, _ := snap.UserLimits(id)
	for _, list := range [...][]*quota.Limit{id.Limits, users, snap.Limits(id.Workspace)} {
		if quota.HasBudget(list) {
			return true
		}
	}
	return false
}

// EstimateBudgets returns what r, a line of a batch that is not sent now, may use of the
// budgets that would bind it. An error is that of the line.
func (p *Plane) EstimateBudgets(r *http.Request, id *access.Identity, line *exchange.BatchLine) ([]BudgetUse, error) {
	x := p.open(r)
	a := &x.admission
	defer a.releaseBody()
	defer x.targets.releaseTrees()
	a.request.Identity, a.request.DryRun, a.request.Limiting.Batch = id, true, line
	if err := p.prepare(r, x); err != nil || a.request.Routing == nil {
		return nil, err
	}
	res, err := pipeline.Serve(r.Context(), p.Engine.Quota, &a.request, &x.trail)
	if err != nil {
		return nil, err
	}
	res.Close()
	var uses []BudgetUse
	for i := range x.trail.Planned {
		for _, s := range x.trail.Planned[i].Limits {
			if s.Limit.IsBudget() {
				uses = append(uses, BudgetUse{s.Limit, s.Amount})
			}
		}
	}
	return uses, nil
}
