package controlplane_test

import (
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/controlplane"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/testing/routetest"
)

func TestLimitsAreRefusedWhereTheyAreOff(t *testing.T) {
	h := newOrganisation(t)
	h.Off = route.DisabledFeatures{route.UsageLimits: true}
	var i struct{ ID string }
	h.root.Must("POST", "/integrations", `{"name":"i","ai_provider_id":"openai","key":"sk-secret-of-a-test"}`, &i)
	const budget, rates = `"usage_limits":[{"credit_limit":5}]`, `"rate_limits":[{"type":"requests","unit":"rpm","value":5}]`
	for _, tt := range []struct {
		path, body string
		param      string // of the refusal; empty where there is none
	}{
		{"/workspaces/default", `{"description":"d"}`, ""},
		{"/workspaces/default", `{` + budget + `}`, "usage_limits"},
		{"/workspaces/default", `{` + rates + `}`, "rate_limits"},
		{"/workspaces/default", `{"usage_limits":null,"rate_limits":[ ]}`, ""},
		{"/admin/users/nobody", `{` + budget + `}`, "usage_limits"},
		{"/admin/users/nobody", `{` + rates + `}`, "rate_limits"},
		{"/admin/users/nobody", `{"reset_usage":true}`, "reset_usage"},
		{"/integrations/" + i.ID + "/workspaces", `{"workspaces":[{"id":"default","enabled":true}]}`, ""},
		{"/integrations/" + i.ID + "/workspaces", `{"workspaces":[{"id":"x","enabled":true},{"id":"default","enabled":true,` + budget + `}]}`, "workspaces[1].usage_limits"},
		{"/integrations/" + i.ID + "/workspaces", `{"workspaces":[{"id":"default","enabled":true,"reset_usage":true}]}`, "workspaces[0].reset_usage"},
		{"/integrations/" + i.ID + "/workspaces", `{"workspaces":[{"id":"default","enabled":true,"reset_usage":false}]}`, ""},
		{"/integrations/" + i.ID + "/workspaces", `{"global_workspace_access":{"enabled":true,` + rates + `}}`, "global_workspace_access.rate_limits"},
	} {
		a := h.root.Call("PUT", tt.path, tt.body)
		if tt.param == "" && a.Status != http.StatusOK {
			t.Errorf("%s: %d %s", tt.body, a.Status, a.Body)
		}
		if tt.param != "" && (a.Status != http.StatusForbidden || !strings.Contains(a.Body, `"param":"`+tt.param+`"`) || !strings.Contains(a.Body, "USAGE_LIMITS_ENABLED")) {
			t.Errorf("%s: %d %s, want a refusal of %s", tt.body, a.Status, a.Body, tt.param)
		}
	}
}

func TestKeysAreRefusedWhereTheirAccessIsOff(t *testing.T) {
	h := newOrganisation(t)
	h.Off = route.DisabledFeatures{route.APIAccess: true}
	for name, c := range map[string]*routetest.Caller{"the installation's": h.root, "a service's": h.service(), "a person's": h.key("admin")} {
		for _, call := range [][3]string{{"GET", "/configs", ""}, {"GET", "/api-keys/self", ""}, {"POST", "/configs", `{"name":"c","config":{},"workspace_id":"default"}`}} {
			if a := c.Call(call[0], call[1], call[2]); a.Status != http.StatusForbidden || !strings.Contains(a.Body, "API_ACCESS_ENABLED") {
				t.Errorf("%s key: %s %s: %d %s", name, call[0], call[1], a.Status, a.Body)
			}
		}
	}
	h.session("admin").Must("GET", "/configs", "", nil)
	if a := h.Nobody().Call("GET", "/configs", ""); a.Status != http.StatusUnauthorized {
		t.Errorf("nobody: %d %s", a.Status, a.Body)
	}
}

// A route that is added to a part of the gateway can be disabled with it.
func TestAFeatureIsOffWithAllItsRoutes(t *testing.T) {
	found := make(map[route.Feature]int)
	for _, r := range controlplane.New(route.Deps{Version: "test"}, controlplane.Families{}).Routes() {
		f, ok := map[string]route.Feature{
			"Guardrails": route.Guardrails, "Log exports": route.DataExports, "Audit log": route.AuditLogs, "Policies": route.Policies,
		}[r.Tag]
		if !ok {
			continue
		}
		for _, p := range r.Paths() {
			found[f]++
			if (route.DisabledFeatures{f: true}).CheckPath(p) == nil {
				t.Errorf("%s %s is served with %s=OFF", r.Method, p, f)
			}
		}
	}
	if len(found) != 4 {
		t.Errorf("routes of each feature: %v, want some of four", found)
	}
}
