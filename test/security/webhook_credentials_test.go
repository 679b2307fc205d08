package security

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/testing/waittest"
)

// TestStoredCredentialsReachTheirWebhookOnly stores the credential of a webhook, and tries
// to send it elsewhere and to use that of others.
func TestStoredCredentialsReachTheirWebhookOnly(t *testing.T) {
	t.Parallel()
	verdict := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"verdict":true}`)
	}
	g, p := launch(t, options{}), newProvider(t, nil)
	hook, thief := newProvider(t, verdict), newProvider(t, verdict)
	const token = "Bearer " + canary + "-webhook-0123456789"
	rival := g.organisation(t, "rival")
	key := g.key(t, rootKey, "default", []string{"completions.write"}, "")
	id := g.create(t, rootKey, "/v1/guardrail-credentials", fmt.Sprintf(`{"partner":"default.webhook","organisation_id":"default","credentials":{"authorization":%q,"url":%q}}`, token, hook.root+"/checks"), "id")
	const head = `{"name":"g","workspace_id":"default","actions":{"deny":true},"checks":[{"id":"default.webhook","parameters":{"failOnError":true,`
	chat := func(key, guard string) response {
		config := fmt.Sprintf(`{"provider":"openai-compatible","custom_host":%q,"api_key":"sk-x","input_guardrails":[%s]}`, p.url, guard)
		return g.do(t, "POST", "/v1/chat/completions", chatBody, "x-gateway-api-key", key, "x-gateway-config", config)
	}
	saved := func(params string) response {
		guard := `"` + g.create(t, rootKey, "/v1/guardrails", head+params+`}}]}`, "slug") + `"`
		waittest.Until(t, "the guardrail is known", func() bool { return chat(key, guard).status != 404 })
		hook.reset()
		thief.reset()
		return chat(key, guard)
	}
	params := func(address string) string { return fmt.Sprintf(`"storedCredentials":true,"webhookURL":%q`, address) }
	waittest.Until(t, "the credential is used", func() bool { return saved(params(hook.root+"/checks/input")).status == 200 && hook.got(token) })
	if r := saved(fmt.Sprintf(`"webhookURL":%q`, hook.root+"/checks/input")); r.status != 200 || len(hook.seen()) != 1 || hook.got(canary) {
		t.Errorf("without storedCredentials: status %d, %d requests: %s", r.status, len(hook.seen()), r.body)
	}
	for name, address := range map[string]string{
		"another host": thief.root + "/checks/input", "another path": hook.root + "/other", "a path with the same beginning": hook.root + "/checks2",
		"a path that leads out": hook.root + "/checks/../other", "an encoded path that leads out": hook.root + "/checks/%2e%2e/other", "another scheme": strings.Replace(hook.root, "http:", "https:", 1) + "/checks",
	} {
		attack(t, "credential theft", "the credential of a webhook at "+name, func(t *testing.T) {
			if r := saved(params(address)); r.status != 446 || len(hook.seen())+len(thief.seen()) > 0 || strings.Contains(string(r.body), canary) {
				t.Errorf("status %d, requests %d and %d: %s", r.status, len(hook.seen()), len(thief.seen()), r.body)
			}
		})
	}
	attack(t, "credential theft", "a new address for the credential of a webhook", func(t *testing.T) {
		g.as(t, rootKey, "PUT", "/v1/guardrail-credentials/"+id, fmt.Sprintf(`{"credentials":{"url":%q}}`, thief.root)).refused(t, 400, "credentials.authorization")
		g.as(t, rootKey, "PUT", "/v1/guardrail-credentials/"+id, fmt.Sprintf(`{"credentials":{"url":%q}}`, hook.root+"/other")).refused(t, 400, "credentials.authorization")
		if r := g.as(t, rootKey, "GET", "/v1/guardrail-credentials/"+id, "").ok(t); strings.Contains(string(r.body), canary) {
			t.Errorf("read: %s", r.body)
		}
	})
	attack(t, "credential theft", "a credential in the headers of a saved webhook", func(t *testing.T) {
		g.as(t, rootKey, "POST", "/v1/guardrails", head+params(hook.root+"/checks")+`,"headers":{"Authorization":"Bearer other-0123456789"}}}]}`).refused(t, 400, "headers")
	})
	attack(t, "escalation", "the credential of a webhook in a config that the client wrote", func(t *testing.T) {
		hook.reset()
		r := chat(key, `{"deny":true,"default.webhook":{"failOnError":true,`+params(hook.root+"/checks")+`}}`)
		if r.status != 446 || len(hook.seen()) > 0 {
			t.Errorf("status %d, %d requests: %s", r.status, len(hook.seen()), r.body)
		}
	})
	attack(t, "escalation", "the credential of another tenant's webhook", func(t *testing.T) {
		hook.reset()
		outsider := g.key(t, rival, "default", []string{"completions.write", "guardrails.create"}, "")
		r := chat(outsider, `{"deny":true,"default.webhook":{"failOnError":true,`+params(hook.root+"/checks")+`}}`)
		if r.status != 446 || len(hook.seen()) > 0 {
			t.Errorf("status %d, %d requests: %s", r.status, len(hook.seen()), r.body)
		}
	})
}
