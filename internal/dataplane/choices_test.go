package dataplane_test

import (
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

// A provider of the client's own dialect that gives one response refuses more,
// as every other target does.
func TestSeveralResponsesAreRefusedByRowsWithOne(t *testing.T) {
	t.Setenv("GROQ_TEST_KEY", gatewaytest.SimulatorKey)
	g := gatewaytest.New(t, gatewaytest.Options{
		Settings: "providers:\n  - {slug: one, provider: groq, custom_host: SIMULATOR, api_key: \"${GROQ_TEST_KEY}\"}\n",
	})
	for n, want := range map[string]int{"1": 200, "2": 400} {
		res := g.Post("/chat/completions", `{"model":"m","n":`+n+`,"messages":[{"role":"user","content":"Hello"}]}`, "x-gateway-provider", "@one")
		if res.Status != want || want == 400 && !strings.Contains(string(res.Body), `"param":"n"`) {
			t.Errorf("n %s: status %d, %s; want %d", n, res.Status, res.Body, want)
		}
	}
}
