package server_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

func TestPathsOfAdministrationNeverReachProviders(t *testing.T) {
	t.Parallel()
	var got atomic.Pointer[string]
	var calls atomic.Int64
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		text := r.Method + " " + r.URL.Path + " " + string(body)
		got.Store(&text)
		calls.Add(1)
		io.WriteString(w, "{}")
	})})
	const secret = `{"name":"a","api_key":"sk-secret"}`
	for _, tt := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"DELETE", "/configs", 405, "GET, POST"},
		{"PATCH", "/configs/pc-x", 405, "DELETE, GET, PUT"},
		{"POST", "/integrations/x", 405, "DELETE, GET, PUT"},
		{"POST", "/integration", 0, ""}, // not the name of a route
		{"POST", "/integrations/x/modls", 404, ""},
		{"POST", "/deployments/gpt-4o/chat/completions", 0, ""}, // of Azure
		{"POST", "/deployments/gpt-4o/chat/completion", 404, ""},
		{"POST", "/deployments/a/b/chat/completions", 404, ""},
		{"POST", "/configs/", 404, ""},
		{"POST", "/Configs", 404, ""},
		{"POST", "/configs;v=1", 404, ""},
		{"POST", "/api-keys/workspace/servce", 404, ""},
		{"PUT", "/secret-references", 405, "GET, POST"},
		{"GET", "/prompts/a/completions", 404, ""},
		{"POST", "/guardrails/a/b/c", 404, ""},
		{"POST", "/admin/userss", 404, ""},
		{"POST", "/auth/grant", 404, ""},
	} {
		before := calls.Load()
		res := g.Do(g.Request(tt.method, tt.path, secret))
		if reached := calls.Load() - before; tt.status == 0 {
			if reached != 1 {
				t.Errorf("%s %s did not reach the provider: %d %s", tt.method, tt.path, res.Status, res.Body)
			}
			continue
		} else if res.Status != tt.status || res.Header.Get("Allow") != tt.allow || reached != 0 || !strings.Contains(string(res.Body), "x-gateway-pass-through") {
			t.Errorf("%s %s: %d, allow %q, %d calls: %s; want %d and %q", tt.method, tt.path, res.Status, res.Header.Get("Allow"), reached, res.Body, tt.status, tt.allow)
		}
	}
	if res := g.Do(g.Request("POST", "/configs/"+strings.Repeat("x", 300)+"/version", secret)); res.Status != 404 || strings.Contains(string(res.Body), "did you mean") {
		t.Errorf("a long path: %d %s", res.Status, res.Body)
	}
	for _, tt := range []struct{ method, path string }{{"POST", "/configs"}, {"POST", "/configs/x/y"}, {"GET", "/deployments"}, {"DELETE", "/labels/1"}} {
		body := ""
		if tt.method == "POST" {
			body = secret
		}
		res := g.Do(g.Request(tt.method, tt.path, body, "x-gateway-pass-through", "true"))
		if want := tt.method + " /v1" + tt.path + " " + body; res.Status != 200 || !strings.HasSuffix(*got.Load(), strings.TrimPrefix(want, tt.method+" /v1")) || res.Header.Get("x-gateway-params") != "" {
			t.Errorf("%s %s with the header: %d %s; the provider got %s", tt.method, tt.path, res.Status, res.Body, *got.Load())
		}
	}
	if res := g.Do(g.Request("POST", "/configs", secret, "x-gateway-pass-through", "false")); strings.Contains(string(res.Body), "{}") && res.Status == 200 {
		t.Errorf("a header that says no: %d %s", res.Status, res.Body)
	}
	res := g.Post("/chat/completions", oneChat, "x-gateway-pass-through", "true")
	if got := res.Header.Get("x-gateway-params"); !strings.Contains(got, "x-gateway-pass-through;ignored") {
		t.Errorf("x-gateway-params = %q, want the header that has no effect", got)
	}
}
