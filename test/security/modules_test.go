package security

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"modelgate/internal/testing/waittest"
)

// WebAssembly modules that write a verdict, or run forever.
const (
	failingModule = "AGFzbQEAAAABDAJgBH9/f38Bf2AAAAJEAhZ3YXNpX3NuYXBzaG90X3ByZXZpZXcxB2ZkX3JlYWQAABZ3YXNpX3NuYXBzaG90X3ByZXZpZXcxCGZkX3dyaXRlAAADAgEBBQMBAAEHEwIGbWVtb3J5AgAGX3N0YXJ0AAIKDwENAEEBQQBBAUEQEAEaCwtXAQBBAAtRQAAAABEAAAAAEAAAYOoAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAHsidmVyZGljdCI6ZmFsc2V9"
	loopingModule = "AGFzbQEAAAABDAJgBH9/f38Bf2AAAAJEAhZ3YXNpX3NuYXBzaG90X3ByZXZpZXcxB2ZkX3JlYWQAABZ3YXNpX3NuYXBzaG90X3ByZXZpZXcxCGZkX3dyaXRlAAADAgEBBQMBAAEHEwIGbWVtb3J5AgAGX3N0YXJ0AAIKCQEHAANADAALCwtGAQBBAAtAQAAAAAAAAAAAEAAAYOoAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=="
)

// TestStoredModulesRunForTheirTenantOnly uploads modules and sends requests that they
// check, and tries to use them as another tenant.
func TestStoredModulesRunForTheirTenantOnly(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, o options) {
		g, p := launch(t, o), newProvider(t, nil)
		rival := g.organisation(t, "rival")
		key := g.key(t, rootKey, "default", []string{"completions.write"}, "")
		upload := func(slug, code string) {
			g.as(t, rootKey, "POST", "/v1/guardrail-modules", fmt.Sprintf(`{"name":"m","slug":%q,"organisation_id":"default","code":%q}`, slug, code)).ok(t)
		}
		upload("fails", failingModule)
		upload("loops", loopingModule)
		save := func(module, more string) string {
			return g.create(t, rootKey, "/v1/guardrails", fmt.Sprintf(`{"name":"g","organisation_id":"default","checks":[{"id":"default.wasm","parameters":{"module":%q%s}}],"actions":{"deny":true}}`, module, more), "slug")
		}
		chat := func(key, guard string) response {
			config := fmt.Sprintf(`{"provider":"openai-compatible","custom_host":%q,"api_key":"sk-x","input_guardrails":[%s]}`, p.url, guard)
			return g.do(t, "POST", "/v1/chat/completions", chatBody, "x-gateway-api-key", key, "x-gateway-config", config)
		}
		failing, looping, open := save("fails", ""), save("loops", `,"failOnError":true,"timeout":300`), save("loops", `,"timeout":300`)
		waittest.Until(t, "the guardrail applies", func() bool { return chat(key, `"`+failing+`"`).status == 446 })
		for _, tt := range []struct {
			name, guard string
			status      int
		}{{"a module that fails", failing, 446}, {"a module that loops and fails closed", looping, 446}, {"a module that loops, which is as if it had not read the text", open, 446}} {
			began := time.Now()
			if r := chat(key, `"`+tt.guard+`"`); r.status != tt.status || time.Since(began) > time.Minute {
				t.Errorf("%s: status %d after %s, want %d: %.300s", tt.name, r.status, time.Since(began), tt.status, r.body)
			}
		}
		attack(t, "escalation", "stored modules of another tenant", func(t *testing.T) {
			outsider := g.key(t, rival, "default", []string{"completions.write"}, "")
			if r := chat(outsider, `"`+open+`"`); r.status != http.StatusNotFound && r.status != http.StatusBadRequest {
				t.Errorf("the guardrail of another tenant: status %d: %.300s", r.status, r.body)
			}
			g.as(t, rival, "GET", "/v1/guardrail-modules/fails", "").refused(t, 404, "fails")
			g.as(t, rival, "DELETE", "/v1/guardrail-modules/fails", "").refused(t, 404, "fails")
			g.as(t, rival, "POST", "/v1/guardrails", `{"name":"g","workspace_id":"default","checks":[{"id":"default.wasm","parameters":{"module":"fails"}}],"actions":{}}`).refused(t, 400, "AB01", "checks[0].parameters.module")
			if r := g.as(t, rival, "GET", "/v1/guardrail-modules", ""); !strings.Contains(string(r.body), `"total":0`) {
				t.Errorf("another tenant lists %s", r.body)
			}
		})
		attack(t, "escalation", "a stored module in a config of a request", func(t *testing.T) {
			if r := chat(key, `{"default.wasm":{"module":"fails"}}`); r.status != 400 || !strings.Contains(string(r.body), "AB01") || !strings.Contains(string(r.body), "saved guardrail") {
				t.Errorf("status %d: %.300s", r.status, r.body)
			}
		})
		attack(t, "escalation", "code in a config that the client wrote", func(t *testing.T) {
			code := fmt.Sprintf(`{"deny":true,"default.wasm":{"code":%q}}`, failingModule)
			refused := func(name string) {
				if r := chat(key, code); r.status != 400 || !strings.Contains(string(r.body), "AB01") || !strings.Contains(string(r.body), "saved config") {
					t.Errorf("%s: status %d: %.300s", name, r.status, r.body)
				}
			}
			refused("an inline config")
			if r := chat(g.key(t, rootKey, "default", []string{"completions.write", "guardrails.create"}, ""), code); r.status != 446 {
				t.Errorf("an inline config of a key that may create guardrails: status %d: %.300s", r.status, r.body)
			}
			refused("the same inline config after it")
			slug := g.create(t, rootKey, "/v1/configs", fmt.Sprintf(`{"name":"c","workspace_id":"default","config":{"provider":"openai-compatible","custom_host":%q,"api_key":"sk-saved","input_guardrails":[%s]}}`, p.url, code), "data.slug")
			waittest.Until(t, "the saved config runs its code", func() bool {
				return g.do(t, "POST", "/v1/chat/completions", chatBody, "x-gateway-api-key", key, "x-gateway-config", slug).status == 446
			})
		})
		g.as(t, rootKey, "DELETE", "/v1/guardrail-modules/fails", "").refused(t, 409, failing)
	})
}

// TestTheDocumentedModuleRuns compiles the worked example of the page and runs it.
func TestTheDocumentedModuleRuns(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/guardrails.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "```go\n")
	source, _, _ := strings.Cut(rest, "```\n")
	if !found {
		t.Fatal("docs/guardrails.md has no example in Go")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"main.go": source, "go.mod": "module check\n\ngo 1.26\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-s -w", "-o", "check.wasm", ".")
	build.Dir, build.Env = dir, append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOWORK=off", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the example: %v\n%s", err, out)
	}
	code, err := os.ReadFile(filepath.Join(dir, "check.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	g := launch(t, options{})
	g.as(t, rootKey, "POST", "/v1/guardrail-modules", fmt.Sprintf(`{"name":"No tickets","slug":"no-tickets","workspace_id":"default","code":%q}`, base64.StdEncoding.EncodeToString(code))).ok(t)
	slug := g.create(t, rootKey, "/v1/guardrails", `{"name":"No tickets","workspace_id":"default","checks":[{"id":"default.wasm","parameters":{"module":"no-tickets","failOnError":true,"timeout":30000}}],"actions":{"deny":true}}`, "slug")
	for _, on := range []string{"request", "response"} {
		for text, want := range map[string][]string{"What is new?": {`"verdict":true`}, "See ACME-12 and ACME-13.": {`"denied":true`, `"tickets":2`}} {
			r := g.as(t, rootKey, "POST", "/v1/guardrails/test", fmt.Sprintf(`{"workspace_id":"default","guardrail":%q,"on":%q,"text":%q}`, slug, on, text))
			for _, part := range want {
				if r.status != http.StatusOK || !strings.Contains(string(r.body), part) {
					t.Errorf("%s %q: %d %s, want %s", on, text, r.status, r.body, part)
				}
			}
		}
	}
}
