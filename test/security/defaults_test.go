package security

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/testing/waittest"
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
		chat := func(key string) response {
			return g.do(t, "POST", "/v1/chat/completions", chatBody, toCustomHost(key, p)...)
		}
		for _, level := range []struct{ path, set, unset string }{
			{"/v1/admin/organisation/defaults", fmt.Sprintf(`{"input_guardrails":[%q]}`, wide), `{"input_guardrails":[]}`},
			{"/v1/admin/workspaces/default", fmt.Sprintf(`{"defaults":{"input_guardrails":[%q]}}`, local), `{"defaults":{}}`},
		} {
			g.as(t, rootKey, "PUT", level.path, level.set).ok(t)
			waittest.Until(t, "the guardrail applies", func() bool { return chat(key).status == 446 })
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
			waittest.Until(t, "the guardrail no longer applies", func() bool { return chat(key).status == http.StatusOK })
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

// TestExcludedWorkspacesEscapeTheOrganisationsGuardrailsOnly excludes a workspace from
// the guardrails of its organisation, and includes it again.
func TestExcludedWorkspacesEscapeTheOrganisationsGuardrailsOnly(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, o options) {
		g, p := launch(t, o), newProvider(t, nil)
		create := func(owner, word string) string {
			return g.create(t, rootKey, "/v1/guardrails", `{"name":"g",`+owner+`,"checks":[{"id":"default.contains","parameters":{"words":["`+word+`"],"operator":"none"}}],"actions":{"deny":true}}`, "slug")
		}
		team := g.create(t, rootKey, "/v1/admin/workspaces", `{"name":"team","description":"d"}`, "id")
		scopes := []string{"completions.write"}
		keys := map[string]string{"team": g.key(t, rootKey, team, scopes, ""), "default": g.key(t, rootKey, "default", scopes, "")}
		wide := create(`"organisation_id":"default"`, "hello")
		chat := func(who, word string) int {
			return g.do(t, "POST", "/v1/chat/completions", strings.Replace(chatBody, "hello", word, 1), toCustomHost(keys[who], p)...).status
		}
		g.as(t, rootKey, "PUT", "/v1/admin/organisation/defaults", fmt.Sprintf(`{"input_guardrails":[%q]}`, wide)).ok(t)
		own := create(`"workspace_id":"`+team+`"`, "secret")
		g.as(t, rootKey, "PUT", "/v1/admin/workspaces/"+team, fmt.Sprintf(`{"defaults":{"input_guardrails":[%q]}}`, own)).ok(t)
		waittest.Until(t, "both guardrails apply", func() bool {
			return chat("team", "hello") == 446 && chat("team", "secret") == 446 && chat("default", "hello") == 446
		})

		attack(t, "escalation", "a workspace's key excludes its workspace", func(t *testing.T) {
			body := fmt.Sprintf(`{"workspaces":[{"workspace_id":%q,"excluded":true}]}`, team)
			for _, list := range []string{"input", "output"} {
				g.as(t, g.key(t, rootKey, team, []string{"workspaces.update"}, ""), "PUT", "/v1/workspace-exclusions/"+list+"-guardrails", body).refused(t, 403)
			}
		})
		attack(t, "escalation", "a workspace's key with the scope for exclusions", func(t *testing.T) {
			g.as(t, rootKey, "POST", "/v1/api-keys/workspace/service", fmt.Sprintf(`{"name":"k","workspace_id":%q,"scopes":["organisation_exclusions.update"]}`, team)).refused(t, 400, "organisation_exclusions.update")
		})
		exclude := func(list string, excluded bool) {
			g.as(t, rootKey, "PUT", "/v1/workspace-exclusions/"+list+"-guardrails", fmt.Sprintf(`{"workspaces":[{"workspace_id":%q,"excluded":%t}]}`, team, excluded)).ok(t)
		}
		exclude("output", true) // is about responses
		exclude("input", true)
		waittest.Until(t, "the workspace is excluded", func() bool { return chat("team", "hello") == http.StatusOK })
		for who, word := range map[string]string{"team": "secret", "default": "hello"} {
			if got := chat(who, word); got != 446 {
				t.Errorf("%s says %s while team is excluded: status %d, want 446", who, word, got)
			}
		}
		exclude("input", false)
		waittest.Until(t, "the workspace is included again", func() bool { return chat("team", "hello") == 446 })
		spoken := create(`"organisation_id":"default"`, "hi")
		g.as(t, rootKey, "PUT", "/v1/admin/organisation/defaults", fmt.Sprintf(`{"input_guardrails":[],"output_guardrails":[%q]}`, spoken)).ok(t)
		waittest.Until(t, "the guardrail of responses applies", func() bool { return chat("default", "other") == 446 })
		if got := chat("team", "other"); got != http.StatusOK {
			t.Errorf("a workspace without guardrails of responses: status %d, want 200", got)
		}
		exclude("output", false)
		waittest.Until(t, "the guardrail of responses applies to the workspace", func() bool { return chat("team", "other") == 446 })
	})
}
