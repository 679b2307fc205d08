package controlplane_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"modelgate/internal/testing/gatewaytest"
)

// filterCase is a filter of a list.
type filterCase struct {
	path  string // VALUE stands for the value
	param string // that errors name

	known  string // a value of the caller's own
	others string // a value of another workspace; empty where the kind has none
	status int    // for a value that nothing has
}

// send sends the request of a case. A path that begins with an object is the filters of an
// export.
func (f filterCase) send(g *gatewaytest.Gateway, key, value string) gatewaytest.Response {
	if !strings.HasPrefix(f.path, "{") {
		return g.Get(strings.ReplaceAll(f.path, "VALUE", value), "x-gateway-api-key", key, "x-gateway-provider", "")
	}
	now := time.Now().UTC()
	filters := fmt.Sprintf(`{"time_of_generation_min":%q,"time_of_generation_max":%q,%s`, now.Add(-time.Hour).Format(time.RFC3339), now.Add(time.Hour).Format(time.RFC3339), f.path[1:])
	return g.Post("/logs/exports", `{"requested_data":["id"],"filters":`+strings.ReplaceAll(filters, "VALUE", value)+`}`, "x-gateway-api-key", key, "x-gateway-provider", "")
}

// TestFiltersNameWhatExists sends to every filter that names an object or is one of a set a
// value of the caller, a value that nothing has, and a value of another workspace, which
// must be answered like the second.
func TestFiltersNameWhatExists(t *testing.T) {
	g := gatewaytest.New(t, gatewaytest.Options{Settings: "version: 1\n", MasterKey: "the master key of a whole test"})
	post := func(path, body, member string) string {
		t.Helper()
		res := g.Post(path, body, "x-gateway-provider", "")
		var out map[string]any
		if err := json.Unmarshal(res.Body, &out); err != nil || res.Status != 200 {
			t.Fatalf("POST %s: %d %s", path, res.Status, res.Body)
		}
		if data, ok := out["data"].(map[string]any); ok {
			out = data
		}
		return fmt.Sprint(out[member])
	}
	own := post("/admin/workspaces", `{"name":"team"}`, "id")
	ids := map[string][2]string{} // of the own workspace and of another
	for i, workspace := range []string{own, "default"} {
		slug := []string{"ours", "theirs"}[i]
		post("/integrations", `{"name":"n","slug":"`+slug+`","ai_provider_id":"openai-compatible","key":"k","workspace_id":"`+workspace+`","configurations":{"custom_host":"`+g.Upstream+`"}}`, "id")
		for kind, id := range map[string]string{
			"provider": slug, "workspace": workspace,
			"key":    post("/api-keys/workspace/service", `{"name":"k","workspace_id":"`+workspace+`","scopes":["models.list"]}`, "id"),
			"config": post("/configs", `{"name":"c","workspace_id":"`+workspace+`","config":{"provider":"@`+slug+`"}}`, "slug"),
			"prompt": post("/prompts", `{"name":"p","workspace_id":"`+workspace+`","string":"[{\"role\":\"user\",\"content\":\"x\"}]","parameters":{},"model":"m","virtual_key":"`+slug+`"}`, "slug"),
		} {
			pair := ids[kind]
			pair[i] = id
			ids[kind] = pair
		}
	}
	team := post("/api-keys/workspace/service", `{"name":"reader","workspace_id":"`+own+`","scopes":["logs.list","logs.view","logs.export","analytics.view"]}`, "key")
	waitKnown(t, g, team)
	named := func(path, param, kind string) filterCase {
		return filterCase{path, param, ids[kind][0], ids[kind][1], http.StatusNotFound}
	}
	set := func(path, param, known string) filterCase {
		return filterCase{path, param, known, "", http.StatusBadRequest}
	}
	cases := []filterCase{
		named("/logs?prompt=VALUE", "prompt", "prompt"), named("/logs?prompt=VALUE@1", "prompt", "prompt"), named("/logs?config=VALUE@1", "config", "config"), named("/logs?api_key_ids=VALUE", "api_key_ids", "key"),
		named("/logs?workspace_id=VALUE", "workspace_id", "workspace"), named("/logs?provider=openai,VALUE", "provider", "provider"),
		set("/logs?error_code=VALUE", "error_code", "rate_limited"), set("/logs?error_code=status_404,VALUE", "error_code", "timeout"), set("/logs?cache_status=VALUE", "cache_status", "HIT,MISS"),
		set("/logs?order_by=VALUE", "order_by", "cost"), set("/logs?order=VALUE", "order", "asc"), set("/logs?status=4xx,VALUE", "status", "200,5xx"), set("/logs?from=VALUE", "from", "7d"),
		set("/logs?cost_nano_usd_min=VALUE", "cost_nano_usd_min", "5"), set("/logs?max_latency_ms=VALUE", "max_latency_ms", "5"),
		{"/analytics/graphs/cost?configs=VALUE", "configs", ids["config"][0], ids["config"][1], http.StatusNotFound},
		named("/analytics/graphs/cost?workspace_slug=VALUE", "workspace_id", "workspace"),
		named("/logs/traces?config=VALUE", "config", "config"), named("/logs/traces?api_key=VALUE", "api_key", "key"),
		named("/logs?workspace=VALUE", "workspace", "workspace"), named("/logs?provider=VALUE", "provider", "provider"),
		named("/logs?api_key=VALUE", "api_key", "key"), named("/logs?config=VALUE", "config", "config"),
		set("/logs?status=VALUE", "status", "5xx"), set("/logs?outcome=VALUE", "outcome", "error"), set("/logs?operation=VALUE", "operation", "chat"), set("/logs?stream=VALUE", "stream", "true"),
	}
	for _, graph := range []string{"/analytics/groups/model?", "/analytics/graphs/requests?", "/analytics/summary/cache?"} {
		cases = append(cases, named(graph+"api_key_ids=VALUE", "api_key_ids", "key"), named(graph+"configs=VALUE", "configs", "config"), named(graph+"prompt_slug=VALUE", "prompt_slug", "prompt"),
			named(graph+"provider=VALUE", "provider", "provider"), named(graph+"virtual_keys=VALUE", "virtual_keys", "provider"), set(graph+"outcome=VALUE", "outcome", "success"), set(graph+"status_code=VALUE", "status_code", "200"))
	}
	for _, graph := range []string{"", "/weighted", "/scores", "/ai-models"} {
		cases = append(cases, named("/analytics/graphs/feedbacks"+graph+"?api_key_ids=VALUE", "api_key_ids", "key"))
	}
	for name, kind := range map[string]string{"api_key_ids": "key", "configs": "config", "prompt_slug": "prompt", "provider": "provider", "virtual_keys": "provider"} {
		cases = append(cases, named(`{"`+name+`":"VALUE"}`, "filters."+name, kind))
	}
	cases = append(cases, set(`{"error_code":"VALUE"}`, "filters.error_code", "timeout"), set(`{"status":"VALUE"}`, "filters.status", "4xx"), set(`{"cache_status":"VALUE"}`, "filters.cache_status", "MISS"),
		named(`{"prompt":"VALUE"}`, "filters.prompt", "prompt"), named(`{"config":"VALUE@1"}`, "filters.config", "config"), named(`{"api_key":"VALUE"}`, "filters.api_key", "key"))
	cases = append(cases, set(`{"outcome":"VALUE"}`, "filters.outcome", "error"), set(`{"status_code":"VALUE"}`, "filters.status_code", "200"))
	for _, tt := range cases {
		if res := tt.send(g, team, tt.known); res.Status != 200 {
			t.Errorf("%s of %s: %d %s, want 200", tt.path, tt.known, res.Status, res.Body)
		}
		unknown := tt.send(g, team, "nothing")
		if unknown.Status != tt.status || !strings.Contains(string(unknown.Body), `"param":"`+tt.param) {
			t.Errorf("%s of nothing: %d %s, want %d for %s", tt.path, unknown.Status, unknown.Body, tt.status, tt.param)
		}
		if tt.others == "" {
			continue
		}
		others := tt.send(g, team, tt.others)
		if got := strings.ReplaceAll(string(others.Body), tt.others, "nothing"); others.Status != unknown.Status || got != string(unknown.Body) {
			t.Errorf("%s of another workspace: %d %s, want as of nothing: %s", tt.path, others.Status, got, unknown.Body)
		}
	}
	for _, tt := range []filterCase{ // of the organisation
		{"/audit-logs?start_time=2020-01-01T00:00:00Z&end_time=2099-01-01T00:00:00Z&workspace_id=VALUE", "workspace_id", own, "", http.StatusNotFound},
		{"/audit-logs?start_time=2020-01-01T00:00:00Z&end_time=2099-01-01T00:00:00Z&user_id=VALUE", "user_id", ids["key"][0], "", http.StatusNotFound},
		{"/audit-logs?start_time=2020-01-01T00:00:00Z&end_time=2099-01-01T00:00:00Z&user_id=VALUE", "user_id", "bootstrap", "", http.StatusNotFound},
		{"/audit-logs?start_time=2020-01-01T00:00:00Z&end_time=2099-01-01T00:00:00Z&resource_type=VALUE", "resource_type", "guardrail", "", http.StatusBadRequest},
		{"/audit-logs?start_time=2020-01-01T00:00:00Z&end_time=2099-01-01T00:00:00Z&action=VALUE", "action", "budget_exhausted", "", http.StatusBadRequest},
		{"/audit-logs?from=7d&to=now&action=VALUE", "action", "skip", "", http.StatusBadRequest},
		{"/audit-logs?from=7d&to=now&action=VALUE", "action", "stop", "", http.StatusBadRequest},
		{"/audit-logs?start_time=2020-01-01T00:00:00Z&end_time=2099-01-01T00:00:00Z&method=VALUE", "method", "DELETE", "", http.StatusBadRequest},
		{"/audit-logs?start_time=2020-01-01T00:00:00Z&end_time=2099-01-01T00:00:00Z&user_type=VALUE", "user_type", "system", "", http.StatusBadRequest},
		{"/api-keys?created_by=VALUE", "created_by", ids["key"][0], "", http.StatusNotFound},
		{"/api-keys?workspace_id=VALUE", "workspace_id", own, "", http.StatusNotFound},
		{"/api-keys?status=VALUE", "status", "disabled", "", http.StatusBadRequest},
		{"/configs?workspace_id=VALUE", "workspace_id", own, "", http.StatusNotFound},
		{"/configs?status=VALUE", "status", "archived", "", http.StatusBadRequest},
		{"/prompts?workspace_id=VALUE", "workspace_id", own, "", http.StatusNotFound},
		{"/integrations?workspace_id=VALUE", "workspace_id", own, "", http.StatusNotFound},
		{"/providers?workspace_id=VALUE", "workspace_id", own, "", http.StatusNotFound},
		{"/guardrails?workspace_id=VALUE", "workspace_id", own, "", http.StatusNotFound},
		{"/policies/usage-limits?workspace_id=VALUE", "workspace_id", own, "", http.StatusNotFound},
		{"/logs/exports?workspace_id=VALUE", "workspace_id", own, "", http.StatusNotFound},
		{"/feedback?workspace=VALUE", "workspace", own, "", http.StatusNotFound},
		{"/admin/users?role=VALUE", "role", "owner", "", http.StatusBadRequest},
		{"/admin/users/invites?status=VALUE", "status", "pending", "", http.StatusBadRequest},
		{"/workspaces?status=VALUE", "status", "archived", "", http.StatusBadRequest},
		{"/deployments?type=VALUE", "type", "production", "", http.StatusBadRequest},
	} {
		if res := tt.send(g, gatewaytest.Key, tt.known); res.Status != 200 {
			t.Errorf("%s of %s: %d %s, want 200", tt.path, tt.known, res.Status, res.Body)
		}
		if res := tt.send(g, gatewaytest.Key, "nothing"); res.Status != tt.status || !strings.Contains(string(res.Body), `"param":"`+tt.param) {
			t.Errorf("%s of nothing: %d %s, want %d for %s", tt.path, res.Status, res.Body, tt.status, tt.param)
		}
	}
	for path, param := range map[string]string{ // versions that there are not
		"/logs?config=" + ids["config"][0] + "@2": "config", "/logs?prompt=" + ids["prompt"][0] + "@9999999999": "prompt", "/logs?config=" + ids["config"][0] + "@0": "config",
		"/analytics/groups/model?configs=" + ids["config"][0] + "@7": "configs", `{"prompt":"` + ids["prompt"][0] + `@2"}`: "filters.prompt",
	} {
		res := (filterCase{path: path}).send(g, team, "")
		if want := map[bool]int{true: http.StatusBadRequest, false: http.StatusNotFound}[strings.HasSuffix(path, "@0")]; res.Status != want ||
			!strings.Contains(string(res.Body), `"param":"`+param+`"`) || want == http.StatusNotFound && !strings.Contains(string(res.Body), "/versions") {
			t.Errorf("%s: %d %s, want %d for %s", path, res.Status, res.Body, want, param)
		}
	}
	for _, path := range []string{ // free values
		"/logs?model=nothing", "/logs?trace_id=nothing", "/logs?target=nothing", "/logs?metadata.a=nothing", "/logs?upstream_model=nothing",
		"/analytics/graphs/cost?model=nothing&trace_id=nothing&target=nothing", `/analytics/graphs/cost?metadata=%7B%22a%22%3A%22nothing%22%7D`, `{"model":"nothing","trace_id":"nothing"}`,
	} {
		if res := (filterCase{path: path}).send(g, team, ""); res.Status != 200 || strings.Contains(string(res.Body), `"model":"`) {
			t.Errorf("%s: %d %s, want 200 without an element", path, res.Status, res.Body)
		}
	}
}

// waitKnown waits until the gateway knows a key.
func waitKnown(t *testing.T, g *gatewaytest.Gateway, key string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); g.Get("/auth/me", "x-gateway-api-key", key, "x-gateway-provider", "").Status == http.StatusUnauthorized; {
		if time.Now().After(end) {
			t.Fatal("the gateway does not know the key")
		}
		<-time.After(5 * time.Millisecond)
	}
}
