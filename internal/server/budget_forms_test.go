package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

// TestBudgetsAreWrittenInOneWayForEveryObject sends budgets of every object as an object and
// as a list of one, reads them, and sends wrong ones.
func TestBudgetsAreWrittenInOneWayForEveryObject(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	mustAddUser(t, data, "u-ann", "ann@example.com")
	g := gatewaytest.New(t, gatewaytest.Options{Data: data, MasterKey: "the master key of a test of budgets"})
	mustDo(t, g, "POST", "/integrations", `{"name":"I","slug":"main","ai_provider_id":"openai","key":"sk-1234567890","create_default_provider":false}`)
	mustDo(t, g, "PUT", "/integrations/main/workspaces", `{"workspaces":[{"id":"default","enabled":true}],"create_default_provider":false}`)
	id := func(res gatewaytest.Response) string {
		var made struct{ ID, Slug string }
		if err := json.Unmarshal(res.Body, &made); err != nil {
			t.Fatal(err)
		}
		return made.ID
	}
	key := id(mustDo(t, g, "POST", "/api-keys/workspace/service", `{"name":"k","workspace_id":"default","scopes":["completions.write"]}`))
	workspace := id(mustDo(t, g, "POST", "/admin/workspaces", `{"name":"w"}`))
	mustDo(t, g, "POST", "/providers", `{"name":"p","slug":"p","integration_id":"main","workspace_id":"default"}`)
	for _, tt := range []struct {
		name, method, path, body, read string
		field                          string // in errors, before usage_limits
		list                           bool   // the object may have several budgets
	}{
		{"new key", "POST", "/api-keys/workspace/service", `{"name":"n","workspace_id":"default","scopes":["completions.write"],%s}`, "", "", false},
		{"key", "PUT", "/api-keys/" + key, `{%s}`, "/api-keys/" + key, "", false},
		{"user", "PUT", "/admin/users/u-ann", `{%s}`, "/admin/users/u-ann", "", false},
		{"new workspace", "POST", "/admin/workspaces", `{"name":"n",%s}`, "", "", true},
		{"workspace", "PUT", "/admin/workspaces/" + workspace, `{%s}`, "/admin/workspaces/" + workspace, "", true},
		{"provider", "PUT", "/providers/p?workspace_id=default", `{%s}`, "/providers/p?workspace_id=default", "", false},
		{"workspace of an integration", "PUT", "/integrations/main/workspaces", `{"workspaces":[{"id":"default","enabled":true,%s}]}`, "/integrations/main/workspaces", "workspaces[0].", true},
		{"all workspaces of an integration", "PUT", "/integrations/main/workspaces", `{"global_workspace_access":{"enabled":true,%s}}`, "/integrations/main/workspaces", "global_workspace_access.", true},
	} {
		for n, form := range []string{`"usage_limits":{"credit_limit":%d7}`, `"usage_limits":[{"credit_limit":%d7}]`} {
			limit := fmt.Sprintf(form, n+1)
			mustDo(t, g, tt.method, tt.path, fmt.Sprintf(tt.body, limit))
			if tt.read == "" {
				continue
			}
			if got := string(mustDo(t, g, "GET", tt.read, "").Body); !strings.Contains(got, fmt.Sprintf(`"credit_limit":%d7`, n+1)) {
				t.Errorf("%s: after %s it is %s", tt.name, limit, got)
			}
		}
		wrong := map[string]string{
			`"usage_limits":{"credit_limit":0.5}`:                        "credit_limit",
			`"usage_limits":[{"credit_limit":5,"alert_threshold":6}]`:    "alert_threshold",
			`"usage_limits":{"credit_limit":5,"time_zone":"Nowhere"}`:    "time_zone",
			`"usage_limits":[{"credit_limit":5,"periodic_rest":"week"}]`: "periodic_rest",
		}
		if !tt.list {
			wrong[`"usage_limits":[{"credit_limit":5},{"credit_limit":6,"type":"tokens"}]`] = ""
		}
		for limit, field := range wrong {
			res := g.Do(g.Request(tt.method, tt.path, fmt.Sprintf(tt.body, limit)))
			var answer struct {
				Error struct{ Param string }
			}
			if err := json.Unmarshal(res.Body, &answer); err != nil {
				t.Fatal(err)
			}
			param := answer.Error.Param
			if res.Status != 400 || !strings.HasPrefix(param, tt.field+"usage_limits") || !strings.HasSuffix(param, field) {
				t.Errorf("%s: %s: %d %s, want 400 about %susage_limits…%s", tt.name, limit, res.Status, res.Body, tt.field, field)
			}
		}
	}
}
