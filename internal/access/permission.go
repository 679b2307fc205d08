package access

import (
	"slices"
	"strings"
)

// The roles of people in a workspace, from the lowest. Who is none of them has
// the role "".
const (
	Member  = "member"
	Manager = "manager"
	Admin   = "admin"
)

// Permission is what an organisation grants to a role in its workspaces, or keeps
// from it. Admins have every right.
type Permission string

// The rights.
const (
	ViewAllData          Permission = "ViewAllData" // else only what one's own keys did
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
	ViewVirtualKeys      Permission = "ViewVirtualKeys" // and providers, their newer name
	WriteVirtualKeys     Permission = "WriteVirtualKeys"
	UpdateWorkspace      Permission = "UpdateWs"
	WriteWorkspaceUsers  Permission = "WriteWsUsers"
	WriteIntegrations    Permission = "WriteWsIntegrations"
	WriteMCPServers      Permission = "WriteMcpServers"
	WriteMCPIntegrations Permission = "WriteWsMcpIntegrations"
)

// Section is a part of the rights that an organisation may leave to its
// workspaces to grant.
type Section string

// defaultSetting is what a role has unless somebody says otherwise.
type defaultSetting uint8

const (
	never defaultSetting = iota // there is no switch for it
	off
	on
)

// rights lists every right with its section and what the roles have by default.
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

// needed lists the scopes that people make use of only with a right: a
// resource, its verbs, the right. Scopes that are not listed ask for none.
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
	{"workspace_users", "create update delete", WriteWorkspaceUsers},
	{"workspace_integrations", "create update delete", WriteIntegrations},
	{"mcp_servers", "create update delete", WriteMCPServers},
	{"workspace_mcp_integrations", "create update delete", WriteMCPIntegrations},
}

// neededBy is needed by scope. It never changes.
var neededBy = func() map[Scope]Permission {
	m := make(map[Scope]Permission)
	for _, n := range needed {
		for verb := range strings.FieldsSeq(n.verbs) {
			m[Scope(n.resource+"."+verb)] = n.right
		}
	}
	return m
}()

// Permission returns what people need besides s to make use of it, empty for
// nothing.
func (s Scope) Permission() Permission { return neededBy[s] }

// IsPerson reports whether a human being's role bounds what id may do: that of
// who signed in, or of who owns a key. Keys of services do what their scopes say.
func (id *Identity) IsPerson() bool {
	return id.UserID != "" && (id.Type == Session || id.Type == WorkspaceUser)
}

// RolePermissions say by name which roles have which rights: a role's plural and a
// right, as in membersViewPrompts. One that is missing is at its default.
type RolePermissions map[string]bool

// place is where a switch belongs and how it stands by default.
type place struct {
	section Section
	on      bool
}

// switches are all there are, by name. It never changes.
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

// SectionOf returns the section of a switch, and false for a name of none.
func SectionOf(name string) (Section, bool) {
	p, ok := switches[name]
	return p.section, ok
}

// Allows reports whether a role has a right. Admins have each, and who has no role
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

// WithOverrides returns the switches of a workspace of an organisation that has s: its
// own, in the sections that are left to it.
func (s RolePermissions) WithOverrides(own RolePermissions, left []Section) RolePermissions {
	out := s.Effective()
	for name, on := range own {
		if p, ok := switches[name]; ok && slices.Contains(left, p.section) {
			out[name] = on
		}
	}
	return out
}

// Effective returns every switch as it is in effect.
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
