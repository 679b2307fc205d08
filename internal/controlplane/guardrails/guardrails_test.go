package guardrails_test

import (
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/controlplane/guardrails"
	"modelgate/internal/identity/access"
	"modelgate/internal/testing/routetest"
)

const body = `"checks":[{"id":"default.regexMatch","parameters":{"rule":"^a","not":true}},{"id":"gateway.pii","is_enabled":false}],"actions":{"deny":true,"on_fail":{"feedback":{"value":-5,"weight":1}}}`

type created struct {
	ID, Slug  string
	VersionID string `json:"version_id"`
}

type item struct {
	Name, Status string
	Workspace    *string `json:"workspace_id"`
	VersionID    string  `json:"version_id"`
	Checks       []struct {
		ID         string
		Parameters map[string]any
		Enabled    *bool `json:"is_enabled"`
	}
	Actions struct {
		Deny   bool
		OnFail struct{ Feedback struct{ Value float64 } } `json:"on_fail"`
	}
}

func TestAGuardrailIsReadAsItWasSaved(t *testing.T) {
	c := routetest.New(t, guardrails.Routes{}.Add).Root()
	var g created
	c.Must("POST", "/guardrails", `{"name":"No A",`+body+`}`, &g)
	if !strings.HasPrefix(g.Slug, "pg-no-a-") {
		t.Errorf("slug %q", g.Slug)
	}
	for _, ref := range []string{g.ID, g.Slug} {
		var got item
		c.Must("GET", "/guardrails/"+ref, "", &got)
		if got.Name != "No A" || got.Workspace == nil || got.VersionID != g.VersionID || len(got.Checks) != 2 || got.Checks[0].Parameters["rule"] != "^a" ||
			got.Checks[0].Enabled != nil || *got.Checks[1].Enabled || !got.Actions.Deny || got.Actions.OnFail.Feedback.Value != -5 {
			t.Errorf("read %+v", got)
		}
	}
}

func TestOtherChecksMakeAnotherVersion(t *testing.T) {
	c := routetest.New(t, guardrails.Routes{}.Add).Root()
	var g, named, changed created
	c.Must("POST", "/guardrails", `{"name":"a",`+body+`}`, &g)
	c.Must("PUT", "/guardrails/"+g.Slug, `{"name":"b"}`, &named)
	c.Must("PUT", "/guardrails/"+g.Slug, `{"actions":{"deny":false}}`, &changed)
	if named.VersionID != g.VersionID || changed.VersionID == g.VersionID {
		t.Errorf("versions %s, then %s for a name, then %s for actions", g.VersionID, named.VersionID, changed.VersionID)
	}
	var got item
	c.Must("GET", "/guardrails/"+g.ID, "", &got)
	if got.Name != "b" || got.Actions.Deny || len(got.Checks) != 2 {
		t.Errorf("after the changes %+v", got)
	}
	c.Must("DELETE", "/guardrails/"+g.ID, "", nil)
	if a := c.Call("GET", "/guardrails/"+g.ID, ""); a.Status != http.StatusNotFound {
		t.Errorf("after archiving: %d %s", a.Status, a.Body)
	}
}

func TestGuardrailErrorsNameTheField(t *testing.T) {
	b := routetest.New(t, guardrails.Routes{}.Add)
	c := b.Root()
	for sent, want := range map[string]string{
		`{` + body + `}`:                                                                             "name",
		`{"name":"a","actions":{}}`:                                                                  "checks",
		`{"name":"a","checks":null,"actions":{}}`:                                                    "checks",
		`{"name":"a","checks":[],"actions":{}}`:                                                      "checks",
		`{"name":"a","checks":[{"id":"x"}],"actions":{}}`:                                            "checks[0].id",
		`{"name":"a","checks":[{"id":"default.x","other":1}],"actions":{}}`:                          "checks[0].other",
		`{"name":"a","checks":[{"id":"default.x"}]}`:                                                 "actions",
		`{"name":"a","checks":[{"id":"default.x"}],"actions":{"deny":"yes"}}`:                        "actions.deny",
		`{"name":"a","checks":[{"id":"default.x"}],"actions":{"on_fail":{"feedback":{"value":99}}}}`: "value",
		`{"name":"a","workspace_id":"default","organisation_id":"default",` + body + `}`:             "workspace_id",
	} {
		if a := c.Call("POST", "/guardrails", sent); a.Status != http.StatusBadRequest || !strings.Contains(a.Body, "AB01") || !strings.Contains(a.Body, want) {
			t.Errorf("%s: %d %s, want %s", sent, a.Status, a.Body, want)
		}
	}
	if a := c.Call("POST", "/guardrails", `{"name":"a","workspace_id":"none",`+body+`}`); a.Status != http.StatusNotFound || !strings.Contains(a.Body, "AB02") {
		t.Errorf("a workspace that is not there: %d %s", a.Status, a.Body)
	}
	if b.Changes() != 0 {
		t.Error("something was changed")
	}
}

func TestAGuardrailOfTheOrganisationIsSeenByAllAndChangedByFew(t *testing.T) {
	b := routetest.New(t, guardrails.Routes{}.Add)
	admin := b.As(access.Identity{Type: access.OrganisationService, Workspace: "-", Scopes: access.Scopes(access.OrganisationService)})
	workspace := b.As(access.Identity{Type: access.WorkspaceService, Scopes: access.Scopes(access.WorkspaceService)})
	foreign := b.As(access.Identity{Type: access.OrganisationService, Organisation: "another", Workspace: "-", Scopes: access.Scopes(access.OrganisationService)})
	var g, own created
	admin.Must("POST", "/guardrails", `{"name":"all","organisation_id":"default",`+body+`}`, &g)
	workspace.Must("POST", "/guardrails", `{"name":"own",`+body+`}`, &own)
	for query, status := range map[string]int{"default": 200, "another": 404} {
		if a := workspace.Call("GET", "/guardrails?organisation_id="+query, ""); a.Status != status {
			t.Errorf("the list of organisation %s: %d %s, want %d", query, a.Status, a.Body, status)
		}
	}
	var got item
	workspace.Must("GET", "/guardrails/"+g.ID, "", &got)
	if got.Workspace != nil {
		t.Errorf("it belongs to the workspace %v", *got.Workspace)
	}
	for _, call := range [][2]string{{"PUT", `{"name":"x"}`}, {"DELETE", ""}} {
		if a := workspace.Call(call[0], "/guardrails/"+g.ID, call[1]); a.Status != http.StatusForbidden {
			t.Errorf("%s by a workspace's key: %d %s", call[0], a.Status, a.Body)
		}
		if a := foreign.Call(call[0], "/guardrails/"+g.ID, call[1]); a.Status != http.StatusNotFound {
			t.Errorf("%s by another organisation: %d %s", call[0], a.Status, a.Body)
		}
	}
	if a := workspace.Call("POST", "/guardrails", `{"name":"all","organisation_id":"default",`+body+`}`); a.Status != http.StatusForbidden {
		t.Errorf("made by a workspace's key: %d %s", a.Status, a.Body)
	}
	other := b.As(access.Identity{Type: access.WorkspaceService, Workspace: "elsewhere", Scopes: access.Scopes(access.WorkspaceService)})
	if a := other.Call("GET", "/guardrails/"+own.ID, ""); a.Status != http.StatusNotFound {
		t.Errorf("another workspace's guardrail: %d %s", a.Status, a.Body)
	}
	var list struct{ Total int }
	if workspace.Must("GET", "/guardrails", "", &list); list.Total != 2 {
		t.Errorf("the workspace sees %d, want its own and the organisation's", list.Total)
	}
}
