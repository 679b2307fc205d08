package workspaces_test

import (
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/controlplane/configs"
	"modelgate/internal/controlplane/workspaces"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
	"modelgate/internal/testing/routetest"
)

type item struct {
	ID, Slug, Name, Status, Description string
	IsDefault                           bool `json:"is_default"`
	Defaults                            struct {
		Metadata  map[string]string
		IsDefault bool `json:"is_default"`
	}
	Settings    map[string]any
	Security    map[string]bool `json:"security_settings"`
	UsageLimits []struct {
		CreditLimit float64 `json:"credit_limit"`
		Status      string
	} `json:"usage_limits"`
	RateLimits []struct{ Unit string } `json:"rate_limits"`
	Users      []struct{ ID, Role, Email string }
}

func user(t *testing.T, b *routetest.Bench, id, role string) {
	t.Helper()
	err := b.DB.Update(t.Context(), nil, func(tx *store.Tx) error {
		return tx.CreateUser(t.Context(), store.DefaultOrganisation, store.User{ID: id, Email: id + "@example.com", Status: "active", Role: role, CreatedAt: b.Clock, UpdatedAt: b.Clock})
	})
	if err != nil {
		t.Fatal(err)
	}
}

const switches = `{"membersViewAllData":false,"managersViewAllData":true,"membersViewPrompts":true,"membersWritePrompts":false,"managersViewPrompts":true,"managersWritePrompts":true,"membersViewAnalytics":true,"managersViewAnalytics":true}`

func TestAWorkspaceIsReadAsItWasMade(t *testing.T) {
	b := routetest.New(t, workspaces.Add)
	user(t, b, "ann", "member")
	c := b.Root()
	var made item
	c.Must("POST", "/admin/workspaces", `{"name":"Team A","description":"d","defaults":{"metadata":{"team":"a"}},"users":["Ann@Example.com"],
		"usage_limits":[{"credit_limit":10}],"settings":{"debug_log":true}}`, &made)
	if !strings.HasPrefix(made.Slug, "ws-team-a-") || len(made.Users) != 1 || made.Users[0].Role != "member" {
		t.Errorf("made %+v", made)
	}
	for _, path := range []string{"/admin/workspaces/" + made.ID, "/workspaces/" + made.Slug} {
		var got item
		c.Must("GET", path, "", &got)
		if got.Name != "Team A" || got.Description != "d" || got.Defaults.Metadata["team"] != "a" || got.Settings["debug_log"] != true || got.Status != "active" ||
			len(got.UsageLimits) != 1 || got.UsageLimits[0].CreditLimit != 10 || len(got.RateLimits) != 0 || got.Users[0].Email != "ann@example.com" {
			t.Errorf("%s: %+v", path, got)
		}
	}
	var list struct {
		Total int
		Data  []item
	}
	c.Must("GET", "/workspaces", "", &list)
	if list.Total != 2 || !list.Data[0].IsDefault || !list.Data[0].Defaults.IsDefault {
		t.Errorf("listed %+v", list)
	}
	for query, want := range map[string]int{"?name=Team": 1, "?name=team": 0, "?exact_name=Team": 0, "?exact_name=Team%20A": 1, "?status=archived": 0, "?status=active,archived": 2, "?page_size=1": 2} {
		if c.Must("GET", "/workspaces"+query, "", &list); list.Total != want {
			t.Errorf("%s lists %d, want %d", query, list.Total, want)
		}
	}
}

func TestAnUpdateChangesOnlyItsFields(t *testing.T) {
	b := routetest.New(t, workspaces.Add)
	b.Exec(`UPDATE organisations SET settings = '{"overridable_sections":["data_visibility"]}'`)
	c := b.Root()
	var made, got item
	c.Must("POST", "/workspaces", `{"name":"a","description":"d","usage_limits":[{"credit_limit":10}]}`, &made)
	path := "/workspaces/" + made.Slug
	c.Must("PUT", path, `{"name":"b","security_settings":`+switches+`}`, nil)
	c.Must("GET", path, "", &got)
	if got.Name != "b" || got.Description != "d" || len(got.UsageLimits) != 1 || got.Security["membersViewAllData"] || !got.Security["membersViewAnalytics"] {
		t.Errorf("after the first change %+v", got)
	}
	got = item{}
	c.Must("PUT", path, `{"description":null,"usage_limits":null,"rate_limits":[]}`, nil)
	c.Must("GET", path, "", &got)
	if got.Description != "" || len(got.UsageLimits) != 0 || len(got.RateLimits) != 0 || got.Name != "b" || len(got.Security) != len(access.RolePermissions(nil).Effective()) || got.Security["membersViewAllData"] {
		t.Errorf("after the second change %+v", got)
	}
}

func TestAWorkspaceSetsTheSwitchesItMayOverride(t *testing.T) {
	b := routetest.New(t, workspaces.Add)
	user(t, b, "head", "member")
	b.Root().Must("POST", "/workspaces/default/users", `{"users":[{"id":"head","role":"manager"}]}`, nil)
	c := b.Root()
	manager := b.As(access.Identity{Type: access.Session, UserID: "head", Workspace: "-", Scopes: access.RoleScopes("member")})
	as := strings.Replace(switches, `"membersViewAllData":false`, `"membersViewAllData":true`, 1) // as all stand
	hidden := strings.Replace(as, `"membersViewPrompts":true`, `"membersViewPrompts":false`, 1)
	further := strings.Replace(as, `{`, `{"membersViewLogs":false,`, 1)
	for _, step := range []struct {
		by     *routetest.Caller
		left   string
		body   string
		status int
		param  string
	}{
		{c, ``, as, 200, ``},
		{c, ``, switches, 403, `security_settings.membersViewAllData`},
		{c, ``, hidden, 403, `security_settings.membersViewPrompts`},
		{c, `"data_visibility"`, hidden, 403, `security_settings.membersViewPrompts`},
		{c, `"prompts"`, hidden, 200, ``},
		{c, `"prompts"`, further, 403, `security_settings.membersViewLogs`},
		{c, `"prompts","logs"`, further, 200, ``},
		{manager, `"prompts"`, hidden, 403, `security_settings`},
		{c, `"prompts"`, strings.Replace(as, `"managersViewPrompts":true,`, ``, 1), 400, `security_settings`},
		{c, `"prompts"`, `null`, 200, ``},
	} {
		b.Exec(`UPDATE organisations SET settings = $1`, `{"overridable_sections":[`+step.left+`]}`)
		a := step.by.Call("PUT", "/workspaces/default", `{"security_settings":`+step.body+`}`)
		if a.Status != step.status || step.param != "" && !strings.Contains(a.Body, `"param":"`+step.param+`"`) {
			t.Errorf("left %s: %s: %d %s, want %d of %s", step.left, step.body, a.Status, a.Body, step.status, step.param)
		}
	}
	var got item
	b.Exec(`UPDATE workspaces SET security_settings = '{"membersViewPrompts":false}'`)
	for left, want := range map[string]bool{`"prompts"`: false, `"logs"`: true} {
		b.Exec(`UPDATE organisations SET settings = $1`, `{"overridable_sections":[`+left+`]}`)
		if c.Must("GET", "/workspaces/default", "", &got); got.Security["membersViewPrompts"] != want || !got.Security["membersViewLogs"] {
			t.Errorf("with %s left to it: %v", left, got.Security)
		}
	}
}

func TestLoggingLevelIsRefusedUnlessTheOrganisationLeavesItToWorkspaces(t *testing.T) {
	b := routetest.New(t, workspaces.Add)
	c := b.Root()
	for _, step := range []struct {
		name, above, method, path, body string
		status                          int
		shown                           string
	}{
		{"not left to workspaces", `{}`, "PUT", "/workspaces/default", `{"settings":{"request_logging":"full"}}`, 403, `"overridden_settings":[]`},
		{"of a new workspace", `{}`, "POST", "/workspaces", `{"name":"a","settings":{"request_logging":"full"}}`, 403, `"overridden_settings":[]`},
		{"null", `{}`, "PUT", "/workspaces/default", `{"settings":{"request_logging":null}}`, 200, `"overridden_settings":[]`},
		{"left to workspaces", `{"request_logging_override":true}`, "PUT", "/workspaces/default", `{"settings":{"request_logging":"full"}}`, 200, `"overridden_settings":[]`},
		{"as it is stored", `{}`, "PUT", "/workspaces/default", `{"settings":{"request_logging":"full","debug_log":true}}`, 200, `"overridden_settings":["request_logging"]`},
		{"otherwise than stored", `{}`, "PUT", "/workspaces/default", `{"settings":{"request_logging":"none"}}`, 403, `"request_logging":"full"`},
		{"taken out", `{}`, "PUT", "/workspaces/default", `{"settings":{}}`, 200, `"overridden_settings":[]`},
	} {
		b.Exec(`UPDATE organisations SET settings = $1`, step.above)
		a := c.Call(step.method, step.path, step.body)
		if a.Status != step.status || step.status == 403 && !(strings.Contains(a.Body, `"param":"settings.request_logging"`) && strings.Contains(a.Body, "request_logging_override")) {
			t.Errorf("%s: %d %s, want %d", step.name, a.Status, a.Body, step.status)
		}
		if got := c.Call("GET", "/workspaces/default", "").Body; !strings.Contains(got, step.shown) {
			t.Errorf("%s: the workspace is %s, want %s in it", step.name, got, step.shown)
		}
	}
}

func TestWorkspaceErrorsNameTheField(t *testing.T) {
	b := routetest.New(t, workspaces.Add)
	c := b.Root()
	for body, want := range map[string]string{
		`{}`:                                     "name",
		`{"name":""}`:                            "name",
		`{"name":"a","unknown":1}`:               "unknown",
		`{"name":"a","settings":{"nonsense":1}}`: "settings.nonsense",
		`{"name":"a","settings":{"debug_log":"x"}}`:                                     "settings.debug_log",
		`{"name":"a","settings":{"request_logging":"some"}}`:                            "settings.request_logging",
		`{"name":"a","settings":{"request_logging":true}}`:                              "settings.request_logging",
		`{"name":"a","usage_limits":[{"credit_limit":0}]}`:                              "usage_limits[0].credit_limit",
		`{"name":"a","rate_limits":[{"type":"requests","unit":"rps","value":1}]}`:       "rate_limits[0].unit",
		`{"name":"a","defaults":{"metadata":{"k":"` + strings.Repeat("x", 600) + `"}}}`: "defaults.metadata",
	} {
		if a := c.Call("POST", "/workspaces", body); a.Status != http.StatusBadRequest || !strings.Contains(a.Body, want) || !strings.Contains(a.Body, "AB01") {
			t.Errorf("%.80s: %d %s, want %s", body, a.Status, a.Body, want)
		}
	}
	for body, want := range map[string]string{`{"name":"a","users":["nobody"]}`: "users"} {
		if a := c.Call("POST", "/workspaces", body); a.Status != http.StatusNotFound || !strings.Contains(a.Body, want) || !strings.Contains(a.Body, "AB02") {
			t.Errorf("%s: %d %s", body, a.Status, a.Body)
		}
	}
	for body, want := range map[string]string{
		`{"security_settings":{"membersViewAllData":true}}`:                             "security_settings",
		`{"security_settings":` + strings.Replace(switches, "{", `{"x":true,`, 1) + `}`: "security_settings.x",
		`{"security_settings":` + strings.Replace(switches, "false", `"no"`, 1) + `}`:   "security_settings",
	} {
		if a := c.Call("PUT", "/workspaces/default", body); a.Status != http.StatusBadRequest || !strings.Contains(a.Body, want) {
			t.Errorf("%s: %d %s", body, a.Status, a.Body)
		}
	}
	if b.Changes() != 0 {
		t.Error("something was changed")
	}
}

func TestAWorkspaceThatHoldsSomethingIsNotArchivedByAccident(t *testing.T) {
	b := routetest.New(t, workspaces.Add, configs.Add)
	c := b.Root()
	var w item
	c.Must("POST", "/workspaces", `{"name":"a"}`, &w)
	c.Must("POST", "/configs", `{"name":"x","workspace_id":"`+w.ID+`","config":{"retry":{"attempts":1}}}`, nil)
	path := "/workspaces/" + w.ID
	for body, want := range map[string]int{`{"name":"b"}`: 400, `{}`: 400, `{"name":"a"}`: 409} {
		if a := c.Call("DELETE", path, body); a.Status != want {
			t.Errorf("%s: %d %s, want %d", body, a.Status, a.Body, want)
		}
	}
	if a := c.Call("DELETE", "/workspaces/default", `{"name":"Default","force_delete":true}`); a.Status != http.StatusBadRequest {
		t.Errorf("the default workspace: %d %s", a.Status, a.Body)
	}
	c.Must("DELETE", path, `{"name":"a","force_delete":true}`, nil)
	var got item
	if c.Must("GET", path, "", &got); got.Status != "archived" {
		t.Errorf("afterwards it is %s", got.Status)
	}
	for _, call := range [][2]string{{"PUT", `{"name":"x"}`}, {"DELETE", `{"name":"a"}`}} {
		if a := c.Call(call[0], path, call[1]); a.Status != http.StatusConflict {
			t.Errorf("%s of an archived workspace: %d %s", call[0], a.Status, a.Body)
		}
	}
	plain := b.As(access.Identity{Type: access.Session, UserID: "nobody", Workspace: "-", Scopes: []access.Scope{"workspaces.list", "workspaces.read"}})
	if a := plain.Call("GET", "/workspaces?status=archived", ""); a.Status != http.StatusForbidden {
		t.Errorf("archived ones for a member: %d %s", a.Status, a.Body)
	}
	if a := plain.Call("GET", path, ""); a.Status != http.StatusNotFound {
		t.Errorf("an archived one for a member: %d %s", a.Status, a.Body)
	}
}

func TestAnotherWorkspaceIsNotThere(t *testing.T) {
	b := routetest.New(t, workspaces.Add)
	var w item
	b.Root().Must("POST", "/workspaces", `{"name":"a"}`, &w)
	key := b.As(access.Identity{Type: access.WorkspaceService, Scopes: append(access.Scopes(access.WorkspaceService), "workspaces.delete")})
	foreign := b.As(access.Identity{Type: access.OrganisationService, Organisation: "another", Workspace: "-", Scopes: access.Scopes(access.OrganisationService)})
	for name, c := range map[string]*routetest.Caller{"a key of another workspace": key, "another organisation": foreign} {
		for _, call := range [][3]string{
			{"GET", "", ""}, {"PUT", "", `{"name":"x"}`}, {"DELETE", "", `{"name":"a"}`}, {"GET", "/users", ""},
			{"POST", "/users", `{"users":[{"id":"x","role":"member"}]}`}, {"GET", "/users/x", ""}, {"PUT", "/users/x", `{"role":"member"}`}, {"DELETE", "/users/x", ""},
		} {
			if a := c.Call(call[0], "/workspaces/"+w.ID+call[1], call[2]); a.Status != http.StatusNotFound {
				t.Errorf("%s: %s%s: %d %s", name, call[0], call[1], a.Status, a.Body)
			}
		}
	}
	var list struct{ Total int }
	if key.Must("GET", "/workspaces", "", &list); list.Total != 1 {
		t.Errorf("a workspace's key sees %d workspaces, want its own", list.Total)
	}
}

func TestNobodyGivesARoleAboveTheirOwn(t *testing.T) {
	b := routetest.New(t, workspaces.Add)
	for _, id := range []string{"boss", "chief", "hand", "new"} {
		user(t, b, id, map[string]string{"boss": "admin"}[id]+map[bool]string{true: "member"}[id != "boss"])
	}
	root := b.Root()
	root.Must("POST", "/workspaces/default/users", `{"users":[{"id":"chief","role":"manager"},{"id":"hand@example.com","role":"admin"}]}`, nil)
	scopes := access.Scopes(access.WorkspaceUser)
	chief := b.As(access.Identity{Type: access.Session, UserID: "chief", Scopes: scopes})
	for _, tt := range []struct {
		method, path, body string
		want               int
	}{
		{"POST", "", `{"users":[{"id":"new","role":"admin"}]}`, 403},
		{"POST", "", `{"users":[{"id":"new","role":"manager"}]}`, 200},
		{"PUT", "/new", `{"role":"admin"}`, 403},
		{"PUT", "/new", `{"role":"member"}`, 200},
		{"PUT", "/hand", `{"role":"member"}`, 403},
		{"DELETE", "/hand", ``, 403},
		{"POST", "", `{"users":[{"id":"hand","role":"member"}]}`, 403},
		{"POST", "", `{"users":[{"id":"stranger","role":"member"}]}`, 404},
		{"POST", "", `{"users":[]}`, 400},
		{"POST", "", `{"users":null}`, 400},
		{"POST", "", `{"users":[{"id":"new","role":"owner"}]}`, 400},
		{"DELETE", "/new", ``, 200},
		{"DELETE", "/new", ``, 404},
	} {
		if a := chief.Call(tt.method, "/workspaces/default/users"+tt.path, tt.body); a.Status != tt.want {
			t.Errorf("%s %s %s: %d %s, want %d", tt.method, tt.path, tt.body, a.Status, a.Body, tt.want)
		}
	}
	boss := b.As(access.Identity{Type: access.Session, UserID: "boss", Scopes: scopes})
	boss.Must("PUT", "/workspaces/default/users/hand", `{"role":"member"}`, nil)
	var list struct {
		Total int
		Data  []struct{ ID, Role, Object string }
	}
	root.Must("GET", "/workspaces/default/users", "", &list)
	if list.Total != 2 || list.Data[0].Object != "workspace-user" {
		t.Errorf("members %+v", list)
	}
	for query, want := range map[string]int{"?role=manager": 1, "?role=admin": 0, "?email=Hand@example.com": 1} {
		if root.Must("GET", "/workspaces/default/users"+query, "", &list); list.Total != want {
			t.Errorf("%s lists %d, want %d", query, list.Total, want)
		}
	}
}
