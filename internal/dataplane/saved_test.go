package dataplane_test

import (
	"fmt"
	"strings"
	"testing"

	"modelgate/internal/identity/access"
	"modelgate/internal/testing/gatewaytest"
)

const savedSettings = `
providers:
  - {slug: dear, provider: openai, custom_host: SIMULATOR, api_key: "${PAIR_KEY}"}
  - {slug: cheap, provider: groq, custom_host: SIMULATOR, api_key: "${PAIR_KEY}"}
upstream: {trusted_hosts: [127.0.0.1]}
configs:
  - slug: pc-fallback
    config:
      strategy: {mode: fallback}
      targets:
        - {provider: "@dear", override_params: {model: sim-1+status=500}}
        - {provider: "@cheap"}
keys:
  - {name: defaulted, sha256: HASH, config: pc-fallback}
prices:
  - {provider: openai, model: "*", input: 10, output: 30}
  - {provider: groq, model: sim-1, input: 0.1, output: 0.2}
`

func newSaved(t *testing.T) *gatewaytest.Gateway {
	t.Helper()
	text := strings.ReplaceAll(savedSettings, "HASH", access.HashKey("a-key-with-a-default-config").String())
	return gatewaytest.New(t, gatewaytest.Options{Settings: text})
}

// S-046, S-429
func TestASavedConfigAppliesByItsSlug(t *testing.T) {
	t.Parallel()
	g := newSaved(t)
	body := fmt.Sprintf(hello, false)
	for _, tt := range []struct {
		name    string
		headers []string
		status  int
		target  string
		config  any // in the log
	}{
		{"named in the header", []string{"x-gateway-config", "pc-fallback"}, 200, "config.targets[1]", "pc-fallback"},
		{"the key's default", []string{"x-gateway-api-key", "a-key-with-a-default-config"}, 200, "config.targets[1]", "pc-fallback"},
		{"the request's own config wins over the key's", []string{"x-gateway-api-key", "a-key-with-a-default-config", "x-gateway-config", `{"provider":"@cheap"}`}, 200, "config", nil},
		{"no such slug", []string{"x-gateway-config", "pc-none"}, 404, "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res := g.Post("/chat/completions", body, append([]string{"x-gateway-provider", ""}, tt.headers...)...)
			if got := res.Header.Get("x-gateway-last-used-option-index"); res.Status != tt.status || got != tt.target {
				t.Errorf("status %d by %q, want %d by %q: %.200s", res.Status, got, tt.status, tt.target, res.Body)
			}
			if got := g.Entry(res)["config"]; got != tt.config {
				t.Errorf("the log says config %v, want %v", got, tt.config)
			}
		})
	}
}

func TestCostChoosesTheCheapestCapableTarget(t *testing.T) {
	t.Parallel()
	g := newSaved(t)
	config := func(targets string) string {
		return `{"strategy":{"mode":"cost"},"targets":[` + targets + `]}`
	}
	dear, cheap, unpriced := `{"provider":"@dear"}`, `{"provider":"@cheap"}`, `{"provider":"@cheap","override_params":{"model":"sim-2"}}`
	chat := fmt.Sprintf(hello, false)
	for _, tt := range []struct {
		name, targets, path, body, want string
	}{
		{"the cheaper one", dear + "," + cheap, "/chat/completions", chat, "config.targets[1]"},
		{"a known price before an unknown", unpriced + "," + dear, "/chat/completions", chat, "config.targets[1]"},
		{"no price at all", unpriced + "," + unpriced, "/chat/completions", chat, "config.targets[0]"},
		{"only who offers it", cheap + "," + dear, "/moderations", `{"input":"hi"}`, "config.targets[1]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res := g.Post(tt.path, tt.body, "x-gateway-provider", "", "x-gateway-config", config(tt.targets))
			if got := res.Header.Get("x-gateway-last-used-option-index"); res.Status != 200 || got != tt.want {
				t.Errorf("status %d by %q, want 200 by %q: %.200s", res.Status, got, tt.want, res.Body)
			}
		})
	}
}
