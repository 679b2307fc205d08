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

// edit holds the changes that a request, or an entry of a file, makes to a provider.
type edit struct {
	Name        route.Optional[string]
	Note        route.Optional[string]
	UsageLimits route.Optional[limits.BudgetInput]
	RateLimits  route.Optional[limits.Rates]
	ExpiresAt   route.Optional[string]
	Tags        route.Optional[credentials.Tags]
	Reset       bool

	entry *Input // nil for a request
}

func (e *edit) apply(row *store.Provider, c *route.Caller) error {
	row.Name, row.Note, row.Tags = e.Name.Or(row.Name), e.Note.Or(row.Note), e.Tags.Or(row.Tags)
	if e.entry != nil {
		row.Integration, row.MadeByGrant = e.entry.Body.Integration, e.entry.Body.MadeByGrant
	}
	if err := cmp.Or(route.CheckLength("name", row.Name, 1, 255), route.CheckLength("note", row.Note, 0, 1024)); err != nil {
		return err
	}
	if e.Tags.Set {
		if err := e.Tags.Value.Check("tags"); err != nil {
			return err
		}
	}
	if e.RateLimits.Set {
		if err := e.RateLimits.Value.Check("rate_limits"); err != nil {
			return err
		}
		row.RateLimits = e.RateLimits.Value.JSON()
	}
	if err := e.expire(row, c); err != nil {
		return err
	}
	return e.budget(row, c.Now)
}

func (e *edit) expire(row *store.Provider, c *route.Caller) error {
	if !e.ExpiresAt.Set {
		return nil
	}
	row.ExpiresAt = time.Time{}
	if v := e.ExpiresAt.Value; v != "" {
		at, err := time.Parse(time.RFC3339, v)
		if err != nil {
			at, err = time.Parse(time.DateOnly, v)
		}
		if err != nil || !at.After(c.Now) && !c.Restores() || at.Year() > 9999 {
			return route.Invalid("expires_at", "must be a future time in ISO 8601 format")
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
func (e *edit) budget(row *store.Provider, now time.Time) error {
	if !e.UsageLimits.Set && !e.Reset {
		return nil
	}
	old, err := limits.ReadUsage(row.UsageLimits)
	if err != nil {
		return err
	}
	next := old
	if e.UsageLimits.Set {
		next = nil
	}
	if e.UsageLimits.Set && !e.UsageLimits.Null {
		if next, err = e.UsageLimits.Value.Apply("usage_limits", old, now); err != nil {
			return err
		}
	}
	if e.Reset && next != nil {
		next.Reset(now)
	}
	row.UsageLimits = next.JSON()
	if row.Status == store.Exhausted && (e.Reset || next.Relieves(old)) {
		row.Status = store.Active
	}
	return nil
}

type updateInput struct {
	Named
	Body struct {
		Name        route.Optional[string]             `json:"name,omitempty" minLength:"1" maxLength:"255"`
		Workspace   string                             `json:"workspace_id,omitempty" maxLength:"255" doc:"The same as in the query"`
		Note        route.Optional[string]             `json:"note,omitempty" maxLength:"1024"`
		UsageLimits route.Optional[limits.BudgetInput] `json:"usage_limits,omitempty"`
		RateLimits  route.Optional[limits.Rates]       `json:"rate_limits,omitempty" maxItems:"7" doc:"Limits of requests and tokens in fixed windows, and of requests at a time; null or empty for none"`
		ExpiresAt   route.Optional[string]             `json:"expires_at,omitempty" maxLength:"40" doc:"ISO 8601; null never expires"`
		Tags        route.Optional[credentials.Tags]   `json:"tags,omitempty"`
		Reset       *bool                              `json:"reset_usage,omitempty" nullable:"true" doc:"Resets the usage"`
	}
}

func update(ctx context.Context, c *route.Caller, in *updateInput) (*changedResponse, error) {
	b := &in.Body
	if in.Workspace == "" {
		in.Workspace = b.Workspace
	}
	row, err := find(ctx, c, in.Named)
	if err != nil {
		return nil, err
	}
	e := edit{b.Name, b.Note, b.UsageLimits, b.RateLimits, b.ExpiresAt, b.Tags, b.Reset != nil && *b.Reset, nil}
	if err := e.awaitSpending(ctx, c); err != nil {
		return nil, err
	}
	err = c.Change(ctx, func(tx *store.Tx) error {
		_, err := e.store(ctx, tx, c, row.ID)
		return err
	})
	return &changedResponse{row.ID, row.Slug}, err
}

// awaitSpending waits until earlier spend is counted if e resets the budget.
func (e *edit) awaitSpending(ctx context.Context, c *route.Caller) error {
	if !e.Reset {
		return nil
	}
	return c.AwaitSpending(ctx)
}

// store applies the changes to the current state of the provider with this id.
func (e *edit) store(ctx context.Context, tx *store.Tx, c *route.Caller, id string) (store.Provider, error) {
	row, err := tx.Provider(ctx, c.Organisation, "", id)
	if err := c.CheckIfMatch(row.UpdatedAt, row.UpdatedAt, err); err != nil {
		return row, err
	}
	before := row
	if err := e.apply(&row, c); err != nil {
		return row, err
	}
	if err := checkLimits(ctx, c, tx, &before, &row); err != nil {
		return row, err
	}
	row.UpdatedAt = c.NextUpdateTime(row.UpdatedAt)
	if err := tx.UpdateProvider(ctx, row); err != nil {
		return row, err
	}
	return row, budgets.Refresh(ctx, tx, store.ProviderBudget, row.ID)
}
