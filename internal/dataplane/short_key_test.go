package dataplane_test

import (
	"strings"
	"testing"

	"modelgate/internal/identity/access"
	"modelgate/internal/testing/gatewaytest"
)

// TestShortKeysAreNotAccepted sends keys of the settings file, of which the gateway knows
// only the hash before it sees them.
func TestShortKeysAreNotAccepted(t *testing.T) {
	const short, long = "of fifteen byte", "of sixteen bytes"
	g := gatewaytest.New(t, gatewaytest.Options{Settings: "keys:\n  - {name: short, sha256: " + access.HashKey(short).String() + "}\n  - {name: long, sha256: " + access.HashKey(long).String() + "}\n"})
	for _, tt := range []struct {
		key    string
		status int
		code   string
	}{{short, 401, "short_api_key"}, {long, 200, ""}, {"of another text", 401, "invalid_api_key"}} {
		got := g.Post("/chat/completions", `{"model":"sim-1","messages":[{"role":"user","content":"hi"}]}`, "x-gateway-api-key", tt.key)
		if got.Status != tt.status || !strings.Contains(string(got.Body), tt.code) {
			t.Errorf("with the key %q: status %d: %s, want %d %s", tt.key, got.Status, got.Body, tt.status, tt.code)
		}
	}
}
