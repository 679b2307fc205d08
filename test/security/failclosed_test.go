package security

import (
	"fmt"
	"net/http"
	"testing"

	"modelgate/internal/testing/waittest"
)

// With fail_closed, an error of a check denies in every saved guardrail of an
// organisation, whatever its parameters say, and in no other organisation.
func TestErrorsOfChecksAreFailuresWithFailClosed(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, o options) {
		g, p := launch(t, o), newProvider(t, nil)
		broken := newProvider(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
		saved := func(token, owner string) string {
			return g.create(t, token, "/v1/guardrails", fmt.Sprintf(`{"name":"hook",%s,"checks":[{"id":"default.webhook","parameters":{"webhookURL":%q,"failOnError":false}}],"actions":{"deny":true}}`, owner, broken.root), "slug")
		}
		other := g.organisation(t, "other")
		shared, own := saved(rootKey, `"organisation_id":"default"`), saved(rootKey, `"workspace_id":"default"`)
		theirs := saved(other, `"workspace_id":"default"`)
		key, otherKey := g.key(t, rootKey, "default", []string{"completions.write"}, ""), g.key(t, other, "default", []string{"completions.write"}, "")
		send := func(key, path, lists string) int {
			config := fmt.Sprintf(`{"provider":"openai-compatible","custom_host":%q,"api_key":%q%s}`, p.url, clientKey, lists)
			return g.as(t, key, "POST", path, chatBody, "x-gateway-config", config).status
		}
		g.as(t, rootKey, "PUT", "/v1/admin/organisation/defaults", fmt.Sprintf(`{"input_guardrails":[%q]}`, shared)).ok(t)
		waittest.Until(t, "the webhook is called", func() bool { return send(key, "/v1/chat/completions", "") == 200 && len(broken.seen()) > 0 })
		g.as(t, rootKey, "PUT", "/v1/admin/organisation", `{"settings":{"fail_closed":true}}`).ok(t)
		waittest.Until(t, "errors are failures", func() bool { return send(key, "/v1/chat/completions", "") == 446 })
		for _, path := range []string{"/v1/chat/completions", "/v1/invented"} {
			attack(t, "injection", "an error of a check lets "+path+" pass", func(t *testing.T) {
				p.reset()
				if got := send(key, path, ""); got != 446 || len(p.seen()) > 0 {
					t.Errorf("status %d after %d requests to the provider, want 446 after none", got, len(p.seen()))
				}
			})
		}
		g.as(t, rootKey, "PUT", "/v1/admin/organisation/defaults", `{"input_guardrails":[]}`).ok(t)
		waittest.Until(t, "the default is gone", func() bool { return send(key, "/v1/chat/completions", "") == 200 })
		attack(t, "injection", "an error of a check of a saved guardrail of a workspace passes", func(t *testing.T) {
			if got := send(key, "/v1/chat/completions", fmt.Sprintf(`,"input_guardrails":[%q]`, own)); got != 446 {
				t.Errorf("requests: status %d, want 446", got)
			}
			if got := send(key, "/v1/chat/completions", fmt.Sprintf(`,"output_guardrails":[%q]`, own)); got != 446 {
				t.Errorf("responses: status %d, want 446", got)
			}
		})
		attack(t, "isolation", "fail_closed of one organisation applies to another", func(t *testing.T) {
			if got := send(otherKey, "/v1/chat/completions", fmt.Sprintf(`,"input_guardrails":[%q]`, theirs)); got != 200 {
				t.Errorf("status %d, want 200", got)
			}
		})
		if got := g.as(t, rootKey, "GET", "/v1/admin/organisation", "").ok(t).object(t)["settings"].(map[string]any)["fail_closed"]; got != true {
			t.Errorf("fail_closed is read as %v", got)
		}
	})
}
