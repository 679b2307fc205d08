package providers

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/credentials"
	"modelgate/internal/controlplane/limits"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/store"
)

// virtualKeys is the receiver of the route handlers of virtual keys.
type virtualKeys struct {
	keeper *credentials.Manager
	tests  *credentials.Tester
}

func addVirtualKeys(a *route.API, tests *credentials.Tester) {
	v := &virtualKeys{credentials.New(a.Deps), tests}
	const older = " (older form of /providers)"
	f := route.Family{Path: "/virtual-keys", Tag: "Virtual keys", Scopes: []string{"virtual_keys"}, Resource: "virtual_key", Versioned: true}
	route.Add(a, f.Route(http.MethodPost, "", "create-virtual-key", "create", "Create a provider with its own credentials"+older), v.create)
	route.Add(a, f.Route(http.MethodGet, "", "list-virtual-keys", "list", "List a workspace's providers"+older), v.list)
	route.Add(a, f.Route(http.MethodGet, "/{provider}", "get-virtual-key", "read",
		"Read a provider with its settings; secrets are masked"+older), v.get)
	route.Add(a, f.Route(http.MethodPut, "/{provider}", "update-virtual-key", "update",
		"Change a provider and its credentials"+older), v.update)
	route.Add(a, f.Route(http.MethodDelete, "/{provider}", "delete-virtual-key", "delete", "Archive a provider"+older), archive)
}

// KeyBody is a virtual key in a request. Settings of its provider appear among its
// fields, in camel case.
type KeyBody struct {
	_           struct{}                              `json:"-" additionalProperties:"true"`
	Name        route.Optional[string]                `json:"name,omitempty" minLength:"1" maxLength:"255"`
	Provider    string                                `json:"provider,omitempty" maxLength:"128" doc:"Id or alias of a provider; cannot be changed"`
	Key         route.Optional[string]                `json:"key,omitempty" maxLength:"16384"`
	Note        route.Optional[string]                `json:"note,omitempty" maxLength:"1024"`
	Workspace   string                                `json:"workspace_id,omitempty" maxLength:"255"`
	UsageLimits route.Optional[limits.BudgetInput]    `json:"usage_limits,omitempty"`
	RateLimits  route.Optional[limits.Rates]          `json:"rate_limits,omitempty" maxItems:"7" doc:"Limits of requests and tokens in fixed windows, and of requests at a time; null or empty for none"`
	ExpiresAt   route.Optional[string]                `json:"expires_at,omitempty" maxLength:"40"`
	Reset       *bool                                 `json:"reset_usage,omitempty" nullable:"true"`
	Mappings    route.Optional[[]credentials.Mapping] `json:"secret_mappings,omitempty" maxItems:"64"`
	Config      route.Optional[credentials.Fields]    `json:"model_config,omitempty" doc:"Settings of the provider; takes precedence over settings given as fields of the key"`

	rest credentials.Fields // provider settings among the fields
}

// ownFields are the fields of KeyBody; all other fields are provider settings.
var ownFields = []string{
	"name", "provider", "key", "note", "workspace_id", "usage_limits", "rate_limits", "expires_at",
	"reset_usage", "secret_mappings", "model_config",
}

// UnmarshalJSON implements json.Unmarshaler.
func (b *KeyBody) UnmarshalJSON(raw []byte) error {
	type plain KeyBody
	if err := json.Unmarshal(raw, (*plain)(b)); err != nil {
		return err
	}
	if err := json.Unmarshal(raw, &b.rest); err != nil {
		return err
	}
	for _, name := range ownFields {
		delete(b.rest, name)
	}
	return nil
}

// credentials returns the part of the request that concerns credentials.
func (b *KeyBody) credentials() credentials.CredentialInput {
	fields := credentials.Fields{}
	maps.Copy(fields, b.Config.Value)
	maps.Copy(fields, b.rest)
	return credentials.CredentialInput{
		Key: b.Key, Merge: true,
		Fields: route.Optional[credentials.Fields]{Set: len(fields) > 0 || b.Config.Set, Value: fields},
	}
}

// changes returns the part of the request that concerns the provider itself.
func (b *KeyBody) changes() *updateInput {
	out := new(updateInput)
	to := &out.Body
	to.Name, to.Note, to.ExpiresAt = b.Name, b.Note, b.ExpiresAt
	to.UsageLimits, to.RateLimits, to.Reset = b.UsageLimits, b.RateLimits, b.Reset
	return out
}

// statusResponse is the response envelope of some of the routes.
type statusResponse[T any] struct {
	Success bool `json:"success"`
	Data    T    `json:"data"`
}

type madeKey struct {
	Slug     string   `json:"slug"`
	Warnings []string `json:"warnings,omitempty" doc:"What was left out of addresses in the request"`
}

type createKeyInput struct {
	credentials.TestQuery
	Body KeyBody
}

func (v *virtualKeys) create(ctx context.Context, c *route.Caller, in *createKeyInput) (*statusResponse[madeKey], error) {
	b := &in.Body
	g := b.credentials()
	spec, err := credentials.Row("provider", b.Provider, g.Fields.Value)
	if err != nil {
		return nil, err
	}
	w, err := c.InWorkspace(ctx, b.Workspace)
	if err != nil {
		return nil, err
	}
	row := store.Provider{
		ID: c.NewID(), Organisation: w.Organisation, Workspace: w.ID, Slug: route.NewSlug("", b.Name.Value),
		Status: store.Active, CreatedAt: c.Now, UpdatedAt: c.Now,
	}
	if err := b.changes().apply(&row, c); err != nil {
		return nil, err
	}
	i := store.Integration{
		ID: c.NewID(), Organisation: w.Organisation, Workspace: w.ID, Slug: row.Slug, Name: row.Name, Provider: spec.ID,
		AllowAllModels: true, Implicit: true, Status: store.Active, CreatedAt: c.Now, UpdatedAt: c.Now,
	}
	row.Integration = i.ID
	if err := credentials.SetMappings(ctx, c.DB(), &i, b.Mappings.Value); err != nil {
		return nil, err
	}
	g.Key.Set, g.Fields.Set = true, true
	if err := v.keeper.Apply(ctx, &i, g); err != nil {
		return nil, err
	}
	if err := v.tests.Check(ctx, c, in.TestQuery, w.ID, i); err != nil {
		return nil, err
	}
	c.SetAuditSubject(w.ID, row.ID)
	err = c.Change(ctx, func(tx *store.Tx) error {
		if err := credentials.CheckMappings(ctx, tx.Queries, &i); err != nil {
			return err
		}
		if err := credentials.CheckReprice(ctx, c, tx, store.Integration{}, i); err != nil {
			return err
		}
		if err := tx.CreateIntegration(ctx, i); err != nil {
			return err
		}
		to := store.IntegrationWorkspace{Integration: i.ID, Workspace: w.ID, Enabled: true, Status: store.Active}
		if err := tx.PutIntegrationWorkspace(ctx, to); err != nil {
			return err
		}
		return insert(ctx, tx, c, &row)
	})
	return &statusResponse[madeKey]{true, madeKey{row.Slug, credentials.AddressWarnings(g, &i)}}, err
}

// KeyItem is a virtual key in a response.
type KeyItem struct {
	ID          string                 `json:"id"`
	Name        string                 `json:"name"`
	Slug        string                 `json:"slug"`
	Provider    string                 `json:"provider"`
	Note        string                 `json:"note"`
	Status      string                 `json:"status"`
	UsageLimits *limits.BudgetResponse `json:"usage_limits"`
	ResetUsage  *bool                  `json:"reset_usage"`
	RateLimits  limits.Rates           `json:"rate_limits"`
	Config      route.JSON             `json:"model_config" doc:"Secrets are masks"`
	MaskedKey   string                 `json:"masked_api_key"`
	Workspace   string                 `json:"workspace_id"`
	CreatedAt   route.Time             `json:"created_at"`
	UpdatedAt   route.Time             `json:"last_updated_at"`
	ExpiresAt   route.Time             `json:"expires_at"`
	ManagedBy   string                 `json:"managed_by"`
	Object      string                 `json:"object"`
}

// shownKey returns p as a virtual key. Its integration is taken from known, or read.
func shownKey(ctx context.Context, c *route.Caller, p store.Provider, spent reqlog.Spend,
	known map[string]store.Integration) (KeyItem, error) {
	item, err := toResponse(p, spent, c)
	if err != nil {
		return KeyItem{}, err
	}
	i, ok := known[p.Integration]
	if !ok {
		i, err = c.DB().Integration(ctx, p.Organisation, p.Integration)
	}
	if err != nil && !apierr.IsNotFound(err) {
		return KeyItem{}, err
	}
	settings, err := json.Marshal(credentials.ResponseFields(i.Provider, i.Configuration, credentials.Camel))
	return KeyItem{
		ID: item.ID, Name: item.Name, Slug: item.Slug, Provider: i.Provider, Note: item.Note, Status: item.Status,
		UsageLimits: item.UsageLimits, RateLimits: item.RateLimits, Config: settings, MaskedKey: i.Configuration.Masks.Key,
		Workspace: item.Workspace, CreatedAt: item.CreatedAt, UpdatedAt: item.UpdatedAt, ExpiresAt: item.ExpiresAt,
		ManagedBy: item.ManagedBy, Object: "virtual-key",
	}, err
}

func (v *virtualKeys) list(ctx context.Context, c *route.Caller, in *PageQuery) (*route.List[KeyItem], error) {
	w, err := c.InWorkspace(ctx, in.Workspace)
	if err != nil {
		return nil, err
	}
	p, err := in.rows(ctx, c)
	if err != nil {
		return nil, err
	}
	found, total, err := c.DB().Providers(ctx, w.Organisation, w.ID, nil, p)
	if err != nil {
		return nil, err
	}
	has, _, err := c.DB().Integrations(ctx, store.IntegrationFilter{Organisation: w.Organisation,
		Workspace: w.ID, Shared: true, Own: true}, store.Page{})
	if err != nil {
		return nil, err
	}
	known := make(map[string]store.Integration, len(has))
	for _, i := range has {
		known[i.ID] = i
	}
	owned := in.declared(c, w, p)
	spent, err := spending(ctx, c, found...)
	if err != nil {
		return nil, err
	}
	return route.ConvertDeclared(owned, found, in.Page, total,
		func(p store.Provider) (KeyItem, error) { return shownKey(ctx, c, p, spent[p.ID], known) })
}

func (v *virtualKeys) get(ctx context.Context, c *route.Caller, in *Named) (*KeyItem, error) {
	row, err := find(ctx, c, *in)
	if err != nil {
		return nil, err
	}
	spent, err := spending(ctx, c, row)
	if err != nil {
		return nil, err
	}
	item, err := shownKey(ctx, c, row, spent[row.ID], nil)
	return &item, err
}

type updateKeyInput struct {
	Named
	credentials.TestQuery
	Body KeyBody
}

func (v *virtualKeys) update(ctx context.Context, c *route.Caller, in *updateKeyInput) (*statusResponse[madeKey], error) {
	b := &in.Body
	if in.Workspace == "" {
		in.Workspace = b.Workspace
	}
	row, err := find(ctx, c, in.Named)
	if err != nil {
		return nil, err
	}
	change, warnings, err := v.credentials(ctx, c, row, in)
	if err != nil {
		return nil, err
	}
	edit := b.changes()
	if err := edit.awaitSpending(ctx, c); err != nil {
		return nil, err
	}
	err = c.Change(ctx, func(tx *store.Tx) error {
		if err := edit.store(ctx, tx, c, row.ID); err != nil {
			return err
		}
		return change(ctx, tx)
	})
	return &statusResponse[madeKey]{true, madeKey{row.Slug, warnings}}, err
}

// credentials returns the step that changes a virtual key's credentials, and warnings about
// them. The change is prepared outside the transaction because sealing may need one.
func (v *virtualKeys) credentials(ctx context.Context, c *route.Caller, row store.Provider,
	in *updateKeyInput) (change func(context.Context, *store.Tx) error, warnings []string, err error) {
	b := &in.Body
	g := b.credentials()
	i, err := c.DB().Integration(ctx, c.Organisation, row.Integration)
	if err != nil {
		return nil, nil, err
	}
	if b.Provider != "" {
		if spec, err := credentials.Row("provider", b.Provider, g.Fields.Value); err != nil || spec.ID != i.Provider {
			return nil, nil, route.Invalid("provider", "cannot be changed; create another virtual key")
		}
	}
	if !g.Key.Set && !g.Fields.Set && !b.Mappings.Set {
		if in.Test || in.TestModel != "" {
			return nil, nil, route.Invalid("test", "needs new credentials: the request changes neither key, settings nor secret_mappings")
		}
		return func(context.Context, *store.Tx) error { return nil }, nil, nil
	}
	if !i.Implicit {
		return nil, nil, route.Invalid("key", "and settings belong to the integration %q; change them there", i.Slug)
	}
	before := i
	if b.Mappings.Set {
		if err := credentials.SetMappings(ctx, c.DB(), &i, b.Mappings.Value); err != nil {
			return nil, nil, err
		}
	}
	if err := v.keeper.Apply(ctx, &i, g); err != nil {
		return nil, nil, err
	}
	if err := v.tests.Check(ctx, c, in.TestQuery, row.Workspace, i); err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context, tx *store.Tx) error {
		now, err := tx.Integration(ctx, c.Organisation, i.ID)
		if err != nil {
			return err
		}
		if !now.UpdatedAt.Equal(before.UpdatedAt) {
			return apierr.New(apierr.Conflict, "the credentials were changed by another request; read the integration again and retry")
		}
		if err := credentials.CheckMappings(ctx, tx.Queries, &i); err != nil {
			return err
		}
		if err := credentials.CheckReprice(ctx, c, tx, now, i); err != nil {
			return err
		}
		i.UpdatedAt = c.NextUpdateTime(now.UpdatedAt)
		return tx.UpdateIntegration(ctx, i)
	}, credentials.AddressWarnings(g, &i), nil
}
