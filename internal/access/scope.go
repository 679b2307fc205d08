package access

import (
	"fmt"
	"slices"
	"strings"
)

// Scope is one right, as resource.verb. Scopes of clients may be written with a
// colon instead of the dot: see [ParseScope].
type Scope string

// ScopeAll is every right in the identity's organisation, those of all kinds of
// keys together. Only the installation's own keys hold it.
const ScopeAll Scope = "*"

// ScopeInstallation reads the log of every organisation, without bodies. No other
// scope includes it, and the API gives it to nobody.
const ScopeInstallation Scope = "installation.read"

// The scopes that packages of the data plane ask for.
const (
	ScopeCompletions Scope = "completions.write"
	ScopeModels      Scope = "models.list"
	ScopeRender      Scope = "prompts.render"
	ScopeLogsList    Scope = "logs.list"
	ScopeLogsView    Scope = "logs.view"
	ScopeLogsWrite   Scope = "logs.write"
)

// KeyType is what a caller is known by.
type KeyType string

// The types. A session is a person who signed in, a token a JSON Web Token of
// somebody else's issuer, which acts as a workspace's key.
const (
	OrganisationService KeyType = "organisation-service"
	WorkspaceService    KeyType = "workspace-service"
	WorkspaceUser       KeyType = "workspace-user"
	Session             KeyType = "session"
	Token               KeyType = "token"
)

// holders are the kinds of keys that may hold a scope.
type holders uint8

const (
	organisation holders = 1 << iota
	service              // of a workspace
	user                 // of a workspace
	workspace    = service | user
	anyKey       = organisation | workspace
)

// granted lists every scope with who may hold it: a resource, its verbs, the
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
	{"audit_logs", "list", organisation},
	{"plugins", "create update list", organisation},
	{"deployments", "create read update delete list", organisation},
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

// scopes is granted by scope. It never changes.
var scopes = func() map[Scope]holders {
	m := make(map[Scope]holders)
	for _, g := range granted {
		for verb := range strings.FieldsSeq(g.verbs) {
			m[Scope(g.resource+"."+verb)] = g.by
		}
	}
	return m
}()

// Scopes returns every scope that keys of type t may hold, in order.
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
	}
	return anyKey
}

// ParseScope reads a scope as clients write it: with a dot or a colon, and with
// or without "gateway." before it.
func ParseScope(text string) (Scope, error) {
	s := Scope(strings.TrimPrefix(strings.Replace(text, ":", ".", 1), "gateway."))
	return s, s.Check()
}

// Check reports what is wrong with a scope that someone wrote.
func (s Scope) Check() error {
	if s == ScopeAll || s == ScopeInstallation || scopes[s] != 0 {
		return nil
	}
	return fmt.Errorf("unknown scope %q; scopes look like %s, %s or %s, and %s means all",
		string(s), ScopeCompletions, ScopeModels, ScopeLogsList, ScopeAll)
}

// CheckHolder reports what is wrong with giving s to a key of type t.
func (s Scope) CheckHolder(t KeyType) error {
	if err := s.Check(); err != nil {
		return err
	}
	if s == ScopeAll || scopes[s]&t.holds() != 0 {
		return nil
	}
	return fmt.Errorf("a key of type %s can't hold the scope %q", t, string(s))
}

// Allows reports whether the identity holds scope.
func (id *Identity) Allows(scope Scope) bool {
	return scope != ScopeInstallation && slices.Contains(id.Scopes, ScopeAll) || slices.Contains(id.Scopes, scope)
}
