package organisations_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/controlplane/organisations"
	"modelgate/internal/controlplane/workspaces"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
	"modelgate/internal/testing/routetest"
)

func TestExclusionsChangeOnlyWhatIsNamed(t *testing.T) {
	b := routetest.New(t, organisations.Routes{}.Add, workspaces.Add)
	c := b.Root()
	var ids [2]string
	for i := range ids {
		var made struct{ ID string }
		c.Must("POST", "/admin/workspaces", fmt.Sprintf(`{"name":"w%d","description":"d"}`, i), &made)
		ids[i] = made.ID
	}
	slug := b.Query(`SELECT slug FROM workspaces WHERE id = '` + ids[0] + `'`)[0]
	const in, out = "/workspace-exclusions/input-guardrails", "/workspace-exclusions/output-guardrails"
	excluded := func(path string) string {
		var got struct {
			Organisation string `json:"organisation_id"`
			Workspaces   []struct {
				ID       string `json:"workspace_id"`
				Slug     string
				Excluded bool
			}
		}
		c.Must("GET", path, "", &got)
		var list strings.Builder
		for _, w := range got.Workspaces {
			if !w.Excluded || w.Slug == "" || got.Organisation != store.DefaultOrganisation {
				t.Errorf("%s: %+v", path, got)
			}
			list.WriteString(strings.NewReplacer(ids[0], "0", ids[1], "1", store.DefaultWorkspace, "d").Replace(w.ID))
		}
		return list.String()
	}
	item := func(id string, excluded bool) string {
		return fmt.Sprintf(`{"workspace_id":%q,"excluded":%t}`, id, excluded)
	}
	for _, step := range []struct{ path, body, in, out string }{
		{in, `{"workspaces":[` + item(slug, true) + `]}`, "0", ""},
		{out, `{"organisation_id":"default","workspaces":[` + item("default", true) + `]}`, "0", "d"},
		{in, `{"workspaces":[` + item(ids[1], true) + `]}`, "01", "d"},
		{in, `{"workspaces":[` + item(ids[1], true) + `]}`, "01", "d"},
		{in, `{"workspaces":[` + item(ids[0], false) + `,` + item("default", false) + `]}`, "1", "d"},
		{in, `{"override_existing":true,"workspaces":[` + item("default", true) + `,` + item(ids[0], false) + `]}`, "d", "d"},
		{out, `{"override_existing":true,"workspaces":[]}`, "d", ""},
	} {
		c.Must("PUT", step.path, step.body, nil)
		if i, o := excluded(in), excluded(out); i != step.in || o != step.out {
			t.Errorf("after %s %s: input %q, output %q, want %q and %q", step.path, step.body, i, o, step.in, step.out)
		}
	}
	c.Must("DELETE", "/admin/workspaces/"+ids[0], `{"name":"w0"}`, nil)
	for body, want := range map[string]string{
		`{"workspaces":[` + item(ids[0], true) + `]}`:                                                "workspaces[0].workspace_id",
		`{"workspaces":[` + item("none", true) + `]}`:                                                "workspaces[0].workspace_id",
		`{"workspaces":[` + item("default", true) + `,` + item(store.DefaultWorkspace, false) + `]}`: "workspaces[1].workspace_id",
		`{"organisation_id":"other","workspaces":[]}`:                                                "organisation_id",
		`{"workspaces":[{"workspace_id":"default"}]}`:                                                "excluded",
		`{}`: "workspaces",
	} {
		if a := c.Call("PUT", in, body); a.Status/100 != 4 || !strings.Contains(a.Body, want) {
			t.Errorf("%s: %d %s, want an error about %s", body, a.Status, a.Body, want)
		}
	}
	if got := excluded(in); got != "d" {
		t.Errorf("a refused change left %q", got)
	}
	for _, id := range []access.Identity{
		{Type: access.WorkspaceService, Workspace: store.DefaultWorkspace, Scopes: []access.Scope{"workspaces.update", "guardrails.update"}},
		{Type: access.OrganisationService, Scopes: []access.Scope{"organisation_settings.update", "organisation_settings.read"}},
	} {
		other := b.As(id)
		if a := other.Call("PUT", in, `{"workspaces":[]}`); a.Status != http.StatusForbidden {
			t.Errorf("%v changes exclusions: %d %s", id.Scopes, a.Status, a.Body)
		}
	}
}
