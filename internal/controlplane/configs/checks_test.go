package configs_test

import (
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/controlplane/configs"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/guardrail/checks"
	"modelgate/internal/testing/routetest"
)

// TestWrongChecksAreNotSaved saves configs whose guardrails could not run.
func TestWrongChecksAreNotSaved(t *testing.T) {
	b := routetest.New(t, func(a *route.API) {
		a.Guardrails = checks.New(checks.Services{})
		configs.Add(a)
	})
	c := b.Root()
	s := save(t, c, "a")
	for name, tt := range map[string]struct{ guardrails, field string }{
		"an unknown check":              {`"input_guardrails":[{"default.nothing":{}}]`, "default.nothing"},
		"a wrong parameter":             {`"output_guardrails":[{"default.contains":{"words":7}}]`, "words"},
		"an expression that is too big": {`"input_guardrails":[{"default.regexMatch":{"rule":"` + strings.Repeat("a", 5000) + `"}}]`, "rule"},
	} {
		config := `{"strategy":{"mode":"fallback"},"targets":[{"provider":"@main"},{"provider":"@main",` + tt.guardrails + `}]}`
		for _, call := range [][2]string{{"POST", "/configs"}, {"PUT", "/configs/" + s.Data.Slug}} {
			a := c.Call(call[0], call[1], `{"name":"x","config":`+config+`}`)
			if a.Status != http.StatusBadRequest || !strings.Contains(a.Body, "AB01") || !strings.Contains(a.Body, tt.field) {
				t.Errorf("%s, %s: %d %s", name, call[0], a.Status, a.Body)
			}
		}
	}
	c.Must("POST", "/configs", `{"name":"good","config":{"provider":"@main","input_guardrails":["pg-saved",{"default.contains":{"words":["a"]}}]}}`, nil)
}
