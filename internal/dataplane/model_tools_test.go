package dataplane_test

import (
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

// TestToolServersOfRequestsReachProvidersThatHaveThem sends requests that name tool servers for
// the provider to call, with credentials of the client for them.
func TestToolServersOfRequestsReachProvidersThatHaveThem(t *testing.T) {
	t.Parallel()
	u := newScripted(t)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: u, Settings: pairSettings + `
  - {slug: claude, provider: anthropic, custom_host: SIMULATOR, api_key: "${PAIR_KEY}"}
  - {slug: gpt, provider: openai, custom_host: SIMULATOR, api_key: "${PAIR_KEY}"}
`})
	for _, tt := range []struct{ provider, path, body, answer, beta string }{
		{"@gpt", "/v1/responses", `{"model":"gpt-4.1", "input":"hi","tools":[{"type":"mcp","server_label":"docs","server_url":"https://docs.example.com/mcp" ,"authorization":"token-of-the-client","headers":{"X-A":"b"},"allowed_tools":["ask"],"require_approval":"never"}]}`,
			`{"id":"resp_1","object":"response","status":"completed","model":"gpt-4.1","output":[],"usage":{"input_tokens":1,"output_tokens":1,"total_tokens":2}}`, ""},
		{"@claude", "/v1/messages", `{"model":"claude-3-5-haiku-20241022", "max_tokens":9,"messages":[{"role":"user","content":"hi"}],"mcp_servers":[{"type":"url","name":"docs","url":"https://docs.example.com/mcp" ,"authorization_token":"token-of-the-client"}],"tools":[{"type":"mcp_toolset","mcp_server_name":"docs"}]}`,
			`{"id":"m","type":"message","role":"assistant","model":"claude-3-5-haiku-20241022","content":[{"type":"text","text":"yes"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`, "mcp-client-2025-11-20"},
	} {
		head := begin(t, g.Request("POST", tt.path, tt.body, "x-gateway-provider", tt.provider, "anthropic-beta", tt.beta))
		c := u.next()
		c.w.Header().Set("Content-Type", "application/json")
		c.send(tt.answer)
		c.finish()
		res := receive(t, head, "the head")
		res.Body.Close()
		if string(c.Body) != tt.body || res.StatusCode != 200 || c.Header.Get("anthropic-beta") != tt.beta {
			t.Errorf("%s: the provider got %s (%q), status %d", tt.path, c.Body, c.Header.Get("anthropic-beta"), res.StatusCode)
		}
	}
}
