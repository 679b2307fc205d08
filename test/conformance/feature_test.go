package conformance

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// audited is how the audit log of the last day is read.
func audited() string {
	now := time.Now().UTC()
	return fmt.Sprintf("/v1/audit-logs?start_time=%s&end_time=%s", now.Add(-24*time.Hour).Format(time.RFC3339), now.Add(time.Hour).Format(time.RFC3339))
}

// off sends a request and wants it refused because of a variable.
func (g *gateway) off(t *testing.T, variable, method, path, body string) {
	t.Helper()
	got := g.do(t, method, path, body, "x-gateway-api-key", bootstrapKey)
	if got.status != http.StatusForbidden || !strings.Contains(string(got.body), variable) {
		t.Errorf("%s %s: status %d, want 403 with %s: %.300s", method, path, got.status, variable, got.body)
	}
}

func TestFeaturesAreTurnedOff(t *testing.T) {
	const routing = `{"provider":"openai-compatible","custom_host":"HOST","api_key":"k","input_guardrails":[{"default.contains":{"words":["x"]},"deny":true}]}`
	const output = `{"provider":"openai-compatible","custom_host":"HOST","api_key":"k","output_guardrails":[{"default.contains":{"words":["zebra"]},"deny":true}]}`
	const denied = `{"name":"x","workspace_id":"default","config":{"retry":{"attempts":1}}}`
	for _, tt := range []struct {
		number, variable, method, path, body string
		further                              func(t *testing.T, g *gateway)
	}{
		{"S-539", "GUARDRAILS_ENABLED", "GET", "/v1/guardrails", "", func(t *testing.T, g *gateway) {
			for _, path := range []string{"/v1/guardrails/x", "/v1/guardrails/results", "/v1/guardrail-modules", "/v1/guardrail-credentials", "/v1/workspace-exclusions", "/v1/admin/organisation/defaults"} {
				g.off(t, "GUARDRAILS_ENABLED", "GET", path, "")
			}
			p := newProvider(t, nil)
			chat := modelRoutes[0]
			for _, config := range []string{routing, output} {
				p.forget()
				g.do(t, "POST", chat.path, chat.body, "x-gateway-api-key", bootstrapKey, "x-gateway-config", strings.ReplaceAll(config, "HOST", p.url)).wantOK(t)
				p.only(t)
			}
		}},
		{"S-540", "API_ACCESS_ENABLED", "GET", "/v1/configs", "", func(t *testing.T, g *gateway) {
			g.off(t, "API_ACCESS_ENABLED", "POST", "/v1/configs", denied)
			p := newProvider(t, nil)
			chat := modelRoutes[0]
			g.do(t, "POST", chat.path, chat.body, to(p)...).wantOK(t)
		}},
		{"S-541", "DATA_EXPORTS_ENABLED", "GET", "/v1/logs/exports", "", func(t *testing.T, g *gateway) {
			g.off(t, "DATA_EXPORTS_ENABLED", "POST", "/v1/logs/exports", "{}")
			g.off(t, "DATA_EXPORTS_ENABLED", "POST", "/v1/logs/exports/x/start", "{}")
			g.off(t, "DATA_EXPORTS_ENABLED", "GET", "/v1/logs/exports/x/download", "")
			g.off(t, "DATA_EXPORTS_ENABLED", "GET", "/v1/logs/exports/x/file?expires=99999999999&signature=0", "")
			g.do(t, "GET", "/v1/logs", "", "x-gateway-api-key", bootstrapKey).wantOK(t)
		}},
		{"S-542", "USAGE_LIMITS_ENABLED", "POST", "/v1/api-keys/workspace/service",
			`{"name":"x","scopes":["models.list"],"workspace_id":"default","usage_limits":{"credit_limit":5}}`, func(t *testing.T, g *gateway) {
				g.off(t, "USAGE_LIMITS_ENABLED", "PUT", "/v1/admin/workspaces/default", `{"rate_limits":[{"type":"requests","unit":"rpm","value":1}]}`)
				for _, body := range []string{`{"workspaces":[{"id":"default","enabled":true},{"id":"x","enabled":true,"usage_limits":[{"credit_limit":5}]}]}`, `{"global_workspace_access":{"enabled":true,"rate_limits":[{"type":"requests","unit":"rpm","value":1}]}}`} {
					g.off(t, "USAGE_LIMITS_ENABLED", "PUT", "/v1/integrations/some/workspaces", body)
				}
				g.do(t, "PUT", "/v1/admin/workspaces/default", `{"description":"x","usage_limits":null}`, "x-gateway-api-key", bootstrapKey).wantOK(t)
			}},
		{"S-543", "AUDIT_LOGS_ENABLED", "GET", audited(), "", nil},
		{"S-544", "SCIM_ENABLED", "GET", "/v1/scim/workspaces", "", func(t *testing.T, g *gateway) {
			g.off(t, "SCIM_ENABLED", "GET", "/v1/scim/v2/Users", "")
			g.off(t, "SCIM_ENABLED", "GET", "/scim/v2/Users", "")
		}},
		{"S-545", "POLICY_ENABLED", "GET", "/v1/policies/rate-limits", "", func(t *testing.T, g *gateway) {
			g.off(t, "POLICY_ENABLED", "POST", "/v1/policies/usage-limits", "{}")
		}},
	} {
		prove(t, tt.number, tt.variable+"=OFF", func(t *testing.T) {
			g := launchFor(t, "version: 1\n", tt.variable+"=OFF", "MODELGATE_TRUSTED_HOSTS=127.0.0.1")
			g.off(t, tt.variable, tt.method, tt.path, tt.body)
			if tt.further != nil {
				tt.further(t, g)
			}
		})
	}
}

func TestPeopleStayWithoutAccessByKeys(t *testing.T) {
	prove(t, "S-540", "people still administer", func(t *testing.T) {
		h := populate(t)
		own, _ := h.as(t, h.sessions["member"], "POST", "/v1/api-keys/workspace/user", `{"name":"own","workspace_id":"default","scopes":["configs.list"]}`).wantOK(t).object(t)["key"].(string)
		h.as(t, own, "GET", "/v1/configs", "").wantOK(t)
		h.again(t, "API_ACCESS_ENABLED=OFF")
		if got := h.as(t, own, "GET", "/v1/configs", ""); got.status != http.StatusForbidden || !strings.Contains(string(got.body), "API_ACCESS_ENABLED") {
			t.Errorf("a person's key lists configs with status %d: %.300s", got.status, got.body)
		}
		h.off(t, "API_ACCESS_ENABLED", "GET", "/v1/configs", "")
		h.do(t, "GET", "/v1/configs", "", "x-gateway-api-key", h.sessions["member"]).wantOK(t)
		h.do(t, "GET", "/v1/admin/organisation", "", "x-gateway-api-key", h.sessions["admin"]).wantOK(t)
	})
}

func TestNothingIsAuditedWhereTheAuditLogIsOff(t *testing.T) {
	prove(t, "S-543", "changes made while it was off are not reported later", func(t *testing.T) {
		g := launchFor(t, "version: 1\n", "AUDIT_LOGS_ENABLED=OFF")
		g.do(t, "PUT", "/v1/admin/workspaces/default", `{"description":"unseen"}`, "x-gateway-api-key", bootstrapKey).wantOK(t)
		if got := g.do(t, "PUT", "/v1/admin/workspaces/absent", `{"description":"unseen"}`, "x-gateway-api-key", bootstrapKey); got.status != http.StatusNotFound {
			t.Errorf("status %d", got.status)
		}
		g.again(t)
		g.do(t, "PUT", "/v1/admin/workspaces/default", `{"description":"seen"}`, "x-gateway-api-key", bootstrapKey).wantOK(t)
		got := g.do(t, "GET", audited(), "", "x-gateway-api-key", bootstrapKey).wantOK(t)
		if strings.Contains(string(got.body), "unseen") || !strings.Contains(string(got.body), "seen") {
			t.Errorf("the audit log: %s", got.body)
		}
	})
}

func TestOnlyTheExactValueTurnsFeaturesOff(t *testing.T) {
	paths := map[string]string{"GUARDRAILS_ENABLED": "/v1/guardrails", "API_ACCESS_ENABLED": "/v1/configs", "AUDIT_LOGS_ENABLED": audited()}
	for _, value := range []string{"off", "Off", "false", "0", " OFF", "No", "disabled"} {
		prove(t, "S-546", fmt.Sprintf("%q leaves it on and is warned of", value), func(t *testing.T) {
			var env []string
			for variable := range paths {
				env = append(env, variable+"="+value)
			}
			g := launchFor(t, "version: 1\n", env...)
			for _, path := range paths {
				g.do(t, "GET", path, "", "x-gateway-api-key", bootstrapKey).wantOK(t)
			}
			said := g.errText
			g.again(t) // all output is there when it has ended
			for variable := range paths {
				if !strings.Contains(said.String(), "variable="+variable) {
					t.Errorf("no warning names %s: %s", variable, said)
				}
			}
		})
	}
	for _, value := range []string{"", "ON", "true", "OFFF"} {
		prove(t, "S-546", fmt.Sprintf("%q leaves it on", value), func(t *testing.T) {
			g := launchFor(t, "version: 1\n", "GUARDRAILS_ENABLED="+value)
			g.do(t, "GET", "/v1/guardrails", "", "x-gateway-api-key", bootstrapKey).wantOK(t)
			said := g.errText
			if g.again(t); strings.Contains(said.String(), "level=WARN") {
				t.Errorf("it warns: %s", said)
			}
		})
	}
}

func TestRetentionIsDisplayed(t *testing.T) {
	for _, tt := range []struct{ of, variable, field, standard string }{
		{"S-514", "LOG_RETENTION_DISPLAY", "log_retention_display", "90"},
		{"S-515", "METRICS_RETENTION_DISPLAY", "metrics_retention_display", "365"},
	} {
		prove(t, tt.of, tt.variable, func(t *testing.T) {
			g := launchFor(t, "version: 1\n")
			for _, want := range []string{tt.standard, "7"} {
				organisation := g.do(t, "GET", "/v1/admin/organisation", "", "x-gateway-api-key", bootstrapKey).wantOK(t).object(t)
				if got := fmt.Sprint(organisation[tt.field]); got != want {
					t.Errorf("%s = %s, want %s", tt.field, got, want)
				}
				g.again(t, tt.variable+"=7")
			}
		})
	}
}
