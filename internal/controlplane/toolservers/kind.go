package toolservers

import (
	"context"
	"net/http"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/store"
)

// kind is what a family of routes is about: MCP servers, or agents, which have the same shape.
// Routes of one kind never show objects of the other.
type kind struct {
	agents bool

	integration, server         string // as resources: mcp_integration, mcp_server
	integrationName, serverName string // in text
}

var (
	mcpKind   = kind{false, "mcp_integration", "mcp_server", "MCP integration", "MCP server"}
	agentKind = kind{true, "agent_integration", "agent_server", "agent integration", "agent"}
)

// kindOfRow returns the kind of an integration.
func kindOfRow(i *store.ToolIntegration) *kind {
	if agentKind.has(*i) {
		return &agentKind
	}
	return &mcpKind
}

// has reports whether an integration is of the kind.
func (k *kind) has(i store.ToolIntegration) bool {
	return k.agents == (i.Transport == string(toolserver.A2A))
}

// Owners of integrations, as prefixes of scopes.
func (k *kind) organisationWide() string { return "organisation_" + k.integration + "s." }
func (k *kind) ofWorkspace() string      { return "workspace_" + k.integration + "s." }

type kindKey struct{}

// of returns a handler that serves a kind.
func of[In, Out any](k *kind, f handler[In, Out]) handler[In, Out] {
	return func(ctx context.Context, c *route.Caller, in *In) (*Out, error) {
		return f(context.WithValue(ctx, kindKey{}, k), c, in)
	}
}

type handler[In, Out any] func(ctx context.Context, c *route.Caller, in *In) (*Out, error)

// kindOf returns the kind that a handler serves.
func kindOf(ctx context.Context) *kind {
	if k, ok := ctx.Value(kindKey{}).(*kind); ok {
		return k
	}
	return &mcpKind
}

// checkTransport checks the transport of a new integration, and returns that of an agent, which
// may be left out.
func (k *kind) checkTransport(transport string) (string, error) {
	isAgent := transport == string(toolserver.A2A)
	switch {
	case k.agents && (transport == "" || isAgent):
		return string(toolserver.A2A), nil
	case k.agents:
		return "", route.Invalid("transport", "must be a2a for an agent; MCP servers are integrated at /mcp-integrations")
	case isAgent:
		return "", route.Invalid("transport", "cannot be a2a for an MCP server; agents are integrated at /agent-integrations")
	case transport == "":
		return "", route.Invalid("transport", "is required")
	}
	return transport, nil
}

// checkAgent refuses what has no meaning for agents.
func checkAgent(i *store.ToolIntegration) error {
	switch s := &i.Settings; {
	case i.Auth == string(toolserver.AuthUser):
		return route.Invalid("auth_type",
			"cannot be %q for an agent: users cannot sign in to agents themselves; use headers or oauth_client_credentials", i.Auth)
	case i.Command != "":
		return route.Invalid("command", "has no meaning for an agent; leave it out")
	case s.Trust || s.Writes != "" || s.Destroys != "":
		return route.Invalid("configurations",
			"cannot have trust_annotations, writes or destroys, which decide about tools of MCP servers; limit messages to agents with policies")
	}
	return nil
}

// named returns the integration that the body of a request names in the member of its kind.
func (k *kind) named(mcp, agent string) (string, error) {
	ref, other, wrong := mcp, agent, "agent_integration_id"
	if k.agents {
		ref, other, wrong = agent, mcp, "mcp_integration_id"
	}
	switch {
	case other != "":
		return "", route.Invalid(wrong, "has no meaning here; use %s_id", k.integration)
	case ref == "":
		return "", route.Invalid(k.integration+"_id", "is required")
	}
	return ref, nil
}

// checkRules refuses rules that have no meaning for agents.
func (k *kind) checkRules(r Rules) error {
	if k.agents && (r.Writes != "" || r.Destroys != "") {
		return apierr.New(apierr.Invalid, "agents cannot have writes or destroys, which decide about tools of MCP servers; limit messages to agents with policies").
			WithParam("writes")
	}
	return nil
}

// addAgents adds the routes of agents.
func (f *family) addAgents(a *route.API) {
	k := &agentKind
	i := route.Family{
		Path: "/agent-integrations", Tag: "Agent integrations", Resource: "agent_integration", Versioned: true,
		Scopes: []string{"organisation_agent_integrations", "workspace_agent_integrations"},
	}
	const integration, server = "/{tool_integration}", "/{tool_server}"
	route.Add(a, i.Route(http.MethodPost, "", "create-agent-integration", "create", "Store the address and the credentials of an agent"),
		of(k, f.createIntegration))
	route.Add(a, i.Route(http.MethodGet, "", "list-agent-integrations", "list", "List agent integrations"), of(k, listIntegrations))
	route.Add(a, i.Route(http.MethodGet, integration, "get-agent-integration", "read", "Read an agent integration; secrets are masked"),
		of(k, getIntegration))
	route.Add(a, i.Route(http.MethodPut, integration, "update-agent-integration", "update",
		"Change an agent integration; a masked secret sent back stays"), of(k, f.updateIntegration))
	route.Add(a, i.Route(http.MethodDelete, integration, "delete-agent-integration", "delete",
		"Delete an agent integration with the agents made from it"), of(k, removeIntegration))
	route.Add(a, i.Route(http.MethodGet, integration+"/workspaces", "list-agent-integration-workspaces", "read",
		"List the workspaces of an agent integration"), of(k, listGrants))
	route.Add(a, i.Route(http.MethodPut, integration+"/workspaces", "update-agent-integration-workspaces", "update",
		"Grant or revoke workspace access to an agent integration"), of(k, updateGrants))
	route.Add(a, i.Route(http.MethodGet, integration+"/capabilities", "list-agent-integration-capabilities", "read",
		"Read the card and the price of an agent integration"), of(k, listIntegrationCapabilities))
	route.Add(a, i.Route(http.MethodPut, integration+"/capabilities", "update-agent-integration-capabilities", "update",
		"Switch messages off, price them and approve the card, for all agents of an integration"), of(k, updateIntegrationCapabilities))
	route.Add(a, i.Route(http.MethodGet, integration+"/metadata", "get-agent-integration-metadata", "read",
		"Read what the agent of an integration says of itself"), of(k, integrationMetadata))

	s := route.Family{Path: "/agent-servers", Tag: "Agents", Scopes: []string{"agent_servers"}, Resource: "agent_server", Versioned: true}
	route.Add(a, s.Route(http.MethodPost, "", "create-agent-server", "create", "Add an agent to a workspace"), of(k, createServer))
	route.Add(a, s.Route(http.MethodGet, "", "list-agent-servers", "list", "List agents"), of(k, listServers))
	route.Add(a, s.Route(http.MethodGet, server, "get-agent-server", "read", "Read an agent"), of(k, getServer))
	route.Add(a, s.Route(http.MethodPut, server, "update-agent-server", "update", "Change an agent"), of(k, updateServer))
	route.Add(a, s.Route(http.MethodDelete, server, "delete-agent-server", "delete", "Delete an agent"), of(k, removeServer))
	route.Add(a, s.Route(http.MethodPost, server+"/test", "test-agent-server", "read", "Ask an agent whether it answers"), of(k, f.test))
	route.Add(a, s.Route(http.MethodPost, server+"/sync", "sync-agent-server", "update", "Read the card of an agent again"), of(k, f.sync))
	route.Add(a, s.Route(http.MethodGet, server+"/metadata", "get-agent-server-metadata", "read", "Read what an agent says of itself"),
		of(k, serverMetadata))
	route.Add(a, s.Route(http.MethodGet, server+"/capabilities", "list-agent-server-capabilities", "read",
		"Read the card and the price of an agent"), of(k, listServerCapabilities))
	route.Add(a, s.Route(http.MethodPut, server+"/capabilities", "update-agent-server-capabilities", "update",
		"Switch messages to an agent off, price them and approve its card"), of(k, updateServerCapabilities))
	route.Add(a, s.Route(http.MethodGet, server+"/user-access", "get-agent-server-user-access", "read", "Read which users may use an agent"),
		of(k, getUserAccess))
	route.Add(a, s.Route(http.MethodPut, server+"/user-access", "update-agent-server-user-access", "update",
		"Set which users may use an agent"), of(k, updateUserAccess))
}
