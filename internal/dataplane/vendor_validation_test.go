package dataplane_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"modelgate/internal/base/secret"
	"modelgate/internal/provider"
	"modelgate/internal/snapshot"
	"modelgate/internal/testing/gatewaytest"
)

// The bodies are those of the test suite of OpenAI's Python client (openai
// 3.54.0, tests/api_resources) that the gateway refused, and others that its types
// allow.
func TestRequestsThatTheVendorAcceptsReachIt(t *testing.T) {
	t.Parallel()
	var got string
	g := gatewaytest.New(t, gatewaytest.Options{Settings: pairSettings, Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = r.URL.Path + " " + string(body)
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, "{}")
	})})
	for _, tt := range []struct{ path, body string }{
		{"/responses", `{}`},
		{"/responses", `{"model":"m"}`},
		{"/responses", `{"prompt":{"id":"pmpt_1","version":"2"}}`},
		{"/responses", `{"prompt":{"id":"pmpt_1"},"stream":false,"input":"a"}`},
		{"/responses", `{"model":"m","stream":false,"stream_options":{"include_obfuscation":true},"input":"a"}`},
		{"/chat/completions", `{"model":"m","stream":false,"stream_options":{"include_obfuscation":true,"include_usage":true},"messages":[{"role":"user","content":"a"}]}`},
		{"/completions", `{"model":"m","stream":false,"prompt":"a","best_of":0,"n":1,"stream_options":{"include_usage":true}}`},
		{"/completions", `{"model":"m","prompt":"a","best_of":0}`},
	} {
		got = ""
		res := g.Post(tt.path, tt.body, "x-gateway-provider", "@chat")
		if res.Status != 200 || !strings.HasSuffix(got, tt.path+" "+tt.body) {
			t.Errorf("%s %s: status %d %s; the provider got %s", tt.path, tt.body, res.Status, res.Body, got)
		}
	}
	// Elsewhere these have no meaning.
	for _, tt := range []struct{ target, body, param string }{
		{"messages", `{}`, "model"},
		{"messages", `{"model":"m"}`, "input"},
		{"messages", `{"prompt":{"id":"pmpt_1"}}`, "model"},
		{"messages", `{"model":"m","prompt":{"id":"pmpt_1"}}`, "prompt"},
	} {
		got = ""
		res := g.Post("/responses", tt.body, "x-gateway-provider", "@"+tt.target)
		if res.Status != 400 || at(res.JSON(t), "error.param") != tt.param || got != "" {
			t.Errorf("%s to %s: status %d %s, want a refusal of %s; the provider got %s", tt.body, tt.target, res.Status, res.Body, tt.param, got)
		}
	}
}

// A prompt that is stored at the provider names a model there, which a list of
// models cannot be compared with.
func TestARequestWithoutAModelIsRefusedByAListOfModels(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(raw(rawHead("application/json") + "{}"))
	defer upstream.Close()
	g := gatewaytest.New(t, gatewaytest.Options{Managed: []snapshot.ManagedProvider{{
		Slug: "only", Provider: "openai", Rules: &snapshot.ModelRules{Models: provider.NewModelList(false, []string{"m"}, nil)},
		Settings: provider.Settings{Key: secret.New("sk-x"), CustomHost: upstream.URL + "/v1"},
	}}})
	if res := g.Post("/responses", `{"prompt":{"id":"pmpt_1"}}`, "x-gateway-provider", "@only"); res.Status != 400 || at(res.JSON(t), "error.param") != "model" {
		t.Errorf("status %d: %s", res.Status, res.Body)
	}
	if res := g.Post("/responses", `{"prompt":{"id":"pmpt_1"},"model":"m"}`, "x-gateway-provider", "@only"); res.Status != 200 {
		t.Errorf("status %d: %s", res.Status, res.Body)
	}
}
