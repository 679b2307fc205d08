// Package toolservers implements the control plane's routes for MCP servers: integrations,
// which have an address and its credentials, the servers that workspaces make of them, bundles
// of what servers offer, and the registry of what a caller may use; and those for agents, which
// have the same shape but bundles and the registry.
//
// It guarantees that a caller sees and changes only what belongs to them, that secrets are
// never shown, that a server is not allowed more than its integration, and that no process is
// started but those that the settings of the node name. It does not send messages to servers:
// what a test or a sync reads comes from [Routes.Probe], and is trusted in nothing.
package toolservers

import (
	"context"
	"net/http"
	"time"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/snapshot"
	"modelgate/internal/upstream"
)

// probe asks a server for what it is and offers.
type probe = func(ctx context.Context, s *toolserver.Server) (*toolserver.Found, error)

// Routes are the routes of MCP servers.
type Routes struct {
	// Probe asks a server for what it is and offers, as a user if each user signs in there. Nil
	// asks none.
	Probe func(ctx context.Context, s *toolserver.Server, user string) (*toolserver.Found, error)

	// SignIn signs users in to servers. Nil signs in none, so that integrations may not have the
	// auth_type oauth_auto.
	SignIn *SignIn
	// Commands returns the names of the commands that this node may run as servers. Nil
	// returns none.
	Commands func() []string

	// Fetch sends a request through the address guard, for documents of APIs. Nil fetches none.
	Fetch func(*http.Request) (*http.Response, error)

	// Snapshot returns what requests read, for the registry. Nil has nothing.
	Snapshot func() *snapshot.Snapshot
}

type family struct {
	Routes
	api   *route.API
	slots route.Slots
}

// Add adds the routes.
func (r Routes) Add(a *route.API) {
	f := newFamily(r, a)
	f.addIntegrations(a)
	f.addServers(a)
	f.addAgents(a)
	f.addConnections(a)
	b := route.Family{Path: "/mcp-bundles", Tag: "MCP bundles", Scopes: []string{"mcp_servers"}, Resource: "mcp_bundle", Versioned: true}
	const one = "/{mcp_bundle}"
	route.Add(a, b.Route(http.MethodPost, "", "create-mcp-bundle", "create", "Select tools of several MCP servers under one address"),
		createBundle)
	route.Add(a, b.Route(http.MethodGet, "", "list-mcp-bundles", "list", "List bundles"), listBundles)
	route.Add(a, b.Route(http.MethodGet, one, "get-mcp-bundle", "read", "Read a bundle"), getBundle)
	route.Add(a, b.Route(http.MethodPut, one, "update-mcp-bundle", "update", "Change a bundle"), updateBundle)
	route.Add(a, b.Route(http.MethodDelete, one, "delete-mcp-bundle", "delete", "Delete a bundle"), removeBundle)
	route.Add(a, route.Route{
		Method: http.MethodGet, Path: "/v0.1/servers", Also: []string{"/v0.1/servers"}, Name: "list-registry-servers", Tag: "MCP registry",
		Summary: "List the MCP servers and bundles that the caller may use, in the form of the public registry",
	}, f.registry)
}

func newFamily(r Routes, a *route.API) *family {
	if a.CheckHost == nil {
		a.CheckHost = upstream.New(upstream.Options{}).CheckHost
	}
	return &family{Routes: r, api: a, slots: route.Slots{Tests: "tests of MCP servers"}}
}

func (f *family) addIntegrations(a *route.API) {
	i := route.Family{
		Path: "/mcp-integrations", Tag: "MCP integrations", Scopes: []string{"organisation_mcp_integrations", "workspace_mcp_integrations"},
		Resource: "mcp_integration", Versioned: true,
	}
	const one = "/{tool_integration}"
	route.Add(a, i.Route(http.MethodPost, "", "create-mcp-integration", "create", "Store the address and the credentials of an MCP server"),
		f.createIntegration)
	route.Add(a, i.Route(http.MethodGet, "", "list-mcp-integrations", "list", "List MCP integrations"), listIntegrations)
	route.Add(a, i.Route(http.MethodGet, one, "get-mcp-integration", "read", "Read an MCP integration; secrets are masked"), getIntegration)
	route.Add(a, i.Route(http.MethodPut, one, "update-mcp-integration", "update",
		"Change an MCP integration; a masked secret sent back stays"), f.updateIntegration)
	route.Add(a, i.Route(http.MethodDelete, one, "delete-mcp-integration", "delete",
		"Delete an MCP integration with the servers made from it"), removeIntegration)
	route.Add(a, i.Route(http.MethodGet, one+"/workspaces", "list-mcp-integration-workspaces", "read",
		"List the workspaces of an MCP integration"), listGrants)
	route.Add(a, i.Route(http.MethodPut, one+"/workspaces", "update-mcp-integration-workspaces", "update",
		"Grant or revoke workspace access to an MCP integration"), updateGrants)
	route.Add(a, i.Route(http.MethodGet, one+"/capabilities", "list-mcp-integration-capabilities", "read",
		"List what the servers of an MCP integration offer"), listIntegrationCapabilities)
	route.Add(a, i.Route(http.MethodPut, one+"/capabilities", "update-mcp-integration-capabilities", "update",
		"Switch capabilities off, price them and approve their definitions, for all servers of an MCP integration"), updateIntegrationCapabilities)
	route.Add(a, i.Route(http.MethodGet, one+"/metadata", "get-mcp-integration-metadata", "read",
		"Read what the server of an MCP integration says of itself"), integrationMetadata)
}

func (f *family) addServers(a *route.API) {
	s := route.Family{Path: "/mcp-servers", Tag: "MCP servers", Scopes: []string{"mcp_servers"}, Resource: "mcp_server", Versioned: true}
	const one = "/{tool_server}"
	route.Add(a, s.Route(http.MethodPost, "", "create-mcp-server", "create", "Add an MCP server to a workspace"), createServer)
	route.Add(a, s.Route(http.MethodGet, "", "list-mcp-servers", "list", "List MCP servers"), listServers)
	route.Add(a, s.Route(http.MethodGet, one, "get-mcp-server", "read", "Read an MCP server"), getServer)
	route.Add(a, s.Route(http.MethodPut, one, "update-mcp-server", "update", "Change an MCP server"), updateServer)
	route.Add(a, s.Route(http.MethodDelete, one, "delete-mcp-server", "delete", "Delete an MCP server"), removeServer)
	route.Add(a, s.Route(http.MethodPost, one+"/test", "test-mcp-server", "read", "Ask an MCP server whether it answers"), f.test)
	route.Add(a, s.Route(http.MethodPost, one+"/sync", "sync-mcp-server", "update", "Read again what an MCP server offers"), f.sync)
	route.Add(a, s.Route(http.MethodGet, one+"/metadata", "get-mcp-server-metadata", "read", "Read what an MCP server says of itself"),
		serverMetadata)
	route.Add(a, s.Route(http.MethodGet, one+"/capabilities", "list-mcp-server-capabilities", "read", "List what an MCP server offers"),
		listServerCapabilities)
	route.Add(a, s.Route(http.MethodPut, one+"/capabilities", "update-mcp-server-capabilities", "update",
		"Switch capabilities of an MCP server off, price them and approve their definitions"), updateServerCapabilities)
	route.Add(a, s.Route(http.MethodGet, one+"/user-access", "get-mcp-server-user-access", "read", "Read which users may use an MCP server"),
		getUserAccess)
	route.Add(a, s.Route(http.MethodPut, one+"/user-access", "update-mcp-server-user-access", "update",
		"Set which users may use an MCP server"), updateUserAccess)
	route.Add(a, s.Route(http.MethodGet, one+"/connections", "list-mcp-server-connections", "read",
		"List the users who signed in to an MCP server; tokens are not shown"), listConnections)
	route.Add(a, s.Route(http.MethodDelete, one+"/connections", "revoke-mcp-server-connection", "update",
		"Delete the tokens of a user for an MCP server"), f.revokeConnection)
}

// probeTime is the time limit of asking a server for everything that it offers.
const probeTime = 30 * time.Second
