package controlplane_test

import (
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/controlplane"
	"modelgate/internal/guardrail/checks"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
	"modelgate/internal/testing/routetest"
)

// archivable are the objects that can be archived: where they are, and how one is made.
var archivable = []struct{ path, body string }{
	{"/configs", `{"name":"one","workspace_id":"default","config":{"retry":{"attempts":1}}}`},
	{"/guardrails", `{"name":"one","workspace_id":"default","checks":[{"id":"default.wordCount","parameters":{"maxWords":9}}],"actions":{}}`},
	{"/policies/rate-limits", `{"name":"one","workspace_id":"default",` + everyKey + `,"type":"requests","unit":"rpm","value":10}`},
	{"/policies/usage-limits", `{"name":"one","workspace_id":"default",` + everyKey + `,"type":"cost","credit_limit":10}`},
	{"/providers", `{"name":"one","integration_id":"main","workspace_id":"default"}`},
	{"/prompts", `{"name":"one","workspace_id":"default","string":"Hello","parameters":{},"model":"m"}`},
	{"/prompts/partials", `{"name":"one","workspace_id":"default","string":"Hello"}`},
	{"/collections", `{"name":"one","workspace_id":"default"}`},
}

func TestArchivedObjectsAreListedAndRestored(t *testing.T) {
	for _, tt := range archivable {
		t.Run(tt.path, func(t *testing.T) {
			b := routetest.New(t, controlplane.Families{}.Add)
			b.API.Guardrails = checks.New(checks.Services{})
			admin := b.As(access.Identity{Type: access.OrganisationService, Scopes: access.Scopes(access.OrganisationService), Workspace: "-"})
			plain := b.As(access.Identity{Type: access.WorkspaceService, Scopes: access.Scopes(access.WorkspaceService), Workspace: store.DefaultWorkspace})
			elsewhere := b.As(access.Identity{Type: access.WorkspaceService, Scopes: access.Scopes(access.WorkspaceService), Workspace: "elsewhere"})
			b.Root().Must("POST", "/integrations", `{"name":"Main","slug":"main","ai_provider_id":"openai","key":"sk-of-some-length"}`, nil)
			var made struct {
				ID, Slug string
				Data     struct{ ID, Slug string }
			}
			admin.Must("POST", tt.path, tt.body, &made)
			id := made.ID + made.Data.ID
			path, query := tt.path+"/"+made.Slug+made.Data.Slug, "?workspace_id=default"
			if strings.HasPrefix(tt.path, "/policies") {
				path, query = tt.path+"/"+id, ""
			}
			if tt.path == "/configs" || tt.path == "/guardrails" {
				query = ""
			}
			admin.Must("DELETE", path+query, "", nil)
			listed := func(c *routetest.Caller, status string, want int) bool {
				t.Helper()
				a := c.Call("GET", tt.path+"?workspace_id=default"+status, "")
				if a.Status != want {
					t.Errorf("the list with %q: %d %s, want %d", status, a.Status, a.Body, want)
				}
				return strings.Contains(a.Body, id)
			}
			if listed(admin, "", 200) || !listed(admin, "&status=active,archived", 200) || !listed(admin, "&status=archived", 200) || listed(admin, "&status=active", 200) {
				t.Error("the archived object is not listed by its status")
			}
			if listed(plain, "", 200) || listed(plain, "&status=archived", http.StatusForbidden) {
				t.Error("a plain key lists the archived object")
			}
			for name, c := range map[string]*routetest.Caller{"a plain key": plain, "a key of another workspace": elsewhere} {
				if a := c.Call("POST", path+"/restore", ""); a.Status == http.StatusOK {
					t.Errorf("%s restores it: %s", name, a.Body)
				}
			}
			if a := admin.Call("GET", path+query, ""); a.Status != http.StatusNotFound {
				t.Errorf("the archived object: %d %s", a.Status, a.Body)
			}
			admin.Must("POST", path+"/restore", "", nil)
			if a := admin.Call("GET", path+query, ""); a.Status != http.StatusOK || !listed(admin, "", 200) {
				t.Errorf("the restored object: %d %s", a.Status, a.Body)
			}
			if a := admin.Call("POST", path+"/restore", ""); a.Status != http.StatusNotFound {
				t.Errorf("restoring it again: %d %s, want 404", a.Status, a.Body)
			}
		})
	}
}

func TestHeadersOfRequestsAreDescribed(t *testing.T) {
	b := routetest.New(t, controlplane.Families{}.Add)
	d := documentOf(t, b)
	creates := 0
	for _, r := range b.Routes() {
		op := d.Paths[r.Paths()[0]][strings.ToLower(r.Method)]
		create := r.Method == http.MethodPost && r.Resource != "" && !r.Open && !r.Data
		if create {
			creates++
		}
		if op.takes("header", "Idempotency-Key") != create || op.takes("header", "If-Match") != r.Versioned {
			t.Errorf("%s: the document describes Idempotency-Key %t and If-Match %t, want %t and %t", r.Name,
				op.takes("header", "Idempotency-Key"), op.takes("header", "If-Match"), create, r.Versioned)
		}
	}
	if creates < 20 {
		t.Errorf("%d routes accept an Idempotency-Key, want those of every object", creates)
	}
}
