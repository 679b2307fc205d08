package security

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/testing/waittest"
)

// namings are ways in which a request names a further model. %s is its name.
var namings = []struct{ name, query, body string }{
	{"models", "", `{"model":"cheap","models":["%s"],"messages":[{"role":"user","content":"hello"}]}`},
	{"models after others", "", `{"model":"cheap","models":["cheap","%s"],"messages":[{"role":"user","content":"hello"}]}`},
	{"models as objects", "", `{"model":"cheap","models":[{"model":"%s"}],"messages":[{"role":"user","content":"hello"}]}`},
	{"fallbacks", "", `{"model":"cheap","fallbacks":["%s"],"messages":[{"role":"user","content":"hello"}]}`},
	{"fallbacks as objects", "", `{"model":"cheap","fallbacks":[{"model":"%s"}],"messages":[{"role":"user","content":"hello"}]}`},
	{"fallback_models", "", `{"model":"cheap","fallback_models":["%s"],"messages":[{"role":"user","content":"hello"}]}`},
	{"another spelling", "", `{"model":"cheap","Model":"%s","messages":[{"role":"user","content":"hello"}]}`},
	{"an escaped name", "", `{"model":"cheap","mod\u0065ls":["%s"],"messages":[{"role":"user","content":"hello"}]}`},
	{"model_id", "", `{"model":"cheap","model_id":"%s","messages":[{"role":"user","content":"hello"}]}`},
	{"engine", "", `{"model":"cheap","engine":"%s","messages":[{"role":"user","content":"hello"}]}`},
	{"a nested object", "", `{"model":"cheap","provider":{"route":{"model":"%s"}},"messages":[{"role":"user","content":"hello"}]}`},
	{"extra_body", "", `{"model":"cheap","extra_body":{"models":["%s"]},"messages":[{"role":"user","content":"hello"}]}`},
	{"a plugin", "", `{"model":"cheap","plugins":[{"id":"x","model":"%s"}],"messages":[{"role":"user","content":"hello"}]}`},
	{"the query", "?model=%s", chatCheap},
	{"the query in capitals", "?MODEL=%s", chatCheap},
	{"the query models", "?models[]=%s", chatCheap},
	{"the query deployment", "?deployment=%s", chatCheap},
}

const chatCheap = `{"model":"cheap","messages":[{"role":"user","content":"hello"}]}`

// namedFurther returns the query and body of a naming of a model.
func namedFurther(query, body, model string) (path, sent string) {
	return strings.ReplaceAll(query, "%s", model), strings.ReplaceAll(body, "%s", model)
}

// priced are the settings of a gateway with a dear and a cheap model of p.
func priced(p *provider, more string) string {
	return "version: 1\nprices:\n  - {provider: openai-compatible, model: cheap, input: 1, output: 1}\n  - {provider: openai-compatible, model: dear, input: 1000, output: 1000}\n" +
		fmt.Sprintf("providers:\n  - {slug: mine, provider: openai-compatible, custom_host: %q}\n", p.url) + more
}

// servedBy answers with 500 tokens of a model, which it names unless it is empty.
func servedBy(model string) http.HandlerFunc {
	name := ""
	if model != "" {
		name = `"model":"` + model + `",`
	}
	return respondWith("application/json", "", []byte(`{"id":"c1","object":"chat.completion",`+name+`"choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":400,"completion_tokens":100}}`))
}

// costOf returns the cost of a request in its log entry, in cents.
func (g *gateway) costOf(t *testing.T, r response) (cost float64) {
	t.Helper()
	if r.status != http.StatusOK {
		t.Fatalf("status %d: %.300s", r.status, r.body)
	}
	e := g.entry(t, r)
	fmt.Sscan(fmt.Sprint(e["cost"]), &cost)
	return cost
}

// TestAModelNamedSecondIsPaidFor shows that a request that names several models costs what
// the one that served it costs, or the dearest if the provider does not say.
func TestAModelNamedSecondIsPaidFor(t *testing.T) {
	t.Parallel()
	for _, served := range []string{"dear", ""} {
		p := newProvider(t, servedBy(served))
		g := launch(t, options{settings: priced(p, "")})
		for _, n := range namings {
			for _, path := range []string{completePath, passPath} {
				attack(t, "exhaustion", fmt.Sprintf("a dear model in %s of %s, served by %q", n.name, path, served), func(t *testing.T) {
					query, body := namedFurther(n.query, n.body, "dear")
					if cost := g.costOf(t, g.do(t, "POST", path+query, body, "x-gateway-api-key", rootKey, "x-gateway-provider", "@mine")); cost < 40 {
						t.Errorf("the request cost %v cents, want 50", cost)
					}
				})
			}
		}
	}
	p := newProvider(t, servedBy("cheap"))
	g := launch(t, options{settings: priced(p, "")})
	for _, body := range []string{chatCheap, `{"model":"cheap","models":["dear"],"messages":[{"role":"user","content":"hello"}]}`} {
		t.Run("legitimate: "+body, func(t *testing.T) {
			if cost := g.costOf(t, g.do(t, "POST", completePath, body, "x-gateway-api-key", rootKey, "x-gateway-provider", "@mine")); cost > 0.06 {
				t.Errorf("the request cost %v cents, want 0.05", cost)
			}
		})
	}
}

// TestAModelNamedSecondIsLimited shows that policies on a model bind requests that name it
// in addition to another.
func TestAModelNamedSecondIsLimited(t *testing.T) {
	t.Parallel()
	p := newProvider(t, servedBy("dear"))
	claude := fmt.Sprintf("  - {slug: claude, provider: anthropic, custom_host: %q, api_key: \"${STORED_KEY}\"}\n", p.url)
	g := launch(t, options{settings: priced(p, claude), env: []string{"STORED_KEY=" + storedKey}})
	g.as(t, rootKey, "POST", "/v1/policies/rate-limits", `{"name":"dear","workspace_id":"default","type":"requests","unit":"rph","value":1,"conditions":[{"key":"model","value":"dear"}],"group_by":[{"key":"workspace_id"}]}`).ok(t)
	ask := func(t *testing.T, path, query, body string) response {
		return g.do(t, "POST", path+query, body, "x-gateway-api-key", rootKey, "x-gateway-provider", "@mine")
	}
	waittest.Until(t, "the policy binds", func() bool {
		return ask(t, completePath, "", strings.Replace(chatCheap, "cheap", "dear", 1)).status == http.StatusTooManyRequests
	})
	more := append(namings, struct{ name, query, body string }{"a tool", "", `{"model":"cheap","tools":[{"type":"x","model":"%s"}],"messages":[{"role":"user","content":"hello"}]}`})
	for _, n := range more {
		for _, path := range []string{completePath, passPath} {
			attack(t, "exhaustion", "a limited model in "+n.name+" of "+path, func(t *testing.T) {
				query, body := namedFurther(n.query, n.body, "dear")
				ask(t, path, query, body).refused(t, http.StatusTooManyRequests, "")
				query, body = namedFurther(n.query, n.body, "other")
				if r := ask(t, path, query, body); r.status != http.StatusOK {
					t.Errorf("another model: status %d: %.300s", r.status, r.body)
				}
			})
		}
	}
	for name, body := range map[string]string{
		"models that cannot be read": `{"model":"cheap","models":[{"id":"dear"}],"messages":[{"role":"user","content":"hello"}]}`,
		"a number":                   `{"model":"cheap","models":7,"messages":[{"role":"user","content":"hello"}]}`,
	} {
		attack(t, "exhaustion", "a limited model in "+name, func(t *testing.T) {
			ask(t, completePath, "", body).refused(t, http.StatusForbidden, "AB03")
		})
	}
	attack(t, "exhaustion", "a limited model in a row of a batch of messages", func(t *testing.T) {
		body := `{"requests":[{"custom_id":"a","params":{"model":"cheap"}},{"custom_id":"b","params":{"model":"dear"}}]}`
		g.do(t, "POST", "/v1/messages/batches", body, "x-gateway-api-key", rootKey, "x-gateway-provider", "@claude").refused(t, http.StatusTooManyRequests, "")
	})
	attack(t, "exhaustion", "more models than are searched", func(t *testing.T) {
		var list []string
		for i := range 100 {
			list = append(list, fmt.Sprintf(`"m%d"`, i))
		}
		ask(t, completePath, "", `{"model":"cheap","models":[`+strings.Join(list, ",")+`,"dear"],"messages":[{"role":"user","content":"hello"}]}`).refused(t, http.StatusBadRequest, "64 models")
	})
}
