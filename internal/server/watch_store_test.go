package server_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"modelgate/internal/testing/gatewaytest"
)

// TestRemovedProviderOfAConfigInTheSettingsHoldsNoChangeUp removes a provider of
// the database that a config of the settings names. Changes of the database that
// come with it and after it count all the same: a revoked key is refused.
func TestRemovedProviderOfAConfigInTheSettingsHoldsNoChangeUp(t *testing.T) {
	g := gatewaytest.New(t, gatewaytest.Options{MasterKey: master, Upstream: new(secretServer), Settings: "version: 1\n"})
	mustPost(t, g, "/integrations", `{"name":"n","slug":"late","ai_provider_id":"openai-compatible","key":"k","configurations":{"custom_host":"`+g.Upstream+`"}}`)
	g.WriteSettings("version: 1\nconfigs:\n  - {slug: named, config: {provider: \"@late\"}}\n")
	ask := func(key string) gatewaytest.Response {
		return g.Post("/chat/completions", chat, "x-gateway-provider", "", "x-gateway-config", "named", "x-gateway-api-key", key)
	}
	var made struct{ ID, Key string }
	res := g.Post("/api-keys/workspace/service", `{"name":"k","workspace_id":"default","scopes":["completions.write"]}`, "x-gateway-provider", "")
	if err := json.Unmarshal([]byte(res.Body), &made); err != nil || made.Key == "" {
		t.Fatalf("POST /api-keys: %d %s", res.Status, res.Body)
	}
	waitStatus(t, "the config of the settings is served", 200, func() gatewaytest.Response { return ask(made.Key) })
	for _, path := range []string{"/providers/late", "/api-keys/" + made.ID} {
		if res := g.Do(g.Request("DELETE", path, "", "x-gateway-provider", "")); res.Status != 200 {
			t.Fatalf("DELETE %s: %d %s", path, res.Status, res.Body)
		}
	}
	waitStatus(t, "the key that was revoked is refused", 401, func() gatewaytest.Response { return ask(made.Key) })
	if res := ask(gatewaytest.Key); res.Status != 404 || !strings.Contains(string(res.Body), "late") {
		t.Errorf("the config whose provider was removed: %d %s, want 404 with its name", res.Status, res.Body)
	}
	const warning = "provider of a config in the settings was removed"
	if n := strings.Count(g.Log.String(), warning); n != 1 {
		t.Errorf("the log has %q %d times, want once", warning, n)
	}
}

// waitStatus repeats a request until it gets the status.
func waitStatus(t *testing.T, what string, want int, send func() gatewaytest.Response) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		res := send()
		if res.Status == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after a minute it is not so that %s: %d %s", what, res.Status, res.Body)
		}
		<-time.After(20 * time.Millisecond)
	}
}
