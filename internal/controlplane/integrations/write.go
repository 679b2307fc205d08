package integrations

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/credentials"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
)

type createInput struct {
	credentials.TestQuery
	Body struct {
		Name           string                `json:"name" minLength:"1" maxLength:"255"`
		Provider       string                `json:"ai_provider_id" minLength:"1" maxLength:"128" doc:"Id or alias of a provider"`
		Slug           string                `json:"slug,omitempty" pattern:"^[a-zA-Z0-9_-]+$" maxLength:"255"`
		Key            string                `json:"key,omitempty" maxLength:"16384"`
		Description    string                `json:"description,omitempty" maxLength:"1024"`
		Workspace      string                `json:"workspace_id,omitempty" maxLength:"255" doc:"Workspace that owns the integration; without it, the organisation owns it"`
		Configurations credentials.Fields    `json:"configurations,omitempty" doc:"Settings of the provider, custom_host and custom_headers"`
		Default        *bool                 `json:"create_default_provider,omitempty" default:"true" doc:"Creates a provider in workspace_id, otherwise in the caller's workspace or the organisation's default workspace"`
		DefaultSlug    string                `json:"default_provider_slug,omitempty" pattern:"^[a-zA-Z0-9_-]+$" maxLength:"255" doc:"Slug of that provider; defaults to the integration's"`
		Mappings       []credentials.Mapping `json:"secret_mappings,omitempty" maxItems:"64"`
		Pricing        route.JSON            `json:"pricing_adjustments,omitempty"`
		Tags           credentials.Tags      `json:"tags,omitempty"`
	}
}

// created is the response to creating or changing an integration.
type created struct {
	ID       string   `json:"id"`
	Slug     string   `json:"slug"`
	Warnings []string `json:"warnings,omitempty" doc:"What was left out of addresses in the request"`
}

func (f *family) create(ctx context.Context, c *route.Caller, in *createInput) (*created, error) {
	b := &in.Body
	spec, err := credentials.Row("ai_provider_id", b.Provider, b.Configurations)
	if err != nil {
		return nil, err
	}
	row := store.Integration{
		ID: c.NewID(), Organisation: c.Organisation, Slug: b.Slug, Name: b.Name, Description: b.Description, Provider: spec.ID,
		Tags: b.Tags, AllowAllModels: true, Status: store.Active, CreatedAt: c.Now, UpdatedAt: c.Now,
	}
	if row.Slug == "" {
		row.Slug = route.NewSlug("", b.Name)
	}
	if row.Workspace, err = owner(ctx, c, b.Workspace); err != nil {
		return nil, err
	}
	if err := b.Tags.Check("tags"); err != nil {
		return nil, err
	}
	if row.Pricing, err = pricing("pricing_adjustments", b.Pricing); err != nil {
		return nil, err
	}
	if err := credentials.SetMappings(ctx, c.DB(), &row, b.Mappings); err != nil {
		return nil, err
	}
	given := credentials.CredentialInput{Path: "configurations."}
	given.Key.Set, given.Key.Value = true, b.Key
	given.Fields.Set, given.Fields.Value = true, b.Configurations
	if err := f.keeper.Apply(ctx, &row, given); err != nil {
		return nil, err
	}
	if err := f.tests.Check(ctx, c, in.TestQuery, b.Workspace, row); err != nil {
		return nil, err
	}
	c.SetAuditSubject(row.Workspace, row.ID)
	err = c.Change(ctx, func(tx *store.Tx) error { return in.store(ctx, tx, c, row) })
	return &created{row.ID, row.Slug, credentials.AddressWarnings(given, &row)}, err
}

// owner returns the id of the workspace that a new integration belongs to, empty for
// the organisation.
func owner(ctx context.Context, c *route.Caller, named string) (string, error) {
	if bound(c) == "" && named == "" {
		if !may(c, organisationWide, "create") {
			return "", route.MissingScope(organisationWide + "create")
		}
		return "", nil
	}
	if !may(c, ofWorkspace, "create") {
		return "", route.MissingScope(ofWorkspace + "create")
	}
	w, err := c.InWorkspace(ctx, named)
	return w.ID, err
}

// store stores a new integration and grants it to its first workspace.
func (in *createInput) store(ctx context.Context, tx *store.Tx, c *route.Caller, row store.Integration) error {
	switch _, err := tx.Integration(ctx, row.Organisation, row.Slug); {
	case err == nil:
		return apierr.New(apierr.Conflict, "integration slug %q already exists; choose another", row.Slug).WithParam("slug")
	case !apierr.IsNotFound(err):
		return err
	}
	if err := credentials.CheckMappings(ctx, tx.Queries, &row); err != nil {
		return err
	}
	if err := credentials.CheckReprice(ctx, c, tx, store.Integration{}, row); err != nil {
		return err
	}
	if err := tx.CreateIntegration(ctx, row); err != nil {
		return err
	}
	wanted := in.Body.Default == nil || *in.Body.Default
	first, err := row.Workspace, error(nil)
	if first == "" && wanted {
		if first = c.Workspace; first == "" {
			first, err = tx.DefaultWorkspaceID(ctx, row.Organisation)
		}
	}
	if err != nil || first == "" {
		return err
	}
	return credentials.Grant{
		Integration: row, Default: wanted, Slug: in.Body.DefaultSlug, Field: "default_provider_slug",
		To: store.IntegrationWorkspace{Integration: row.ID, Workspace: first, Enabled: true, Status: store.Active},
	}.Apply(ctx, tx, c)
}

type updateInput struct {
	Named
	credentials.TestQuery
	Body struct {
		Name           route.Optional[string]                `json:"name,omitempty" minLength:"1" maxLength:"255"`
		Key            route.Optional[string]                `json:"key,omitempty" maxLength:"16384"`
		Description    route.Optional[string]                `json:"description,omitempty" maxLength:"1024"`
		Configurations route.Optional[credentials.Fields]    `json:"configurations,omitempty" doc:"Replaces all configurations"`
		Mappings       route.Optional[[]credentials.Mapping] `json:"secret_mappings,omitempty" maxItems:"64"`
		Pricing        route.Optional[route.JSON]            `json:"pricing_adjustments,omitempty"`
		Tags           route.Optional[credentials.Tags]      `json:"tags,omitempty"`
	}
}

func (f *family) update(ctx context.Context, c *route.Caller, in *updateInput) (*created, error) {
	row, err := f.find(ctx, c, in.Named, "update")
	if err != nil {
		return nil, err
	}
	read := row
	if err := in.apply(ctx, c, &row); err != nil {
		return nil, err
	}
	b := &in.Body
	given := credentials.CredentialInput{Path: "configurations.", Key: b.Key, Fields: b.Configurations}
	if err := f.keeper.Apply(ctx, &row, given); err != nil {
		return nil, err
	}
	if err := f.tests.Check(ctx, c, in.TestQuery, in.Workspace, row); err != nil {
		return nil, err
	}
	err = c.Change(ctx, func(tx *store.Tx) error {
		now, err := tx.Integration(ctx, c.Organisation, row.ID)
		if err := c.CheckIfMatch(now.UpdatedAt, now.UpdatedAt, err); err != nil {
			return err
		}
		before := now
		if b.Key.Set || b.Configurations.Set || in.Test { // what was tested is what is stored
			if now.Sealed != read.Sealed || !same(now.Configuration, read.Configuration) {
				return apierr.New(apierr.Conflict, "the credentials were changed by another request; read the integration again and retry")
			}
			now.Sealed, now.Configuration = row.Sealed, row.Configuration
		}
		in.copy(&now, row)
		if err := credentials.CheckReprice(ctx, c, tx, before, now); err != nil {
			return err
		}
		if b.Key.Set || b.Configurations.Set || b.Mappings.Set {
			if err := credentials.CheckMappings(ctx, tx.Queries, &now); err != nil {
				return err
			}
		}
		now.UpdatedAt = c.NextUpdateTime(now.UpdatedAt)
		return tx.UpdateIntegration(ctx, now)
	})
	return &created{row.ID, row.Slug, credentials.AddressWarnings(given, &row)}, err
}

// apply applies the requested changes to row, except credentials.
func (in *updateInput) apply(ctx context.Context, c *route.Caller, row *store.Integration) (err error) {
	b := &in.Body
	row.Name, row.Description, row.Tags = b.Name.Or(row.Name), b.Description.Or(row.Description), b.Tags.Or(row.Tags)
	if err := cmp.Or(route.CheckLength("name", row.Name, 1, 255), route.CheckLength("description", row.Description, 0, 1024)); err != nil {
		return err
	}
	if b.Tags.Set {
		if err := b.Tags.Value.Check("tags"); err != nil {
			return err
		}
	}
	if b.Pricing.Set {
		if row.Pricing, err = pricing("pricing_adjustments", b.Pricing.Value); err != nil {
			return err
		}
	}
	if b.Mappings.Set {
		err = credentials.SetMappings(ctx, c.DB(), row, b.Mappings.Value)
	}
	return err
}

// copy copies the fields that the request changes from row to now.
func (in *updateInput) copy(now *store.Integration, row store.Integration) {
	b := &in.Body
	if b.Name.Set {
		now.Name = row.Name
	}
	if b.Description.Set {
		now.Description = row.Description
	}
	if b.Tags.Set {
		now.Tags = row.Tags
	}
	if b.Pricing.Set {
		now.Pricing = row.Pricing
	}
	if b.Mappings.Set {
		now.SecretMappings = row.SecretMappings
	}
}

func same(a, b store.IntegrationSettings) bool {
	x, err := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err == nil && err2 == nil && string(x) == string(y)
}

func encode(v any) (route.JSON, error) { return json.Marshal(v) }

// maxPricing is the limit of a pricing object, in bytes.
const maxPricing = 8 << 10

// pricing checks an object of prices or factors: every number must be 0 or more, and
// the only other values are objects and the constants of its type.
func pricing(field string, raw route.JSON) (json.RawMessage, error) {
	var v any
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	if len(raw) > maxPricing {
		return nil, route.Invalid(field, "is longer than %d bytes", maxPricing)
	}
	if json.Unmarshal(raw, &v) != nil {
		return nil, route.Invalid(field, "must be an object")
	}
	if _, ok := v.(map[string]any); !ok {
		return nil, route.Invalid(field, "must be an object")
	}
	return json.RawMessage(raw), checkPrices(field, v, 5)
}

// Pricing checks a pricing object of an integration that is stored without a route.
// Field is its name in errors.
func Pricing(field string, raw json.RawMessage) (json.RawMessage, error) {
	return pricing(field, route.JSON(raw))
}

func checkPrices(field string, v any, depth int) error {
	switch v := v.(type) {
	case map[string]any:
		if depth == 0 {
			return route.Invalid(field, "is nested too deeply")
		}
		for name, inner := range v {
			if err := checkPrices(field+"."+short(name), inner, depth-1); err != nil {
				return err
			}
		}
		return nil
	case float64:
		if v < 0 || v > 1e12 {
			return route.Invalid(field, "must be a number from 0")
		}
		return nil
	case string:
		if last := field[strings.LastIndexByte(field, '.')+1:]; last == "type" && v == "static" || last == "currency" && v == "USD" {
			return nil
		}
	case nil:
		return nil
	}
	return route.Invalid(field, "must be a number from 0")
}

func short(name string) string { return name[:min(len(name), 64)] }
