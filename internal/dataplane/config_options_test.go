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

func TestOptionsOfConfigsWithoutAProviderAreAppliedOrAnnounced(t *testing.T) {
	t.Parallel()
	var got *http.Request
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		got = r
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"id":"m","type":"message","role":"assistant","model":"c","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`)
	}))
	defer upstream.Close()
	g := gatewaytest.New(t, gatewaytest.Options{Managed: []snapshot.ManagedProvider{{
		Slug: "claude", Provider: "anthropic", Settings: provider.Settings{Key: secret.New("sk-x"), CustomHost: upstream.URL + "/v1"},
	}}})
	saved := g.Post("/configs", `{"name":"o","config":{"retry":{"attempts":1},"api_version":"2024-10-21","deployment_id":"theirs"}}`, "x-gateway-provider", "")
	slug, _ := at(saved.JSON(t), "data.slug").(string)
	anthropic := []string{"x-gateway-provider", "anthropic", "x-gateway-custom-host", upstream.URL + "/v1", "Authorization", "Bearer own"}
	azure := []string{"x-gateway-provider", "azure-openai", "x-gateway-custom-host", upstream.URL + "/openai", "Authorization", "Bearer own"}
	const retry = `"retry":{"attempts":1}`
	for _, tt := range []struct {
		name, config string
		headers      []string
		sent         string // part of the request line and of the header of beta flags
		params       string // part of the announcements; empty if the options are not announced
	}{
		{"next to a managed provider", `{"provider":"@claude","vendorb_beta":"flag-1"}`, nil, "flag-1", ""},
		{"next to a managed provider in a target", `{"strategy":{"mode":"single"},"targets":[{"virtual_key":"claude","vendorb_beta":"flag-1"}]}`, nil, "flag-1", ""},
		{"for a managed provider of the request", `{` + retry + `,"vendorb_beta":"flag-1"}`, []string{"x-gateway-provider", "@claude"}, "flag-1", ""},
		{"for a provider of the request", `{` + retry + `,"vendorb_beta":"flag-1"}`, anthropic, "flag-1", ""},
		{"over the header", `{` + retry + `,"vendorb_beta":"flag-1"}`, append(anthropic, "x-gateway-vendorb-beta", "flag-2"), "flag-1", ""},
		{"of another provider", `{` + retry + `,"vendora_organization":"org-1"}`, anthropic, "", "vendora_organization;ignored"},
		{"of a managed provider", `{` + retry + `,"vendora_organization":"org-1"}`, []string{"x-gateway-provider", "@claude"}, "", "vendora_organization;ignored"},
		{"a deployment", `{` + retry + `,"deployment_id":"mine","api_version":"2024-10-21"}`, azure, "/deployments/mine/chat/completions?api-version=2024-10-21", ""},
		{"a deployment of a saved config", slug, azure, "api-version=2024-10-21", "deployment_id;ignored"},
	} {
		got = nil
		headers := append([]string{"x-gateway-provider", "", "x-gateway-config", tt.config}, tt.headers...)
		res := g.Post("/chat/completions", plainChat, headers...)
		if got == nil {
			t.Errorf("%s: %d %s", tt.name, res.Status, res.Body)
			continue
		}
		params := res.Header.Get("x-gateway-params")
		if sent := got.URL.String() + " " + got.Header.Get("Anthropic-Beta"); !strings.Contains(sent, tt.sent) || strings.Contains(sent, "flag-2") {
			t.Errorf("%s: the provider got %s, want %s", tt.name, sent, tt.sent)
		}
		if !strings.Contains(params, tt.params) || tt.params == "" && strings.Contains(params, "ignored") {
			t.Errorf("%s: x-gateway-params %q, want %q", tt.name, params, tt.params)
		}
	}
	for _, config := range []string{`{"provider":"@claude","vendora_organization":"o"}`, `{"provider":"@claude","resource_name":"r"}`, `{"provider":"@claude","cloud_c_ad_token":"t"}`} {
		res := g.Post("/chat/completions", plainChat, "x-gateway-provider", "", "x-gateway-config", config)
		if e := errorOf(t, string(res.Body)); res.Status != 400 || e["code"] != "AB01" {
			t.Errorf("%s: %d %s, want AB01", config, res.Status, res.Body)
		}
	}
}
