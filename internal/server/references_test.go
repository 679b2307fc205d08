package server_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/waittest"
)

// secretServer is a provider that tells which keys it was sent.
type secretServer struct {
	mu   sync.Mutex
	last string
}

func (k *secretServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last = r.Header.Get("Authorization") + r.Header.Get("X-Extra")
	io.WriteString(w, `{"id":"1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}`)
}

func (k *secretServer) sent() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last
}

// referring starts a gateway whose references may name files in a folder.
func referring(t *testing.T, data, folder string) (*gatewaytest.Gateway, *secretServer) {
	t.Helper()
	k := new(secretServer)
	return gatewaytest.New(t, gatewaytest.Options{
		Data: data, MasterKey: master, Upstream: k,
		Settings: "secrets:\n  files: [" + folder + "]\n  refresh: 1s\n",
	}), k
}

func mustPost(t *testing.T, g *gatewaytest.Gateway, path, body string) {
	t.Helper()
	if res := g.Post(path, body, "x-gateway-provider", ""); res.Status != 200 {
		t.Fatalf("POST %s %s: %d %s", path, body, res.Status, res.Body)
	}
}

// refer makes a reference to a file and the provider @slug whose key it is.
func refer(t *testing.T, g *gatewaytest.Gateway, slug, file, more string) {
	t.Helper()
	mustPost(t, g, "/secret-references", `{"name":"n","slug":"`+slug+`","manager_type":"file","secret_path":"`+file+`","allowed_hosts":["`+origin(g)+`"]}`)
	mustPost(t, g, "/integrations", `{"name":"n","slug":"`+slug+`","ai_provider_id":"openai-compatible","configurations":{"custom_host":"`+g.Upstream+`"},
		"secret_mappings":[{"target_field":"key","secret_reference_id":"`+slug+`"}`+more+`]}`)
}

// origin is the host that the gateway's provider listens on, with its scheme.
func origin(g *gatewaytest.Gateway) string { return strings.TrimSuffix(g.Upstream, "/v1") }

func sendChat(g *gatewaytest.Gateway, provider string) gatewaytest.Response {
	return g.Post("/chat/completions", chat, "x-gateway-provider", provider)
}

func mustPut(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

func TestAKeyComesFromAFileAndFollowsIt(t *testing.T) {
	t.Parallel()
	data, folder := t.TempDir(), t.TempDir()
	file := filepath.Join(folder, "key")
	mustPut(t, file, "canary-one\n")
	g, k := referring(t, data, folder)
	refer(t, g, "filed", file, `,{"target_field":"configurations.custom_headers.X-Extra","secret_reference_id":"filed"}`)
	if res := sendChat(g, "@filed"); res.Status != 200 || k.sent() != "Bearer canary-onecanary-one" {
		t.Fatalf("%d %s with %q", res.Status, res.Body, k.sent())
	}
	mustPut(t, file, "canary-two")
	waittest.Until(t, "the new key is used", func() bool {
		return sendChat(g, "@filed").Status == 200 && strings.HasPrefix(k.sent(), "Bearer canary-two")
	})
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "the file is missed", func() bool { return strings.Contains(g.Log.String(), "using the last value") })
	if res := sendChat(g, "@filed"); res.Status != 200 {
		t.Errorf("with the last value: %d %s", res.Status, res.Body)
	}
	if text := metricsOf(t, g); !strings.Contains(text, "modelgate_secrets_stale 1") || !strings.Contains(text, "modelgate_secrets_unresolved 0") {
		t.Error("the metrics do not tell that a value is stale")
	}
	test := g.Post("/secret-references/filed/test", "", "x-gateway-provider", "")
	shown := string(test.Body) + string(g.Get("/integrations/filed").Body) + string(g.Get("/secret-references").Body) + string(g.Get("/audit-logs").Body) + g.Log.String()
	if strings.Contains(shown, "canary") || !strings.Contains(string(test.Body), "secret_not_found") {
		t.Errorf("a value shows, or the test of the reference went wrong: %s", test.Body)
	}
	mustPut(t, file, "canary-three")
	g.Stop()
	g, _ = referring(t, data, folder)
	if res := sendChat(g, "@filed"); res.Status != 200 || !strings.HasPrefix(k.sent(), "Bearer canary-three") {
		t.Errorf("after a new start: %d %s with %q", res.Status, res.Body, k.sent())
	}
}

func metricsOf(t *testing.T, g *gatewaytest.Gateway) string {
	t.Helper()
	res, err := http.Get(g.AdminURL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestAReferenceWithoutAValueIsReportedToItsUser(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := filepath.Join(folder, "key")
	g, k := referring(t, t.TempDir(), folder)
	refer(t, g, "filed", file, "")
	res := sendChat(g, "@filed")
	if body := string(res.Body); res.Status != 503 || !strings.Contains(body, "@filed") || !strings.Contains(body, "the file does not exist") || !strings.Contains(body, "secret_not_found") || strings.Contains(body, folder) {
		t.Errorf("without the file: %d %s", res.Status, res.Body)
	}
	if body := string(res.Body); !strings.Contains(body, "the secret reference of key has no value") {
		t.Errorf("users of a provider learn the field, not the reference: %s", body)
	}
	if res := sendChat(g, "@simulator"); res.Status != 200 {
		t.Errorf("another entry: %d %s", res.Status, res.Body)
	}
	mustPut(t, file, "one\ntwo")
	waittest.Until(t, "the value is read", func() bool { return strings.Contains(string(sendChat(g, "@filed").Body), "control character") })
	mustPut(t, file, "canary-one")
	waittest.Until(t, "the entry works", func() bool { return sendChat(g, "@filed").Status == 200 })
	if k.sent() != "Bearer canary-one" {
		t.Errorf("sent %q", k.sent())
	}
	put := g.Do(g.Request("PUT", "/secret-references/filed", `{"allowed_workspaces":["default"]}`, "x-gateway-provider", ""))
	if put.Status != 200 {
		t.Fatalf("%d %s", put.Status, put.Body)
	}
	if res := sendChat(g, "@filed"); res.Status != 200 {
		t.Errorf("in a workspace that has it: %d %s", res.Status, res.Body)
	}
	other, ok := g.Post("/workspaces", `{"name":"Other"}`, "x-gateway-provider", "").JSON(t)["slug"].(string)
	if !ok {
		t.Fatal("there is no other workspace")
	}
	put = g.Do(g.Request("PUT", "/secret-references/filed", `{"allowed_workspaces":["`+other+`"]}`, "x-gateway-provider", ""))
	if res := sendChat(g, "@filed"); put.Status != 200 || res.Status != 503 || !strings.Contains(string(res.Body), "not available to this workspace") {
		t.Errorf("in a workspace that does not: %d, %d %s", put.Status, res.Status, res.Body)
	}
}

func TestASlowVaultHoldsNothingUp(t *testing.T) {
	release := make(chan struct{})
	vault := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
			return
		}
		if r.Header.Get("X-Vault-Token") != "canary-token" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		io.WriteString(w, `{"data":{"data":{"key":"canary-one"}}}`)
	}))
	defer vault.Close()
	g, k := referring(t, t.TempDir(), t.TempDir())
	mustPost(t, g, "/secret-references", `{"name":"n","slug":"v","manager_type":"hashicorp_vault","allowed_hosts":["`+origin(g)+`"],"secret_path":"secret/app","auth_config":{"type":"token","address":"`+vault.URL+`","token":"canary-token"}}`)
	began := time.Now()
	mustPost(t, g, "/virtual-keys", `{"name":"slow","provider":"openai-compatible","customHost":"`+g.Upstream+`","secret_mappings":[{"target_field":"key","secret_reference_id":"v"}]}`)
	if took := time.Since(began); took >= 10*time.Second { // the timeout of the read that hangs
		t.Errorf("the change took %v, want it not to wait for the secret manager", took)
	}
	var list struct{ Data []struct{ Slug string } }
	if res := g.Get("/virtual-keys"); json.Unmarshal(res.Body, &list) != nil || len(list.Data) != 1 {
		t.Fatalf("%d %s", res.Status, res.Body)
	}
	slug := list.Data[0].Slug
	if res := sendChat(g, "@"+slug); res.Status != 503 || !strings.Contains(string(res.Body), "secret_pending") {
		t.Errorf("before the Vault answered: %d %s", res.Status, res.Body)
	}
	close(release)
	waittest.Until(t, "the key is used", func() bool { return sendChat(g, "@"+slug).Status == 200 && k.sent() == "Bearer canary-one" })
	if shown := g.Log.String() + string(g.Get("/audit-logs").Body) + string(g.Get("/secret-references/v").Body); strings.Contains(shown, "canary") {
		t.Error("the token or the value shows")
	}
}
