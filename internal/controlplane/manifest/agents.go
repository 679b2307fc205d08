package manifest

import (
	"modelgate/internal/controlplane/toolservers"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/settings"
	"modelgate/internal/store"
)

// integrationsOf returns the integrations of agents, or those of MCP servers.
func (t *toolState) integrationsOf(agents bool) (list []store.ToolIntegration) {
	for _, i := range t.integrations {
		if agents == (i.Transport == string(toolserver.A2A)) {
			list = append(list, i)
		}
	}
	return list
}

// serversOf returns agents, or MCP servers.
func (t *toolState) serversOf(agents bool) (list []store.ToolServer) {
	for _, s := range t.servers {
		if agents == s.Agent {
			list = append(list, s)
		}
	}
	return list
}

// Agents are rows of MCP servers, with entries of their own in files.
var agentIntegrationKind = kind[settings.AgentIntegration, store.ToolIntegration]{
	section: "agent_integrations", name: "agent_integration",
	entries: func(s *settings.Settings) *[]settings.AgentIntegration { return &s.AgentIntegrations },
	rows:    func(s *state) []store.ToolIntegration { return s.tools.integrationsOf(true) },
	key:     func(v *settings.AgentIntegration) entryID { return entryID{name: v.Slug} },
	rowKey:  func(_ *state, v *store.ToolIntegration) entryID { return entryID{name: v.Slug} },
	read: func(r *reader, row *store.ToolIntegration) (settings.AgentIntegration, bool, error) {
		m, ok, err := r.toolIntegration(row)
		return settings.AgentIntegration{Slug: m.Slug, Workspace: m.Workspace, Name: m.Name, Description: m.Description, URL: m.URL, Auth: m.Auth,
			Status: m.Status, Configurations: m.Configurations, AllWorkspaces: m.AllWorkspaces, Workspaces: m.Workspaces, Off: m.Off,
			Prices: m.Prices}, ok, err
	},
	put: func(p *plan, path string, v *settings.AgentIntegration, old *store.ToolIntegration, changed []string) (step, error) {
		return p.toolIntegration(path, &settings.MCPIntegration{Slug: v.Slug, Workspace: v.Workspace, Name: v.Name, Description: v.Description,
			URL: v.URL, Transport: string(toolserver.A2A), Auth: v.Auth, Status: v.Status, Configurations: v.Configurations,
			AllWorkspaces: v.AllWorkspaces, Workspaces: v.Workspaces, Off: v.Off, Prices: v.Prices}, old, changed)
	},
	keep: func(_ *plan, want, have *settings.AgentIntegration) {
		keepToolSecrets(&want.Configurations, &have.Configurations)
	},
	drop: func(_ *plan, row store.ToolIntegration) step { return dropRow(toolservers.RemoveIntegration, row) },
}

var agentServerKind = kind[settings.AgentServer, store.ToolServer]{
	section: "agent_servers", name: "agent_server",
	entries: func(s *settings.Settings) *[]settings.AgentServer { return &s.AgentServers },
	rows:    func(s *state) []store.ToolServer { return s.tools.serversOf(true) },
	key:     func(v *settings.AgentServer) entryID { return entryID{v.Workspace, v.Slug} },
	rowKey:  func(s *state, v *store.ToolServer) entryID { return entryID{s.slug(v.Workspace), v.Slug} },
	read: func(r *reader, row *store.ToolServer) (settings.AgentServer, bool, error) {
		m, ok, err := r.toolServer(row)
		return settings.AgentServer{Workspace: m.Workspace, Slug: m.Slug, Name: m.Name, Description: m.Description, Integration: m.Integration,
			Status: m.Status, HoldChanged: m.HoldChanged, Access: m.Access, Users: m.Users, Off: m.Off, Prices: m.Prices}, ok, err
	},
	put: func(p *plan, path string, v *settings.AgentServer, old *store.ToolServer, changed []string) (step, error) {
		if old == nil {
			workspace, err := p.workspaceID(path+".workspace", v.Workspace)
			if err != nil {
				return nil, err
			}
			return p.putToolServer(path, mcpServerOf(v), nil,
				store.ToolServer{ID: newID(), Organisation: p.state.organisation.ID, Workspace: workspace, Slug: v.Slug, Agent: true})
		}
		return p.toolServer(path, mcpServerOf(v), old, changed)
	},
	drop: func(_ *plan, row store.ToolServer) step { return dropRow(toolservers.RemoveServer, row) },
}

// mcpServerOf returns an agent in the form of an MCP server.
func mcpServerOf(v *settings.AgentServer) *settings.MCPServer {
	return &settings.MCPServer{Workspace: v.Workspace, Slug: v.Slug, Name: v.Name, Description: v.Description, Integration: v.Integration,
		Status: v.Status, HoldChanged: v.HoldChanged, Access: v.Access, Users: v.Users, Off: v.Off, Prices: v.Prices}
}

// normaliseAgents fills in the defaults of agents and their integrations. Home is the first
// workspace.
func (p *plan) normaliseAgents(home string) {
	for i := range p.file.AgentIntegrations {
		v := &p.file.AgentIntegrations[i]
		orElse(&v.Name, v.Slug)
		orElse(&v.Status, store.Active)
		v.Configurations.Headers = filled(v.Configurations.Headers)
		v.Off, v.Prices = normalRules(v.Off, v.Prices)
	}
	for i := range p.file.AgentServers {
		v := &p.file.AgentServers[i]
		orElse(&v.Workspace, home)
		orElse(&v.Name, v.Slug)
		orElse(&v.Status, store.Active)
		orElse(&v.Access, store.AccessAllow)
		v.Off, v.Prices = normalRules(v.Off, v.Prices)
		v.Users = normalUsers(v.Users)
	}
}
