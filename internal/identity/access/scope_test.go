package access_test

import (
	"slices"
	"testing"

	"modelgate/internal/identity/access"
)

func TestAScopeIsReadInEachOfItsSpellings(t *testing.T) {
	for text, want := range map[string]access.Scope{
		"logs.list": access.ScopeLogsList, "logs:list": access.ScopeLogsList, "gateway.logs.list": access.ScopeLogsList, "gateway.logs:list": access.ScopeLogsList,
		"*": access.ScopeAll, "gateway.*": access.ScopeAll, "installation.read": access.ScopeInstallation, "completions.write": access.ScopeCompletions,
	} {
		if got, err := access.ParseScope(text); got != want || err != nil {
			t.Errorf("ParseScope(%q) = %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"", "logs", "logs.", "logs.delete", "Logs.List", "logs.list ", "gateway.gateway.logs.list", "installation.write", "**"} {
		if got, err := access.ParseScope(text); err == nil {
			t.Errorf("ParseScope(%q) = %q, want an error", text, got)
		}
	}
}

func TestAScopeSuitsSomeTypesOfKeys(t *testing.T) {
	types := []access.KeyType{access.OrganisationService, access.WorkspaceService, access.WorkspaceUser, access.Session, access.Token}
	for scope, want := range map[access.Scope][]access.KeyType{
		"audit_logs.list":                {access.OrganisationService, access.Session},
		"workspaces.create":              {access.OrganisationService, access.Session},
		"configs.read":                   types,
		"workspace_user_api_keys.create": {access.OrganisationService, access.WorkspaceService, access.Session, access.Token},
		access.ScopeCompletions:          {access.WorkspaceService, access.WorkspaceUser, access.Session, access.Token},
		access.ScopeAll:                  types,
		access.ScopeInstallation:         nil,
		"logs.delete":                    nil,
	} {
		for _, kind := range types {
			if err := scope.CheckHolder(kind); (err == nil) != slices.Contains(want, kind) {
				t.Errorf("Suits(%s) of %s = %v, want it to suit %q", kind, scope, err, want)
			}
			if listed := slices.Contains(access.Scopes(kind), scope); listed != (scope != access.ScopeAll && slices.Contains(want, kind)) {
				t.Errorf("Scopes(%s) has %s: %t, want those that suit", kind, scope, listed)
			}
		}
	}
}
