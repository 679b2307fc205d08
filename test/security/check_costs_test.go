package security

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"modelgate/internal/testing/waittest"
)

// ambiguousTrees returns an array of n different arrays of arrays, in JSON. A validator that
// compares items by a hash of their members takes all of them for equal.
func ambiguousTrees(n int) string {
	list := []string{"[]"}
	for len(list) < n {
		var next []string
		for _, tree := range list {
			next = append(next, "["+tree+"]", "[[],"+tree[1:])
		}
		for i, tree := range next {
			next[i] = strings.ReplaceAll(tree, "[],]", "[]]")
		}
		list = next
	}
	return "[" + strings.Join(list[:n], ",") + "]"
}

// TestChecksThatTakeTooLongDeny sends texts that cost a check much more than their size.
func TestChecksThatTakeTooLongDeny(t *testing.T) {
	t.Parallel()
	many := func(item string, n int) string { return "[" + strings.Repeat(item+",", n-1) + item + "]" }
	names := make([]string, 2000)
	for i := range names {
		names[i] = fmt.Sprintf(`"m%d"`, i)
	}
	for _, tt := range []struct{ name, check, text string }{
		{"different items of one hash", `{"id":"default.jsonSchema","parameters":{"not":true,"schema":{"uniqueItems":true}}}`, ambiguousTrees(30_000)},
		{"required members of many objects", `{"id":"default.jsonSchema","parameters":{"schema":{"items":{"required":[` + strings.Join(names, ",") + `]}}}}`, many("{}", 20_000)},
		{"constants and many arrays", `{"id":"default.jsonSchema","parameters":{"schema":{"items":{"allOf":` + many(`{"not":{"const":`+many("1", 100)+`}}`, 40) + `}}}}`, many(many("1.0", 100), 1000)},
		{"numbers of many digits", `{"id":"default.jsonSchema","parameters":{"schema":{"items":{"allOf":` + many(`{"multipleOf":1e-300}`, 60) + `}}}}`, many("1e400", 8_000)},
		{"a pattern on a long text", `{"id":"default.jsonSchema","parameters":{"schema":{"items":{"not":{"pattern":"(a|b){900}heron"}}}}}`, `["` + strings.Repeat("ab", 500<<10) + `heron"]`},
		{"matches that each read the rest", `{"id":"default.regexReplace","parameters":{"rule":"x[^y]*y|x","timeout":500}}`, strings.Repeat("x ", 100<<10)},
		{"a large expression", `{"id":"default.regexMatch","parameters":{"not":true,"timeout":200,"rule":"(a|b|ab|ba|aa|bb){180}[cd]"}}`, strings.Repeat(strings.Repeat("ab", 200)+" ", 500)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := &ranked{gateway: launch(t, options{})}
			g.provider = newProvider(t, g.respond)
			slug := g.create(t, rootKey, "/v1/guardrails", fmt.Sprintf(`{"name":"g","organisation_id":"default","checks":[%s],"actions":{"deny":true}}`, tt.check), "slug")
			g.key = g.gateway.key(t, rootKey, "default", []string{"completions.write"}, "")
			g.as(t, rootKey, "PUT", "/v1/admin/organisation/defaults", fmt.Sprintf(`{"input_guardrails":[%q]}`, slug)).ok(t)
			text, _ := json.Marshal(tt.text)
			waittest.Until(t, "the guardrail applies", func() bool {
				return g.send(t, "POST", "/v1/chat/completions", `{"model":"gpt-4o","messages":[{"role":"user","content":`+string(text)+`}]}`, "").status == 446
			})
			before := len(g.provider.seen())
			for _, r := range clientRequests {
				if !strings.Contains(r.body, `"a Q"`) {
					continue
				}
				attack(t, "exhaustion", tt.name+" in a request of "+r.name, func(t *testing.T) {
					began := time.Now()
					got := g.send(t, "POST", r.path, strings.ReplaceAll(r.body, `"a Q"`, string(text)), "")
					if took := time.Since(began); got.status != 446 || len(g.provider.seen()) > before || took > time.Minute {
						t.Errorf("status %d after %s, %d requests to the provider: %.300s", got.status, took, len(g.provider.seen())-before, got.body)
					}
				})
			}
		})
	}
}
