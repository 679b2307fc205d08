package routing

import (
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

// A target may leave its provider to the request: to the header first, then to
// a model of the form @slug/model. Where neither names one, the target fails
// and the next is tried.
func TestTargetsThatTheRequestChooses(t *testing.T) {
	t.Setenv("STORED_KEY", gatewaytest.SimulatorKey)
	g := gatewaytest.New(t, gatewaytest.Options{Settings: `
providers:
  - {slug: mine, provider: openai-compatible, custom_host: SIMULATOR, api_key: "${STORED_KEY}"}
upstream: {trusted_hosts: [127.0.0.1]}
`})
	const through = `{"strategy":{"mode":"fallback"},"targets":[{"passthrough":true},{"provider":"@simulator","override_params":{"model":"spare"}}]}`
	for _, tt := range []struct {
		name, config, provider, model string
		by, slug, sent                string
	}{
		{"named by the header", through, "@mine", "m", "config.targets[0]", "mine", "m"},
		{"named by the model", through, "", "@mine/m", "config.targets[0]", "mine", "m"},
		{"named by both, the header wins", through, "@mine", "@simulator/m", "config.targets[0]", "mine", "@simulator/m"},
		{"named by neither", through, "", "m", "config.targets[1]", "simulator", "spare"},
		{"named by a slug that is not there", through, "@gone", "m", "", "", ""},
		{"at the root, by the model", `{"retry":{"attempts":1}}`, "", "@mine/m", "config", "mine", "m"},
		{"at the root, by the header", `{"retry":{"attempts":1}}`, "@mine", "m", "config", "mine", "m"},
		{"not where the config names one", `{"provider":"@simulator"}`, "", "@mine/m", "config", "simulator", "@mine/m"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body := strings.Replace(chatBody, "sim-1", tt.model, 1)
			res := g.Post("/chat/completions", body, "x-gateway-provider", tt.provider, "x-gateway-config", tt.config)
			if tt.by == "" {
				if res.Status != 404 {
					t.Errorf("status %d: %s; want 404", res.Status, res.Body)
				}
				return
			}
			e := g.Entry(res)
			if by := res.Header.Get("x-gateway-last-used-option-index"); res.Status != 200 || by != tt.by || e["provider_slug"] != tt.slug || res.Header.Get("x-gateway-model") != tt.sent {
				t.Errorf("status %d by %s, @%v with %s: %s; want %s, @%s with %s", res.Status, by, e["provider_slug"], res.Header.Get("x-gateway-model"), res.Body, tt.by, tt.slug, tt.sent)
			}
		})
	}
}
