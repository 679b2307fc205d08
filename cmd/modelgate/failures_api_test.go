package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"modelgate/internal/testing/waittest"
)

// ask sends a request with the key of the test and returns the status and the body.
func (r *running) ask(t *testing.T, method, path, body string, headers ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, r.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("x-gateway-api-key", testKey)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

const testKey = "boot-of-a-test-0123"

// startFailing starts a gateway whose providers fail, each in its way. Their slugs say
// how.
func startFailing(t *testing.T) *running {
	t.Helper()
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	garbage := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"choices":[`)
	}))
	t.Cleanup(garbage.Close)
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, `{"error":{"message":"<no> & no","type":"invalid_request_error"}}`)
	}))
	t.Cleanup(refusing.Close)
	dir := t.TempDir()
	var settings strings.Builder
	settings.WriteString("providers:\n")
	for slug, host := range map[string]string{
		"closed": "http://127.0.0.1:1", "untrusted": secure.URL, "nameless": "http://nothing.invalid",
		"garbage": garbage.URL, "refusing": refusing.URL,
		"plain": strings.Replace(refusing.URL, "http:", "https:", 1),
	} {
		fmt.Fprintf(&settings, "  - {slug: %s, provider: openai, custom_host: '%s/v1', api_key: '${KEY_OF_A_TEST}'}\n", slug, host)
	}
	t.Setenv("KEY_OF_A_TEST", password)
	file := filepath.Join(dir, "modelgate.yaml")
	mustWrite(t, file, settings.String())
	return start(t, []string{"MODELGATE_BOOTSTRAP_KEY=" + testKey}, "--data", dir, "--config", file, "--trusted-hosts", "127.0.0.1,nothing.invalid")
}

// says checks an error: its status, what it must contain, and its sentence.
func says(t *testing.T, name string, status int, body string, want int, words ...string) {
	t.Helper()
	if status != want {
		t.Errorf("%s: status %d, want %d: %s", name, status, want, body)
	}
	for _, w := range words {
		if !strings.Contains(body, w) {
			t.Errorf("%s: %q does not contain %q", name, body, w)
		}
	}
	var e struct {
		Message string
		Error   struct{ Message string }
	}
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		t.Errorf("%s: the body is not JSON: %s", name, body)
	}
	message := e.Error.Message + e.Message
	if e.Error.Message != "" {
		message = e.Error.Message // of two forms
	}
	if message == "" {
		t.Errorf("%s: no message in %s", name, body)
	}
	for _, problem := range append(sentenceProblems(message), escapes(body)...) {
		t.Errorf("%s: %s: %s", name, problem, body)
	}
}

// escapes returns the characters that a body has in escaped form.
func escapes(body string) (found []string) {
	for _, e := range []string{`\u003c`, `\u003e`, `\u0026`, password} {
		if strings.Contains(body, e) {
			found = append(found, "contains "+e)
		}
	}
	return found
}

func TestErrorsOfProvidersNameTheirSlug(t *testing.T) {
	g := startFailing(t)
	for slug, want := range map[string]struct {
		status int
		says   string
	}{
		"closed": {502, "connection refused); check the address of the provider (custom_host)"}, "untrusted": {502, "unknown authority"}, "nameless": {502, "no such host"},
		"garbage": {502, "not whole JSON"}, "plain": {502, "does not speak TLS"},
	} {
		for path, body := range map[string]string{
			"/v1/chat/completions": `{"model":"m","messages":[{"role":"user","content":"hi"}]}`,
			"/v1/messages":         `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`,
			"/v1/responses":        `{"model":"m","input":"hi"}`,
		} {
			status, text := g.ask(t, "POST", path, body, "x-gateway-provider", "@"+slug)
			says(t, slug+path, status, text, want.status, "@"+slug+" (openai)", want.says)
		}
	}
	for path, body := range map[string]string{
		"/v1/chat/completions": `{"model":"m","messages":[{"role":"user","content":"hi"}]}`,
		"/v1/messages":         `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`,
	} {
		status, text := g.ask(t, "POST", path, body, "x-gateway-provider", "@refusing")
		says(t, "refusing"+path, status, text, 400, `"provider_slug":"refusing"`, "<no> & no")
	}
	waittest.Until(t, "tail names the slug", func() bool {
		_, out, _ := invoke(t, nil, "", "tail", "--url", g.url, "--key", testKey, "--follow=false", "--lines", "100", "--explain")
		return strings.Contains(out, "  @refusing (openai)  ") && strings.Contains(out, ": @closed (openai), ")
	})
	question := filepath.Join(t.TempDir(), "question.json")
	mustWrite(t, question, `{"request":{"body":{"model":"m","messages":[{"role":"user","content":"hi"}]}},"config":{"provider":"@closed"}}`)
	if _, out, errs := invoke(t, nil, "", "explain", "--listen", strings.TrimPrefix(g.url, "http://"), "--key", testKey, question); !strings.Contains(out, ": @closed (openai), model m: POST") {
		t.Errorf("explain does not name the slug: %s%s", out, errs)
	}
	if _, out, errs := invoke(t, nil, "", "explain", "--json", "--listen", strings.TrimPrefix(g.url, "http://"), "--key", testKey, question); !strings.Contains(out, `"provider_slug":"closed"`) {
		t.Errorf("explain --json does not name the slug: %s%s", out, errs)
	}
}

func TestErrorsOfTheAPIAreOneSentenceInPlainCharacters(t *testing.T) {
	g := startFailing(t)
	const chat = `{"model":"<m> & n","messages":[{"role":"user","content":"hi"}]}`
	for _, tt := range []struct {
		name, method, path, body string
		headers                  []string
		status                   int
		says                     []string
	}{
		{"no provider", "POST", "/v1/chat/completions", chat, nil, 400, []string{"provider"}},
		{"no JSON", "POST", "/v1/chat/completions", `{"model":"<m>`, []string{"x-gateway-provider", "@closed"}, 400, nil},
		{"an unknown provider", "POST", "/v1/chat/completions", chat, []string{"x-gateway-provider", "<a>&b"}, 400, []string{"<a>&b"}},
		{"an unknown slug", "POST", "/v1/chat/completions", chat, []string{"x-gateway-provider", "@<a>&b"}, 404, []string{"<a>&b"}},
		{"an unknown config", "POST", "/v1/chat/completions", chat, []string{"x-gateway-config", "pc-absent"}, 404, []string{"pc-absent"}},
		{"a config of another kind", "POST", "/v1/chat/completions", chat, []string{"x-gateway-config", `{"strategy":{"mode":"<a>&b"}}`}, 400, []string{"<a>&b"}},
		{"a wrong type", "POST", "/v1/chat/completions", `{"model":"m","messages":"<a>&b"}`, []string{"x-gateway-provider", "@closed"}, 400, []string{"messages"}},
		{"a bad timeout", "POST", "/v1/chat/completions", chat, []string{"x-gateway-provider", "@closed", "x-gateway-request-timeout", "<1>&"}, 400, []string{"x-gateway-request-timeout"}},
		{"an unknown key", "POST", "/v1/chat/completions", chat, []string{"x-gateway-api-key", "<a>&b"}, 401, nil},
		{"messages without a bound", "POST", "/v1/messages", `{"model":"<a>&b","messages":[]}`, []string{"x-gateway-provider", "@closed"}, 400, nil},
		{"an unknown field of an object", "POST", "/v1/workspaces", `{"name":"w","<a>&b":1}`, nil, 400, []string{"<a>&b"}},
		{"a wrong type of a field", "POST", "/v1/workspaces", `{"name":["<a>&b"]}`, nil, 400, []string{"name"}},
		{"half an object", "POST", "/v1/workspaces", `{"name":"<a>&b`, nil, 400, nil},
		{"no such object", "GET", "/v1/configs/%3Ca%3E&b", "", nil, 404, []string{"<a>&b"}},
		{"a config with an unknown property", "POST", "/v1/configs", `{"name":"c","workspace_id":"default","config":{"<a>&b":1}}`, nil, 400, []string{"<a>&b"}},
		{"a config with a wrong value", "POST", "/v1/configs", `{"name":"c","workspace_id":"default","config":{"strategy":{"mode":"<a>&b"}}}`, nil, 400, []string{"<a>&b"}},
		{"a provider of an unknown kind", "POST", "/v1/integrations", `{"name":"i","ai_provider_id":"<a>&b","key":"k"}`, nil, 400, []string{"ai_provider_id"}},
		{"a key with an unknown scope", "POST", "/v1/api-keys/workspace/service", `{"name":"k","workspace_id":"default","scopes":["<a>&b"]}`, nil, 400, []string{"<a>&b"}},
		{"a key of no workspace", "POST", "/v1/api-keys/workspace/service", `{"name":"k","workspace_id":"<a>&b","scopes":["completions.write"]}`, nil, 404, []string{"<a>&b"}},
		{"a filter of the log that is none", "GET", "/v1/logs?status=%3Ca%3E%26b", "", nil, 400, []string{"<a>&b"}},
		{"a policy with an unknown condition", "POST", "/v1/policies/rate-limits", `{"name":"p","workspace_id":"default","conditions":[{"key":"<a>&b","value":"x"}],"group_by":[{"key":"api_key"}],"type":"requests","unit":"rpm","value":1}`, nil, 400, []string{"metadata.<field>"}},
	} {
		status, body := g.ask(t, tt.method, tt.path, tt.body, tt.headers...)
		says(t, tt.name, status, body, tt.status, tt.says...)
	}
}
