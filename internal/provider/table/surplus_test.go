package table_test

import (
	"net/url"
	"testing"

	"modelgate/internal/provider"
	"modelgate/internal/provider/table"
)

// TestPastedAddressesLoseWhatPathsRepeat pastes the addresses of operations, and addresses
// that only look like them.
func TestPastedAddressesLoseWhatPathsRepeat(t *testing.T) {
	for _, tt := range []struct{ id, pasted, want string }{
		{"openai-compatible", "/v1/chat/completions", "/v1"}, {"openai-compatible", "/v1/chat/completions/", "/v1"}, {"openai-compatible", "/v1/embeddings", "/v1"}, {"openai-compatible", "/v1/completions", "/v1"},
		{"openai", "/v1/responses", "/v1"}, {"openai", "/gateway/openai/v1/chat/completions", "/gateway/openai/v1"},
		{"anthropic", "/v1/messages", "/v1"}, {"anthropic", "/proxy/v1/messages", "/proxy/v1"},
		{"azure-openai", "/openai/v1", "/openai"}, {"azure-openai", "/openai/deployments/d", "/openai"}, {"azure-openai", "/openai/deployments/d/chat/completions", "/openai"}, {"azure-openai", "/openai", "/openai"}, {"azure-openai", "/v1", "/v1"}, {"azure-openai", "/deployments/d", "/deployments/d"},
		{"google", "/v1beta", ""}, {"google", "/v1beta/models", ""}, {"google", "/g/v1beta", "/g"}, {"google", "/g", "/g"},
		{"openai-compatible", "/v1", "/v1"}, {"openai-compatible", "/api/paas/v4", "/api/paas/v4"}, {"openai-compatible", "/chat", "/chat"}, {"openai-compatible", "", ""},
		{"anthropic", "/v1", "/v1"}, {"anthropic", "/proxy/anthropic/v1", "/proxy/anthropic/v1"},
	} {
		spec, ok := table.Lookup(tt.id)
		if !ok {
			t.Fatalf("no provider %s", tt.id)
		}
		target, err := provider.NewTarget(spec, provider.Settings{CustomHost: "https://host.example" + tt.pasted, Options: map[string]string{"api_version": "v1", "resource_name": "r"}})
		if err != nil {
			t.Errorf("%s at %s: %v", tt.id, tt.pasted, err)
			continue
		}
		if want := (&url.URL{Scheme: "https", Host: "host.example", Path: tt.want}); target.Base.String() != want.String() {
			t.Errorf("%s at %s: the address is %s, want %s", tt.id, tt.pasted, target.Base, want)
		}
	}
}
