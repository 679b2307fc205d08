package dataplane_test

import (
	"strings"
	"testing"
	"time"

	"modelgate/internal/testing/gatewaytest"
)

func TestSavedGuardrailRunsAndIsCheckedWhenSaved(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: &textProvider{texts: []string{"fine"}}})
	const head = `{"name":"no greetings","workspace_id":"default","actions":{"deny":true},"checks":[`
	for check, path := range map[string]string{
		`{"id":"default.nothing"}`: "checks[0].id",
		`{"id":"default.contains","parameters":{"words":["x"],"colour":1}}`: "checks[0].parameters",
	} {
		if res := g.Post("/guardrails", head+check+`]}`); res.Status != 400 || !strings.Contains(string(res.Body), path) || !strings.Contains(string(res.Body), "AB01") {
			t.Errorf("status %d, %s; want AB01 with %s", res.Status, res.Body, path)
		}
	}
	saved := g.Post("/guardrails", head+`{"id":"default.contains","parameters":{"words":["hi"],"operator":"none"}}]}`).JSON(t)
	for _, ref := range []any{saved["id"], saved["slug"]} {
		config := guarded(`"input_guardrails":["` + str(ref) + `"]`)
		deadline := time.Now().Add(stallTimer)
		for {
			res := g.Post("/chat/completions", plainChat, "x-gateway-provider", "", "x-gateway-config", config)
			if res.Status == 446 && at(res.JSON(t), "hook_results.before_request_hooks.0.guardrail_version_id") == saved["version_id"] {
				break
			}
			if res.Status != 404 || time.Now().After(deadline) {
				t.Fatalf("%v: status %d, %s; want 446 by the saved version", ref, res.Status, res.Body)
			}
			<-time.After(2 * time.Millisecond)
		}
	}
}
