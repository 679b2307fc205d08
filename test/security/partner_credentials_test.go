package security

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/testing/waittest"
)

// TestStoredCredentialsReachTheirPartnerOnly stores credentials of a partner for the
// organisation and for a workspace, and tries to read them, to redirect them and to use
// those of others.
func TestStoredCredentialsReachTheirPartnerOnly(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, o options) {
		verdict := func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"action":"PassThrough"}`)
		}
		o.settings, o.env = "version: 1\nsecrets:\n  environment: [ORG_*]\n  refresh: 1s\n", append(o.env, "ORG_KEY="+canary+"-mapped-0123456789")
		g, p := launch(t, o), newProvider(t, nil)
		wide, local, thief := newProvider(t, verdict), newProvider(t, verdict), newProvider(t, verdict)
		const wideKey, localKey = canary + "-wide-0123456789", canary + "-local-0123456789"
		rival := g.organisation(t, "rival")
		key := g.key(t, rootKey, "default", []string{"completions.write", "guardrails.create"}, "")
		stored := func(place, at, value string) string {
			return g.create(t, rootKey, "/v1/guardrail-credentials", fmt.Sprintf(`{"partner":"aporia",%s,"credentials":{"apiKey":%q,"apiEndpoint":%q}}`, place, value, at), "id")
		}
		ours := stored(`"organisation_id":"default"`, wide.root, wideKey)
		save := func(place string) string {
			return g.create(t, rootKey, "/v1/guardrails", `{"name":"g",`+place+`,"checks":[{"id":"aporia.validateProject","parameters":{"projectID":"p","failOnError":true}}],"actions":{"deny":true}}`, "slug")
		}
		shared, own := save(`"organisation_id":"default"`), save(`"workspace_id":"default"`)
		chat := func(key, guard string) response {
			config := fmt.Sprintf(`{"provider":"openai-compatible","custom_host":%q,"api_key":"sk-x","input_guardrails":[%s]}`, p.url, guard)
			return g.do(t, "POST", "/v1/chat/completions", chatBody, "x-gateway-api-key", key, "x-gateway-config", config)
		}
		const inline = `{"deny":true,"aporia.validateProject":{"projectID":"p","failOnError":true}}`
		waittest.Until(t, "the credentials are used", func() bool { return chat(key, inline).status == 200 && wide.got(wideKey) })
		mine := stored(`"workspace_id":"default"`, local.root, localKey)
		waittest.Until(t, "the workspace's come first", func() bool { return chat(key, inline).status == 200 && local.got(localKey) })
		for _, tt := range []struct {
			name, guard string
			to          *provider
			value       string
		}{{"of the workspace", `"` + own + `"`, local, localKey}, {"of the organisation", `"` + shared + `"`, wide, wideKey}, {"in the config", inline, local, localKey}} {
			wide.reset()
			local.reset()
			if r := chat(key, tt.guard); r.status != 200 || !tt.to.got(tt.value) || len(wide.seen())+len(local.seen()) != 1 {
				t.Errorf("a guardrail %s: status %d, the organisation's partner got %d requests, the workspace's %d: %.300s", tt.name, r.status, len(wide.seen()), len(local.seen()), r.body)
			}
		}
		attack(t, "credential theft", "a stored credential with an address of a config", func(t *testing.T) {
			for _, given := range []string{fmt.Sprintf(`{"apiEndpoint":%q}`, thief.root), fmt.Sprintf(`{"apiEndpoint":%q,"apiKey":""}`, thief.root)} {
				r := chat(key, `{"deny":true,"aporia.validateProject":{"projectID":"p","failOnError":true,"credentials":`+given+`}}`)
				if r.status != 446 || thief.got(canary) {
					t.Errorf("credentials %s: status %d, requests elsewhere: %d", given, r.status, len(thief.seen()))
				}
			}
		})
		attack(t, "escalation", "stored credentials in a config that the client wrote", func(t *testing.T) {
			local.reset()
			plain := g.key(t, rootKey, "default", []string{"completions.write"}, "")
			if r := chat(plain, inline); r.status != 446 || !strings.Contains(string(r.body), "saved guardrails and saved configs") || len(local.seen()) > 0 {
				t.Errorf("an inline config: status %d, the partner got %d requests: %.300s", r.status, len(local.seen()), r.body)
			}
			if r := chat(plain, `"`+own+`"`); r.status != 200 || !local.got(localKey) {
				t.Errorf("a saved guardrail: status %d: %.300s", r.status, r.body)
			}
			local.reset()
			config := g.create(t, rootKey, "/v1/configs", fmt.Sprintf(`{"name":"c","workspace_id":"default","config":{"provider":"openai-compatible","custom_host":%q,"api_key":"sk-x","input_guardrails":[%s]}}`, p.url, inline), "data.slug")
			use := func() response {
				return g.do(t, "POST", "/v1/chat/completions", chatBody, "x-gateway-api-key", plain, "x-gateway-config", config)
			}
			waittest.Until(t, "the saved config is known", func() bool { return use().status != 404 })
			if r := use(); r.status != 200 || !local.got(localKey) {
				t.Errorf("a saved config: status %d: %.300s", r.status, r.body)
			}
		})
		attack(t, "escalation", "stored credentials of another tenant", func(t *testing.T) {
			outsider := g.key(t, rival, "default", []string{"completions.write", "guardrails.create"}, "")
			if r := chat(outsider, inline); r.status != 446 || !strings.Contains(string(r.body), "apiKey") {
				t.Errorf("status %d: %.300s", r.status, r.body)
			}
			g.as(t, rival, "GET", "/v1/guardrail-credentials/"+ours, "").refused(t, 404)
			g.as(t, rival, "PUT", "/v1/guardrail-credentials/"+mine, fmt.Sprintf(`{"credentials":{"apiEndpoint":%q}}`, thief.root)).refused(t, 404)
		})
		attack(t, "credential theft", "a stored credential sent to a new address", func(t *testing.T) {
			g.as(t, rootKey, "PUT", "/v1/guardrail-credentials/"+ours, fmt.Sprintf(`{"credentials":{"apiEndpoint":%q}}`, thief.root)).refused(t, 400, "credentials.apiKey")
		})
		attack(t, "credential theft", "stored credentials in answers", func(t *testing.T) {
			for _, path := range []string{"/v1/guardrail-credentials", "/v1/guardrail-credentials/" + ours, "/v1/guardrails/" + shared, "/v1/audit-logs?start_time=2020-01-01T00:00:00Z&end_time=2100-01-01T00:00:00Z", "/v1/logs"} {
				if r := g.as(t, rootKey, "GET", path, ""); r.status != 200 || strings.Contains(string(r.body), wideKey) || strings.Contains(string(r.body), localKey) {
					t.Errorf("%s: status %d, with a credential: %.500s", path, r.status, r.body)
				}
			}
		})
		g.as(t, rootKey, "PUT", "/v1/guardrail-credentials/"+mine, `{"credentials":{"apiKey":"`+canary+`-rotated-0123456789"}}`).ok(t)
		waittest.Until(t, "the rotated credential is used", func() bool { return chat(key, inline).status == 200 && local.got(canary+"-rotated") })
		g.as(t, rootKey, "DELETE", "/v1/guardrail-credentials/"+mine, "").ok(t)
		g.as(t, rootKey, "POST", "/v1/secret-references", fmt.Sprintf(`{"name":"r","slug":"hidden-ref","manager_type":"environment","secret_path":"ORG_KEY","allowed_hosts":[%q]}`, local.root)).ok(t)
		mine = g.create(t, rootKey, "/v1/guardrail-credentials", fmt.Sprintf(`{"partner":"aporia.validateProject","workspace_id":"default","credentials":{"apiEndpoint":%q},"secret_mappings":[{"target_field":"apiKey","secret_reference_id":"hidden-ref"}]}`, local.root), "id")
		waittest.Until(t, "a secret reference fills the credential", func() bool { return chat(key, inline).status == 200 && local.got(canary+"-mapped") })
		g.as(t, rootKey, "PUT", "/v1/secret-references/hidden-ref", `{"allowed_hosts":[]}`).ok(t)
		waittest.Until(t, "a reference that no longer allows the host is not used", func() bool { return chat(key, inline).status == 446 })
		if r := chat(key, inline); !strings.Contains(string(r.body), "the secret reference of apiKey") || strings.Contains(string(r.body), "hidden-ref") {
			t.Errorf("the error of a reference names it, or is missing: %.500s", r.body)
		}
		g.as(t, rootKey, "DELETE", "/v1/guardrail-credentials/"+mine, "").ok(t)
		g.as(t, rootKey, "DELETE", "/v1/guardrail-credentials/"+ours, "").ok(t)
		waittest.Until(t, "deleted credentials are not used", func() bool { return chat(key, inline).status == 446 })
	})
}
