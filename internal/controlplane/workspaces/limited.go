package workspaces

import (
	"cmp"
	"context"
	"encoding/json"

	"modelgate/internal/controlplane/budgets"
	"modelgate/internal/controlplane/limits"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

// Limits are the limits of a workspace that a file describes.
type Limits struct {
	Usage []limits.BudgetInput
	Rates limits.Rates
	Tools []string
}

// Put stores w with limits, which a file describes, instead of before; nil is a new workspace.
func Put(ctx context.Context, c *route.Caller, before *store.Workspace, w store.Workspace, l Limits) error {
	if err := cmp.Or(setUsage(&w, l.Usage, c), setRates(&w, l.Rates), limits.CheckTools("tools", l.Tools)); err != nil {
		return err
	}
	w.Tools, w.UpdatedAt = l.Tools, c.NextUpdateTime(w.UpdatedAt)
	return c.Change(ctx, func(tx *store.Tx) error {
		write := tx.UpdateWorkspace
		if before == nil {
			write, before = tx.CreateWorkspace, new(store.Workspace)
			w.CreatedBy, w.CreatedAt = c.Actor(), c.Now
		}
		if err := write(ctx, w); err != nil {
			return err
		}
		if err := checkLimits(ctx, c, tx, before, &w); err != nil {
			return err
		}
		return budgets.Refresh(ctx, tx, store.WorkspaceBudget, w.ID)
	})
}

// limitFields returns the limits of w for [limits.Change].
func limitFields(w *store.Workspace) (limits.Fields, error) {
	u, err := limits.Field(w.UsageLimits)
	if err != nil {
		return nil, err
	}
	f := limits.Fields{"usage_limits": u, "rate_limits": limits.RateField(w.RateLimits), "tools": limits.ToolsField(w.Tools)}
	for path, raw := range map[string]json.RawMessage{"settings.": w.Settings, "defaults.": w.Defaults} {
		parts := map[string]json.RawMessage{}
		if len(raw) > 0 {
			if err := json.Unmarshal(raw, &parts); err != nil {
				return nil, err
			}
		}
		for name, value := range parts {
			if text := string(value); text != "null" && text != "{}" && text != "[]" {
				f[path+name] = text
			}
		}
	}
	return f, nil
}

// checkLimits returns an error if the caller may not make a change of limits, and
// otherwise records who made it.
func checkLimits(ctx context.Context, c *route.Caller, tx *store.Tx, before, after *store.Workspace) error {
	of, err := limits.Compare(store.WorkspaceBudget, after.ID, before, after, limitFields)
	if err != nil {
		return err
	}
	if err := checkPolicy(ctx, c, tx, after, limits.Differing(of.Before, of.After)); err != nil {
		return err
	}
	of.Workspace = after.ID
	return limits.Change(ctx, c, tx, of)
}

// checkPolicy returns an error if rules for user keys are wider than the
// organisation's, unless the organisation's owner, admins or keys set them.
func checkPolicy(ctx context.Context, c *route.Caller, tx *store.Tx, w *store.Workspace, changed limits.Fields) error {
	rank, err := c.Rank(ctx, tx.Queries, w.ID)
	if err != nil || rank >= access.RankOrganisation {
		return err
	}
	o, err := tx.Organisation(ctx, w.Organisation)
	if err != nil {
		return err
	}
	var own store.UserKeyPolicy
	if err := json.Unmarshal(w.Settings, &own); err != nil {
		return err
	}
	above := o.Settings.UserKeyPolicy
	for _, rule := range []struct {
		field      string
		own, above *int64
		unbounded  func(int64) bool
	}{
		{"settings.user_api_key_ttl", own.TTL, above.TTL, func(n int64) bool { return n <= 0 }},
		{"settings.user_api_key_max_ttl", own.MaxTTL, above.MaxTTL, func(n int64) bool { return n <= 0 }},
		{"settings.user_api_key_count", own.Count, above.Count, func(n int64) bool { return n < 0 }},
	} {
		if _, asked := changed[rule.field]; !asked || rule.own == nil || rule.above == nil || rule.unbounded(*rule.above) {
			continue
		}
		if rule.unbounded(*rule.own) || *rule.own > *rule.above {
			return limits.NotAllowed(rule.field, "must be at most %d, the organisation's limit", *rule.above)
		}
	}
	return nil
}
