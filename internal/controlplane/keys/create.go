package keys

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/egress"
	"modelgate/internal/controlplane/budgets"
	"modelgate/internal/controlplane/limits"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

type createInput struct {
	Body struct {
		Name         string              `json:"name" minLength:"1" maxLength:"255"`
		Description  string              `json:"description,omitempty" maxLength:"1024"`
		Scopes       []string            `json:"scopes" nullable:"false" minItems:"1" maxItems:"300" maxLength:"100" doc:"Written resource.verb; only scopes that the caller may grant"`
		Organisation string              `json:"organisation_id,omitempty" maxLength:"255" doc:"The caller's organisation; optional"`
		Workspace    string              `json:"workspace_id,omitempty" maxLength:"255" doc:"Id or slug; required for organisation keys"`
		User         string              `json:"user_id,omitempty" maxLength:"255" doc:"User the key belongs to; defaults to the user of the session"`
		RateLimits   limits.Rates        `json:"rate_limits,omitempty" maxItems:"11" doc:"Limits of requests and tokens in fixed windows, and of requests at a time; null or empty for none"`
		UsageLimits  *limits.BudgetInput `json:"usage_limits,omitempty"`
		Defaults     *DefaultsInput      `json:"defaults,omitempty"`
		AlertEmails  []string            `json:"alert_emails,omitempty" maxItems:"50" maxLength:"254" format:"email"`
		ExpiresAt    *string             `json:"expires_at,omitempty" nullable:"true" maxLength:"40" doc:"A future time such as 2026-12-31T12:00:00Z, or +90d from now"`
		Rotation     *RotationInput      `json:"rotation_policy,omitempty"`
		Egress       *egress.Policy      `json:"egress_policy,omitempty" doc:"Destinations that its requests may use"`

		WithoutSecret bool `json:"without_secret,omitempty" doc:"Creates a service key without a secret, for workload identities only"`

		AllowedAddresses []string `json:"allowed_addresses,omitempty" maxItems:"100" maxLength:"64" doc:"Client addresses and CIDRs that may use the key; defaults to all"`

		Tools []string `json:"tools,omitempty" nullable:"true" maxItems:"500" maxLength:"512" doc:"What the key may use of MCP servers, as patterns such as github/tool/create_*; null for all, empty for nothing"`
	}
}

type secretResponse struct {
	ID     string `json:"id"`
	Key    string `json:"key,omitempty" doc:"The secret, shown only once; absent with without_secret"`
	Object string `json:"object"`
}

func create(ctx context.Context, c *route.Caller, t access.KeyType, in *createInput) (*secretResponse, error) {
	if c.Type == access.Token && len(c.Limits) > 0 { // a key would bypass them
		return nil, apierr.New(apierr.Forbidden, "tokens with rate_limits cannot create keys").WithCode("AB03")
	}
	if err := checkLasting(c, t); err != nil {
		return nil, err
	}
	b := &in.Body
	secret := access.NewKey()
	k := store.Key{
		ID: c.NewID(), Type: t, Name: b.Name, Description: b.Description, Hash: access.HashKey(secret.Reveal()), Mask: store.Mask(secret),
		Organisation: c.Organisation, Providers: slices.Clone(c.Providers), Tools: b.Tools,
		RateLimits: b.RateLimits.JSON(), AlertEmails: emails(b.AlertEmails),
		CreationMode: "api", Status: store.KeyActive, CreatedAt: c.Now, UpdatedAt: c.Now,
	}
	if c.Type == access.Session {
		k.CreationMode = "ui"
	}
	if err := place(ctx, c, &k, in); err != nil {
		return nil, err
	}
	out := &secretResponse{k.ID, secret.Reveal(), "api-key"}
	if b.WithoutSecret {
		if err := checkSecretless(&k, in); err != nil {
			return nil, err
		}
		k.Mask, out.Key = "", "" // nobody knows the secret of the hash
	}
	c.SetAuditSubject(k.Workspace, k.ID)
	rank, err := c.Rank(ctx, c.DB(), k.Workspace)
	if err != nil {
		return nil, err
	}
	k.Origin = store.KeyOrigin{Rank: rank, By: c.Actor()}
	if k.Scopes, err = granted(ctx, c, c.DB(), &k, b.Scopes); err != nil {
		return nil, err
	}
	if err := b.RateLimits.CheckKey("rate_limits"); err != nil {
		return nil, err
	}
	if err := checkAlertEmails(b.AlertEmails); err != nil {
		return nil, err
	}
	if err := limits.CheckTools("tools", b.Tools); err != nil {
		return nil, err
	}
	if k.UsageLimits, err = usage(b.UsageLimits, nil, c.Now); err != nil {
		return nil, err
	}
	if err = setRotation(&k, b.Rotation, c); err != nil {
		return nil, err
	}
	err = c.Change(ctx, func(tx *store.Tx) error { return insert(ctx, c, tx, k, in) })
	if err != nil {
		return nil, err
	}
	return out, nil
}

// checkSecretless returns an error for a key that cannot be without a secret.
func checkSecretless(k *store.Key, in *createInput) error {
	if k.Type == access.WorkspaceUser {
		return route.Invalid("without_secret", "is allowed only for service keys")
	}
	if in.Body.Rotation != nil {
		return route.Invalid("rotation_policy", "cannot be combined with without_secret: there is nothing to rotate")
	}
	return nil
}

// place sets the workspace and the user of the key.
func place(ctx context.Context, c *route.Caller, k *store.Key, in *createInput) error {
	b := &in.Body
	if err := c.CheckOrganisation(ctx, b.Organisation); err != nil {
		return err
	}
	if k.Type != access.WorkspaceUser && b.User != "" {
		return route.Invalid("user_id", "is allowed only for user keys")
	}
	p, err := personOf(ctx, c, c.DB())
	if err != nil {
		return err
	}
	if k.Type == access.OrganisationService {
		return p.checkPermission("create", "")
	}
	w, err := c.InWorkspace(ctx, b.Workspace)
	if err != nil {
		return err
	}
	if p.role(w.ID) == "" {
		return route.Missing("workspace_id", "workspace", b.Workspace)
	}
	k.Workspace = w.ID
	if err := p.checkPermission("create", w.ID); err != nil {
		return err
	}
	if p.role(w.ID) == access.Member && (k.Type != access.WorkspaceUser || b.User != "" && b.User != p.user) {
		return forbidden("members can create keys only for themselves")
	}
	if k.Type == access.WorkspaceUser {
		return setOwner(ctx, c, p, k, b.User)
	}
	return nil
}

// setOwner assigns the key to the user that the request names, or to the user who sends
// it.
func setOwner(ctx context.Context, c *route.Caller, p *person, k *store.Key, user string) error {
	k.UserID = cmp.Or(user, p.user)
	if k.UserID == "" {
		return route.Invalid("user_id", "is required: the user the key belongs to")
	}
	m, err := c.DB().Membership(ctx, c.Organisation, k.UserID)
	if err == nil && m.RoleIn(k.Workspace) == "" {
		err = route.Missing("user_id", "member of the workspace", k.UserID)
	}
	return err
}

// insert stores k and everything that depends on other rows, in one transaction.
func insert(ctx context.Context, c *route.Caller, tx *store.Tx, k store.Key, in *createInput) error {
	var err error
	if k.Defaults, err = defaults(ctx, tx.Queries, k.Organisation, k.Workspace, in.Body.Defaults); err != nil {
		return err
	}
	if k.Defaults, err = withEgress(k.Defaults, in.Body.Egress); err != nil {
		return err
	}
	if err := setAddresses(&k, in.Body.AllowedAddresses); err != nil {
		return err
	}
	var rules store.UserKeyPolicy
	if k.Type == access.WorkspaceUser {
		if rules, err = userKeyRules(ctx, tx.Queries, k.Organisation, k.Workspace); err != nil {
			return err
		}
	}
	if k.ExpiresAt, err = expiry(in.Body.ExpiresAt, rules, c); err != nil {
		return err
	}
	b, err := boundsOf(ctx, c, tx.Queries, &k)
	if err != nil {
		return err
	}
	if err := b.inherit(&k, in); err != nil {
		return err
	}
	if err := b.check(&k, nil); err != nil {
		return err
	}
	k.Origin.Lineage = b.lineage()
	if rules.Count != nil && *rules.Count >= 0 {
		n, err := tx.UserKeys(ctx, k.Workspace, k.UserID, c.Now)
		if err != nil {
			return err
		}
		if int64(n) >= *rules.Count {
			return apierr.New(apierr.Forbidden, "the limit of %d keys per user in this workspace is reached; delete a key first", *rules.Count).WithParam("user_id").WithCode("AB03")
		}
	}
	if err := tx.CreateKey(ctx, k); err != nil {
		return err
	}
	if err := noteLimits(ctx, c, tx, &k, in); err != nil {
		return err
	}
	return budgets.Refresh(ctx, tx, store.KeyBudget, k.ID)
}

// noteLimits records who set the limits named in a request for a new key. Limits that
// follow from rules or from the key's maker have no setter.
func noteLimits(ctx context.Context, c *route.Caller, tx *store.Tx, k *store.Key, in *createInput) error {
	set, err := limitFields(k)
	if err != nil {
		return err
	}
	if in.Body.ExpiresAt == nil {
		delete(set, "expires_at")
	}
	if len(in.Body.RateLimits) == 0 {
		delete(set, "rate_limits")
	}
	if in.Body.Egress == nil {
		delete(set, "egress_policy")
	}
	if len(in.Body.AllowedAddresses) == 0 {
		delete(set, "allowed_addresses")
	}
	if in.Body.Tools == nil {
		delete(set, "tools")
	}
	maps.DeleteFunc(set, func(field, _ string) bool {
		return in.Body.Defaults == nil && strings.HasPrefix(field, "defaults.") || field == "providers"
	})
	of := object(*k)
	of.After = set
	return limits.Note(ctx, tx, of, store.LimitSetter{Rank: k.Origin.Rank, By: k.Origin.By})
}
