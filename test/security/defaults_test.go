package security

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestDefaultGuardrailBindsEveryRequestOfItsTenant sets a guardrail for all requests of
// an organisation, then of a workspace.
func TestDefaultGuardrailBindsEveryRequestOfItsTenant(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, o options) {
		g, p := launch(t, o), newProvider(t, nil)
		scopes := []string{"completions.write"}
		key := g.key(t, rootKey, "default", scopes, "")
		other := g.key(t, g.organisation(t, "elsewhere"), "default", scopes, "")
		const checks = `"checks":[{"id":"default.contains","parameters":{"words":["hello"],"operator":"none"}}],"actions":{"deny":true}}`
		wide := g.create(t, rootKey, "/v1/guardrails", `{"name":"wide","organisation_id":"default",`+checks, "slug")
		local := g.create(t, rootKey, "/v1/guardrails", `{"name":"local","workspace_id":"default",`+checks, "slug")
		chat := func(key string) reply {
			return g.do(t, "POST", "/v1/chat/completions", chatBody, toCustomHost(key, p)...)
		}
		for _, level := range []struct{ path, set, unset string }{
			{"/v1/admin/organisation/defaults", fmt.Sprintf(`{"input_guardrails":[%q]}`, wide), `{"input_guardrails":[]}`},
			{"/v1/admin/workspaces/default", fmt.Sprintf(`{"defaults":{"input_guardrails":[%q]}}`, local), `{"defaults":{}}`},
		} {
			g.as(t, rootKey, "PUT", level.path, level.set).ok(t)
			eventually(t, "the guardrail applies", func() bool { return chat(key).status == 446 })
			p.reset()
			for _, tt := range []struct{ name, path, body string }{
				{"a stream", "/v1/chat/completions", strings.Replace(chatBody, "{", `{"stream":true,`, 1)},
				{"messages", "/v1/messages", strings.Replace(chatBody, "{", `{"max_tokens":9,`, 1)},
				{"responses", "/v1/responses", `{"model":"gpt-4o","input":"hello"}`},
				{"embeddings", "/v1/embeddings", `{"model":"e","input":"hello"}`},
				{"pass-through", "/v1/unknown/path", `{"text":"hello"}`},
			} {
				attack(t, "escalation", level.path+": around a default guardrail by "+tt.name, func(t *testing.T) {
					if r := g.do(t, "POST", tt.path, tt.body, toCustomHost(key, p)...); r.status != 446 {
						t.Errorf("status %d, want 446: %.300s", r.status, r.body)
					}
				})
			}
			if n := len(p.seen()); n > 0 {
				t.Errorf("%s: the provider received %d requests", level.path, n)
			}
			if r := chat(other); r.status != http.StatusOK {
				t.Errorf("%s: another tenant: status %d: %.300s", level.path, r.status, r.body)
			}
			g.as(t, rootKey, "PUT", level.path, level.unset).ok(t)
			eventually(t, "the guardrail no longer applies", func() bool { return chat(key).status == http.StatusOK })
		}
	})
}

// TestDefaultGuardrailsAreRefusedBeforeTheyBreakRequests sends changes after which the
// requests of a tenant could not be served.
func TestDefaultGuardrailsAreRefusedBeforeTheyBreakRequests(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, o options) {
		g, p := launch(t, o), newProvider(t, nil)
		key := g.key(t, rootKey, "default", []string{"completions.write"}, "")
		create := func(owner, check string) string {
			return g.create(t, rootKey, "/v1/guardrails", `{"name":"g",`+owner+`,"checks":[`+check+`],"actions":{"deny":true}}`, "slug")
		}
		const (
			anywhere = `{"id":"default.contains","parameters":{"words":["never said"],"operator":"none"}}`
			requests = `{"id":"default.modelWhitelist","parameters":{"models":["gpt-4o"]}}`
		)
		wide, local := create(`"organisation_id":"default"`, anywhere), create(`"workspace_id":"default"`, anywhere)
		asked := create(`"organisation_id":"default"`, requests)
		const organisation, workspace = "/v1/admin/organisation/defaults", "/v1/admin/workspaces/default"
		g.as(t, rootKey, "PUT", organisation, fmt.Sprintf(`{"output_guardrails":[%q]}`, wide)).ok(t)
		g.as(t, rootKey, "PUT", workspace, fmt.Sprintf(`{"defaults":{"input_guardrails":[%q]}}`, local)).ok(t)
		for _, tt := range []struct {
			name, method, path, body string
			status                   int
			words                    []string
		}{
			{"one that does not exist", "PUT", organisation, `{"input_guardrails":["gone"]}`, 404, []string{"input_guardrails[0]", "gone"}},
			{"one of a workspace for the organisation", "PUT", organisation, fmt.Sprintf(`{"input_guardrails":[%q]}`, local), 400, []string{"input_guardrails[0]"}},
			{"one of requests for responses", "PUT", organisation, fmt.Sprintf(`{"output_guardrails":[%q]}`, asked), 400, []string{"AB01", "output_guardrails", asked}},
			{"one of requests for responses of a workspace", "PUT", workspace, fmt.Sprintf(`{"defaults":{"output_guardrails":[%q]}}`, asked), 400, []string{"AB01", "output_guardrails"}},
			{"archiving a default of the organisation", "DELETE", "/v1/guardrails/" + wide, "", 409, []string{"output_guardrails", "the organisation"}},
			{"archiving a default of a workspace", "DELETE", "/v1/guardrails/" + local, "", 409, []string{"input_guardrails", "workspace"}},
			{"checks that cannot run there", "PUT", "/v1/guardrails/" + wide, `{"checks":[` + requests + `]}`, 400, []string{"AB01", "output_guardrails"}},
		} {
			attack(t, "escalation", "default guardrails: "+tt.name, func(t *testing.T) {
				g.as(t, rootKey, tt.method, tt.path, tt.body).refused(t, tt.status, tt.words...)
			})
		}
		if r := g.do(t, "POST", "/v1/chat/completions", chatBody, toCustomHost(key, p)...); r.status != http.StatusOK {
			t.Errorf("a request after the refusals: status %d: %.300s", r.status, r.body)
		}
	})
}
