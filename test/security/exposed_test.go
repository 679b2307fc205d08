package security

import (
	"net/http"
	"strings"
	"testing"
)

// TestCredentialsInShownObjectsAreRefused sends credentials inside objects that all
// readers of a workspace are shown.
func TestCredentialsInShownObjectsAreRefused(t *testing.T) {
	t.Parallel()
	g, _ := start(t)
	const secret = "sk-exposed-credential-135790"
	guardrail := g.create(t, rootKey, "/v1/guardrails", `{"name":"g","workspace_id":"default","checks":[{"id":"default.webhook","parameters":{"webhookURL":"https://a.example"}}],"actions":{}}`, "id")
	prompt := g.create(t, rootKey, "/v1/prompts", `{"name":"p","workspace_id":"default","string":"Hi","parameters":{"authorization":"Bearer {{token}}"},"model":"m"}`, "id")
	partial := g.create(t, rootKey, "/v1/prompts/partials", `{"name":"p","workspace_id":"default","string":"Hi"}`, "id")
	deployment := g.create(t, rootKey, "/v1/deployments", `{"name":"d","config":{"region":"eu"}}`, "id")
	checks := `"checks":[{"id":"default.webhook","parameters":{"headers":{"Authorization":"Bearer ` + secret + `"}}}]`
	actions := `"actions":{"on_fail":{"feedback":{"value":1,"metadata":{"api_key":"` + secret + `"}}}}`
	for _, c := range []struct{ name, method, path, body, field string }{
		{"a new guardrail's checks", "POST", "/v1/guardrails", `{"name":"x","workspace_id":"default","actions":{},` + checks + `}`, "checks[0].parameters.headers.Authorization"},
		{"a guardrail's checks", "PUT", "/v1/guardrails/" + guardrail, `{` + checks + `}`, "checks[0].parameters.headers.Authorization"},
		{"a guardrail's actions", "PUT", "/v1/guardrails/" + guardrail, `{` + actions + `}`, "actions.on_fail.feedback.metadata.api_key"},
		{"a new prompt's parameters", "POST", "/v1/prompts", `{"name":"x","workspace_id":"default","string":"Hi","model":"m","parameters":{"api_key":"` + secret + `"}}`, "parameters.api_key"},
		{"a prompt's parameters", "PUT", "/v1/prompts/" + prompt, `{"patch":true,"parameters":{"api_key":"` + secret + `"}}`, "parameters.api_key"},
		{"a prompt's tools", "PUT", "/v1/prompts/" + prompt, `{"patch":true,"tools":[{"type":"mcp","authorization":"` + secret + `"}]}`, "tools[0].authorization"},
		{"a prompt's metadata", "PUT", "/v1/prompts/" + prompt, `{"patch":true,"template_metadata":{"password":"` + secret + `"}}`, "template_metadata.password"},
		{"a prompt's messages", "PUT", "/v1/prompts/" + prompt, `{"patch":true,"string":[{"role":"user","content":"Hi","api_key":"` + secret + `"}]}`, "string[0].api_key"},
		{"a new partial", "POST", "/v1/prompts/partials", `{"name":"x","workspace_id":"default","string":"{\"api_key\":\"` + secret + `\"}"}`, "string.api_key"},
		{"a partial", "PUT", "/v1/prompts/partials/" + partial, `{"string":"{\"api_key\":\"` + secret + `\"}"}`, "string.api_key"},
		{"a new deployment's config", "POST", "/v1/deployments", `{"name":"x","config":{"client_secret":"` + secret + `"}}`, "config.client_secret"},
		{"a deployment's config", "PUT", "/v1/deployments/" + deployment, `{"config":{"client_secret":"` + secret + `"}}`, "config.client_secret"},
	} {
		attack(t, "at rest", c.name+" can't hold a credential", func(t *testing.T) {
			r := g.as(t, rootKey, c.method, c.path, c.body).refused(t, http.StatusBadRequest, c.field, "credential")
			if strings.Contains(string(r.body), secret) {
				t.Errorf("the response repeats it: %s", r.body)
			}
		})
	}
	attack(t, "at rest", "a refused credential is on no disk", func(t *testing.T) {
		for path, text := range g.files(t) {
			if strings.Contains(string(text), secret) {
				t.Errorf("%s holds it", path)
			}
		}
	})
}
