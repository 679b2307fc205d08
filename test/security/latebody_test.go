package security

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/testing/waittest"
)

// half sends a request up to the first byte of its body and returns a function that sends
// the rest and reads the response.
func (g *gateway) half(t *testing.T, token, path, body string, header ...string) func() response {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(g.root, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	var more strings.Builder
	for i := 0; i+1 < len(header); i += 2 {
		fmt.Fprintf(&more, "%s: %s\r\n", header[i], header[i+1])
	}
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: gateway\r\nx-gateway-api-key: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n%s", path, token, len(body), &more, body[:1])
	return func() response {
		io.WriteString(conn, body[1:])
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		return response{res.StatusCode, res.Header, b, err}
	}
}

// TestSlowBodiesDoNotOutliveTheirKeys begins requests, ends their keys and sessions, and
// sends the rest of the bodies.
func TestSlowBodiesDoNotOutliveTheirKeys(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, o options) {
		g, p := launch(t, o), newProvider(t, nil)
		ended := func(token string) func() bool {
			return func() bool { return g.as(t, token, "GET", "/v1/auth/me", "").status == http.StatusUnauthorized }
		}
		const invite = `{"email":"friend@example.com","role":"admin","workspaces":[]}`
		attack(t, "sessions", "a session that ended invites an admin with a body that was still to come", func(t *testing.T) {
			session := g.member(t, "leaving", "admin", `[]`)
			finish := g.half(t, session, "/v1/admin/users/invites", invite)
			g.as(t, session, "POST", "/v1/auth/logout", "").ok(t)
			waittest.Until(t, "the session has ended", ended(session))
			finish().refused(t, http.StatusUnauthorized)
			if list := string(g.as(t, rootKey, "GET", "/v1/admin/users/invites", "").ok(t).body); strings.Contains(list, "friend@") {
				t.Errorf("invited: %s", list)
			}
		})
		for name, end := range map[string]func(k made){
			"deleted": func(k made) { g.as(t, rootKey, "DELETE", "/v1/api-keys/"+k.id, "").ok(t) },
			"rotated": func(k made) { g.rotate(t, rootKey, k.id, 0).ok(t) },
		} {
			attack(t, "tokens", "a key that was "+name+" ends its requests with bodies that were still to come", func(t *testing.T) {
				p.reset()
				k := g.mint(t, rootKey, `["completions.write","configs.create"]`, "")
				g.awaitKey(t, k.secret)
				model := g.half(t, k.secret, "/v1/chat/completions", chatBody, toCustomHost(k.secret, p)[2:]...)
				passed := g.half(t, k.secret, "/v1/any/path", chatBody, toCustomHost(k.secret, p)[2:]...)
				config := g.half(t, k.secret, "/v1/configs", `{"name":"late","config":{"retry":{"attempts":2}}}`)
				end(k)
				waittest.Until(t, "the key has ended", ended(k.secret))
				for _, finish := range []func() response{model, passed, config} {
					finish().refused(t, http.StatusUnauthorized)
				}
				if n := len(p.seen()); n > 0 {
					t.Errorf("the provider received %d requests", n)
				}
			})
		}
		attack(t, "tokens", "a slow body of a valid key is served", func(t *testing.T) {
			k := g.mint(t, rootKey, `["completions.write"]`, "")
			g.awaitKey(t, k.secret)
			finish := g.half(t, k.secret, "/v1/chat/completions", chatBody, toCustomHost(k.secret, p)[2:]...)
			waittest.Until(t, "a revoked key is refused", ended("mg-unknown"))
			finish().ok(t)
		})
	})
}
