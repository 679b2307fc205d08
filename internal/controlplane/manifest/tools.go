package manifest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/controlplane/toolservers"
	"modelgate/internal/identity/access"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/settings"
	"modelgate/internal/store"
)

// toolState is what a file can contain of MCP servers and agents.
type toolState struct {
	integrations []store.ToolIntegration
	servers      []store.ToolServer
	bundles      []store.ToolBundle
	grants       map[string]map[string]bool        // by integration and workspace id
	rules        map[string][]store.ToolCapability // by integration or server
	users        map[string]map[string]bool        // by server and user id
}

func (s *state) readTools(ctx context.Context, q store.Queries) (err error) {
	t, id, all := &s.tools, s.organisation.ID, store.Page{}
	for _, agents := range [...]bool{false, true} {
		filter := store.ToolIntegrationFilter{Organisation: id, Agents: agents, Shared: true, Own: true}
		integrations, _, err := q.ToolIntegrations(ctx, filter, all)
		if err != nil {
			return err
		}
		servers, _, err := q.ToolServers(ctx, store.ToolServerFilter{Organisation: id, Agents: agents}, all)
		if err != nil {
			return err
		}
		t.integrations, t.servers = append(t.integrations, integrations...), append(t.servers, servers...)
	}
	if t.bundles, _, err = q.ToolBundles(ctx, id, "", all); err != nil {
		return err
	}
	grants, err := q.AllToolGrants(ctx)
	if err != nil {
		return err
	}
	t.grants, t.rules, t.users = make(map[string]map[string]bool), make(map[string][]store.ToolCapability), make(map[string]map[string]bool)
	for _, g := range grants {
		set(t.grants, g.Integration, g.Workspace, g.Enabled)
	}
	rules, err := q.ToolCapabilityRules(ctx)
	if err != nil {
		return err
	}
	for _, c := range rules {
		t.rules[c.Owner] = append(t.rules[c.Owner], c)
	}
	users, err := q.AllToolUserAccess(ctx)
	for _, a := range users {
		set(t.users, a.Server, a.User, a.Enabled)
	}
	return err
}

func set(m map[string]map[string]bool, outer, inner string, v bool) {
	if m[outer] == nil {
		m[outer] = make(map[string]bool)
	}
	m[outer][inner] = v
}

var toolIntegrationKind = kind[settings.MCPIntegration, store.ToolIntegration]{
	section: "mcp_integrations", name: "mcp_integration",
	entries: func(s *settings.Settings) *[]settings.MCPIntegration { return &s.MCPIntegrations },
	rows:    func(s *state) []store.ToolIntegration { return s.tools.integrationsOf(false) },
	key:     func(v *settings.MCPIntegration) entryID { return entryID{name: v.Slug} },
	rowKey:  func(_ *state, v *store.ToolIntegration) entryID { return entryID{name: v.Slug} },
	read:    (*reader).toolIntegration, put: (*plan).toolIntegration,
	keep: func(_ *plan, want, have *settings.MCPIntegration) {
		keepToolSecrets(&want.Configurations, &have.Configurations)
	},
	drop: func(_ *plan, row store.ToolIntegration) step { return dropRow(toolservers.RemoveIntegration, row) },
}

// keepToolSecrets keeps the stored credentials that a file leaves out.
func keepToolSecrets(want, have *settings.MCPConfiguration) {
	names := make([]string, 0, len(have.Headers))
	for name := range have.Headers {
		names = append(names, name)
	}
	want.Headers = withStoredSecrets(want.Headers, have.Headers, names)
	if want.ClientID != "" {
		orElse(&want.Secret, have.Secret)
	}
	if toolservers.IsSameDocument(want.Document, have.Document) {
		want.Document = have.Document
	}
}

// toolIntegration converts a row. One that runs a command of a node is left out.
func (r *reader) toolIntegration(row *store.ToolIntegration) (v settings.MCPIntegration, ok bool, err error) {
	slug, placed := r.place(row.Workspace)
	if !placed || row.Transport == string(toolserver.Stdio) {
		return v, false, nil
	}
	held, err := r.secrets(row.Sealed)
	if err != nil {
		return v, false, err
	}
	s := &row.Settings
	v = settings.MCPIntegration{Slug: row.Slug, Workspace: slug, Name: row.Name, Description: row.Description, URL: row.URL,
		Transport: row.Transport, Auth: row.Auth, Status: row.Status, AllWorkspaces: row.GlobalEnabled}
	rules := toolservers.RulesOf(r.state.tools.rules[row.ID])
	v.Off, v.Prices = rules.Off, rules.Prices
	place := "mcp_integration " + row.Slug
	if row.Transport == string(toolserver.A2A) {
		place = "agent_integration " + row.Slug
	}
	v.Configurations = settings.MCPConfiguration{
		Headers: r.rendered(place+" custom_headers", nil, held.Headers), PassHeaders: s.PassHeaders, CallTimeout: s.CallTimeout,
		IdleTimeout: s.IdleTimeout, Document: s.Document, SearchAbove: s.SearchAbove, Trust: s.Trust,
		Writes: s.Writes, Destroys: s.Destroys, HoldChanged: s.HoldChanged,
	}
	if o := s.OAuth; o != nil {
		c := &v.Configurations
		c.ClientID, c.Scopes, c.TokenURL, c.AuthorizeURL = o.ClientID, o.Scopes, o.TokenURL, o.AuthorizeURL
		if held := held.Options[store.ClientSecret]; !held.Empty() {
			c.Secret = r.render(place+" client_secret", held)
		}
	}
	for id, enabled := range r.state.tools.grants[row.ID] {
		if slug, ok := r.workspaces[id]; ok && row.Workspace == "" {
			if v.Workspaces == nil {
				v.Workspaces = make(map[string]bool)
			}
			v.Workspaces[slug] = enabled
		}
	}
	return v, true, nil
}

func (p *plan) toolIntegration(path string, want *settings.MCPIntegration, old *store.ToolIntegration, _ []string) (step, error) {
	workspace, err := p.place(path, want.Workspace)
	if err != nil {
		return nil, err
	}
	row := rowOr(old, store.ToolIntegration{ID: newID(), Organisation: p.state.organisation.ID, Workspace: workspace, Slug: want.Slug})
	if row.Workspace != workspace {
		return nil, p.file.ErrorAt(path+".workspace", errors.New("the owner of an integration cannot be changed; give it another slug"))
	}
	if row.Transport == string(toolserver.Stdio) {
		return nil, p.file.ErrorAt(path+".slug", errors.New("is that of an integration that runs a command of a node; choose another"))
	}
	grants := make(map[string]bool, len(want.Workspaces))
	if workspace != "" {
		grants[workspace] = true
		if want.AllWorkspaces || len(want.Workspaces) > 0 {
			return nil, p.file.ErrorAt(path+".workspaces", errors.New("an integration of a workspace belongs to it; leave workspaces and all_workspaces out"))
		}
	}
	for slug, enabled := range want.Workspaces {
		id, err := p.workspaceID(path+".workspaces."+slug, slug)
		if err != nil {
			return nil, err
		}
		grants[id] = enabled
	}
	given := want.Configurations
	if given.Headers, err = p.openedAll(path+".configurations.custom_headers.", given.Headers); err != nil {
		return nil, err
	}
	if given.Secret != "" {
		if given.Secret, err = p.opened(path+".configurations.client_secret", given.Secret, true); err != nil {
			return nil, err
		}
	}
	var in toolservers.Configuration
	if err := json.Unmarshal(text(given), &in); err != nil {
		return nil, err
	}
	row.Name, row.Description, row.URL, row.Transport, row.Auth, row.Status, row.GlobalEnabled = want.Name, want.Description, want.URL,
		want.Transport, want.Auth, want.Status, want.AllWorkspaces
	if err := toolservers.FillIntegration(p.ctx, p.api, old, &row, in); err != nil {
		return nil, err
	}
	rules := toolservers.FileRules{Off: want.Off, Prices: want.Prices}
	e := toolservers.FileIntegration{Row: row, Access: grants, Rules: rules}
	return func(ctx context.Context, c *route.Caller) error { return toolservers.PutIntegration(ctx, c, old, e) }, nil
}

// openedAll returns opened credentials by name. Path is that of their names.
func (p *plan) openedAll(path string, sealed map[string]string) (map[string]string, error) {
	out := make(map[string]string, len(sealed))
	for name, v := range sealed {
		if v == "" {
			continue
		}
		opened, err := p.opened(path+name, v, true)
		if err != nil {
			return nil, err
		}
		out[name] = opened
	}
	return out, nil
}

var toolServerKind = kind[settings.MCPServer, store.ToolServer]{
	section: "mcp_servers", name: "mcp_server",
	entries: func(s *settings.Settings) *[]settings.MCPServer { return &s.MCPServers },
	rows:    func(s *state) []store.ToolServer { return s.tools.serversOf(false) },
	key:     func(v *settings.MCPServer) entryID { return entryID{v.Workspace, v.Slug} },
	rowKey:  func(s *state, v *store.ToolServer) entryID { return entryID{s.slug(v.Workspace), v.Slug} },
	read:    (*reader).toolServer, put: (*plan).toolServer,
	drop: func(_ *plan, row store.ToolServer) step { return dropRow(toolservers.RemoveServer, row) },
}

// toolServer converts a row. One of an integration that a file cannot contain is left out.
func (r *reader) toolServer(row *store.ToolServer) (v settings.MCPServer, ok bool, err error) {
	slug, placed := r.place(row.Workspace)
	v = settings.MCPServer{Workspace: slug, Slug: row.Slug, Name: row.Name, Description: row.Description, Status: row.Status,
		Writes: row.Rules.Writes, Destroys: row.Rules.Destroys, HoldChanged: row.Rules.HoldChanged, Access: row.DefaultAccess}
	rules := toolservers.RulesOf(r.state.tools.rules[row.ID])
	v.Off, v.Prices = rules.Off, rules.Prices
	for _, i := range r.state.tools.integrations {
		if _, readable := r.place(i.Workspace); i.ID == row.Integration && readable && i.Transport != string(toolserver.Stdio) {
			v.Integration = i.Slug
		}
	}
	for id, enabled := range r.state.tools.users[row.ID] {
		if v.Users == nil {
			v.Users = make(map[string]bool)
		}
		v.Users[r.people[id]] = enabled
	}
	return v, placed && v.Integration != "", nil
}

func (p *plan) toolServer(path string, want *settings.MCPServer, old *store.ToolServer, _ []string) (step, error) {
	workspace, err := p.workspaceID(path+".workspace", want.Workspace)
	if err != nil {
		return nil, err
	}
	return p.putToolServer(path, want, old,
		rowOr(old, store.ToolServer{ID: newID(), Organisation: p.state.organisation.ID, Workspace: workspace, Slug: want.Slug}))
}

// putToolServer stores a server or an agent in row, which is old or a new one.
func (p *plan) putToolServer(path string, want *settings.MCPServer, old *store.ToolServer, row store.ToolServer) (step, error) {
	row.Name, row.Description, row.Status, row.DefaultAccess = want.Name, want.Description, want.Status, want.Access
	row.Rules = store.ToolRules{Writes: want.Writes, Destroys: want.Destroys, HoldChanged: want.HoldChanged}
	rules := toolservers.FileRules{Off: want.Off, Prices: want.Prices}
	return func(ctx context.Context, c *route.Caller) error {
		e := toolservers.FileServer{Row: row, Integration: want.Integration, Rules: rules}
		for email, enabled := range want.Users {
			u, err := c.DB().User(ctx, row.Organisation, email)
			if err != nil {
				return p.missing(path+".user_access", "user", email)
			}
			e.Users = append(e.Users, toolservers.UserAccess{User: u.ID, Enabled: enabled})
		}
		return toolservers.PutServer(ctx, c, old, e)
	}, nil
}

var toolBundleKind = kind[settings.MCPBundle, store.ToolBundle]{
	section: "mcp_bundles", name: "mcp_bundle",
	entries: func(s *settings.Settings) *[]settings.MCPBundle { return &s.MCPBundles },
	rows:    func(s *state) []store.ToolBundle { return s.tools.bundles },
	key:     func(v *settings.MCPBundle) entryID { return entryID{v.Workspace, v.Slug} },
	rowKey:  func(s *state, v *store.ToolBundle) entryID { return entryID{s.slug(v.Workspace), v.Slug} },
	read: func(r *reader, row *store.ToolBundle) (settings.MCPBundle, bool, error) {
		slug, placed := r.place(row.Workspace)
		v := settings.MCPBundle{Workspace: slug, Slug: row.Slug, Name: row.Name, Description: row.Description, Tools: row.Selection,
			SearchAbove: row.SearchAbove}
		return v, placed, nil
	},
	put: func(p *plan, path string, want *settings.MCPBundle, old *store.ToolBundle, _ []string) (step, error) {
		workspace, err := p.workspaceID(path+".workspace", want.Workspace)
		if err != nil {
			return nil, err
		}
		row := rowOr(old, store.ToolBundle{ID: newID(), Organisation: p.state.organisation.ID, Workspace: workspace, Slug: want.Slug})
		row.Name, row.Description, row.Selection, row.SearchAbove = want.Name, want.Description, want.Tools, want.SearchAbove
		return putRow(toolservers.PutBundle, old, row), nil
	},
	drop: func(_ *plan, row store.ToolBundle) step { return dropRow(toolservers.RemoveBundle, row) },
}

// normaliseTools fills in the defaults of MCP integrations, servers and bundles. Home is the
// first workspace.
func (p *plan) normaliseTools(home string) {
	f := p.file
	for i := range f.MCPIntegrations {
		v := &f.MCPIntegrations[i]
		orElse(&v.Name, v.Slug)
		orElse(&v.Status, store.Active)
		v.Configurations.Headers = filled(v.Configurations.Headers)
		v.Off, v.Prices = normalRules(v.Off, v.Prices)
	}
	for i := range f.MCPServers {
		v := &f.MCPServers[i]
		orElse(&v.Workspace, home)
		orElse(&v.Name, v.Slug)
		orElse(&v.Status, store.Active)
		orElse(&v.Access, store.AccessAllow)
		v.Off, v.Prices = normalRules(v.Off, v.Prices)
		v.Users = normalUsers(v.Users)
	}
	for i := range f.MCPBundles {
		v := &f.MCPBundles[i]
		orElse(&v.Workspace, home)
		orElse(&v.Name, v.Slug)
	}
}

// normalUsers returns the access of users in the form of an export.
func normalUsers(given map[string]bool) map[string]bool {
	if len(given) == 0 {
		return nil
	}
	users := make(map[string]bool, len(given))
	for email, enabled := range given {
		users[access.UserName(email)] = enabled
	}
	return users
}

// normalRules returns rules in the form of an export.
func normalRules(off []string, prices map[string]float64) ([]string, map[string]float64) {
	slices.Sort(off)
	if len(off) == 0 {
		off = nil
	}
	if len(prices) == 0 {
		prices = nil
	}
	return off, prices
}
