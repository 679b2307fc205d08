package keys

import (
	"context"

	"modelgate/internal/base/egress"
	"modelgate/internal/controlplane/budgets"
	"modelgate/internal/controlplane/limits"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

type updateInput struct {
	Named
	Body UpdateBody
}

// UpdateBody has the fields of a key that requests can change.
type UpdateBody struct {
	Name         route.Optional[string]             `json:"name,omitempty" minLength:"1" maxLength:"255"`
	Description  route.Optional[string]             `json:"description,omitempty" maxLength:"1024"`
	Scopes       []string                           `json:"scopes,omitempty" minItems:"1" maxItems:"300" maxLength:"100"`
	Organisation string                             `json:"organisation_id,omitempty" maxLength:"255" doc:"The caller's organisation"`
	Workspace    string                             `json:"workspace_id,omitempty" maxLength:"255" doc:"The key's workspace; required for organisation keys"`
	RateLimits   route.Optional[limits.Rates]       `json:"rate_limits,omitempty" maxItems:"11" doc:"Limits of requests and tokens in fixed windows, and of requests at a time; null or empty for none"`
	UsageLimits  route.Optional[limits.BudgetInput] `json:"usage_limits,omitempty"`
	ResetUsage   bool                               `json:"reset_usage,omitempty" doc:"Resets the usage"`
	Defaults     route.Optional[DefaultsInput]      `json:"defaults,omitempty"`
	AlertEmails  route.Optional[[]string]           `json:"alert_emails,omitempty" maxItems:"50" maxLength:"254" format:"email"`
	ExpiresAt    route.Optional[string]             `json:"expires_at,omitempty" maxLength:"40" doc:"A future time such as 2026-12-31T12:00:00Z, or +90d from now; null never expires"`
	Rotation     route.Optional[RotationInput]      `json:"rotation_policy,omitempty"`
	Egress       route.Optional[egress.Policy]      `json:"egress_policy,omitempty" doc:"Replaces the policy; null if only the policies above the key apply"`

	Status string `json:"status,omitempty" enum:"active,disabled" doc:"disabled rejects requests with the key until it is active again"`

	AllowedAddresses route.Optional[[]string] `json:"allowed_addresses,omitempty" maxItems:"100" maxLength:"64" doc:"Client addresses and CIDRs that may use the key; null or an empty array allows all"`

	Tools route.Optional[[]string] `json:"tools,omitempty" maxItems:"500" maxLength:"512" doc:"What the key may use of MCP servers, as patterns; null for all, empty for nothing"`
}

func update(ctx context.Context, c *route.Caller, in *updateInput) (*route.Empty, error) {
	b := &in.Body
	if err := c.CheckOrganisation(ctx, b.Organisation); err != nil {
		return nil, err
	}
	if in.Workspace == "" {
		in.Workspace = b.Workspace
	}
	if b.ResetUsage {
		if err := c.AwaitSpending(ctx); err != nil {
			return nil, err
		}
	}
	return change(ctx, c, in.Named, "update", func(tx *store.Tx, k *store.Key) error {
		if b.Scopes != nil || b.ExpiresAt.Set { // others give no right, and must not wait in an emergency
			if err := checkLasting(c, k.Type); err != nil {
				return err
			}
		}
		return b.apply(ctx, c, tx, k)
	})
}

// Put stores k, which a file describes, instead of before; nil is a new key. The caller sets
// what no request can: the type, the place and the hash of the secret. Everything else is
// in b.
func Put(ctx context.Context, c *route.Caller, before *store.Key, k store.Key, b *UpdateBody) error {
	return c.Change(ctx, func(tx *store.Tx) error {
		if err := b.apply(ctx, c, tx, &k); err != nil {
			return err
		}
		write := tx.UpdateKey
		if k.UpdatedAt = c.NextUpdateTime(k.UpdatedAt); before == nil {
			write, k.ID, k.CreatedAt = tx.CreateKey, c.NewID(), c.Now
		}
		if err := write(ctx, k); err != nil {
			return err
		}
		if err := checkLimits(ctx, c, tx, before, &k); err != nil {
			return err
		}
		return budgets.Refresh(ctx, tx, store.KeyBudget, k.ID)
	})
}

// apply changes the fields of k that are set in b.
func (b *UpdateBody) apply(ctx context.Context, c *route.Caller, tx *store.Tx, k *store.Key) error {
	if b.Name.Null {
		return route.Invalid("name", "cannot be cleared")
	}
	if b.Status != "" {
		k.Disabled = b.Status == store.KeyDisabled
	}
	k.Name, k.Description = b.Name.Or(k.Name), b.Description.Or(k.Description)
	for _, step := range []func(context.Context, *route.Caller, *store.Tx, *store.Key) error{b.changePermissions,
		b.changeLimits, b.changeLifetime} {
		if err := step(ctx, c, tx, k); err != nil {
			return err
		}
	}
	return nil
}

// changePermissions changes the scopes and defaults of the key.
func (b *UpdateBody) changePermissions(ctx context.Context, c *route.Caller, tx *store.Tx, k *store.Key) (err error) {
	if b.Scopes != nil {
		if k.Scopes, err = granted(ctx, c, tx.Queries, k, b.Scopes); err != nil {
			return err
		}
	}
	d, err := readDefaults(k.Defaults)
	if err != nil {
		return err
	}
	policy := d.Egress
	if b.Egress.Set {
		policy = &b.Egress.Value
	}
	if b.Defaults.Set {
		if err := b.changeDefaults(ctx, tx, k); err != nil {
			return err
		}
	}
	if k.Defaults, err = withEgress(k.Defaults, policy); err != nil {
		return err
	}
	if b.Tools.Set {
		if err := limits.CheckTools("tools", b.Tools.Value); err != nil {
			return err
		}
		k.Tools = b.Tools.Value
	}
	if b.AllowedAddresses.Set {
		d.AllowedAddresses = b.AllowedAddresses.Value
	}
	return setAddresses(k, d.AllowedAddresses)
}

func (b *UpdateBody) changeDefaults(ctx context.Context, tx *store.Tx, k *store.Key) (err error) {
	var in *DefaultsInput
	if !b.Defaults.Null {
		in = &b.Defaults.Value
	}
	k.Defaults, err = defaults(ctx, tx.Queries, k.Organisation, k.Workspace, in)
	return err
}

// changeLimits changes the limits of the key. Raising, removing or resetting a budget
// reactivates an exhausted key; the next count marks it again if it is still over.
func (b *UpdateBody) changeLimits(_ context.Context, c *route.Caller, _ *store.Tx, k *store.Key) (err error) {
	if b.RateLimits.Set {
		if err := b.RateLimits.Value.CheckKey("rate_limits"); err != nil {
			return err
		}
		k.RateLimits = b.RateLimits.Value.JSON()
	}
	before, err := limits.ReadUsage(k.UsageLimits)
	if err != nil {
		return err
	}
	if b.UsageLimits.Set {
		var in *limits.BudgetInput
		if !b.UsageLimits.Null {
			in = &b.UsageLimits.Value
		}
		if k.UsageLimits, err = usage(in, k.UsageLimits, c.Now); err != nil {
			return err
		}
	}
	after, err := limits.ReadUsage(k.UsageLimits)
	if err != nil {
		return err
	}
	if b.ResetUsage && after != nil {
		after.Reset(c.Now)
		k.UsageLimits = after.JSON()
	}
	if k.Status == store.KeyExhausted && (b.ResetUsage || after.Relieves(before)) {
		k.Status = store.KeyActive
	}
	return nil
}

// changeLifetime changes the expiry, the rotation and the alert addresses of the key.
func (b *UpdateBody) changeLifetime(ctx context.Context, c *route.Caller, tx *store.Tx, k *store.Key) (err error) {
	if b.AlertEmails.Set {
		if err := checkAlertEmails(b.AlertEmails.Value); err != nil {
			return err
		}
		k.AlertEmails = emails(b.AlertEmails.Value)
	}
	if b.Rotation.Set {
		var in *RotationInput
		if !b.Rotation.Null {
			in = &b.Rotation.Value
		}
		if err = setRotation(k, in, c); err != nil {
			return err
		}
	}
	if !b.ExpiresAt.Set {
		return nil
	}
	var rules store.UserKeyPolicy
	if k.Type == access.WorkspaceUser && !c.Restores() {
		if rules, err = userKeyRules(ctx, tx.Queries, k.Organisation, k.Workspace); err != nil {
			return err
		}
	}
	var asked *string
	if !b.ExpiresAt.Null {
		asked = &b.ExpiresAt.Value
	}
	if k.ExpiresAt, err = expiry(asked, rules, c); err != nil {
		return err
	}
	if k.Status == store.KeyExpired && (k.ExpiresAt.IsZero() || k.ExpiresAt.After(c.Now)) {
		k.Status = store.KeyActive
	}
	return nil
}
