package controlplane_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"modelgate/internal/testing/gatewaytest"
)

// TestTimesAreRelativeWhereverTheyAreAccepted sends times relative to now to the bodies and queries
// that have a time: one ninety days ahead is stored as such, one behind is refused.
func TestTimesAreRelativeWhereverTheyAreAccepted(t *testing.T) {
	g := gatewaytest.New(t, gatewaytest.Options{Settings: "version: 1\n", MasterKey: "the master key of a whole test"})
	send := func(method, path, body string) gatewaytest.Response {
		return g.Do(g.Request(method, path, body, "x-gateway-provider", ""))
	}
	create := func(path, body string) string {
		t.Helper()
		res := send("POST", path, body)
		var out struct {
			ID   string
			Slug string
		}
		if err := json.Unmarshal(res.Body, &out); err != nil || res.Status != 200 {
			t.Fatalf("%s: %d %s", path, res.Status, res.Body)
		}
		return out.ID
	}
	create("/integrations", `{"name":"n","slug":"main","ai_provider_id":"openai-compatible","key":"k","workspace_id":"default","configurations":{"custom_host":"`+g.Upstream+`"}}`)
	guardrail := create("/guardrails", `{"name":"g","workspace_id":"default","checks":[{"id":"default.wordCount","parameters":{"maxWords":5}}],"actions":{}}`)
	policy := create("/policies/usage-limits", `{"name":"p","workspace_id":"default",`+everyKey+`,"type":"cost","credit_limit":10,"periodic_reset":"monthly"}`)
	const key = `{"name":"k","workspace_id":"default","scopes":["models.list"],`
	for _, tt := range []struct{ method, path, body, read string }{
		{"POST", "/api-keys/workspace/service", key + `"expires_at":"VALUE"}`, "/api-keys/ID"},
		{"POST", "/api-keys/workspace/service", key + `"rotation_policy":{"next_rotation_at":"VALUE"}}`, "/api-keys/ID"},
		{"PUT", "/providers/main", `{"expires_at":"VALUE"}`, "/providers/main"},
		{"PUT", "/admin/workspaces/default", `{"usage_limits":[{"credit_limit":5,"periodic_reset":"monthly","next_usage_reset_at":"VALUE"}]}`, "/admin/workspaces/default"},
		{"PUT", "/policies/usage-limits/" + policy, `{"next_usage_reset_at":"VALUE"}`, "/policies/usage-limits/" + policy},
	} {
		begin := time.Now()
		res := send(tt.method, tt.path, strings.ReplaceAll(tt.body, "VALUE", "+90d"))
		var out struct{ ID string }
		if err := json.Unmarshal(res.Body, &out); err != nil || res.Status != 200 {
			t.Errorf("%s %s: %d %s", tt.method, tt.path, res.Status, res.Body)
			continue
		}
		got := string(g.Get(strings.Replace(tt.read, "ID", out.ID, 1), "x-gateway-provider", "").Body)
		found := false
		for at := begin.UTC().Truncate(time.Minute); !at.After(time.Now()); at = at.Add(time.Minute) {
			found = found || strings.Contains(got, at.AddDate(0, 0, 90).Format(`"2006-01-02T15:04:`))
		}
		if !found {
			t.Errorf("%s %s in 90 days: %s", tt.method, tt.path, got)
		}
		for _, bad := range []string{"90d", "yesterday", "+999999w", ""} {
			res := send(tt.method, tt.path, strings.ReplaceAll(tt.body, "VALUE", bad))
			if bad == "" && res.Status == 200 { // clears it
				continue
			}
			if res.Status != 400 || !strings.Contains(string(res.Body), "+90d") {
				t.Errorf("%s %s %q: %d %s, want 400 with the forms of a time", tt.method, tt.path, bad, res.Status, res.Body)
			}
		}
	}
	for path, wrong := range map[string]string{
		"/providers/main/health?from=VALUE": "yesterday", "/guardrails/" + guardrail + "/results?from=VALUE": "yesterday",
		"/guardrails/" + guardrail + "/summary?from=VALUE": "yesterday", "/logs?from=VALUE": "yesterday", "/logs/traces?from=VALUE": "yesterday",
		"/logs?to=VALUE&from=2020-01-01": "7x", "/audit-logs?from=VALUE&to=now": "7x", "/audit-logs?start_time=VALUE&end_time=now": "7x",
		"/analytics/groups/model?from=VALUE": "7x", "/analytics/groups/model?from=1h&compare_from=VALUE&compare_to=now-1h": "7x",
		"/analytics/graphs/feedbacks?time_of_generation_min=VALUE": "7x", "/analytics/graphs/cost?from=VALUE": "7x", "/analytics/summary/cache?from=VALUE": "7x",
	} {
		for _, value := range []string{"30m", "now-30m", time.Now().Add(-time.Minute).UTC().Format(time.RFC3339), fmt.Sprint(time.Now().Unix() - 60)} {
			if strings.Contains(path, "compare_from") {
				value = "2h"
			}
			if res := g.Get(strings.Replace(path, "VALUE", url.QueryEscape(value), 1), "x-gateway-provider", ""); res.Status != 200 {
				t.Errorf("%s with %s: %d %s", path, value, res.Status, res.Body)
			}
		}
		name, _, _ := strings.Cut(path, "=VALUE")
		name = name[strings.LastIndexAny(name, "?&")+1:]
		res := g.Get(strings.Replace(path, "VALUE", wrong, 1), "x-gateway-provider", "")
		if res.Status != 400 || !strings.Contains(string(res.Body), `"param":"`+name+`"`) || !strings.Contains(string(res.Body), "7d") {
			t.Errorf("%s with %s: %d %s, want 400 for %s", path, wrong, res.Status, res.Body, name)
		}
	}
}
