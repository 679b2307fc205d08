package toolservers

import (
	"cmp"
	"context"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
)

// maxIntegrations is the limit of MCP integrations of an organisation.
const maxIntegrations = 200

type createIntegrationInput struct {
	Body struct {
		Name           string        `json:"name" minLength:"1" maxLength:"255"`
		Slug           string        `json:"slug,omitempty" minLength:"1" maxLength:"64" pattern:"^[a-zA-Z0-9_-]+$" doc:"Never changes"`
		URL            string        `json:"url,omitempty" maxLength:"2048" doc:"Address of the server; required for http, sse and a2a. For openapi, the default is the first server of the document"`
		Transport      string        `json:"transport,omitempty" enum:"http,sse,stdio,openapi,a2a" doc:"Required for MCP servers; stdio runs a command that the settings of the node name, and openapi makes tools of an HTTP API. a2a is that of agents"`
		Command        string        `json:"command,omitempty" maxLength:"64" doc:"Name of a command in the settings of the node, for stdio"`
		Auth           string        `json:"auth_type" enum:"none,headers,oauth_client_credentials,oauth_auto" doc:"How the gateway signs in; with oauth_auto each user does"`
		Description    string        `json:"description,omitempty" maxLength:"1024"`
		Organisation   string        `json:"organisation_id,omitempty" maxLength:"255" doc:"The caller's organisation; optional"`
		Workspace      string        `json:"workspace_id,omitempty" maxLength:"255" doc:"Workspace that owns the integration; without it, the organisation owns it"`
		Configurations Configuration `json:"configurations,omitempty"`
	}
}

// created is the response to creating an object.
type created struct {
	ID   string `json:"id"`
	Slug string `json:"slug"`
}

func (f *family) createIntegration(ctx context.Context, c *route.Caller, in *createIntegrationInput) (*created, error) {
	b := &in.Body
	if err := c.CheckOrganisation(ctx, b.Organisation); err != nil {
		return nil, err
	}
	transport, err := kindOf(ctx).checkTransport(b.Transport)
	if err != nil {
		return nil, err
	}
	row := store.ToolIntegration{
		ID: c.NewID(), Organisation: c.Organisation, Slug: b.Slug, Name: b.Name, Description: b.Description, Transport: transport, URL: b.URL,
		Command: b.Command, Auth: b.Auth, Status: store.Active, CreatedBy: c.Actor(), CreatedAt: c.Now, UpdatedAt: c.Now,
	}
	if row.Slug == "" {
		row.Slug = route.NewSlug("", b.Name)
	}
	if row.Workspace, err = newOwner(ctx, c, b.Workspace); err != nil {
		return nil, err
	}
	if _, err := f.configure(ctx, &row, &b.Configurations); err != nil {
		return nil, err
	}
	if err := f.check(ctx, c, &row); err != nil {
		return nil, err
	}
	c.SetAuditSubject(row.Workspace, row.ID)
	return &created{row.ID, row.Slug}, c.Change(ctx, func(tx *store.Tx) error { return insertIntegration(ctx, tx, row) })
}

// insertIntegration stores a new integration. That of a workspace is granted to it.
func insertIntegration(ctx context.Context, tx *store.Tx, row store.ToolIntegration) error {
	n, err := tx.CountToolIntegrations(ctx, row.Organisation)
	if err == nil && n >= maxIntegrations {
		err = apierr.New(apierr.Invalid, "an organisation can have %d integrations of MCP servers and agents; delete one first", maxIntegrations)
	}
	if err != nil {
		return err
	}
	switch _, err := tx.ToolIntegration(ctx, row.Organisation, row.Slug); {
	case err == nil:
		return apierr.New(apierr.Conflict, "an integration %q of an MCP server or an agent already exists; choose another slug", row.Slug).WithParam("slug")
	case !apierr.IsNotFound(err):
		return err
	}
	if err := tx.CreateToolIntegration(ctx, row); err != nil || row.Workspace == "" {
		return err
	}
	return tx.PutToolGrant(ctx, store.ToolGrant{Integration: row.ID, Workspace: row.Workspace, Enabled: true})
}

// Integration is an integration in a response.
type Integration struct {
	ID             string        `json:"id"`
	Organisation   string        `json:"organisation_id"`
	Workspace      *string       `json:"workspace_id" doc:"Null for an integration of the organisation"`
	Name           string        `json:"name"`
	Slug           string        `json:"slug"`
	Description    string        `json:"description"`
	URL            string        `json:"url"`
	Transport      string        `json:"transport"`
	Command        string        `json:"command"`
	Auth           string        `json:"auth_type"`
	Configurations Configuration `json:"configurations" doc:"Secrets are masks. Lists leave document out"`
	API            *API          `json:"api" doc:"What the document of an openapi integration says; null for others"`
	Status         string        `json:"status" doc:"active or disabled"`
	Metadata       Metadata      `json:"metadata"`
	CreatedBy      string        `json:"created_by"`
	CreatedAt      route.Time    `json:"created_at"`
	UpdatedAt      route.Time    `json:"last_updated_at"`
	Object         string        `json:"object"`
}

func showIntegration(i store.ToolIntegration, syncs map[string]store.ToolSync) Integration {
	return Integration{
		ID: i.ID, Organisation: i.Organisation, Workspace: route.OrNull(i.Workspace), Name: i.Name, Slug: i.Slug, Description: i.Description,
		URL: i.URL, Transport: i.Transport, Command: i.Command, Auth: i.Auth, Configurations: settingsOf(&i.Settings), API: apiOf(i.Settings.API),
		Status:   i.Status,
		Metadata: metadataOf(syncs, i.ID), CreatedBy: i.CreatedBy, CreatedAt: route.Time(i.CreatedAt), UpdatedAt: route.Time(i.UpdatedAt),
		Object: kindOfRow(&i).integration,
	}
}

type listIntegrationsInput struct {
	Workspace string `query:"workspace_id" maxLength:"255" doc:"Returns only integrations of this workspace"`
	Type      string `query:"type" enum:"workspace,organisation,all" default:"all"`
	Search    string `query:"search" maxLength:"255" doc:"Case-sensitive substring of the name or slug"`
	route.NamedPaging
}

func listIntegrations(ctx context.Context, c *route.Caller, in *listIntegrationsInput) (*route.List[Integration], error) {
	limit, err := c.VisibleWorkspace(ctx, in.Workspace)
	if err != nil {
		return nil, err
	}
	k := kindOf(ctx)
	rows, total, err := c.DB().ToolIntegrations(ctx, store.ToolIntegrationFilter{
		Organisation: c.Organisation, Workspace: limit, Search: in.Search, Agents: k.agents,
		Shared: in.Type != "workspace" && (limit != "" || may(c, k.organisationWide(), "list")),
		Own:    in.Type != "organisation" && may(c, k.ofWorkspace(), "list"),
	}, in.Rows())
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(rows))
	for i := range rows {
		ids[i] = rows[i].ID
	}
	syncs, err := c.DB().ToolSyncs(ctx, ids...)
	return route.Listing(rows, total, err, func(i store.ToolIntegration) Integration {
		i.Settings.Document = ""
		return showIntegration(i, syncs)
	})
}

func getIntegration(ctx context.Context, c *route.Caller, in *NamedIntegration) (*Integration, error) {
	row, err := findIntegration(ctx, c, *in, "read")
	if err != nil {
		return nil, err
	}
	syncs, err := c.DB().ToolSyncs(ctx, row.ID)
	return route.ItemOf(row, err, func(i store.ToolIntegration) Integration { return showIntegration(i, syncs) })
}

type updateIntegrationInput struct {
	NamedIntegration
	Body struct {
		Name           route.Optional[string]        `json:"name,omitempty"`
		Description    route.Optional[string]        `json:"description,omitempty"`
		URL            route.Optional[string]        `json:"url,omitempty" maxLength:"2048" doc:"For another host, secrets must be set again"`
		Auth           string                        `json:"auth_type,omitempty" enum:"none,headers,oauth_client_credentials,oauth_auto"`
		Configurations route.Optional[Configuration] `json:"configurations,omitempty" doc:"Replaces all configurations; a mask keeps its secret"`
		Status         string                        `json:"status,omitempty" enum:"active,disabled" doc:"disabled hides the servers made from it"`
	}
}

func (f *family) updateIntegration(ctx context.Context, c *route.Caller, in *updateIntegrationInput) (*route.Empty, error) {
	row, err := findIntegration(ctx, c, in.NamedIntegration, "update")
	if err != nil {
		return nil, err
	}
	read, b := row, &in.Body
	row.Name, row.Description, row.URL = b.Name.Or(row.Name), b.Description.Or(row.Description), b.URL.Or(row.URL)
	row.Auth, row.Status = cmp.Or(b.Auth, row.Auth), cmp.Or(b.Status, row.Status)
	if err := cmp.Or(route.CheckLength("name", row.Name, 1, 255), route.CheckLength("description", row.Description, 0, 1024)); err != nil {
		return nil, err
	}
	kept := ""
	if b.Configurations.Set {
		kept, err = f.configure(ctx, &row, &b.Configurations.Value)
	} else if row.Sealed != "" {
		kept = "configurations"
	}
	if err != nil {
		return nil, err
	}
	if kept != "" && destinations(&row) != destinations(&read) {
		return nil, route.Invalid(kept, "must be set again; stored secrets are not sent to a new address")
	}
	if b.URL.Set || b.Auth != "" || b.Configurations.Set { // others must not wait in an emergency
		if err := f.check(ctx, c, &row); err != nil {
			return nil, err
		}
	}
	row.UpdatedAt = c.NextUpdateTime(read.UpdatedAt)
	return &route.Empty{}, writeIntegration(ctx, c, read, row)
}

// writeIntegration stores row instead of read, unless that was changed since.
func writeIntegration(ctx context.Context, c *route.Caller, read, row store.ToolIntegration) error {
	return c.Change(ctx, func(tx *store.Tx) error {
		now, err := tx.ToolIntegration(ctx, row.Organisation, row.ID)
		if err := c.CheckIfMatch(read.UpdatedAt, now.UpdatedAt, err); err != nil {
			return err
		}
		return tx.UpdateToolIntegration(ctx, row)
	})
}

func removeIntegration(ctx context.Context, c *route.Caller, in *NamedIntegration) (*route.Empty, error) {
	row, err := findIntegration(ctx, c, *in, "delete")
	if err != nil {
		return nil, err
	}
	return &route.Empty{}, c.Change(ctx, func(tx *store.Tx) error {
		now, err := tx.ToolIntegration(ctx, row.Organisation, row.ID)
		if err := c.CheckIfMatch(row.UpdatedAt, now.UpdatedAt, err); err != nil {
			return err
		}
		return tx.DeleteToolIntegration(ctx, row.ID)
	})
}

// Grant is the access of a workspace to an integration.
type Grant struct {
	ID      string `json:"id" minLength:"1" maxLength:"255" doc:"Id or slug of the workspace"`
	Enabled bool   `json:"enabled"`
}

type globalGrant struct {
	Enabled bool `json:"enabled" doc:"Access of all workspaces that are not listed, also of later ones"`
}

type grantList struct {
	Total      int         `json:"total"`
	Workspaces []Grant     `json:"workspaces"`
	Global     globalGrant `json:"global_workspace_access"`
}

func listGrants(ctx context.Context, c *route.Caller, in *NamedIntegration) (*grantList, error) {
	row, err := findIntegration(ctx, c, *in, "read")
	if err != nil {
		return nil, err
	}
	limit, err := c.VisibleWorkspace(ctx, in.Workspace)
	if err != nil {
		return nil, err
	}
	rows, err := c.DB().ToolGrants(ctx, row.ID)
	out := &grantList{Workspaces: []Grant{}, Global: globalGrant{row.GlobalEnabled}}
	for _, g := range rows {
		if limit == "" || g.Workspace == limit {
			out.Workspaces = append(out.Workspaces, Grant{g.Workspace, g.Enabled})
		}
	}
	out.Total = len(out.Workspaces)
	return out, err
}

type updateGrantsInput struct {
	NamedIntegration
	Body struct {
		Workspaces []Grant      `json:"workspaces,omitempty" maxItems:"1000" doc:"Those that are not listed stay as they are"`
		Global     *globalGrant `json:"global_workspace_access,omitempty"`
		Override   bool         `json:"override_existing_workspace_access,omitempty" doc:"Gives all workspaces that are not listed the global access"`
	}
}

func updateGrants(ctx context.Context, c *route.Caller, in *updateGrantsInput) (*route.Empty, error) {
	row, err := findIntegration(ctx, c, in.NamedIntegration, "update")
	if err != nil {
		return nil, err
	}
	b := &in.Body
	if row.Workspace != "" && b.Global != nil && b.Global.Enabled {
		return nil, route.Invalid("global_workspace_access", "cannot be set for an integration of a workspace")
	}
	return &route.Empty{}, c.Change(ctx, func(tx *store.Tx) error {
		now, err := tx.ToolIntegration(ctx, row.Organisation, row.ID)
		if err := c.CheckIfMatch(now.UpdatedAt, now.UpdatedAt, err); err != nil {
			return err
		}
		if b.Global != nil {
			now.GlobalEnabled = b.Global.Enabled
		}
		if b.Override {
			if err := tx.DeleteToolGrants(ctx, row.ID); err != nil {
				return err
			}
		}
		if err := putGrants(ctx, tx, now, b.Workspaces); err != nil {
			return err
		}
		now.UpdatedAt = c.NextUpdateTime(now.UpdatedAt)
		return tx.UpdateToolIntegration(ctx, now)
	})
}

// putGrants stores the access of workspaces to an integration. That of a workspace is for it
// only.
func putGrants(ctx context.Context, tx *store.Tx, i store.ToolIntegration, list []Grant) error {
	seen := make(map[string]bool)
	for _, g := range list {
		w, err := tx.Workspace(ctx, i.Organisation, g.ID)
		if apierr.IsNotFound(err) || err == nil && (w.Status != store.Active || i.Workspace != "" && i.Workspace != w.ID) {
			return route.Missing("workspaces", "workspace", g.ID)
		}
		if err == nil && seen[w.ID] {
			err = route.Invalid("workspaces", "contains the workspace %.60q more than once", g.ID)
		}
		if err == nil {
			err = tx.PutToolGrant(ctx, store.ToolGrant{Integration: i.ID, Workspace: w.ID, Enabled: g.Enabled})
		}
		if err != nil {
			return err
		}
		seen[w.ID] = true
	}
	return nil
}
