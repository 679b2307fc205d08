package access

import (
	"slices"
	"strings"
)

// Roles of users in a workspace, lowest first. The empty string means none.
const (
	Member  = "member"
	Manager = "manager"
	Admin   = "admin"
)

// Permission is granted to roles by an organisation, for its workspaces. Admins have
// every permission.
type Permission string

// Permissions.
const (
	ViewAllData          Permission = "ViewAllData" // otherwise only data of one's own keys
	ViewPrompts          Permission = "ViewPrompts"
	WritePrompts         Permission = "WritePrompts"
	ViewAnalytics        Permission = "ViewAnalytics"
	ViewLogs             Permission = "ViewLogs"        // an entry of the log
	ViewLogMetadata      Permission = "ViewLogMetadata" // the list of entries
	ViewAPIKeys          Permission = "ViewApiKeys"
	WriteAPIKeys         Permission = "WriteApiKeys"
	ViewConfigs          Permission = "ViewConfigs"
	WriteConfigs         Permission = "WriteConfigs"
	ViewGuardrails       Permission = "ViewGuardrails"
	WriteGuardrails      Permission = "WriteGuardrails"
	ViewVirtualKeys      Permission = "ViewVirtualKeys" // and managed providers, their newer form
	WriteVirtualKeys     Permission = "WriteVirtualKeys"
	UpdateWorkspace      Permission = "UpdateWs"
	WriteWorkspaceUsers  Permission = "WriteWsUsers"
	WriteIntegrations    Permission = "WriteWsIntegrations"
	WriteMCPServers      Permission = "WriteMcpServers"
	WriteMCPIntegrations Permission = "WriteWsMcpIntegrations"
)

// Section is a group of permissions that an organisation may delegate to its
// workspaces.
type Section string

// defaultSetting is the default of a role.
type defaultSetting uint8

const (
	never defaultSetting = iota // not configurable
	off
	on
)

// rights lists every permission with its section and the defaults of roles.
var rights = []struct {
	right             Permission
	section           Section
	members, managers defaultSetting
}{
	{ViewAllData, "data_visibility", on, on},
	{ViewPrompts, "prompts", on, on},
	{WritePrompts, "prompts", off, on},
	{ViewAnalytics, "analytics", on, on},
	{ViewLogs, "logs", on, on},
	{ViewLogMetadata, "logs", on, on},
	{ViewAPIKeys, "api_keys", on, on},
	{WriteAPIKeys, "api_keys", on, on},
	{ViewConfigs, "configs", on, on},
	{WriteConfigs, "configs", off, on},
	{ViewGuardrails, "guardrails", on, on},
	{WriteGuardrails, "guardrails", off, on},
	{ViewVirtualKeys, "virtual_keys", on, on},
	{WriteVirtualKeys, "virtual_keys", on, on},
	{UpdateWorkspace, "workspace", never, on},
	{WriteWorkspaceUsers, "workspace", never, on},
	{WriteIntegrations, "integrations", never, on},
	{WriteMCPServers, "mcp", never, on},
	{WriteMCPIntegrations, "mcp", never, on},
}

// needed lists the scopes that users can use only with a permission: a resource, its
// verbs, the permission. Other scopes require none.
var needed = []struct {
	resource string
	verbs    string
	right    Permission
}{
	{"prompts", "read list", ViewPrompts},
	{"prompts", "create update delete publish", WritePrompts},
	{"analytics", "view", ViewAnalytics},
	{"logs", "view export", ViewLogs},
	{"logs", "list", ViewLogMetadata},
	{"workspace_service_api_keys", "read list", ViewAPIKeys},
	{"workspace_service_api_keys", "create update delete rotate", WriteAPIKeys},
	{"workspace_user_api_keys", "read list", ViewAPIKeys},
	{"workspace_user_api_keys", "create update delete rotate", WriteAPIKeys},
	{"configs", "read list", ViewConfigs},
	{"configs", "create update delete", WriteConfigs},
	{"guardrails", "read list", ViewGuardrails},
	{"guardrails", "create update delete", WriteGuardrails},
	{"virtual_keys", "read list", ViewVirtualKeys},
	{"virtual_keys", "create update delete duplicate copy", WriteVirtualKeys},
	{"providers", "read list", ViewVirtualKeys},
	{"providers", "create update delete", WriteVirtualKeys},
	{"workspaces", "update", UpdateWorkspace},
	{"webhooks", "create update delete", UpdateWorkspace},
	{"workspace_users", "create update delete", WriteWorkspaceUsers},
	{"workspace_integrations", "create update delete", WriteIntegrations},
	{"mcp_servers", "create update delete", WriteMCPServers},
	{"workspace_mcp_integrations", "create update delete", WriteMCPIntegrations},
	{"agent_servers", "create update delete", WriteMCPServers},
	{"workspace_agent_integrations", "create update delete", WriteMCPIntegrations},
}

// neededBy is needed, indexed by scope. It never changes.
var neededBy = func() map[Scope]Permission {
	m := make(map[Scope]Permission)
	for _, n := range needed {
		for verb := range strings.FieldsSeq(n.verbs) {
			m[Scope(n.resource+"."+verb)] = n.right
		}
	}
	return m
}()

// Permission returns the permission that users need in addition to s, empty for none.
func (s Scope) Permission() Permission { return neededBy[s] }

// IsPerson reports whether a user's role limits id: the role of the user who signed in
// or who owns the key. Service keys are limited only by their scopes.
func (id *Identity) IsPerson() bool {
	return id.UserID != "" && (id.Type == Session || id.Type == WorkspaceUser)
}

// May reports whether the identity has the scope and, for the key of a user, whether the
// user's role allows what the scope is for. Model routes ask it before they do what is a
// matter of the administration; routes of the administration ask for the role themselves,
// by the same [RolePermissions].
func (id *Identity) May(s Scope) bool {
	return id.Allows(s) && !slices.Contains(id.Denied, s.Permission())
}

// RolePermissions says which roles have which permissions, by name: a role in the
// plural and a permission, such as membersViewPrompts. A missing one has its default.
type RolePermissions map[string]bool

// place is the section of a role's permission and its default.
type place struct {
	section Section
	on      bool
}

// switches are all names of [RolePermissions]. It never changes.
var switches = func() map[string]place {
	m := make(map[string]place)
	for _, r := range rights {
		for role, stands := range map[string]defaultSetting{Member: r.members, Manager: r.managers} {
			if stands != never {
				m[role+"s"+string(r.right)] = place{r.section, stands == on}
			}
		}
	}
	return m
}()

// Sections returns every section, in order.
func Sections() []Section {
	var list []Section
	for _, r := range rights {
		if !slices.Contains(list, r.section) {
			list = append(list, r.section)
		}
	}
	return list
}

// SectionOf returns the section of a name, and false for an unknown name.
func SectionOf(name string) (Section, bool) {
	p, ok := switches[name]
	return p.section, ok
}

// Allows reports whether a role has a permission. Admins have all, and an empty role
// has none.
func (s RolePermissions) Allows(role string, r Permission) bool {
	if role == Admin {
		return true
	}
	name := role + "s" + string(r)
	if on, set := s[name]; set {
		return on
	}
	return switches[name].on
}

// Denied returns the permissions that a role lacks.
func (s RolePermissions) Denied(role string) (list []Permission) {
	for _, r := range rights {
		if !s.Allows(role, r.right) {
			list = append(list, r.right)
		}
	}
	return list
}

// Allowed returns the permissions that a role has.
func (s RolePermissions) Allowed(role string) []Permission {
	list := []Permission{}
	for _, r := range rights {
		if s.Allows(role, r.right) {
			list = append(list, r.right)
		}
	}
	return list
}

// WithOverrides returns the permissions in a workspace of an organisation that has s:
// the workspace's own in the sections left, which the organisation delegates, otherwise
// s.
func (s RolePermissions) WithOverrides(own RolePermissions, left []Section) RolePermissions {
	out := s.Effective()
	for name, on := range own {
		if p, ok := switches[name]; ok && slices.Contains(left, p.section) {
			out[name] = on
		}
	}
	return out
}

// Effective returns every permission, including defaults.
func (s RolePermissions) Effective() RolePermissions {
	out := make(RolePermissions, len(switches))
	for name, p := range switches {
		out[name] = p.on
		if on, set := s[name]; set {
			out[name] = on
		}
	}
	return out
}
