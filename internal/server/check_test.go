package server_test

import (
	"fmt"
	"strings"
	"testing"

	"modelgate/internal/base/secret"
	"modelgate/internal/server"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/waittest"
)

// TestAddressesOfTheSettingsAreReportedAtTheStart starts with an address that is shortened and
// one that is refused, and reloads others.
func TestAddressesOfTheSettingsAreReportedAtTheStart(t *testing.T) {
	const text = "version: 1\nproviders:\n  - {slug: a, provider: openai-compatible, custom_host: \"https://models.example.com/v1/chat/completions\"}\n  - {slug: b, provider: openai-compatible, custom_host: \"http://10.0.0.7/v1\"}\n"
	g := gatewaytest.New(t, gatewaytest.Options{Settings: text})
	log := g.Log.String()
	for _, want := range []string{"address in the settings is shortened", "providers[0].custom_host", "/chat/completions", "requests to it fail", "providers[1].custom_host"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log has no %q: %s", want, log)
		}
	}
	res := g.Post("/chat/completions", `{"model":"@b/m","messages":[{"role":"user","content":"hello"}]}`, "x-gateway-provider", "")
	_, err := server.CheckSettings(g.Settings, nil, secret.String{}, secret.String{})
	for place, text := range map[string]string{"the log": log, "the response": string(res.Body), "the check": fmt.Sprint(err)} {
		for _, want := range []string{"@b", "10.0.0.7", "upstream.trusted_hosts"} { // the provider, its host and what to set
			if !strings.Contains(text, want) {
				t.Errorf("%s does not name %s: %s", place, want, text)
			}
		}
	}
	g.WriteSettings(strings.ReplaceAll(text, "10.0.0.7", "10.0.0.8"))
	waittest.Until(t, "the reload reports the new address", func() bool { return strings.Contains(g.Log.String(), "10.0.0.8") })
}
