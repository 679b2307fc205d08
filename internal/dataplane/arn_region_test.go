package dataplane_test

import (
	"fmt"
	"strings"
	"testing"

	"modelgate/internal/gatewaytest"
)

// Requests for the ARN of a profile go to its region, on every route.
func TestARNIsCalledInItsRegion(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{})
	const arn = "arn:aws:bedrock:eu-west-1:123456789012:application-inference-profile/abc123def456"
	for _, tt := range []struct{ config, host string }{
		{`{"provider":"bedrock","api_key":"k"}`, "bedrock-runtime.eu-west-1.amazonaws.com"},
		{`{"provider":"bedrock","api_key":"k","cloud_a_region":"us-west-2"}`, "bedrock-runtime.us-west-2.amazonaws.com"},
	} {
		e := explained(t, g, tt.config, "", fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"hello"}]}`, arn))
		if address := str(at(e, "attempt.url")); !strings.HasPrefix(address, "https://"+tt.host+"/model/arn%3Aaws") {
			t.Errorf("%s: called at %q, want %s: %v", tt.config, address, tt.host, e["attempt"])
		}
	}
}
