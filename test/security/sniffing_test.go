package security

import (
	"io"
	"net/http"
	"testing"
)

// A browser must not take the gateway's own responses for anything else than their content
// type says. Those of providers pass as they are.
func TestOwnResponsesAreNotSniffed(t *testing.T) {
	t.Parallel()
	p := newProvider(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{}`)
	})
	g := launch(t, options{})
	for _, tt := range []struct{ method, path, key string }{
		{"GET", "/reference", ""}, {"GET", "/openapi.json", ""}, {"GET", "/claim", ""}, {"GET", "/accept-invite", ""}, {"GET", "/set-password", ""},
		{"GET", "/health", ""}, {"GET", "/ready", ""}, {"GET", "/", ""}, {"GET", "/nothing", ""}, {"GET", "//x", ""},
		{"GET", "/v1/api-keys", rootKey}, {"GET", "/v1/api-keys", ""}, {"POST", "/v1/configs", rootKey}, {"GET", "/v1/logs", rootKey}, {"GET", "/v1/logs/nothing", rootKey},
	} {
		attack(t, "injection", tt.method+" "+tt.path+" with the key "+tt.key[:min(4, len(tt.key))], func(t *testing.T) {
			got := g.do(t, tt.method, tt.path, "", "x-gateway-api-key", tt.key)
			if got.err != nil || got.header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("status %d (%v), X-Content-Type-Options %q, want nosniff", got.status, got.err, got.header.Get("X-Content-Type-Options"))
			}
		})
	}
	attack(t, "injection", "the response of a provider passes as it is", func(t *testing.T) {
		got := g.do(t, "POST", "/v1/invented", chatBody, toCustomHost(rootKey, p)...)
		if got.status != 200 || got.header.Values("X-Content-Type-Options") != nil {
			t.Errorf("status %d, %v", got.status, got.header)
		}
	})
}
