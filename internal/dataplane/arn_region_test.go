package dataplane_test

import (
	"fmt"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

// Requests for the ARN of a profile go to its region, on every route: of the client's own
// protocol, of others, and on pass-through.
func TestARNIsCalledInItsRegion(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{})
	const (
		arn     = "arn:aws:bedrock:eu-west-1:123456789012:application-inference-profile/abc123def456"
		escaped = "arn%3Aaws%3Abedrock%3Aeu-west-1%3A123456789012%3Aapplication-inference-profile%2Fabc123def456"
		chat    = `{"model":"` + arn + `","messages":[{"role":"user","content":"hello"}]}`
		said    = `{"messages":[{"role":"user","content":[{"text":"hello"}]}]}`
		invoked = `{"anthropic_version":"bedrock-2023-05-31","max_tokens":9,"messages":[{"role":"user","content":"hello"}]}`
	)
	for _, tt := range []struct{ path, body, sent string }{
		{"/v1/chat/completions", chat, "/converse"},
		{"/model/" + escaped + "/converse", said, "/converse"},
		{"/model/" + escaped + "/converse-stream", said, "/converse-stream"},
		{"/model/" + escaped + "/invoke", invoked, "/converse"},
		{"/v1/model/" + escaped + "/invoke", `{"inputText":"hello"}`, "/invoke"},
		{"/v1/model/" + arn + "/unknown", said, "/unknown"},
		{"/v1/model/" + escaped + "/unknown", said, "/unknown"},
	} {
		for options, region := range map[string]string{``: "eu-west-1", `,"cloud_a_region":"us-west-2"`: "us-west-2"} {
			res := g.Post("/explain", fmt.Sprintf(`{"request":{"method":"POST","path":%q,"body":%s},"config":{"provider":"bedrock","api_key":"k"%s}}`, tt.path, tt.body, options), "x-gateway-provider", "")
			if res.Status != 200 {
				t.Errorf("%s: status %d: %s", tt.path, res.Status, res.Body)
				continue
			}
			e := res.JSON(t)
			address := str(at(e, "attempt.url"))
			if want := "https://bedrock-runtime." + region + ".amazonaws.com/model/"; !strings.HasPrefix(address, want+"arn") || !strings.HasSuffix(address, tt.sent) {
				t.Errorf("%s, options %q: called at %q, want %s…%s: %v", tt.path, options, address, want, tt.sent, e["attempt"])
			}
		}
	}
}
