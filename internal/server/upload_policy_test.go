package server_test

import (
	"strings"
	"testing"
)

// TestUploadsOfUnknownModelsAreRefusedWherePoliciesApply sends a body whose model cannot be
// known, with and without what the policy's other condition asks for.
func TestUploadsOfUnknownModelsAreRefusedWherePoliciesApply(t *testing.T) {
	t.Parallel()
	l := newSlowGateway(t, "log: {level: info}\n")
	l.policy("rate-limits", `{"name":"one model","type":"requests","unit":"rpd","value":100,"conditions":[{"key":"model","value":"costly"},{"key":"metadata.app","value":"scan"}],"group_by":[{"key":"api_key"}]}`)
	key := l.key(`"rate_limits":[]`)
	for metadata, refused := range map[string]bool{"": false, `{"app":"other"}`: false, `{"app":"scan"}`: true} {
		res := l.Post("/things/scan", strings.Repeat("\x00\x01", 40_000), "x-gateway-api-key", key, "x-gateway-metadata", metadata, "Content-Type", "application/x-unknown", "Content-Encoding", "x-unknown")
		if got := res.Status == 403 && strings.Contains(string(res.Body), "cannot be known"); got != refused {
			t.Errorf("metadata %s: %d %.300s; want refused: %t", metadata, res.Status, res.Body, refused)
		}
	}
}
