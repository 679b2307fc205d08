package security

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"modelgate/internal/testing/waittest"
)

// What a check cannot read, because it is too long or there is too much of it, is denied
// where its guardrail denies or changes text.
func TestTextThatAGuardrailCannotReadIsDenied(t *testing.T) {
	t.Parallel()
	const heavy = "(a|b|ab){1,400}[cd]" + forbidden
	long := strings.Repeat("x ", 600<<10) + forbidden
	for _, guard := range []struct{ name, check, actions string }{
		{"a pattern that denies", fmt.Sprintf(`{"id":"default.regexMatch","parameters":{"rule":%q,"not":true}}`, heavy), `{"deny":true}`},
		{"a pattern that denies and passes errors", fmt.Sprintf(`{"id":"default.regexMatch","parameters":{"rule":%q,"not":true,"failOnError":false}}`, heavy), `{"deny":true}`},
		{"a replacement", fmt.Sprintf(`{"id":"default.regexReplace","parameters":{"rule":%q}}`, heavy), `{}`},
		{"a replacement of very many matches", `{"id":"default.regexReplace","parameters":{"rule":"x"}}`, `{}`},
		{"a replacement that makes the text large", fmt.Sprintf(`{"id":"default.regexReplace","parameters":{"rule":"x ","redactText":%q}}`, strings.Repeat("y", 4000)), `{}`},
	} {
		t.Run(guard.name, func(t *testing.T) {
			t.Parallel()
			g := &ranked{gateway: launch(t, options{})}
			g.provider = newProvider(t, g.respond)
			slug := g.create(t, rootKey, "/v1/guardrails", fmt.Sprintf(`{"name":"g","organisation_id":"default","checks":[%s],"actions":%s}`, guard.check, guard.actions), "slug")
			g.key = g.gateway.key(t, rootKey, "default", []string{"completions.write"}, "")
			g.as(t, rootKey, "PUT", "/v1/admin/organisation/defaults", fmt.Sprintf(`{"input_guardrails":[%q],"output_guardrails":[%[1]q]}`, slug)).ok(t)
			text, _ := json.Marshal(long)
			waittest.Until(t, "the guardrail applies", func() bool {
				return g.send(t, "POST", "/v1/chat/completions", `{"model":"gpt-4o","messages":[{"role":"user","content":`+string(text)+`}]}`, "").status == 446
			})
			for _, r := range clientRequests {
				body := strings.ReplaceAll(r.body, `"a Q"`, string(text))
				attack(t, "injection", guard.name+" does not read all of a request of "+r.name, func(t *testing.T) {
					got := g.send(t, "POST", r.path, body, "")
					if got.status != 446 || len(g.provider.seen()) > 0 || !strings.Contains(string(got.body), "default.regex") {
						t.Errorf("status %d, %d requests to the provider: %.300s", got.status, len(g.provider.seen()), got.body)
					}
					g.send(t, "POST", r.path, r.body, "").ok(t)
				})
				if r.name == "embeddings" || strings.Contains(r.name, "stream") { // windows of a stream are short
					continue
				}
				attack(t, "injection", guard.name+" does not read all of a response of "+r.name, func(t *testing.T) {
					g.reply.Store(&long)
					defer g.reply.Store(nil)
					if got := g.send(t, "POST", r.path, r.body, ""); got.status != 446 || strings.Contains(string(got.body), forbidden) {
						t.Errorf("status %d, want 446: %.300s", got.status, got.body)
					}
				})
			}
		})
	}
}
