package access

import (
	"fmt"
	"slices"
	"strings"
)

// Scope is a permission of keys, written resource.verb. Clients may write a colon
// instead of the dot; see [ParseScope].
type Scope string

// ScopeAll is every scope of all kinds of keys in the identity's organisation. Only
// installation keys have it.
const ScopeAll Scope = "*"

// ScopeInstallation allows reading the log of every organisation, without bodies. No
// other scope includes it, and the API cannot grant it.
const ScopeInstallation Scope = "installation.read"

// Scopes that packages of the data plane check.
const (
	ScopeCompletions Scope = "completions.write"
	ScopeModels      Scope = "models.list"
	ScopeRender      Scope = "prompts.render"
	ScopeTools       Scope = "mcp.invoke"
	ScopeAgents      Scope = "agents.invoke"
	ScopeLogsList    Scope = "logs.list"
	ScopeLogsView    Scope = "logs.view"

	ScopeGuardrailsCreate Scope = "guardrails.create"
	ScopeLogsWrite        Scope = "logs.write"

	ScopeProvidersUpdate Scope = "providers.update"
)

// KeyType is a kind of caller.
type KeyType string

// Types. A session is a user who signed in; a token is a JSON Web Token of an
// organisation's issuer, which acts like a workspace key. A directory
// is the token of an organisation's directory, which may call SCIM and nothing else. A pending
// session may do nothing but what it waits for.
const (
	OrganisationService KeyType = "organisation-service"
	WorkspaceService    KeyType = "workspace-service"
	WorkspaceUser       KeyType = "workspace-user"
	Session             KeyType = "session"
	Token               KeyType = "token"
	Directory           KeyType = "directory"
	PendingSession      KeyType = "pending-session"
)

// holders are the kinds of keys that may have a scope.
type holders uint8

const (
	organisation holders = 1 << iota
	service              // of a workspace
	user                 // of a workspace
	workspace    = service | user
	anyKey       = organisation | workspace
)

// granted lists every scope and which keys may have it: a resource, its verbs, the
// holders.
var granted = []struct {
	resource string
	verbs    string
	by       holders
}{
	{"organisation_users", "create read update delete list", organisation},
	{"organisation_service_api_keys", "create read update delete list rotate", organisation},
	{"organisation_settings", "read update", organisation},
	{"organisation_guardrails", "create read update delete list", organisation},
	{"organisation_exclusions", "update list", organisation},
	{"directory", "create read delete list", organisation},
	{"audit_logs", "list", organisation},
	{"plugins", "create update list", organisation},
	{"deployments", "create read update delete list", organisation},
	{"identity_providers", "create read update delete list", organisation},
	{"secret_references", "create read update delete list", organisation},
	{"workspaces", "create delete", organisation},
	{"organisation_integrations", "create read update delete list", organisation},
	{"organisation_mcp_integrations", "create read update delete", organisation},
	{"organisation_mcp_integrations", "list", anyKey},
	{"organisation_agent_integrations", "create read update delete", organisation},
	{"organisation_agent_integrations", "list", anyKey},

	{"workspaces", "read update list", anyKey},
	{"workspace_users", "create read update delete list", anyKey},
	{"workspace_service_api_keys", "create read update delete list rotate", organisation | service},
	{"workspace_user_api_keys", "create read update delete list rotate", organisation | service},
	{"prompts", "create read update delete list publish", anyKey},
	{"configs", "create read update delete list", anyKey},
	{"guardrails", "create read update delete list", anyKey},
	{"virtual_keys", "create read update delete list duplicate copy", anyKey},
	{"providers", "create read update delete list", anyKey},
	{"policies", "create read update delete list", anyKey},
	{"workspace_integrations", "create read update delete list", anyKey},
	{"workspace_mcp_integrations", "create read update delete list", anyKey},
	{"workspace_agent_integrations", "create read update delete list", anyKey},
	{"mcp_servers", "create read update delete list", anyKey},
	{"agent_servers", "create read update delete list", anyKey},
	{"webhooks", "create read update delete list", anyKey},
	{"analytics", "view", anyKey},
	{"logs", "export list view", anyKey},

	{"completions", "write", workspace},
	{"models", "list", workspace},
	{"prompts", "render", workspace},
	{"guardrails", "invoke", workspace},
	{"mcp", "invoke", workspace},
	{"agents", "invoke", workspace},
	{"logs", "write", workspace},
}

// scopes is granted, indexed by scope. It never changes.
var scopes = func() map[Scope]holders {
	m := make(map[Scope]holders)
	for _, g := range granted {
		for verb := range strings.FieldsSeq(g.verbs) {
			m[Scope(g.resource+"."+verb)] = g.by
		}
	}
	return m
}()

// Scopes returns every scope that keys of type t may have, in order.
func Scopes(t KeyType) []Scope {
	var list []Scope
	for s, by := range scopes {
		if by&t.holds() != 0 {
			list = append(list, s)
		}
	}
	slices.Sort(list)
	return list
}

func (t KeyType) holds() holders {
	switch t {
	case OrganisationService:
		return organisation
	case WorkspaceService, Token:
		return service
	case WorkspaceUser:
		return user
	case Directory, PendingSession:
		return 0
	}
	return anyKey
}

// ParseScope parses a scope as clients write it: with a dot or a colon, and with or
// without the prefix "gateway.".
func ParseScope(text string) (Scope, error) {
	s := Scope(strings.TrimPrefix(strings.Replace(text, ":", ".", 1), "gateway."))
	return s, s.Check()
}

// Check returns an error if the scope does not exist.
func (s Scope) Check() error {
	if s == ScopeAll || s == ScopeInstallation || scopes[s] != 0 {
		return nil
	}
	return fmt.Errorf("unknown scope %q; examples are %s, %s and %s; %s means all",
		string(s), ScopeCompletions, ScopeModels, ScopeLogsList, ScopeAll)
}

// CheckHolder returns an error if a key of type t cannot have s.
func (s Scope) CheckHolder(t KeyType) error {
	if err := s.Check(); err != nil {
		return err
	}
	if s == ScopeAll || scopes[s]&t.holds() != 0 {
		return nil
	}
	return fmt.Errorf("a key of type %s cannot have the scope %q", t, string(s))
}

// Allows reports whether the identity has scope.
func (id *Identity) Allows(scope Scope) bool {
	return scope != ScopeInstallation && slices.Contains(id.Scopes, ScopeAll) || slices.Contains(id.Scopes, scope)
}
