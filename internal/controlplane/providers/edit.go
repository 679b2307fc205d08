package providers

import (
	"cmp"
	"context"
	"time"

	"modelgate/internal/controlplane/budgets"
	"modelgate/internal/controlplane/credentials"
	"modelgate/internal/controlplane/limits"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
)

// updateInput holds changes of a provider. Virtual keys and entries of files are changed by it
// as well.
type updateInput struct {
	Named
	Body struct {
		Name        route.Optional[string]             `json:"name,omitempty" minLength:"1" maxLength:"255"`
		Workspace   string                             `json:"workspace_id,omitempty" maxLength:"255" doc:"The same as in the query"`
		Note        route.Optional[string]             `json:"note,omitempty" maxLength:"1024"`
		UsageLimits route.Optional[limits.BudgetInput] `json:"usage_limits,omitempty"`
		RateLimits  route.Optional[limits.Rates]       `json:"rate_limits,omitempty" maxItems:"7" doc:"Limits of requests and tokens in fixed windows, and of requests at a time; null or empty for none"`
		ExpiresAt   route.Optional[string]             `json:"expires_at,omitempty" maxLength:"40" doc:"A future time such as 2026-12-31T12:00:00Z, or +90d from now; null never expires"`
		Tags        route.Optional[credentials.Tags]   `json:"tags,omitempty"`
		Reset       *bool                              `json:"reset_usage,omitempty" nullable:"true" doc:"Resets the usage"`
	}
}

// apply makes the changes to row.
func (in *updateInput) apply(row *store.Provider, c *route.Caller) error {
	b := &in.Body
	row.Name, row.Note, row.Tags = b.Name.Or(row.Name), b.Note.Or(row.Note), b.Tags.Or(row.Tags)
	if err := cmp.Or(route.CheckLength("name", row.Name, 1, 255), route.CheckLength("note", row.Note, 0, 1024)); err != nil {
		return err
	}
	if b.Tags.Set {
		if err := b.Tags.Value.Check("tags"); err != nil {
			return err
		}
	}
	if b.RateLimits.Set {
		if err := b.RateLimits.Value.Check("rate_limits"); err != nil {
			return err
		}
		row.RateLimits = b.RateLimits.Value.JSON()
	}
	if err := in.expire(row, c); err != nil {
		return err
	}
	return in.budget(row, c.Now)
}

func (in *updateInput) expire(row *store.Provider, c *route.Caller) error {
	if !in.Body.ExpiresAt.Set {
		return nil
	}
	row.ExpiresAt = time.Time{}
	if v := in.Body.ExpiresAt.Value; v != "" {
		at, err := c.FutureTime("expires_at", v)
		if err != nil {
			return err
		}
		row.ExpiresAt = at
	}
	if row.Status == store.Expired && (row.ExpiresAt.IsZero() || row.ExpiresAt.After(c.Now)) {
		row.Status = store.Active
	}
	return nil
}

// budget replaces or resets the budget. Either reactivates an exhausted provider; the
// next request finds out whether it is still exhausted.
func (in *updateInput) budget(row *store.Provider, now time.Time) error {
	b, reset := &in.Body, in.resets()
	if !b.UsageLimits.Set && !reset {
		return nil
	}
	old, err := limits.ReadUsage(row.UsageLimits)
	if err != nil {
		return err
	}
	next := old
	if b.UsageLimits.Set {
		next = nil
	}
	if b.UsageLimits.Set && !b.UsageLimits.Null {
		if next, err = b.UsageLimits.Value.Apply("usage_limits", old, now); err != nil {
			return err
		}
	}
	if reset && next != nil {
		next.Reset(now)
	}
	row.UsageLimits = next.JSON()
	if row.Status == store.Exhausted && (reset || next.Relieves(old)) {
		row.Status = store.Active
	}
	return nil
}

func update(ctx context.Context, c *route.Caller, in *updateInput) (*changedResponse, error) {
	if in.Workspace == "" {
		in.Workspace = in.Body.Workspace
	}
	row, err := find(ctx, c, in.Named)
	if err != nil {
		return nil, err
	}
	if err := in.awaitSpending(ctx, c); err != nil {
		return nil, err
	}
	err = c.Change(ctx, func(tx *store.Tx) error { return in.store(ctx, tx, c, row.ID) })
	return &changedResponse{row.ID, row.Slug}, err
}

// resets reports whether the changes reset the budget.
func (in *updateInput) resets() bool { return in.Body.Reset != nil && *in.Body.Reset }

// awaitSpending waits until earlier spend is counted if the changes reset the budget.
func (in *updateInput) awaitSpending(ctx context.Context, c *route.Caller) error {
	if !in.resets() {
		return nil
	}
	return c.AwaitSpending(ctx)
}

// store makes the changes to the provider with this id.
func (in *updateInput) store(ctx context.Context, tx *store.Tx, c *route.Caller, id string) error {
	return changeRow(ctx, tx, c, id, func(row *store.Provider) error { return in.apply(row, c) })
}

// changeRow changes the current state of the provider with this id.
func changeRow(ctx context.Context, tx *store.Tx, c *route.Caller, id string, change func(*store.Provider) error) error {
	row, err := tx.Provider(ctx, c.Organisation, "", id)
	if err := c.CheckIfMatch(row.UpdatedAt, row.UpdatedAt, err); err != nil {
		return err
	}
	before := row
	if err := change(&row); err != nil {
		return err
	}
	if err := checkLimits(ctx, c, tx, &before, &row); err != nil {
		return err
	}
	row.UpdatedAt = c.NextUpdateTime(row.UpdatedAt)
	if err := tx.UpdateProvider(ctx, row); err != nil {
		return err
	}
	return budgets.Refresh(ctx, tx, store.ProviderBudget, row.ID)
}
