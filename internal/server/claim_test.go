package server_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

// A first start without a file can be owned by a person, who then administers it
// with a session.
func TestAFirstOwnerClaimsTheInstallation(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{NoKey: true})
	token := g.Server.Claim()
	if token.Empty() {
		t.Fatal("a fresh installation has no claim link")
	}
	base := "http://" + g.Server.Addr().String()
	page, err := http.Get(base + "/claim?token=" + token.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	html, _ := io.ReadAll(page.Body)
	page.Body.Close()
	if page.StatusCode != http.StatusOK || !strings.Contains(string(html), "v1/auth/claim") || strings.Contains(string(html), token.Reveal()) {
		t.Errorf("the page: %d %.200s", page.StatusCode, html)
	}

	res, err := http.Post(base+"/v1/auth/claim", "application/json", strings.NewReader(`{"token":"`+token.Reveal()+`","email":"boss@example.com","password":"correct horse battery"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var session struct{ Token string }
	if err := json.NewDecoder(res.Body).Decode(&session); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("claiming: %d, %v", res.StatusCode, err)
	}
	for header, value := range map[string]string{"X-Gateway-Api-Key": session.Token, "Authorization": "Bearer " + session.Token} {
		req, err := http.NewRequest(http.MethodGet, base+"/v1/admin/users", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(header, value)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != http.StatusOK || !strings.Contains(string(body), "boss@example.com") {
			t.Errorf("with the session in %s: %d %s", header, res.StatusCode, body)
		}
	}
	for _, tt := range []struct {
		method, path, text string
		status             int
	}{
		{"POST", "/v1/chat/completions", "sessions are for administration", 401},
		{"POST", "/v1/messages", "sessions are for administration", 401},
		{"GET", "/v1/models", "sessions are for administration", 401},
		{"POST", "/v1/explain", "sessions are for administration", 401},
		{"GET", "/v1/admin/user", "did you mean GET /v1/admin/users?", 404},
		{"GET", "/v1/nothing/like/this", "no route of the administration", 404},
	} {
		res := g.Do(g.Request(tt.method, strings.TrimPrefix(tt.path, "/v1"), chat, "x-gateway-api-key", session.Token))
		if res.Status != tt.status || !strings.Contains(string(res.Body), tt.text) {
			t.Errorf("a session at %s %s: %d %s, want %d and %q", tt.method, tt.path, res.Status, res.Body, tt.status, tt.text)
		}
	}
}
