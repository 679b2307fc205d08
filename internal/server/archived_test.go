package server_test

import (
	"fmt"
	"net/url"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

// administer sends a request of the control plane, which must succeed.
func administer(t *testing.T, g *gatewaytest.Gateway, method, path, body string) map[string]any {
	t.Helper()
	res := g.Do(g.Request(method, path, body))
	if res.Status != 200 {
		t.Fatalf("%s %s: %d %s", method, path, res.Status, res.Body)
	}
	return res.JSON(t)
}

// archivedKinds are the kinds of objects that can be archived, with the body that creates
// one.
var archivedKinds = []struct{ path, body string }{
	{"/configs", `{"name":"%s","config":{"retry":{"attempts":1}}}`},
	{"/guardrails", `{"name":"%s","checks":[{"id":"default.contains","parameters":{"words":["a"],"operator":"any"}}],"actions":{"deny":true}}`},
	{"/integrations", `{"name":"%[1]s","slug":"%[1]s","ai_provider_id":"openai","key":"sk-1234567890"}`},
	{"/admin/workspaces", `{"name":"%s"}`},
	{"/prompts", `{"name":"%s","string":"hello","parameters":{}}`},
	{"/policies/rate-limits", `{"name":"%s","type":"requests","unit":"rpm","value":5,"conditions":[{"key":"model","value":"x"}],"group_by":[{"key":"api_key"}]}`},
}

func TestArchivedObjectsAreListedAndRestored(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{MasterKey: master})
	for _, kind := range archivedKinds {
		t.Run(kind.path, func(t *testing.T) {
			made := administer(t, g, "POST", kind.path, fmt.Sprintf(kind.body, "restored"))
			if inner, ok := made["data"].(map[string]any); ok {
				made = inner
			}
			id, _ := made["id"].(string)
			ids := func(status string) map[string]bool {
				found := make(map[string]bool)
				for _, item := range administer(t, g, "GET", kind.path+"?status="+status, "")["data"].([]any) {
					found[item.(map[string]any)["id"].(string)] = true
				}
				return found
			}
			if id == "" || !ids("active")[id] || ids("archived")[id] {
				t.Fatalf("%v is not in the list of active ones only", made)
			}
			g.Do(g.Request("DELETE", kind.path+"/"+id, `{"name":"restored"}`))
			if ids("active")[id] || !ids("archived")[id] {
				t.Fatal("it is not in the list of archived ones only")
			}
			administer(t, g, "POST", kind.path+"/"+id+"/restore", "")
			if !ids("active")[id] || ids("archived")[id] {
				t.Error("it was not restored")
			}
			if res := g.Do(g.Request("POST", kind.path+"/"+id+"/restore", "")); res.Status != 404 {
				t.Errorf("restoring it again: %d %s, want 404", res.Status, res.Body)
			}
		})
	}
}

// TestListsHaveOneForm reads lists page by page, by cursor and by name.
func TestListsHaveOneForm(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{MasterKey: master})
	for _, kind := range archivedKinds[:5] {
		t.Run(kind.path, func(t *testing.T) {
			before := administer(t, g, "GET", kind.path, "")["total"].(float64)
			for _, name := range []string{"alpha", "beta", "gamma"} {
				administer(t, g, "POST", kind.path, fmt.Sprintf(kind.body, name))
			}
			seen, query := make(map[any]bool), "?limit=1"
			for pages := 0; query != ""; pages++ {
				page := administer(t, g, "GET", kind.path+query, "")
				data := page["data"].([]any)
				if page["object"] != "list" || len(data) != 1 || page["total"] != before+3 || pages > 9 {
					t.Fatalf("page %d: %v", pages, page)
				}
				seen[data[0].(map[string]any)["id"]] = true
				next, more := page["next_cursor"].(string)
				if page["has_more"] != more {
					t.Errorf("has_more is %v with the cursor %q", page["has_more"], next)
				}
				if query = ""; more {
					query = "?cursor=" + url.QueryEscape(next)
				}
			}
			if len(seen) != int(before)+3 {
				t.Errorf("pages had %d objects, want %g", len(seen), before+3)
			}
			for _, name := range []string{"pageSize", "page_size", "limit"} {
				if got := administer(t, g, "GET", kind.path+"?name=bet&"+name+"=2", "")["data"].([]any); len(got) != 1 || got[0].(map[string]any)["name"] != "beta" {
					t.Errorf("with a name and %s: %v", name, got)
				}
			}
			if res := g.Get(kind.path + "?cursor=invented"); res.Status != 400 {
				t.Errorf("an invented cursor: %d %s", res.Status, res.Body)
			}
		})
	}
}

func TestVersionsAreReadAndRolledBack(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{MasterKey: master})
	for _, tt := range []struct{ path, create, change, field, first string }{
		{"/configs", `{"name":"v","config":{"retry":{"attempts":1}}}`, `{"config":{"retry":{"attempts":2}}}`, "config", `{"retry":{"attempts":1}}`},
		{"/guardrails", `{"name":"v","checks":[{"id":"default.contains","parameters":{"words":["a"],"operator":"any"}}],"actions":{"deny":true}}`, `{"actions":{}}`, "actions", `map[deny:true]`},
	} {
		t.Run(tt.path, func(t *testing.T) {
			read := func(method, path, body string) map[string]any {
				out := administer(t, g, method, tt.path+"/"+path, body)
				if inner, ok := out["data"].(map[string]any); ok {
					out = inner
				}
				return out
			}
			made := administer(t, g, "POST", tt.path, tt.create)
			if inner, ok := made["data"].(map[string]any); ok {
				made = inner
			}
			slug := made["slug"].(string)
			read("PUT", slug, tt.change)
			value := func(ref string) string { return fmt.Sprint(read("GET", ref, "")[tt.field]) }
			if value(slug+"@1") != tt.first || value(slug) == tt.first || value(slug+"@2") != value(slug) {
				t.Errorf("@1 is %s, @2 %s, current %s", value(slug+"@1"), value(slug+"@2"), value(slug))
			}
			read("POST", slug+"/rollback", `{"version":1}`)
			if value(slug) != tt.first || value(slug+"@3") != tt.first || value(slug+"@2") == tt.first {
				t.Errorf("after rolling back, current is %s, @3 %s, @2 %s", value(slug), value(slug+"@3"), value(slug+"@2"))
			}
			if got := administer(t, g, "GET", tt.path+"/"+slug+"/versions", "")["data"].([]any); len(got) != 3 {
				t.Errorf("%d versions, want 3", len(got))
			}
			for ref, status := range map[string]int{slug + "@9": 404, slug + "@x": 400, slug + "@0": 400} {
				if res := g.Get(tt.path + "/" + ref); res.Status != status {
					t.Errorf("%s: %d, want %d", ref, res.Status, status)
				}
			}
		})
	}
}
