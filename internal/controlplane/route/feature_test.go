package route_test

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/controlplane/route"
)

func TestOnlyTheExactWordTurnsAFeatureOff(t *testing.T) {
	for value, want := range map[string]struct{ off, doubted bool }{
		"OFF": {true, false}, "": {false, false}, "ON": {false, false}, "true": {false, false}, "1": {false, false},
		"off": {false, true}, "Off": {false, true}, "OFF ": {false, true}, "false": {false, true}, "FALSE": {false, true},
		"0": {false, true}, "no": {false, true}, "disabled": {false, true}, "OFFLINE": {false, false},
	} {
		for _, f := range route.Features {
			env := func(name string) string {
				if name == string(f) {
					return value
				}
				return ""
			}
			off, doubts := route.ParseDisabledFeatures(env)
			if off[f] != want.off || len(off) > 1 || slices.Contains(doubts, f) != want.doubted || len(doubts) > 1 {
				t.Errorf("%s=%q: off %v, doubts %v", f, value, off, doubts)
			}
		}
	}
}

func TestPathsOfAFeatureThatIsOffAreRefused(t *testing.T) {
	for path, of := range map[string]route.Feature{
		"/v1/guardrails": route.Guardrails, "/v1/guardrails/x": route.Guardrails, "/v1/admin/organisation/defaults": route.Guardrails,
		"/v1/organisation/defaults": route.Guardrails, "/v1/workspace-exclusions/input-guardrails": route.Guardrails, "/v1/logs/exports": route.DataExports, "/v1/logs/exports/x/start": route.DataExports,
		"/v1/audit-logs": route.AuditLogs, "/v1/scim/workspaces": route.SCIM, "/scim/v2/Users": route.SCIM, "/v1/policies/rate-limits": route.Policies,
		"/v1/guardrailsx": "", "/v1/logs": "", "/v1/logs/x": "", "/v1/organisation": "", "/v1/chat/completions": "", "/v1": "", "/": "", "": "",
	} {
		for _, off := range route.Features {
			err := route.DisabledFeatures{off: true}.CheckPath(path)
			policies := of == route.Policies && off == route.UsageLimits // they are limits
			if (err != nil) != (of == off || policies) || err != nil && !strings.Contains(err.Error(), string(off)+"=OFF") {
				t.Errorf("%s with %s off: %v", path, off, err)
			}
		}
		if err := (route.DisabledFeatures)(nil).CheckPath(path); err != nil {
			t.Errorf("%s with nothing off: %v", path, err)
		}
	}
}

func TestAPathThatIsOffIsAnswered(t *testing.T) {
	a := route.New(route.Deps{Version: "test", Off: route.DisabledFeatures{route.SCIM: true}})
	w := httptest.NewRecorder()
	if !a.ServeOff(w, "/v1/scim/v2/Users") || w.Code != 403 || !strings.Contains(w.Body.String(), `"AB03"`) || !strings.Contains(w.Body.String(), "SCIM_ENABLED") {
		t.Errorf("off: %d %s", w.Code, w.Body)
	}
	w = httptest.NewRecorder()
	if a.ServeOff(w, "/v1/policies") || w.Body.Len() > 0 {
		t.Errorf("on: %d %s", w.Code, w.Body)
	}
	if n := testing.AllocsPerRun(100, func() { a.ServeOff(w, "/v1/chat/completions") }); n != 0 {
		t.Errorf("a path that is on costs %g allocations", n)
	}
}

func TestDaysThatAreShownAreNumbers(t *testing.T) {
	for value, want := range map[string]route.Retention{"": {90, 365}, "30": {30, 365}} {
		got, err := route.ReadRetention(func(name string) string { return map[string]string{"LOG_RETENTION_DISPLAY": value}[name] })
		if err != nil || got != want {
			t.Errorf("%q: %v, %v", value, got, err)
		}
	}
	for _, value := range []string{"0", "-1", "many", "1.5"} {
		_, err := route.ReadRetention(func(string) string { return value })
		if err == nil || !strings.Contains(err.Error(), "LOG_RETENTION_DISPLAY") {
			t.Errorf("%q: %v", value, err)
		}
	}
}
