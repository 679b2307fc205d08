package controlplane_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/controlplane/configs"
	"modelgate/internal/controlplane/guardrails"
	"modelgate/internal/controlplane/integrations"
	"modelgate/internal/controlplane/keys"
	"modelgate/internal/controlplane/members"
	"modelgate/internal/controlplane/organisations"
	"modelgate/internal/controlplane/providers"
	"modelgate/internal/controlplane/toolservers"
	"modelgate/internal/controlplane/workspaces"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
	"modelgate/internal/testing/routetest"
)

// organisation is a bench with people of every role, and their callers by name.
type organisation struct {
	*routetest.Bench
	root *routetest.Caller
}

// roles are what people are: in the organisation, and in the first workspace.
var roles = map[string][2]string{
	"owner": {"owner", ""}, "chief": {"admin", ""}, "admin": {"member", "admin"}, "manager": {"member", "manager"},
	"member": {"member", "member"}, "mate": {"member", "member"}, "stranger": {"member", ""},
}

func newOrganisation(t *testing.T) *organisation {
	t.Helper()
	b := routetest.New(t, organisations.Routes{}.Add, workspaces.Add, members.Add, keys.Add, integrations.Add, providers.Add, configs.Add, guardrails.Routes{}.Add, toolservers.Routes{}.Add)
	err := b.DB.Update(t.Context(), nil, func(tx *store.Tx) error {
		for name, role := range roles {
			u := store.User{ID: name, Email: name + "@example.com", Status: "active", Role: role[0], CreatedAt: b.Clock, UpdatedAt: b.Clock}
			if err := tx.CreateUser(t.Context(), store.DefaultOrganisation, u); err != nil {
				return err
			}
			if role[1] == "" {
				continue
			}
			if err := tx.SetWorkspaceMember(t.Context(), store.DefaultWorkspace, name, role[1], b.Clock); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return &organisation{b, b.Root()}
}

func (h *organisation) session(name string) *routetest.Caller {
	return h.As(access.Identity{KeyID: "session of " + name, Type: access.Session, UserID: name, Workspace: "-", Scopes: access.RoleScopes(roles[name][0])})
}

func (h *organisation) key(name string) *routetest.Caller {
	return h.As(access.Identity{KeyID: "key of " + name, Type: access.WorkspaceUser, UserID: name, Scopes: access.Scopes(access.WorkspaceUser)})
}

func (h *organisation) service() *routetest.Caller {
	return h.As(access.Identity{KeyID: "service", Type: access.WorkspaceService, Scopes: access.Scopes(access.WorkspaceService)})
}

// setOverride sets what the organisation and the first workspace say of a switch.
func (h *organisation) setOverride(t *testing.T, name, organisation, workspace string, left bool) {
	t.Helper()
	section, _ := access.SectionOf(name)
	o := store.OrganisationSettings{Security: switched(name, organisation)}
	if left {
		o.Overridable = []access.Section{section}
	}
	settings, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	own, err := json.Marshal(switched(name, workspace))
	if err != nil {
		t.Fatal(err)
	}
	h.Exec(`UPDATE organisations SET settings = $1`, string(settings))
	h.Exec(`UPDATE workspaces SET security_settings = $1`, string(own))
}

func switched(name, value string) access.RolePermissions {
	if value == "" {
		return access.RolePermissions{}
	}
	return access.RolePermissions{name: value == "on"}
}

// guarded are requests that need a right, made so that they succeed when it is
// there. OBJECT stands for the id of what seed makes.
var guarded = []struct {
	right              access.Permission
	seed, with         string // path and body of the request that makes the object
	method, path, body string
	sessionsAlone      bool // keys of people can't hold the scope
}{
	{access.ViewConfigs, "/configs", `{"name":"c","config":{"retry":{"attempts":1}},"workspace_id":"default"}`, "GET", "/configs/OBJECT", "", false},
	{access.ViewConfigs, "", "", "GET", "/configs?workspace_id=default", "", false},
	{access.WriteConfigs, "", "", "POST", "/configs", `{"name":"c","config":{"retry":{"attempts":1}},"workspace_id":"default"}`, false},
	{access.WriteConfigs, "/configs", `{"name":"c","config":{"retry":{"attempts":1}},"workspace_id":"default"}`, "PUT", "/configs/OBJECT", `{"name":"d"}`, false},
	{access.WriteConfigs, "/configs", `{"name":"c","config":{"retry":{"attempts":1}},"workspace_id":"default"}`, "DELETE", "/configs/OBJECT", "", false},
	{access.ViewGuardrails, "/guardrails", guardrail, "GET", "/guardrails/OBJECT", "", false},
	{access.ViewGuardrails, "", "", "GET", "/guardrails", "", false},
	{access.WriteGuardrails, "", "", "POST", "/guardrails", guardrail, false},
	{access.WriteGuardrails, "/guardrails", guardrail, "PUT", "/guardrails/OBJECT", `{"name":"d"}`, false},
	{access.WriteGuardrails, "/guardrails", guardrail, "DELETE", "/guardrails/OBJECT", "", false},
	{access.ViewAPIKeys, "/api-keys/workspace/user", `{"name":"k","scopes":["models.list"],"user_id":"ROLE","workspace_id":"default"}`, "GET", "/api-keys/OBJECT", "", true},
	{access.WriteAPIKeys, "/api-keys/workspace/user", `{"name":"k","scopes":["models.list"],"user_id":"ROLE","workspace_id":"default"}`, "PUT", "/api-keys/OBJECT", `{"name":"l"}`, true},
	{access.WriteAPIKeys, "", "", "POST", "/api-keys/workspace/user", `{"name":"k","scopes":["models.list"],"workspace_id":"default"}`, true},
	{access.ViewVirtualKeys, "", "", "GET", "/virtual-keys?workspace_id=default", "", false},
	{access.ViewVirtualKeys, "", "", "GET", "/providers?workspace_id=default", "", false},
	{access.WriteVirtualKeys, "", "", "POST", "/virtual-keys", `{"name":"v","provider":"openai","key":"sk-secret-of-a-test","workspace_id":"default"}`, false},
	{access.WriteIntegrations, "", "", "POST", "/integrations", `{"name":"i","ai_provider_id":"openai","key":"sk-secret-of-a-test","workspace_id":"default"}`, false},
	{access.WriteMCPIntegrations, "", "", "POST", "/mcp-integrations", `{"name":"i","url":"https://tools.example.com/mcp","transport":"http","auth_type":"none","workspace_id":"default"}`, false},
	{access.WriteMCPServers, "", "", "POST", "/mcp-bundles", `{"name":"b","tools":["*"],"workspace_id":"default"}`, false},
	{access.WriteMCPServers, "/mcp-bundles", `{"name":"b","tools":["*"],"workspace_id":"default"}`, "PUT", "/mcp-bundles/OBJECT?workspace_id=default", `{"name":"d"}`, false},
	{access.WriteMCPServers, "/mcp-bundles", `{"name":"b","tools":["*"],"workspace_id":"default"}`, "DELETE", "/mcp-bundles/OBJECT?workspace_id=default", "", false},
	{access.UpdateWorkspace, "", "", "PUT", "/workspaces/default", `{"description":"d"}`, false},
	{access.WriteWorkspaceUsers, "", "", "POST", "/workspaces/default/users", `{"users":[{"id":"mate","role":"member"}]}`, false},
	{access.WriteWorkspaceUsers, "", "", "PUT", "/workspaces/default/users/mate", `{"role":"member"}`, false},
}

const guardrail = `{"name":"g","workspace_id":"default","checks":[{"id":"default.contains"}],"actions":{}}`

// TestEveryRouteAsksForItsRight calls each guarded route as everybody, for each
// way in which a switch can be set.
func TestEveryRouteAsksForItsRight(t *testing.T) {
	for _, g := range guarded {
		t.Run(string(g.right)+" "+g.method+" "+g.path, func(t *testing.T) {
			h := newOrganisation(t)
			for _, role := range []string{access.Member, access.Manager} {
				name := role + "s" + string(g.right)
				for _, said := range []struct {
					organisation, workspace string
					left                    bool
				}{
					{"", "", false}, {"on", "", false}, {"off", "", false},
					{"on", "off", false}, {"off", "on", false}, {"on", "off", true}, {"off", "on", true},
				} {
					h.setOverride(t, name, said.organisation, said.workspace, said.left)
					want := access.RolePermissions(nil).Allows(role, g.right)
					if _, exists := access.SectionOf(name); exists && said.organisation != "" {
						want = said.organisation == "on"
						if said.left {
							want = said.workspace == "on"
						}
					}
					what := fmt.Sprintf("%s %v", name, said)
					h.check(t, what, g.seed, g.with, g.method, g.path, g.body, role, want, g.sessionsAlone)
				}
			}
		})
	}
}

// check calls a route as the role, whose right is as want says, and as those
// who are not bound by it.
func (h *organisation) check(t *testing.T, what, seed, with, method, path, body, role string, want, sessionsAlone bool) {
	t.Helper()
	callers := map[string]*routetest.Caller{"session": h.session(role)}
	if !sessionsAlone {
		callers["key"] = h.key(role)
	}
	for _, free := range []string{"owner", "chief", "admin"} {
		callers[free] = h.session(free)
	}
	callers["service"] = h.service()
	for name, c := range callers {
		may := want || name != "session" && name != "key"
		if name == "service" && method == "POST" && strings.Contains(path, "workspace/user") {
			continue // it names no user
		}
		var made struct {
			ID   string
			Slug string
			Data struct{ ID string }
		}
		if seed != "" {
			h.root.Must("POST", seed, strings.ReplaceAll(with, "ROLE", role), &made)
		}
		a := c.Call(method, strings.ReplaceAll(path, "OBJECT", made.ID+made.Data.ID), body)
		if may && a.Status != http.StatusOK || !may && (a.Status != http.StatusForbidden || !strings.Contains(a.Body, "AB03")) {
			t.Errorf("%s: %s of a %s: %s %s: %d %s, want allowed %t", what, name, role, method, path, a.Status, a.Body, may)
		}
	}
}

func TestThePageOfRolesShowsEverySwitch(t *testing.T) {
	page, err := os.ReadFile("../../docs/roles.md")
	if err != nil {
		t.Fatal(err)
	}
	stands := map[bool]string{true: "on", false: "off"}
	all := access.RolePermissions(nil).Effective()
	for name, on := range all {
		right, managers := strings.CutPrefix(name, "managers")
		if !managers {
			continue
		}
		members := "never"
		if m, ok := all["members"+right]; ok {
			members = stands[m]
		}
		section, _ := access.SectionOf(name)
		if row := fmt.Sprintf("| `%s` | `%s` | %s | %s |", right, section, members, stands[on]); !strings.Contains(string(page), row) {
			t.Errorf("docs/roles.md lacks the row %s", row)
		}
	}
}

func TestARoleCountsAtOnce(t *testing.T) {
	h := newOrganisation(t)
	c := h.session("member")
	const config = `{"name":"c","config":{"retry":{"attempts":1}},"workspace_id":"default"}`
	status := func() int { return c.Call("POST", "/configs", config).Status }
	if got := status(); got != http.StatusForbidden {
		t.Errorf("as a member: %d", got)
	}
	h.root.Must("PUT", "/workspaces/default/users/member", `{"role":"manager"}`, nil)
	if got := status(); got != http.StatusOK {
		t.Errorf("as a manager: %d", got)
	}
	h.root.Must("PUT", "/workspaces/default/users/member", `{"role":"member"}`, nil)
	if got := status(); got != http.StatusForbidden {
		t.Errorf("as a member again: %d", got)
	}
}

func TestRemovedMembersLoseTheirKeysInTheWorkspace(t *testing.T) {
	h := newOrganisation(t)
	var second struct{ ID string }
	h.root.Must("POST", "/workspaces", `{"name":"second","users":["member"]}`, &second)
	make := func(user, workspace string) string {
		var k struct{ ID string }
		h.root.Must("POST", "/api-keys/workspace/user", `{"name":"k","scopes":["models.list"],"user_id":"`+user+`","workspace_id":"`+workspace+`"}`, &k)
		return k.ID
	}
	here, there, mates, chiefs := make("member", "default"), make("member", second.ID), make("mate", "default"), make("chief", "default")
	alive := func(id string) bool {
		return slices.Contains(h.Query(`SELECT id FROM gateway_keys WHERE status = 'active'`), id)
	}
	h.root.Must("DELETE", "/workspaces/default/users/member", "", nil)
	if alive(here) || !alive(there) || !alive(mates) {
		t.Errorf("after leaving the workspace: here %t, there %t, a mate's %t", alive(here), alive(there), alive(mates))
	}
	h.root.Must("DELETE", "/admin/users/member", "", nil)
	if alive(there) || !alive(mates) {
		t.Errorf("after leaving the organisation: %t, a mate's %t", alive(there), alive(mates))
	}
	h.root.Must("PUT", "/admin/users/chief", `{"role":"member"}`, nil)
	if alive(chiefs) || !alive(mates) {
		t.Errorf("of an admin that is none any more: %t, a mate's %t", alive(chiefs), alive(mates))
	}
}

func TestUsersSeeOnlyTheirWorkspaces(t *testing.T) {
	h := newOrganisation(t)
	var second struct{ ID string }
	h.root.Must("POST", "/workspaces", `{"name":"second"}`, &second)
	for name, want := range map[string]int{"owner": 2, "chief": 2, "admin": 1, "manager": 1, "member": 1, "stranger": 0} {
		var list struct{ Total int }
		c := h.session(name)
		if c.Must("GET", "/workspaces", "", &list); list.Total != want {
			t.Errorf("%s lists %d, want %d", name, list.Total, want)
		}
		status := http.StatusNotFound
		if want == 2 {
			status = http.StatusOK
		}
		for _, path := range []string{"", "/users"} {
			if a := c.Call("GET", "/workspaces/"+second.ID+path, ""); a.Status != status {
				t.Errorf("%s reads another%s: %d %s", name, path, a.Status, a.Body)
			}
		}
	}
}
