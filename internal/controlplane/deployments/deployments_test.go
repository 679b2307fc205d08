package deployments_test

import (
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/controlplane/deployments"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
	"modelgate/internal/testing/routetest"
)

type created struct {
	ID, Slug string
	Secret   string `json:"client_auth"`
}

type item struct {
	Name, Type, Status, Slug string
	All                      bool     `json:"allow_all_workspaces"`
	Workspaces               []string `json:"workspaces"`
	Config                   map[string]any
	Auth                     map[string]string `json:"auth_settings"`
	LastSeen                 *string           `json:"last_seen_at"`
}

func TestADeploymentIsReadAsItWasMade(t *testing.T) {
	b := routetest.New(t, deployments.Add)
	c := b.Root()
	var d created
	c.Must("POST", "/deployments", `{"name":"Frankfurt","slug":"fra","type":"non-production","config":{"a":1},"workspaces":["default"],"auth_settings":{"gateway_base_url":"https://gw.example.com/v1"}}`, &d)
	if !strings.HasPrefix(d.Secret, access.KeyPrefix) || d.Slug != "fra" {
		t.Errorf("made %+v", d)
	}
	for _, ref := range []string{d.ID, "fra"} {
		var got item
		c.Must("GET", "/deployments/"+ref, "", &got)
		if got.Name != "Frankfurt" || got.Type != "non-production" || got.Status != "active" || got.All || len(got.Workspaces) != 1 ||
			got.Workspaces[0] != store.DefaultWorkspace || got.Config["a"] != 1.0 || got.Auth["gateway_base_url"] == "" || got.LastSeen != nil {
			t.Errorf("read %+v", got)
		}
	}
	if a := c.Call("GET", "/deployments/fra", ""); strings.Contains(a.Body, d.Secret) {
		t.Error("the secret is shown again")
	}
	c.Must("POST", "/deployments", `{"name":"Main Site"}`, &d)
	var main item
	c.Must("GET", "/deployments/"+d.Slug, "", &main)
	if !strings.HasPrefix(d.Slug, "dp-main-s-") || main.Type != "production" || !main.All || main.Workspaces == nil {
		t.Errorf("by default %+v with the slug %s", main, d.Slug)
	}
	for query, want := range map[string]int{"": 2, "?type=production": 1, "?type=non-production": 1, "?page_size=1": 2} {
		var list struct{ Total int }
		if c.Must("GET", "/deployments"+query, "", &list); list.Total != want {
			t.Errorf("%q lists %d, want %d", query, list.Total, want)
		}
	}
}

func TestADeploymentChangesInParts(t *testing.T) {
	c := routetest.New(t, deployments.Add).Root()
	var d created
	c.Must("POST", "/deployments", `{"name":"a","config":{"x":1},"workspaces":["default"]}`, &d)
	c.Must("PUT", "/deployments/"+d.ID, `{"name":"b","status":"inactive"}`, nil)
	var got item
	c.Must("GET", "/deployments/"+d.ID, "", &got)
	if got.Name != "b" || got.Status != "inactive" || got.All || got.Config["x"] != 1.0 {
		t.Errorf("after the first change %+v", got)
	}
	c.Must("PUT", "/deployments/"+d.ID, `{"config":null,"allow_all_workspaces":true,"type":"non-production"}`, nil)
	c.Must("GET", "/deployments/"+d.ID, "", &got)
	if !got.All || len(got.Workspaces) != 0 || got.Type != "non-production" {
		t.Errorf("after the second change %+v", got)
	}
	c.Must("DELETE", "/deployments/"+d.ID, "", nil)
	if a := c.Call("GET", "/deployments/"+d.ID, ""); a.Status != http.StatusNotFound {
		t.Errorf("after removal: %d %s", a.Status, a.Body)
	}
}

func TestDeploymentErrorsNameTheField(t *testing.T) {
	b := routetest.New(t, deployments.Add)
	c := b.Root()
	c.Must("POST", "/deployments", `{"name":"a","slug":"taken"}`, nil)
	before := b.Changes()
	for body, want := range map[string]struct {
		status int
		text   string
	}{
		`{}`:                                        {400, "name"},
		`{"name":""}`:                               {400, "name"},
		`{"name":"a","type":"staging"}`:             {400, "type"},
		`{"name":"a","slug":"not a slug"}`:          {400, "slug"},
		`{"name":"a","slug":"taken"}`:               {409, "AB07"},
		`{"name":"a","config":[]}`:                  {400, "config"},
		`{"name":"a","config":"text"}`:              {400, "config"},
		`{"name":"a","workspaces":["none"]}`:        {404, "AB02"},
		`{"name":"a","allow_all_workspaces":false}`: {400, "workspaces"},
		`{"name":"a","allow_all_workspaces":true,"workspaces":["default"]}`:      {400, "allow_all_workspaces"},
		`{"name":"a","auth_settings":{"gateway_base_url":"ftp://x"}}`:            {400, "gateway_base_url"},
		`{"name":"a","auth_settings":{"mcp_gateway_base_url":"https://u@host"}}`: {400, "mcp_gateway_base_url"},
		`{"name":"a","unknown":1}`: {400, "unknown"},
	} {
		if a := c.Call("POST", "/deployments", body); a.Status != want.status || !strings.Contains(a.Body, want.text) {
			t.Errorf("%s: %d %s, want %d and %s", body, a.Status, a.Body, want.status, want.text)
		}
	}
	if b.Changes() != before {
		t.Error("something was changed")
	}
}

func TestDeploymentsAreForTheirOrganisation(t *testing.T) {
	b := routetest.New(t, deployments.Add)
	var d created
	b.Root().Must("POST", "/deployments", `{"name":"a"}`, &d)
	foreign := b.As(access.Identity{Type: access.OrganisationService, Organisation: "another", Workspace: "-", Scopes: access.Scopes(access.OrganisationService)})
	for _, call := range [][2]string{{"GET", ""}, {"PUT", `{"name":"x"}`}, {"DELETE", ""}} {
		if a := foreign.Call(call[0], "/deployments/"+d.ID, call[1]); a.Status != http.StatusNotFound {
			t.Errorf("another organisation, %s: %d %s", call[0], a.Status, a.Body)
		}
	}
	workspace := b.As(access.Identity{Type: access.WorkspaceService, Scopes: access.Scopes(access.WorkspaceService)})
	if a := workspace.Call("GET", "/deployments", ""); a.Status != http.StatusForbidden {
		t.Errorf("a key of a workspace: %d", a.Status)
	}
}
