package dataplane_test

import (
	"fmt"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

// Nothing that a config asks for is left out silently, and nothing goes
// unchecked that must be denied.
func TestUnsupportedParametersAreAnnouncedOrRefused(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{})
	for _, tt := range []struct {
		name, property string
		status         int
		params         string
	}{
		{"a saved guardrail that does not exist", `"output_guardrails":["pg-1"]`, 404, ""},
		{"nothing of the kind", `"request_timeout":60000`, 200, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := g.Sim.Served().Requests
			res := g.Post("/chat/completions", fmt.Sprintf(hello, false), "x-gateway-config", `{"provider":"@simulator",`+tt.property+`}`)
			if res.Status != tt.status || res.Header.Get("x-gateway-params") != tt.params {
				t.Errorf("status %d, params %q; want %d, %q: %.200s", res.Status, res.Header.Get("x-gateway-params"), tt.status, tt.params, res.Body)
			}
			sent := g.Sim.Served().Requests > before
			if sent != (tt.status == 200) {
				t.Errorf("sent to the provider: %t, answer %.200s", sent, res.Body)
			}
		})
	}
}
