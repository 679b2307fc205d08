package server_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

// Anthropic has deployments as well: which ones a request is for, its client says by
// naming the version of Anthropic's API.
func TestDeploymentsOfAnthropicPassThrough(t *testing.T) {
	t.Setenv("ANTHROPIC_TEST_KEY", "sk-ant-1")
	w := new(witness)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: w, MasterKey: master, Settings: `version: 1
providers:
  - {slug: ant, provider: anthropic, custom_host: SIMULATOR, api_key: "${ANTHROPIC_TEST_KEY}"}
`})
	for _, tt := range []struct{ method, path string }{
		{http.MethodGet, "/deployments?beta=true"},
		{http.MethodPost, "/deployments?beta=true"},
		{http.MethodGet, "/deployments/depl_1?beta=true"},
		{http.MethodDelete, "/deployments/depl_1?beta=true"},
	} {
		res := g.Do(g.Request(tt.method, tt.path, "", "x-gateway-provider", "", "anthropic-version", "2023-06-01"))
		var got []string
		for _, r := range w.take() {
			got = append(got, r.Method+" "+r.RequestURI)
		}
		if want := []string{tt.method + " /v1" + tt.path}; res.Status != http.StatusOK || !slices.Equal(got, want) {
			t.Errorf("%s %s: %d %s; the provider got %q, want %q", tt.method, tt.path, res.Status, res.Body, got, want)
		}
		if res := g.Do(g.Request(tt.method, tt.path, "", "x-gateway-provider", "")); res.Status == http.StatusOK || len(w.take()) > 0 || !strings.Contains(string(res.Body), "AB0") {
			t.Errorf("%s %s without the version: %d %s, want the gateway's own route", tt.method, tt.path, res.Status, res.Body)
		}
	}
}
