package organisations_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/controlplane/guardrails"
	"modelgate/internal/controlplane/organisations"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
	"modelgate/internal/testing/routetest"
)

type organisation struct {
	ID, Slug, Name, Object string
	Owner                  *string `json:"owner_id"`
	Features               map[string]bool
	Settings               struct {
		Security    map[string]bool `json:"security_settings"`
		Overridable []string        `json:"overridable_sections"`
		TTL         *int64          `json:"user_api_key_ttl"`
		Logging     string          `json:"request_logging"`
		Block       bool            `json:"block_inline_config"`
		Denied      []string        `json:"denied_fields"`
	}
}

func read(c *routetest.Caller) organisation {
	var o organisation
	c.Must("GET", "/organisation", "", &o)
	return o
}

func TestAnOrganisationIsReadWithEveryEffectiveSwitch(t *testing.T) {
	c := routetest.New(t, organisations.Routes{}.Add).Root()
	o := read(c)
	if o.ID != store.DefaultOrganisation || o.Slug != "default" || o.Object != "organisation" || o.Owner != nil {
		t.Errorf("read %+v", o)
	}
	if len(o.Settings.Security) != len(access.RolePermissions(nil).Effective()) || !o.Settings.Security["membersViewAllData"] || o.Settings.Security["membersWritePrompts"] {
		t.Errorf("switches %v", o.Settings.Security)
	}
	if o.Settings.Logging != "" || o.Settings.Overridable == nil || o.Settings.Denied == nil || !o.Features["SCIM_ENABLED"] || len(o.Features) != 7 {
		t.Errorf("settings %+v, features %v", o.Settings, o.Features)
	}
}

func TestAChangeOfSettingsTouchesWhatItNames(t *testing.T) {
	c := routetest.New(t, organisations.Routes{}.Add).Root()
	for _, step := range []struct {
		body string
		want func(organisation) bool
	}{
		{`{"name":"Acme"}`, func(o organisation) bool { return o.Name == "Acme" && o.Settings.Security["membersViewPrompts"] }},
		{`{"settings":{"security_settings":{"membersViewPrompts":false},"overridable_sections":["prompts","logs"]}}`, func(o organisation) bool {
			return o.Name == "Acme" && !o.Settings.Security["membersViewPrompts"] && len(o.Settings.Overridable) == 2
		}},
		{`{"settings":{"security_settings":{"membersWritePrompts":true},"user_api_key_ttl":60,"denied_fields":["request"]}}`, func(o organisation) bool {
			return !o.Settings.Security["membersViewPrompts"] && o.Settings.Security["membersWritePrompts"] && *o.Settings.TTL == 60 && o.Settings.Denied[0] == "request"
		}},
		{`{"settings":{"user_api_key_ttl":null,"request_logging":"none","block_inline_config":true}}`, func(o organisation) bool {
			return o.Settings.TTL == nil && o.Settings.Logging == "none" && o.Settings.Block && len(o.Settings.Denied) == 1
		}},
		{`{"settings":{"security_settings":null,"overridable_sections":null,"denied_fields":null,"request_logging":null}}`, func(o organisation) bool {
			return o.Settings.Security["membersViewPrompts"] && !o.Settings.Security["membersWritePrompts"] && len(o.Settings.Overridable)+len(o.Settings.Denied) == 0 &&
				o.Settings.Logging == "" && o.Settings.Block
		}},
	} {
		c.Must("PUT", "/admin/organisation", step.body, nil)
		if o := read(c); !step.want(o) {
			t.Errorf("after %s: %+v", step.body, o)
		}
	}
}

func TestInvalidSettingsAreReportedAndChangeNothing(t *testing.T) {
	b := routetest.New(t, organisations.Routes{}.Add)
	c := b.Root()
	before := read(c)
	for body, want := range map[string]string{
		`{"name":""}`:   "name",
		`{"name":null}`: "name",
		`{"slug":"x"}`:  "slug",
		`{"settings":{"security_settings":{"ownersViewLogs":true}}}`:          "settings.security_settings.ownersViewLogs",
		`{"settings":{"security_settings":{"membersUpdateWs":true}}}`:         "settings.security_settings.membersUpdateWs",
		`{"settings":{"security_settings":{"membersViewPrompts":"no"}}}`:      "settings.security_settings.membersViewPrompts",
		`{"settings":{"overridable_sections":["prompts","none"]}}`:            "settings.overridable_sections",
		`{"settings":{"user_api_key_ttl":0}}`:                                 "settings.user_api_key_ttl",
		`{"settings":{"user_api_key_ttl":90,"user_api_key_max_ttl":60}}`:      "settings.user_api_key_ttl",
		`{"settings":{"request_logging":"some"}}`:                             "settings.request_logging",
		`{"settings":{"denied_fields":["` + strings.Repeat("x", 200) + `"]}}`: "settings.denied_fields",
		`{"settings":{"unknown":1}}`:                                          "settings",
		`{"name":"Acme","settings":{"security_settings":{"nonsense":true}}}`:  "settings.security_settings.nonsense",
		`{"settings":{"security_settings":{"organisationAdminsView":false}}}`: "settings.security_settings.organisationAdminsView",
	} {
		if a := c.Call("PUT", "/organisation", body); a.Status != http.StatusBadRequest || !strings.Contains(a.Body, `"param":"`+want) || !strings.Contains(a.Body, "AB01") {
			t.Errorf("%.80s: %d %s, want %s", body, a.Status, a.Body, want)
		}
	}
	if after := read(c); after.Name != before.Name || b.Changes() != 0 {
		t.Errorf("%d changes, read %+v", b.Changes(), after)
	}
}

func TestAnOrganisationIsItsOwnAlone(t *testing.T) {
	b := routetest.New(t, organisations.Routes{}.Add)
	b.Exec(`INSERT INTO organisations (id, slug, name, owner_id, settings, data_key, status, created_at, updated_at) VALUES ('elsewhere', 'elsewhere', 'Else', '', '{}', '', 'active', 0, 0)`)
	foreign := b.As(access.Identity{Type: access.OrganisationService, Organisation: "elsewhere", Workspace: "-", Scopes: access.Scopes(access.OrganisationService)})
	foreign.Must("PUT", "/organisation", `{"name":"Mine"}`, nil)
	if o := read(foreign); o.ID != "elsewhere" || o.Name != "Mine" {
		t.Errorf("another's key reads %+v", o)
	}
	if o := read(b.Root()); o.Name != "Default" {
		t.Errorf("the first one is called %q", o.Name)
	}
	workspace := b.As(access.Identity{Type: access.WorkspaceService, Scopes: access.Scopes(access.WorkspaceService)})
	for _, call := range [][2]string{{"GET", ""}, {"PUT", `{"name":"x"}`}} {
		if a := workspace.Call(call[0], "/organisation", call[1]); a.Status != http.StatusForbidden || !strings.Contains(a.Body, "AB03") {
			t.Errorf("a workspace's key: %s: %d %s", call[0], a.Status, a.Body)
		}
	}
}

func TestDefaultGuardrailsOfTheOrganisation(t *testing.T) {
	b := routetest.New(t, organisations.Routes{}.Add, guardrails.Routes{}.Add)
	c := b.Root()
	const checks = `,"checks":[{"id":"default.contains"}],"actions":{}}`
	var wide, local struct{ ID, Slug string }
	c.Must("POST", "/guardrails", `{"name":"wide","organisation_id":"default"`+checks, &wide)
	c.Must("POST", "/guardrails", `{"name":"local","workspace_id":"default"`+checks, &local)
	for _, path := range []string{"/admin/organisation/defaults", "/organisation/defaults"} {
		for _, field := range []string{"input_guardrails", "output_guardrails"} {
			c.Must("PUT", path, `{"`+field+`":["`+wide.Slug+`","`+wide.ID+`"]}`, nil)
			var got map[string][]struct{ ID, Slug string }
			c.Must("GET", path, "", &got)
			if list := got[field]; len(list) != 1 || list[0] != wide {
				t.Errorf("%s of %s: read %v, want %v", field, path, list, wide)
			}
			if a := c.Call("PUT", path, `{"`+field+`":["`+local.Slug+`"]}`); a.Status != http.StatusBadRequest || !strings.Contains(a.Body, field+"[0]") {
				t.Errorf("a guardrail of a workspace in %s: %d %s", field, a.Status, a.Body)
			}
			if a := c.Call("PUT", path, `{"`+field+`":["nothing"]}`); a.Status != http.StatusNotFound || !strings.Contains(a.Body, "AB02") {
				t.Errorf("an unknown guardrail in %s: %d %s", field, a.Status, a.Body)
			}
			if a := c.Call("DELETE", "/guardrails/"+wide.ID, ""); a.Status != http.StatusConflict || !strings.Contains(a.Body, field) {
				t.Errorf("archiving a guardrail of %s: %d %s", field, a.Status, a.Body)
			}
			c.Must("PUT", path, `{"`+field+`":null}`, nil)
		}
	}
	c.Must("DELETE", "/guardrails/"+wide.ID, "", nil)
	names := b.Query(`SELECT resource_type || ' ' || action FROM audit_logs WHERE resource_type = 'organisation'`)
	if !slices.Contains(names, "organisation update") {
		t.Errorf("audit log %v", names)
	}
}
