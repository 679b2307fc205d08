package security

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// Addresses that look like another's must not become accounts of their own, and two keys in
// a request must not be read differently by the two planes.
func TestAddressesThatLookAlikeAreRefused(t *testing.T) {
	t.Parallel()
	g := launch(t, options{})
	n := 0
	for name, address := range map[string]string{
		"a Cyrillic a": "\u0430nn@example.com", "a Greek o": "b\u03bfb@example.com", "a zero-width space": "ann\u200b@example.com", "a zero-width joiner": "an\u200dn@example.com",
		"a full-width letter": "\uff41nn@example.com", "the Kelvin sign": "\u212aim@example.com", "a long s": "\u017fam@example.com", "a soft hyphen": "a\u00adnn@example.com",
		"a combining accent": "a\u0301nn@example.com", "a dotless i": "\u0131da@example.com", "a look-alike domain": "ann@ex\u0430mple.com", "a full-width at": "ann\uff20example.com",
		"an override of direction": "ann\u202e@example.com", "a byte order mark": "\ufeffann@example.com", "a non-breaking space": "ann\u00a0@example.com",
	} {
		attack(t, "sessions", "an invitation of an address with "+name, func(t *testing.T) {
			body := fmt.Sprintf(`{"email":%q,"role":"member","workspaces":[{"id":"default","role":"member"}]}`, address)
			g.as(t, rootKey, "POST", "/v1/admin/users/invites", body).refused(t, http.StatusBadRequest, "email")
		})
		attack(t, "sessions", "a claim with an address with "+name, func(t *testing.T) {
			n++
			slug := fmt.Sprintf("look-%d", n)
			out, _, code := command(t, "organisations", "create", "--name", slug, "--slug", slug, "--data", g.data)
			_, token, ok := strings.Cut(strings.TrimSpace(out), "/claim?token=")
			if code != 0 || !ok {
				t.Fatalf("organisations create: exit %d: %s", code, out)
			}
			g.do(t, "POST", "/v1/auth/claim", fmt.Sprintf(`{"token":%q,"email":%q,"password":%q}`, token, address, password)).refused(t, http.StatusBadRequest, "email")
		})
	}
}

func TestRequestsWithTwoKeysAreRefused(t *testing.T) {
	t.Parallel()
	g := launch(t, options{})
	weak := g.key(t, rootKey, "default", []string{"completions.write"}, "")
	p := newProvider(t, nil)
	for name, header := range map[string][]string{
		"twice the same name": {"x-gateway-api-key", rootKey, "x-gateway-api-key", weak}, "in other capitals": {"x-gateway-api-key", weak, "X-GATEWAY-API-KEY", rootKey},
		"the same key twice": {"x-gateway-api-key", rootKey, "x-gateway-api-key", rootKey},
	} {
		for _, route := range []struct{ method, path, body string }{{"GET", "/v1/configs", ""}, {"POST", "/v1/configs", `{"name":"c","workspace_id":"default","config":{}}`}, {"GET", "/v1/logs", ""}, {"POST", "/v1/chat/completions", chatBody}} {
			attack(t, "escalation", "a key "+name+" on "+route.method+" "+route.path, func(t *testing.T) {
				p.reset()
				g.do(t, route.method, route.path, route.body, append([]string{"x-gateway-provider", "openai-compatible", "x-gateway-custom-host", p.url, "Authorization", "Bearer " + clientKey}, header...)...).refused(t, http.StatusBadRequest, "x-gateway-api-key")
				if len(p.seen()) > 0 {
					t.Error("the provider received the request")
				}
			})
		}
	}
}

// The open admin listener answers no page of another site that resolves to it.
func TestAdminListenerAnswersNoOtherHost(t *testing.T) {
	t.Parallel()
	g := launch(t, options{})
	status := func(t *testing.T, host, path string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), "GET", g.admin+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode
	}
	for _, host := range []string{"evil.example", "evil.example:8788", "localhost.evil.example", "127.0.0.1.nip.example", "127.0.0.1@evil.example"} {
		for _, path := range []string{"/metrics", "/healthz", "/debug/pprof/"} {
			attack(t, "injection", "the host "+host+" at "+path+" of the admin listener", func(t *testing.T) {
				if got := status(t, host, path); got != http.StatusForbidden && got != http.StatusBadRequest {
					t.Errorf("status %d, want 403", got)
				}
			})
		}
	}
	for _, host := range []string{"", "localhost", "127.0.0.1:1", "[::1]"} {
		if got := status(t, host, "/metrics"); got != http.StatusOK {
			t.Errorf("host %q: status %d, want 200", host, got)
		}
	}
}
