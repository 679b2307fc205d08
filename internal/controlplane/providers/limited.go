package providers

import (
	"context"
	"time"

	"modelgate/internal/controlplane/limits"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
)

// limitFields returns the limits of p for [limits.Change].
func limitFields(p *store.Provider) (limits.Fields, error) {
	u, err := limits.Field(p.UsageLimits)
	f := limits.Fields{"usage_limits": u, "rate_limits": limits.RateField(p.RateLimits)}
	if !p.ExpiresAt.IsZero() {
		f["expires_at"] = p.ExpiresAt.UTC().Format(time.RFC3339Nano)
	}
	return f, err
}

func object(p *store.Provider) limits.Object {
	return limits.Object{BudgetRef: store.BudgetRef{Kind: store.ProviderBudget, ID: p.ID}, Workspace: p.Workspace}
}

// checkLimits returns an error if the caller may not make a change of limits, and
// otherwise records who made it.
func checkLimits(ctx context.Context, c *route.Caller, tx *store.Tx, before, after *store.Provider) error {
	of, err := limits.Compare(store.ProviderBudget, after.ID, before, after, limitFields)
	if err != nil {
		return err
	}
	of.Workspace = after.Workspace
	return limits.Change(ctx, c, tx, of)
}

// checkTwin refuses a further provider of an integration to callers who may not change
// the limits of another provider of it in the workspace, active or archived: the new
// one would bypass them.
func checkTwin(ctx context.Context, c *route.Caller, tx *store.Tx, row *store.Provider) error {
	ids, err := tx.ProviderIDs(ctx, row.Integration, row.Workspace)
	if err != nil || len(ids) == 0 {
		return err
	}
	rank, err := c.Rank(ctx, tx.Queries, row.Workspace)
	if err != nil {
		return err
	}
	for _, id := range ids {
		twin := object(&store.Provider{ID: id, Workspace: row.Workspace})
		set, err := tx.LimitSetters(ctx, twin.BudgetRef)
		if err != nil {
			return err
		}
		if limits.Capped(c, rank, twin, set) {
			return limits.NotAllowed("integration_id", "has a provider in this workspace with limits that you cannot change; ask the user who set them to create another")
		}
	}
	return nil
}
