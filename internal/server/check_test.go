package server_test

import (
	"strings"
	"testing"

	"modelgate/internal/gatewaytest"
	"modelgate/internal/waittest"
)

// TestAddressesOfTheSettingsAreReportedAtTheStart starts with an address that is shortened and
// one that is refused, and reloads others.
func TestAddressesOfTheSettingsAreReportedAtTheStart(t *testing.T) {
	const text = "version: 1\nproviders:\n  - {slug: a, provider: openai-compatible, custom_host: \"https://models.example.com/v1/chat/completions\"}\n  - {slug: b, provider: openai-compatible, custom_host: \"http://10.0.0.7/v1\"}\n"
	g := gatewaytest.New(t, gatewaytest.Options{Settings: text})
	log := g.Log.String()
	for _, want := range []string{"address in the settings is shortened", "providers[0].custom_host", "/chat/completions", "requests to them fail", "providers[1].custom_host", "10.0.0.7"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log has no %q: %s", want, log)
		}
	}
	g.WriteSettings(strings.ReplaceAll(text, "10.0.0.7", "10.0.0.8"))
	waittest.Until(t, "the reload reports the new address", func() bool { return strings.Contains(g.Log.String(), "10.0.0.8") })
}
