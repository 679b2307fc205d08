package members

import (
	"context"
	"strings"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/budgets"
	"modelgate/internal/controlplane/limits"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

// changesLimits reports whether a request changes limits or resets usage.
func (b *updateBody) changesLimits() bool {
	return b.RateLimits.Set || b.UsageLimits.Set || b.Tools.Set || b.ResetUsage
}

// changeLimits changes the limits of u, as the request read them. If the budget is no
// longer exhausted, the user's requests are served again.
func changeLimits(ctx context.Context, c *route.Caller, tx *store.Tx, u store.User, b *updateBody) error {
	before, err := tx.User(ctx, c.Organisation, u.ID) // resets may have changed the budget since
	if err != nil {
		return err
	}
	after := before
	if err := b.apply(&after, c.Now); err != nil {
		return err
	}
	after.UpdatedAt = c.NextUpdateTime(u.UpdatedAt)
	id := store.UserID(c.Organisation, u.ID)
	of, err := limits.Compare(store.UserBudget, id, &before, &after, limitFields)
	if err != nil {
		return err
	}
	of.User = u.ID
	if err := limits.Change(ctx, c, tx, of); err != nil {
		return err
	}
	if err := tx.SetUserLimits(ctx, c.Organisation, after); err != nil {
		return err
	}
	return budgets.Refresh(ctx, tx, store.UserBudget, id)
}

// apply sets the limits of u to the requested ones.
func (b *updateBody) apply(u *store.User, now time.Time) error {
	if b.RateLimits.Set {
		if err := b.RateLimits.Value.CheckKey("rate_limits"); err != nil {
			return err
		}
		u.RateLimits = b.RateLimits.Value.JSON()
	}
	if b.Tools.Set {
		if err := limits.CheckTools("tools", b.Tools.Value); err != nil {
			return err
		}
		u.Tools = b.Tools.Value
	}
	budget, err := limits.ReadUsage(u.UsageLimits)
	switch {
	case err != nil:
	case b.UsageLimits.Null:
		budget = nil
	case b.UsageLimits.Set:
		budget, err = b.UsageLimits.Value.Apply("usage_limits", budget, now)
	}
	if err != nil {
		return err
	}
	if b.ResetUsage && budget != nil {
		budget.Reset(now)
	}
	u.UsageLimits = budget.JSON()
	return nil
}

// limitFields returns the limits of u for [limits.Change].
func limitFields(u *store.User) (limits.Fields, error) {
	budget, err := limits.Field(u.UsageLimits)
	return limits.Fields{"usage_limits": budget, "rate_limits": limits.RateField(u.RateLimits), "tools": limits.ToolsField(u.Tools)}, err
}

// limitsOf returns the limits of u as in a response.
func limitsOf(ctx context.Context, c *route.Caller, u store.User) (*limits.BudgetResponse, limits.Rates, error) {
	rates, err := limits.ReadRates(u.RateLimits)
	if err != nil {
		return nil, nil, err
	}
	budget, err := limits.ReadUsage(u.UsageLimits)
	if err != nil || budget == nil {
		return nil, rates, err
	}
	id := store.UserID(c.Organisation, u.ID)
	spent, err := c.DB().Spending(ctx, store.UserBudget, id)
	if err != nil {
		return nil, nil, err
	}
	status := store.Active
	if budget.Exhausted(budget.Used(spent[id])) {
		status = store.Exhausted
	}
	return budget.Response(spent[id], status), rates, nil
}

// Readable returns a user of the organisation, by id or e-mail address, whose limits the
// caller may read: everyone may read their own. An empty ref is the user of the request.
func Readable(ctx context.Context, c *route.Caller, ref string) (store.User, error) {
	own, err := callingUser(ctx, c)
	switch {
	case err != nil:
		return own, err
	case ref == "" && own.ID == "":
		return own, route.Invalid("id", "is required, because this key belongs to no user")
	case ref == "" || ref == own.ID || ref == own.Email:
		return own, nil
	case !c.Allows("organisation_users.read"):
		return own, apierr.New(apierr.Forbidden, "this key or session lacks the scope %q", "organisation_users.read").WithCode("AB03")
	}
	return find(ctx, c, ref)
}

// callingUser returns the user of the request's key, session or token, without an id if
// there is none.
func callingUser(ctx context.Context, c *route.Caller) (store.User, error) {
	name := c.UserID
	if name == "" && c.Claims != nil {
		name = strings.ToLower(c.Claims.User)
	}
	if name == "" {
		return store.User{}, nil
	}
	u, err := c.DB().User(ctx, c.Organisation, access.UserName(name))
	if apierr.IsNotFound(err) {
		return store.User{}, nil
	}
	return u, err
}
