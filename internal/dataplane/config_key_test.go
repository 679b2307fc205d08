package dataplane_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

func TestConfigWithoutACredentialTakesTheClients(t *testing.T) {
	t.Parallel()
	var got string
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		got = r.Header.Get("Authorization") + r.Header.Get("X-Api-Key")
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, chatBody)
	})})
	host := `"custom_host":"` + g.Upstream + `"`
	saved := g.Post("/configs", `{"name":"lent","config":{"provider":"openai-compatible",`+host+`}}`, "x-gateway-provider", "")
	slug, _ := at(saved.JSON(t), "data.slug").(string)
	for _, tt := range []struct{ name, config, host, want string }{
		{"a host in the request's config", `{"provider":"openai-compatible",` + host + `}`, "", "Bearer of-the-client"},
		{"a host in a target", `{"strategy":{"mode":"fallback"},"targets":[{"provider":"openai",` + host + `}]}`, "", "Bearer of-the-client"},
		{"a host in a header", `{"provider":"openai-compatible","custom_host":"https://other.example/v1"}`, g.Upstream, "Bearer of-the-client"},
		{"a credential in the config", `{"provider":"openai-compatible","api_key":"own",` + host + `}`, "", "Bearer own"},
		{"a host of a saved config", slug, "", ""},
	} {
		got = "nothing"
		headers := []string{"x-gateway-provider", "", "x-gateway-config", tt.config, "Authorization", "Bearer of-the-client"}
		if tt.host != "" {
			headers = append(headers, "x-gateway-custom-host", tt.host)
		}
		if res := g.Post("/chat/completions", plainChat, headers...); res.Status != 200 || got != tt.want {
			t.Errorf("%s: %d %s; the provider got %q, want %q", tt.name, res.Status, res.Body, got, tt.want)
		}
	}
	got = "nothing"
	res := g.Do(func() *http.Request { // the gateway key is not a credential for a provider
		req := g.Request("POST", "/chat/completions", plainChat, "x-gateway-provider", "", "x-gateway-config", `{"provider":"openai-compatible",`+host+`}`, "Authorization", "Bearer "+gatewaytest.Key)
		req.Header.Del("x-gateway-api-key")
		return req
	}())
	if res.Status != 200 || got != "" {
		t.Errorf("with the gateway key: %d; the provider got %q", res.Status, got)
	}
	for _, config := range []string{
		`{"provider":"vertex-ai","cloud_b_region":"us-central1","cloud_b_project_id":"p"}`,
		`{"provider":"azure-ai","cloud_c_deployment_name":"d","cloud_c_deployment_type":"serverless","cloud_c_region":"westus","cloud_c_api_version":"2024-10-21"}`,
	} {
		for key, status := range map[string]float64{"Bearer of-the-client": 200, "": 400} {
			headers := map[string]string{}
			if key != "" {
				headers["authorization"] = key
			}
			body, _ := json.Marshal(map[string]any{"config": json.RawMessage(config), "request": map[string]any{"headers": headers, "body": json.RawMessage(strings.Replace(plainChat, `"m"`, `"gemini-2.5-flash"`, 1))}})
			res := g.Post("/explain", string(body), "x-gateway-provider", "")
			if got := res.JSON(t)["status"]; got != status {
				t.Errorf("%s with %q: %v %.600s, want %v", config, key, got, res.Body, status)
			}
		}
	}
}
