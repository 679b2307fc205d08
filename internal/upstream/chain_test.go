package upstream_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"modelgate/internal/upstream"
)

func TestRequestsWithAGatewayKeyCarryTheirChain(t *testing.T) {
	var seen http.Header
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = r.Header }))
	defer s.Close()
	c := upstream.New(upstream.Options{TrustLoopback: true})
	defer c.Close()
	for _, tt := range []struct {
		name, value string
		want        bool
	}{
		{"Authorization", "Bearer mg-key", true},
		{"X-Gateway-Api-Key", "mg-key", true},
		{"Authorization", "Bearer eyJhbGciOiJub25lIn0.eyJ9.x", true},
		{"Authorization", "Bearer sk-provider", false},
		{"X-Own", "text about mg-key and more", false},
	} {
		req := mustRequest(t, t.Context(), "GET", s.URL, nil)
		req.Header.Set(tt.name, tt.value)
		res, err := c.Do(req, true)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if got := strings.HasPrefix(seen.Get("Cdn-Loop"), "modelgate; id="); got != tt.want {
			t.Errorf("%s: %s: Cdn-Loop %q, want one: %t", tt.name, tt.value, seen.Get("Cdn-Loop"), tt.want)
		}
	}
}
