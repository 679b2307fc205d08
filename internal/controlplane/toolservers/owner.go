package toolservers

import (
	"context"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

func may(c *route.Caller, owner, verb string) bool { return c.Allows(access.Scope(owner + verb)) }

// isBound reports whether the caller is bound to a workspace.
func isBound(c *route.Caller) bool { return c.Workspace != "" && !c.Allows(access.ScopeAll) }

// newOwner returns the id of the workspace that a new integration belongs to, empty for the
// organisation.
func newOwner(ctx context.Context, c *route.Caller, named string) (string, error) {
	k := kindOf(ctx)
	if !isBound(c) && named == "" {
		if !may(c, k.organisationWide(), "create") {
			return "", route.MissingScope(k.organisationWide() + "create")
		}
		return "", nil
	}
	if !may(c, k.ofWorkspace(), "create") {
		return "", route.MissingScope(k.ofWorkspace() + "create")
	}
	w, err := c.InWorkspace(ctx, named)
	return w.ID, err
}

// NamedIntegration identifies an integration in a request. It is exported because the OpenAPI
// generator does not see embedded unexported fields.
type NamedIntegration struct {
	Integration string `path:"tool_integration" maxLength:"255" doc:"Id or slug"`
	Workspace   string `query:"workspace_id" maxLength:"255" doc:"Id or slug of a workspace that has it"`
}

// findIntegration returns the integration that a request names if the caller may use verb on
// it. An integration of the organisation can be read from every workspace that has it;
// elsewhere it is not found.
func findIntegration(ctx context.Context, c *route.Caller, in NamedIntegration, verb string) (store.ToolIntegration, error) {
	k := kindOf(ctx)
	none := route.NotFound(k.integration, k.integrationName, in.Integration)
	limit, err := c.VisibleWorkspace(ctx, in.Workspace)
	if err != nil {
		return store.ToolIntegration{}, err
	}
	row, err := c.DB().ToolIntegration(ctx, c.Organisation, in.Integration)
	if apierr.IsNotFound(err) || err == nil && !k.has(row) {
		return row, none
	}
	if err != nil {
		return row, err
	}
	owned := route.Ownership{Workspace: row.Workspace, OrganisationWide: k.organisationWide(), OfWorkspace: k.ofWorkspace(), None: none,
		Has: func(ctx context.Context, workspace string) (bool, error) {
			return c.DB().HasToolIntegration(ctx, row, workspace)
		}}
	if err := c.CheckOwnership(ctx, &owned, limit, verb); err != nil {
		return row, err
	}
	c.SetAuditSubject(row.Workspace, row.ID)
	return row, nil
}

// NamedServer identifies a server in a request. It is exported because the OpenAPI generator
// does not see embedded unexported fields.
type NamedServer struct {
	Server    string `path:"tool_server" maxLength:"255" doc:"Id, or slug in a workspace"`
	Workspace string `query:"workspace_id" maxLength:"255" doc:"Id or slug"`
}

// findServer returns the server that a request names, if the caller may see it.
func findServer(ctx context.Context, c *route.Caller, in NamedServer) (store.ToolServer, error) {
	workspace, err := c.VisibleWorkspace(ctx, in.Workspace)
	if err != nil {
		return store.ToolServer{}, err
	}
	k := kindOf(ctx)
	none := route.NotFound(k.server, k.serverName, in.Server)
	row, err := c.DB().ToolServer(ctx, c.Organisation, workspace, in.Server)
	if err == nil && row.Agent != k.agents {
		return store.ToolServer{}, none
	}
	return row, c.CheckFound(row.Workspace, row.ID, err, none)
}

// NamedBundle identifies a bundle in a request. It is exported because the OpenAPI generator
// does not see embedded unexported fields.
type NamedBundle struct {
	Bundle    string `path:"mcp_bundle" maxLength:"255" doc:"Id, or slug in a workspace"`
	Workspace string `query:"workspace_id" maxLength:"255" doc:"Id or slug"`
}

// findBundle returns the bundle that a request names, if the caller may see it.
func findBundle(ctx context.Context, c *route.Caller, in NamedBundle) (store.ToolBundle, error) {
	workspace, err := c.VisibleWorkspace(ctx, in.Workspace)
	if err != nil {
		return store.ToolBundle{}, err
	}
	row, err := c.DB().ToolBundle(ctx, c.Organisation, workspace, in.Bundle)
	return row, c.CheckFound(row.Workspace, row.ID, err, route.NotFound("mcp_bundle", "MCP bundle", in.Bundle))
}
