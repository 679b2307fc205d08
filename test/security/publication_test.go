package security

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"modelgate/internal/testing/storetest"
	"modelgate/internal/testing/waittest"
)

// slowModules are modules that take long to compile, but are small enough to be accepted.
const slowModules = 3

func slowModule(n int) string {
	add := "\x20\x00\x04\x40\x20\x01\x20\x02\x6a\x21\x03\x0b" // if a { d = b + c }
	return wasmModule(50+n, 8, strings.Repeat(add, 900), "\x60\x00\x00")
}

// TestSlowGuardrailsDelayNoPublication saves a guardrail that takes long to compile on a node
// that has not compiled it yet, and deletes a key of another organisation.
func TestSlowGuardrailsDelayNoPublication(t *testing.T) {
	t.Parallel()
	dsn := storetest.Postgres(t)
	here, there := launch(t, options{database: dsn}), launch(t, options{database: dsn})
	p := newProvider(t, nil)
	owner := here.organisation(t, "other")
	var other string
	for _, k := range here.as(t, owner, "GET", "/v1/admin/workspaces", "").object(t)["data"].([]any) {
		other = k.(map[string]any)["id"].(string)
	}
	key := here.key(t, owner, other, []string{"completions.write"}, "")
	there.awaitKey(t, key)
	var checks []string
	began := time.Now()
	for n := range slowModules {
		here.as(t, owner, "POST", "/v1/guardrail-modules", fmt.Sprintf(`{"name":"m","slug":"slow-%d","workspace_id":%q,"code":%q}`, n, other, slowModule(n))).ok(t)
		checks = append(checks, fmt.Sprintf(`{"id":"default.wasm","parameters":{"module":"slow-%d"}}`, n))
	}
	slow := time.Since(began)
	status := func(slug string) response {
		config := fmt.Sprintf(`{"provider":"openai-compatible","custom_host":%q,"api_key":"sk-x","input_guardrails":[%q]}`, p.url, slug)
		return there.do(t, "POST", "/v1/chat/completions", chatBody, "x-gateway-api-key", key, "x-gateway-config", config)
	}
	attack(t, "tokens", "a key is refused by a node that compiles a slow guardrail of another organisation", func(t *testing.T) {
		k := here.mint(t, rootKey, `["models.list"]`, "")
		there.awaitKey(t, k.secret)
		slug := here.create(t, owner, "/v1/guardrails", fmt.Sprintf(`{"name":"g","workspace_id":%q,"checks":[%s],"actions":{}}`, other, strings.Join(checks, ",")), "slug")
		here.as(t, rootKey, "DELETE", "/v1/api-keys/"+k.id, "").ok(t)
		cut := time.Now()
		waittest.Until(t, "the other node refuses it", func() bool { return there.as(t, k.secret, "GET", "/v1/models", "").status == http.StatusUnauthorized })
		took := time.Since(cut)
		t.Logf("the key was refused after %s; the guardrail takes %s to compile", took, slow)
		if r := status(slug); r.status != http.StatusServiceUnavailable || !strings.Contains(string(r.body), "guardrail_compiling") {
			t.Errorf("a request with the guardrail: %d %s, want 503 until it is compiled", r.status, r.body)
		}
		waittest.Until(t, "the guardrail is compiled", func() bool { return status(slug).status != http.StatusServiceUnavailable })
	})
}
