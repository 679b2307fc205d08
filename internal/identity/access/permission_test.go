package access_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/identity/access"
)

// byDefault is what every role has where nobody said otherwise.
const byDefault = `
ViewAllData            member manager admin
ViewPrompts            member manager admin
WritePrompts                  manager admin
ViewAnalytics          member manager admin
ViewLogs               member manager admin
ViewLogMetadata        member manager admin
ViewApiKeys            member manager admin
WriteApiKeys           member manager admin
ViewConfigs            member manager admin
WriteConfigs                  manager admin
ViewGuardrails         member manager admin
WriteGuardrails               manager admin
ViewVirtualKeys        member manager admin
WriteVirtualKeys       member manager admin
UpdateWs                      manager admin
WriteWsUsers                  manager admin
WriteWsIntegrations           manager admin
WriteMcpServers               manager admin
WriteWsMcpIntegrations        manager admin
`

var roles = []string{"", access.Member, access.Manager, access.Admin}

// defaults reads byDefault.
func defaults() map[access.Permission][]string {
	m := make(map[access.Permission][]string)
	for line := range strings.Lines(strings.TrimSpace(byDefault)) {
		words := strings.Fields(line)
		m[access.Permission(words[0])] = words[1:]
	}
	return m
}

func TestRolesHaveTheirRightsByDefault(t *testing.T) {
	for right, has := range defaults() {
		for _, role := range roles {
			if got, want := access.RolePermissions(nil).Allows(role, right), slices.Contains(has, role); got != want {
				t.Errorf("May(%q, %s) = %t, want %t", role, right, got, want)
			}
		}
	}
	if n := 2*len(defaults()) - 5; len(access.RolePermissions(nil).Effective()) != n {
		t.Errorf("there are %d switches, want %d", len(access.RolePermissions(nil).Effective()), n)
	}
}

// TestEverySwitchTurnsOneRightOfOneRole sets each switch in the organisation, in
// the workspace and in both, with its section left to the workspace and not.
func TestEverySwitchTurnsOneRightOfOneRole(t *testing.T) {
	said := map[string][]bool{"nothing": nil, "true": {true}, "false": {false}}
	all := access.RolePermissions(nil).Effective()
	if len(all) < 10 {
		t.Fatalf("%d switches, want all", len(all))
	}
	for name, standard := range all {
		section, ok := access.SectionOf(name)
		if !ok {
			t.Fatalf("%s has no section", name)
		}
		for _, left := range [][]access.Section{nil, {section}, otherSections(section)} {
			for above, a := range said {
				for below, b := range said {
					organisation, workspace := set(name, a), set(name, b)
					want := standard
					if a != nil {
						want = a[0]
					}
					if b != nil && slices.Contains(left, section) {
						want = b[0]
					}
					got := organisation.WithOverrides(workspace, left)
					what := fmt.Sprintf("%s: organisation %s, workspace %s, left to it %v", name, above, below, left)
					wantOnly(t, what, got, name, want)
				}
			}
		}
	}
}

// wantOnly checks that of all rights of all roles none but that of the named
// switch stands otherwise than by default.
func wantOnly(t *testing.T, what string, s access.RolePermissions, name string, want bool) {
	t.Helper()
	for right, has := range defaults() {
		for _, role := range roles {
			may := slices.Contains(has, role)
			if role+"s"+string(right) == name {
				may = want
			}
			if got := s.Allows(role, right); got != may {
				t.Errorf("%s: May(%q, %s) = %t, want %t", what, role, right, got, may)
			}
		}
	}
}

func set(name string, value []bool) access.RolePermissions {
	if value == nil {
		return nil
	}
	return access.RolePermissions{name: value[0]}
}

func otherSections(section access.Section) []access.Section {
	return slices.DeleteFunc(access.Sections(), func(s access.Section) bool { return s == section })
}

func TestAllOffStillLeavesAdminsEverything(t *testing.T) {
	none := access.RolePermissions(nil).Effective()
	for name := range none {
		none[name] = false
	}
	for right := range defaults() {
		for _, role := range roles {
			if got := none.Allows(role, right); got != (role == access.Admin) {
				t.Errorf("May(%q, %s) = %t with every switch off", role, right, got)
			}
		}
	}
}

func TestScopesAskForTheRightOfTheirResource(t *testing.T) {
	for scope, want := range map[access.Scope]access.Permission{
		"prompts.read": access.ViewPrompts, "prompts.publish": access.WritePrompts, "prompts.render": "", "completions.write": "",
		"logs.list": access.ViewLogMetadata, "logs.view": access.ViewLogs, "logs.write": "", "analytics.view": access.ViewAnalytics,
		"providers.create": access.WriteVirtualKeys, "virtual_keys.list": access.ViewVirtualKeys, "workspaces.update": access.UpdateWorkspace,
		"workspaces.read": "", "workspace_users.list": "", "workspace_users.delete": access.WriteWorkspaceUsers,
		"organisation_guardrails.create": "", "workspace_integrations.read": "", access.ScopeAll: "",
	} {
		if got := scope.Permission(); got != want {
			t.Errorf("%s asks for %q, want %q", scope, got, want)
		}
	}
	scopes := access.Scopes(access.Session)
	if len(scopes) < 10 {
		t.Errorf("sessions have %d scopes, want all", len(scopes))
	}
	for _, s := range scopes {
		if r := s.Permission(); r != "" && !access.RolePermissions(nil).Allows(access.Admin, r) {
			t.Errorf("%s asks for %s, which not even admins have", s, r)
		}
	}
}

func TestOnlyPeopleAreBoundByARole(t *testing.T) {
	for _, tt := range []struct {
		id   access.Identity
		want bool
	}{
		{access.Identity{Type: access.Session, UserID: "u"}, true},
		{access.Identity{Type: access.WorkspaceUser, UserID: "u"}, true},
		{access.Identity{Type: access.WorkspaceUser}, false},
		{access.Identity{Type: access.WorkspaceService}, false},
		{access.Identity{Type: access.Token, UserID: "u"}, false},
		{access.Identity{Type: access.OrganisationService}, false},
	} {
		if got := tt.id.IsPerson(); got != tt.want {
			t.Errorf("Person() of %s of user %q = %t", tt.id.Type, tt.id.UserID, got)
		}
	}
}
