// Package integrations implements the control plane's routes for integrations:
// credentials of providers with their models and workspaces.
//
// It guarantees that a caller sees and changes only what belongs to them, that a
// rejected change has no effect, and that a workspace that is granted an integration
// twice still has one provider of it. It does not check provider settings (see
// credentials), store rows (see store) or apply them to requests (see snapshot).
package integrations

import (
	"context"
	"net/http"
	"slices"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/credentials"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

// Routes are the routes of integrations.
type Routes struct {
	Tests *credentials.Tester // of credentials; nil has none
}

// family serves the routes.
type family struct {
	keeper *credentials.Manager
	tests  *credentials.Tester
}

// Add adds the routes of integrations without their tests.
func Add(a *route.API) { Routes{}.Add(a) }

// Add adds the routes of integrations.
func (o Routes) Add(a *route.API) {
	f := &family{credentials.New(a.Deps), o.Tests}
	r := route.Family{Path: "/integrations", Tag: "Integrations",
		Scopes: []string{"organisation_integrations", "workspace_integrations"}, Resource: "integration", Versioned: true}
	route.Add(a, r.Route(http.MethodPost, "", "create-integration", "create", "Store credentials of a provider"), f.create)
	route.Add(a, r.Route(http.MethodGet, "", "list-integrations", "list", "List integrations"), f.list)
	route.Add(a, r.Route(http.MethodGet, "/{integration}", "get-integration", "read", "Read an integration; secrets are masked"), f.get)
	route.Add(a, r.Route(http.MethodPut, "/{integration}", "update-integration", "update",
		"Change an integration; a masked secret sent back stays"), f.update)
	route.Add(a, r.Route(http.MethodDelete, "/{integration}", "delete-integration", "delete",
		"Archive an integration with the providers made from it"), f.archive)
	route.Add(a, r.Route(http.MethodGet, "/{integration}/models", "list-integration-models", "read",
		"List the models of an integration"), f.models)
	route.Add(a, r.Route(http.MethodPut, "/{integration}/models", "update-integration-models", "update",
		"Enable, disable and add models"), f.updateModels)
	route.Add(a, r.Route(http.MethodDelete, "/{integration}/models", "delete-integration-models",
		"update", "Remove models that were added; others stay"), f.deleteModels)
	route.Add(a, r.Route(http.MethodGet, "/{integration}/workspaces", "list-integration-workspaces",
		"read", "List the workspaces of an integration"), f.workspaces)
	route.Add(a, r.Route(http.MethodPut, "/{integration}/workspaces", "update-integration-workspaces",
		"update", "Grant or revoke workspace access to an integration"), f.updateWorkspaces)
	r.AddRestore(a, store.RestoreIntegration, nil)
	f.addTest(a)
}

// Owners of integrations, as prefixes of scopes.
const (
	organisationWide = "organisation_integrations."
	ofWorkspace      = "workspace_integrations."
)

func may(c *route.Caller, owner, verb string) bool { return c.Allows(access.Scope(owner + verb)) }

// bound returns the workspace that the caller is bound to, empty for callers of the
// organisation.
func bound(c *route.Caller) string {
	if c.Allows(access.ScopeAll) {
		return ""
	}
	return c.Workspace
}

// Named identifies an integration in a request. It is exported because the OpenAPI
// generator does not see embedded unexported fields.
type Named struct {
	Integration string `path:"integration" maxLength:"255" doc:"Id or slug"`
	Workspace   string `query:"workspace_id" maxLength:"255" doc:"Id or slug of a workspace that has it"`
}

// find returns the integration that a request names if the caller may use verb on it.
// An organisation integration can be read from every workspace that has it; elsewhere
// it is not found.
func (f *family) find(ctx context.Context, c *route.Caller, in Named, verb string) (store.Integration, error) {
	none := route.NotFound("integration", "integration", in.Integration)
	limit, err := c.VisibleWorkspace(ctx, in.Workspace)
	if err != nil {
		return store.Integration{}, err
	}
	row, err := c.DB().Integration(ctx, c.Organisation, in.Integration)
	if apierr.IsNotFound(err) {
		return row, none
	}
	if err != nil {
		return row, err
	}
	owned := route.Ownership{Workspace: row.Workspace, OrganisationWide: organisationWide, OfWorkspace: ofWorkspace, None: none,
		Has: func(ctx context.Context, workspace string) (bool, error) {
			return c.DB().HasIntegration(ctx, row, workspace)
		}}
	if err := c.CheckOwnership(ctx, &owned, limit, verb); err != nil {
		return row, err
	}
	c.SetAuditSubject(row.Workspace, row.ID)
	return row, nil
}

// Visible returns the integration with an id or slug if the caller may read it, and its
// grants in the workspaces that the caller may see. Workspace selects one of them; empty
// selects all.
func Visible(ctx context.Context, c *route.Caller, ref, workspace string) ([]store.IntegrationWorkspace, error) {
	row, err := new(family).find(ctx, c, Named{Integration: ref, Workspace: workspace}, "read")
	if err != nil {
		return nil, err
	}
	limit, err := c.VisibleWorkspace(ctx, workspace)
	if err != nil {
		return nil, err
	}
	granted, err := c.DB().IntegrationWorkspaces(ctx, row.ID)
	return slices.DeleteFunc(granted, func(g store.IntegrationWorkspace) bool { return limit != "" && g.Workspace != limit }), err
}

// Item is an integration in a list.
type Item struct {
	ID           string           `json:"id"`
	Organisation string           `json:"organisation_id"`
	Workspace    *string          `json:"workspace_id" doc:"Null for an organisation integration"`
	Provider     string           `json:"ai_provider_id"`
	Name         string           `json:"name"`
	Slug         string           `json:"slug"`
	Description  string           `json:"description"`
	Tags         credentials.Tags `json:"tags"`
	Status       string           `json:"status"`
	CreatedAt    route.Time       `json:"created_at"`
	UpdatedAt    route.Time       `json:"last_updated_at"`
	Object       string           `json:"object"`
}

func toResponse(i store.Integration) Item {
	return Item{
		ID: i.ID, Organisation: i.Organisation, Workspace: route.OrNull(i.Workspace), Provider: i.Provider,
		Name: i.Name, Slug: i.Slug, Description: i.Description,
		Tags: i.Tags, Status: i.Status, CreatedAt: route.Time(i.CreatedAt), UpdatedAt: route.Time(i.UpdatedAt), Object: "integration",
	}
}

type listInput struct {
	Workspace string `query:"workspace_id" maxLength:"255" doc:"Returns only integrations of this workspace"`
	Type      string `query:"type" enum:"workspace,organisation,all" default:"all"`
	Tags      string `query:"tags" maxLength:"8192" doc:"JSON object; returns only items with all of these tags"`
	route.Selection
}

func (f *family) list(ctx context.Context, c *route.Caller, in *listInput) (*route.List[Item], error) {
	limit, err := c.VisibleWorkspace(ctx, in.Workspace)
	if err != nil {
		return nil, err
	}
	tags, err := credentials.ParseTags(in.Tags)
	if err != nil {
		return nil, err
	}
	filter := store.IntegrationFilter{
		Organisation: c.Organisation, Workspace: limit, Tags: tags,
		Shared: in.Type != "workspace" && (limit != "" || may(c, organisationWide, "list")),
		Own:    in.Type != "organisation" && may(c, ofWorkspace, "list"),
	}
	p, err := in.Rows(ctx, c)
	if err != nil {
		return nil, err
	}
	found, total, err := c.DB().Integrations(ctx, filter, p)
	return route.Listing(found, total, err, toResponse)
}

type full struct {
	Item
	MaskedKey      string       `json:"masked_key"`
	Configurations route.JSON   `json:"configurations" doc:"Secrets are masks"`
	Global         globalAccess `json:"global_workspace_access_settings"`
	AllowAllModels bool         `json:"allow_all_models"`
	Workspaces     int          `json:"workspace_count"`
	Mappings       route.JSON   `json:"secret_mappings"`
	Pricing        route.JSON   `json:"pricing_adjustments"`
}

func (f *family) get(ctx context.Context, c *route.Caller, in *Named) (*full, error) {
	row, err := f.find(ctx, c, *in, "read")
	if err != nil {
		return nil, err
	}
	global, err := globalOf(row)
	if err != nil {
		return nil, err
	}
	out := &full{
		Item: toResponse(row), MaskedKey: row.Configuration.Masks.Key, Global: global, AllowAllModels: row.AllowAllModels,
		Mappings: route.JSON(row.SecretMappings), Pricing: route.JSON(row.Pricing),
	}
	out.Configurations, err = encode(credentials.ResponseFields(row.Provider, row.Configuration, credentials.Wire))
	if err != nil {
		return nil, err
	}
	out.Workspaces, err = c.DB().IntegrationReach(ctx, row)
	return out, err
}

func (f *family) archive(ctx context.Context, c *route.Caller, in *Named) (*route.Empty, error) {
	row, err := f.find(ctx, c, *in, "delete")
	if err != nil {
		return nil, err
	}
	return &route.Empty{}, Archive(ctx, c, row)
}

// Archive archives an integration with the providers made from it. One that is archived
// already is not found.
func Archive(ctx context.Context, c *route.Caller, row store.Integration) error {
	return c.Change(ctx, func(tx *store.Tx) error {
		now, err := tx.Integration(ctx, row.Organisation, row.ID)
		if err := c.CheckIfMatch(now.UpdatedAt, now.UpdatedAt, err); err != nil {
			return err
		}
		return tx.ArchiveIntegration(ctx, row.ID, c.NextUpdateTime(now.UpdatedAt))
	})
}
