package guardrails_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/controlplane/guardrails"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/controlplane/workspaces"
	"modelgate/internal/guardrail/checks"
	"modelgate/internal/identity/access"
	"modelgate/internal/testing/routetest"
)

// smallModule is a WebAssembly module whose _start does nothing.
const smallModule = "AGFzbQEAAAABBAFgAAADAgEABwoBBl9zdGFydAAACgQBAgAL"

type module struct {
	ID, Slug, SHA256 string
	Size             int
	Exports          []string
	Workspace        *string `json:"workspace_id"`
}

// withModules are routes that accept modules.
var withModules = guardrails.Routes{CheckModule: new(checks.Modules).Check}

// runnable compiles the checks of guardrails when they are saved.
func runnable(a *route.API) { a.Guardrails = checks.New(checks.Services{}) }

func namedModule(ref, owner string) string {
	return `{"name":"g",` + owner + `"checks":[{"id":"default.wasm","parameters":{"module":"` + ref + `"}}],"actions":{"deny":true}}`
}

func TestAModuleIsReadAsItWasUploaded(t *testing.T) {
	b := routetest.New(t, withModules.Add)
	c := b.Root()
	var m, got module
	c.Must("POST", "/guardrail-modules", `{"name":"No names","code":"`+smallModule+`"}`, &m)
	code, _ := base64.StdEncoding.DecodeString(smallModule)
	sum := sha256.Sum256(code)
	for _, ref := range []string{m.ID, m.Slug} {
		a := c.Call("GET", "/guardrail-modules/"+ref, "")
		c.Must("GET", "/guardrail-modules/"+ref, "", &got)
		if got.SHA256 != hex.EncodeToString(sum[:]) || got.Size != len(code) || strings.Join(got.Exports, " ") != "_start" || got.Workspace == nil || strings.Contains(a.Body, smallModule) {
			t.Errorf("read %s", a.Body)
		}
	}
	if a := c.Call("GET", "/guardrail-modules", ""); !strings.Contains(a.Body, m.ID) || !strings.Contains(a.Body, `"total":1`) {
		t.Errorf("listed %s", a.Body)
	}
	if a := c.Call("PUT", "/guardrail-modules/"+m.ID, `{"name":"other"}`); a.Status != http.StatusMethodNotAllowed && a.Status != http.StatusNotFound {
		t.Errorf("changed: %d %s", a.Status, a.Body)
	}
	events := b.Query(`SELECT resource_type || ' ' || action || ' ' || request_body FROM audit_logs`)
	if len(events) != 1 || !strings.Contains(events[0], "guardrail_module create") || strings.Contains(events[0], smallModule) || !strings.Contains(events[0], `"code":"(48 bytes)"`) {
		t.Errorf("audit log %q", events)
	}
}

func TestModulesThatCannotRunAreNotStored(t *testing.T) {
	b := routetest.New(t, withModules.Add)
	c := b.Root()
	big := base64.StdEncoding.EncodeToString(append([]byte("\x00asm\x01\x00\x00\x00"), make([]byte, checks.MaxModule)...))
	for name, tt := range map[string]struct {
		body, param string
		status      int
	}{
		"no module":    {`{"name":"a","code":"AAAA"}`, "code", 400},
		"no base64":    {`{"name":"a","code":"?"}`, "code", 400},
		"none":         {`{"name":"a"}`, "code", 400},
		"no name":      {`{"code":"` + smallModule + `"}`, "name", 400},
		"wrong slug":   {`{"name":"a","slug":"a b","code":"` + smallModule + `"}`, "slug", 400},
		"unknown":      {`{"name":"a","version":1,"code":"` + smallModule + `"}`, "version", 400},
		"no start":     {`{"name":"a","code":"AGFzbQEAAAA="}`, "code", 400},
		"too large":    {`{"name":"a","code":"` + big + `"}`, "code", 400},
		"no workspace": {`{"name":"a","workspace_id":"none","code":"` + smallModule + `"}`, "workspace_id", 404},
	} {
		if a := c.Call("POST", "/guardrail-modules", tt.body); a.Status != tt.status || !strings.Contains(a.Body, `"`+tt.param+`"`) {
			t.Errorf("%s: %d %.300s, want %d at %s", name, a.Status, a.Body, tt.status, tt.param)
		}
	}
	if rows := b.Query(`SELECT id FROM guardrail_modules`); len(rows) != 0 {
		t.Errorf("stored %q", rows)
	}
	for _, row := range b.Query(`SELECT request_body FROM audit_logs`) {
		if len(row) > 64<<10 {
			t.Errorf("the audit log has a body of %d bytes", len(row))
		}
	}
}

func TestAModuleInUseIsNotDeleted(t *testing.T) {
	c := routetest.New(t, withModules.Add, runnable).Root()
	var m module
	c.Must("POST", "/guardrail-modules", `{"name":"m","slug":"own","code":"`+smallModule+`"}`, &m)
	if a := c.Call("POST", "/guardrail-modules", `{"name":"m","slug":"own","code":"`+smallModule+`"}`); a.Status != 409 || !strings.Contains(a.Body, `"slug"`) {
		t.Errorf("the same slug again: %d %s", a.Status, a.Body)
	}
	for _, ref := range []string{m.ID, m.Slug} {
		var g created
		c.Must("POST", "/guardrails", namedModule(ref, ""), &g)
		if a := c.Call("DELETE", "/guardrail-modules/"+m.ID, ""); a.Status != 409 || !strings.Contains(a.Body, g.Slug) {
			t.Errorf("deleting a module in use by %s: %d %s", ref, a.Status, a.Body)
		}
		c.Must("DELETE", "/guardrails/"+g.ID, "", nil)
	}
	if a := c.CallWith("DELETE", "/guardrail-modules/"+m.ID, "", http.Header{"If-Match": {`"2026-04-01T00:00:00.000Z"`}}); a.Status != 412 || !strings.Contains(a.Body, "AB07") {
		t.Errorf("deleting another state: %d %s", a.Status, a.Body)
	}
	c.Must("DELETE", "/guardrail-modules/"+m.Slug, "", nil)
	for _, ref := range []string{m.ID, m.Slug} {
		if a := c.Call("POST", "/guardrails", namedModule(ref, "")); a.Status != 400 || !strings.Contains(a.Body, "checks[0].parameters.module") || !strings.Contains(a.Body, "AB01") {
			t.Errorf("a guardrail with a deleted module: %d %s", a.Status, a.Body)
		}
	}
}

func TestModulesBelongToTheirWorkspaceOrOrganisation(t *testing.T) {
	b := routetest.New(t, withModules.Add, workspaces.Add, runnable)
	root := b.Root()
	b.Exec(`INSERT INTO organisations (id, slug, name, status, settings, data_key, owner_id, created_at, updated_at) VALUES ('rival', 'rival', 'Rival', 'active', '{}', '', 'o', 1, 1)`)
	var other struct{ ID string }
	root.Must("POST", "/workspaces", `{"name":"Other"}`, &other)
	var local, wide module
	root.Must("POST", "/guardrail-modules", `{"name":"m","slug":"local","workspace_id":"default","code":"`+smallModule+`"}`, &local)
	root.Must("POST", "/guardrail-modules", `{"name":"m","slug":"wide","organisation_id":"default","code":"`+smallModule+`"}`, &wide)
	if wide.Workspace != nil {
		t.Errorf("the module of the organisation has the workspace %s", *wide.Workspace)
	}
	all := []access.Scope{"guardrails.create", "guardrails.read", "guardrails.list", "guardrails.delete"}
	rival := b.As(access.Identity{Type: access.OrganisationService, Organisation: "rival", Workspace: "-", Scopes: append(all, "organisation_guardrails.create", "organisation_guardrails.delete")})
	neighbour := b.As(access.Identity{Type: access.WorkspaceService, Workspace: other.ID, Scopes: all})
	reader := b.As(access.Identity{Type: access.WorkspaceService, Scopes: []access.Scope{"guardrails.read", "guardrails.list"}})
	for _, tt := range []struct {
		what         string
		c            *routetest.Caller
		method, path string
		body         string
		status       int
	}{
		{"a neighbour reads", neighbour, "GET", "/guardrail-modules/" + local.ID, "", 404},
		{"a neighbour deletes", neighbour, "DELETE", "/guardrail-modules/" + local.ID, "", 404},
		{"a neighbour uses", neighbour, "POST", "/guardrails", namedModule(local.ID, ""), 400},
		{"a neighbour reads the organisation's", neighbour, "GET", "/guardrail-modules/" + wide.ID, "", 200},
		{"a neighbour deletes the organisation's", neighbour, "DELETE", "/guardrail-modules/" + wide.ID, "", 403},
		{"a neighbour uploads for the organisation", neighbour, "POST", "/guardrail-modules", `{"name":"m","organisation_id":"default","code":"` + smallModule + `"}`, 403},
		{"the organisation uses a workspace's", root, "POST", "/guardrails", namedModule(local.ID, `"organisation_id":"default",`), 400},
		{"a rival reads", rival, "GET", "/guardrail-modules/" + local.ID, "", 404},
		{"a rival deletes", rival, "DELETE", "/guardrail-modules/wide", "", 404},
		{"a rival uses", rival, "POST", "/guardrails", namedModule(wide.ID, `"organisation_id":"rival",`), 400},
		{"a reader uploads", reader, "POST", "/guardrail-modules", `{"name":"m","code":"` + smallModule + `"}`, 403},
		{"a reader deletes", reader, "DELETE", "/guardrail-modules/" + local.ID, "", 403},
		{"a neighbour uses the organisation's", neighbour, "POST", "/guardrails", namedModule("wide", ""), 200},
		{"the workspace uses its own", root, "POST", "/guardrails", namedModule("local", `"workspace_id":"default",`), 200},
	} {
		if a := tt.c.Call(tt.method, tt.path, tt.body); a.Status != tt.status {
			t.Errorf("%s: %d %s, want %d", tt.what, a.Status, a.Body, tt.status)
		}
	}
	for name, c := range map[string]*routetest.Caller{"a neighbour": neighbour, "a rival": rival} {
		if a := c.Call("GET", "/guardrail-modules", ""); a.Status != 200 || strings.Contains(a.Body, local.ID) || strings.Contains(a.Body, wide.ID) != (name == "a neighbour") {
			t.Errorf("%s lists %d %s", name, a.Status, a.Body)
		}
	}
}

func TestTheModulesOfAnOrganisationAreBounded(t *testing.T) {
	b := routetest.New(t, withModules.Add)
	c := b.Root()
	for range 50 {
		c.Must("POST", "/guardrail-modules", `{"name":"m","code":"`+smallModule+`"}`, nil)
	}
	if a := c.Call("POST", "/guardrail-modules", `{"name":"m","code":"`+smallModule+`"}`); a.Status != 409 || !strings.Contains(a.Body, "50 modules") {
		t.Errorf("the 51st: %d %s", a.Status, a.Body)
	}
	b.Exec(`DELETE FROM guardrail_modules WHERE id <> (SELECT MIN(id) FROM guardrail_modules)`)
	b.Exec(`UPDATE guardrail_modules SET size = $1`, 64<<20-20)
	if a := c.Call("POST", "/guardrail-modules", `{"name":"m","code":"`+smallModule+`"}`); a.Status != 409 || !strings.Contains(a.Body, "bytes of them") {
		t.Errorf("too many bytes: %d %s", a.Status, a.Body)
	}
}
