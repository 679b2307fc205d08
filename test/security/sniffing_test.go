package security

import (
	"io"
	"net/http"
	"strings"
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
		{"GET", "/health", ""}, {"GET", "/ready", ""}, {"GET", "/", ""}, {"GET", "/nothing", ""}, {"GET", "//x", ""}, {"GET", "/a//b", ""},
		{"GET", "/v1/api-keys", rootKey}, {"GET", "/v1/api-keys", ""}, {"POST", "/v1/configs", rootKey}, {"GET", "/v1/logs", rootKey}, {"GET", "/v1/logs/nothing", rootKey}, {"GET", "/v1/logs/tail", ""},
	} {
		attack(t, "injection", tt.method+" "+tt.path+" with the key "+tt.key[:min(4, len(tt.key))], func(t *testing.T) {
			g.do(t, tt.method, tt.path, "", "x-gateway-api-key", tt.key).notSniffed(t)
		})
	}
	attack(t, "injection", "the reference for a request that has passed many gateways", func(t *testing.T) {
		got := g.do(t, "GET", "/reference", "", "Cdn-Loop", strings.Repeat("modelgate; id=x, ", 16))
		got.notSniffed(t)
		got.refused(t, http.StatusBadRequest, "request_loop")
	})
	for _, path := range []string{"/health", "/ready", "/metrics", "/prices", "/nothing", "/a//b"} {
		attack(t, "injection", path+" of the admin listener", func(t *testing.T) {
			(&gateway{root: g.admin}).do(t, "GET", path, "").notSniffed(t)
		})
	}
	attack(t, "injection", "the response of a provider passes as it is", func(t *testing.T) {
		got := g.do(t, "POST", "/v1/invented", chatBody, toCustomHost(rootKey, p)...)
		if got.status != 200 || got.header.Values("X-Content-Type-Options") != nil {
			t.Errorf("status %d, %v", got.status, got.header)
		}
	})
}

// notSniffed checks that browsers may not guess the type of the response.
func (r response) notSniffed(t *testing.T) {
	t.Helper()
	if got := r.header.Get("X-Content-Type-Options"); r.err != nil || got != "nosniff" {
		t.Errorf("status %d (%v), X-Content-Type-Options %q, want nosniff", r.status, r.err, got)
	}
}
