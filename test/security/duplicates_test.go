package security

import (
	"strings"
	"testing"
)

// Of two members with one name, readers take the first or the last: the gateway takes
// neither.
func TestDuplicateMembersAreRefused(t *testing.T) {
	t.Parallel()
	g := launch(t, options{})
	for _, tt := range []struct{ name, path, body, metadata, says string }{
		{"in metadata", "/v1/chat/completions", chatBody, `{"team":"a","team":"b"}`, "team"},
		{"in metadata, escaped", "/v1/chat/completions", chatBody, `{"team":"a","t\u0065am":"b"}`, "team"},
		{"in explain", "/v1/explain", `{"request":{"body":` + chatBody + `},"request":{"body":{}}}`, "", "request"},
		{"in a request to explain", "/v1/explain", `{"request":{"path":"/v1/chat/completions","path":"/v1/messages","body":` + chatBody + `}}`, "", "request.path"},
		{"in another spelling in explain", "/v1/explain", `{"request":{"body":` + chatBody + `},"Request":{}}`, "", "Request"},
		{"after the body to explain", "/v1/explain", `{"request":{"body":` + chatBody + `}}{"config":{}}`, "", "the body of POST /v1/explain must be"},
	} {
		attack(t, "bodies", "duplicate members "+tt.name, func(t *testing.T) {
			headers := []string{"x-gateway-api-key", rootKey, "x-gateway-provider", "openai"}
			if tt.metadata != "" {
				headers = append(headers, "x-gateway-metadata", tt.metadata)
			}
			got := g.do(t, "POST", tt.path, tt.body, headers...)
			if text := string(got.body); got.status != 400 || !strings.Contains(text, tt.says) {
				t.Errorf("status %d, %s; want 400 that names %s", got.status, text, tt.says)
			}
		})
	}
}
