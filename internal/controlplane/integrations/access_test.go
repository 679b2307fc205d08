package integrations_test

import (
	"testing"

	"modelgate/internal/identity/access"
	"modelgate/internal/testing/routetest"
)

func TestOnlyWhoMaySeesAndChangesIntegrations(t *testing.T) {
	b := bench(t)
	root := b.Root()
	other := workspace(t, b, "other")
	shared := create(t, root, `,"slug":"shared"`)
	hidden := create(t, root, `,"slug":"hidden","create_default_provider":false`)
	own := create(t, root, `,"slug":"own","workspace_id":"default"`)
	all := access.Scopes(access.WorkspaceService)
	member := b.As(access.Identity{Type: access.WorkspaceService, Scopes: all})
	outside := b.As(access.Identity{Type: access.WorkspaceService, Workspace: other, Scopes: all})
	foreign := b.As(access.Identity{Type: access.OrganisationService, Organisation: "other", Workspace: "-", Scopes: access.Scopes(access.OrganisationService)})
	reader := b.As(access.Identity{Type: access.OrganisationService, Workspace: "-", Scopes: []access.Scope{"workspace_integrations.read", "workspace_integrations.list"}})
	calls := [][3]string{
		{"GET", "", ""}, {"PUT", "", `{"name":"x"}`}, {"GET", "/models", ""}, {"PUT", "/models", `{"models":[]}`}, {"DELETE", "/models?slugs=a", ""},
		{"GET", "/workspaces", ""}, {"PUT", "/workspaces", `{"workspaces":[{"id":"default","enabled":true}]}`}, {"DELETE", "", ""},
	}
	for _, tt := range []struct {
		name          string
		c             *routetest.Caller
		ref           string
		reads, writes int
	}{
		{"a member, granted", member, shared.ID, 200, 403},
		{"a member, not granted", member, hidden.ID, 404, 404},
		{"a member, own", member, own.ID, 200, 200},
		{"another workspace, granted", outside, shared.ID, 404, 404},
		{"another workspace, own", outside, own.ID, 404, 404},
		{"another organisation", foreign, shared.ID, 404, 404},
		{"another organisation, own", foreign, own.ID, 404, 404},
		{"an organisation's key without the scope", reader, hidden.ID, 403, 403},
		{"nobody", b.Nobody(), shared.ID, 401, 401},
		{"what is not there", root, "nothing", 404, 404},
	} {
		for _, call := range calls {
			want := tt.writes
			if call[0] == "GET" {
				want = tt.reads
			}
			if a := tt.c.Call(call[0], "/integrations/"+tt.ref+call[1], call[2]); a.Status != want {
				t.Errorf("%s: %s %s: %d %s, want %d", tt.name, call[0], call[1], a.Status, a.Body, want)
			}
		}
	}
	for name, c := range map[string]*routetest.Caller{"another workspace": outside, "another organisation": foreign} {
		var list struct{ Total int }
		if c.Must("GET", "/integrations", "", &list); list.Total != 0 {
			t.Errorf("%s lists %d integrations", name, list.Total)
		}
	}
}

func TestAListHasWhatTheScopesAreFor(t *testing.T) {
	b := bench(t)
	create(t, b.Root(), `,"slug":"shared"`)
	create(t, b.Root(), `,"slug":"own","workspace_id":"default"`)
	for scope, want := range map[access.Scope]string{"workspace_integrations.list": "own", "organisation_integrations.list": "shared"} {
		c := b.As(access.Identity{Type: access.OrganisationService, Workspace: "-", Scopes: []access.Scope{scope}})
		var list struct{ Data []integration }
		if c.Must("GET", "/integrations", "", &list); len(list.Data) != 1 || list.Data[0].Slug != want {
			t.Errorf("%s lists %+v", scope, list.Data)
		}
	}
}

func TestAWorkspacesKeyMakesIntegrationsOfItsWorkspaceAlone(t *testing.T) {
	b := bench(t)
	other := workspace(t, b, "other")
	c := b.As(access.Identity{Type: access.WorkspaceService, Scopes: access.Scopes(access.WorkspaceService)})
	if got := read(t, c, create(t, c, "").ID); got.Workspace == nil || *got.Workspace == other {
		t.Errorf("it belongs to %v", got.Workspace)
	}
	wantRefused(t, "another workspace's", c.Call("POST", "/integrations", `{"name":"x","ai_provider_id":"openai","workspace_id":"`+other+`"}`), 404, "AB02")
	org := b.As(access.Identity{Type: access.OrganisationService, Workspace: "-", Scopes: []access.Scope{"workspace_integrations.create"}})
	wantRefused(t, "the organisation's without the scope", org.Call("POST", "/integrations", `{"name":"x","ai_provider_id":"openai"}`), 403, "AB03")
	if a := org.Call("POST", "/integrations", `{"name":"x","ai_provider_id":"openai","workspace_id":"other"}`); a.Status != 200 || slugs(t, b.Root(), "other") == "" {
		t.Errorf("a workspace's: %d %s", a.Status, a.Body)
	}
}
