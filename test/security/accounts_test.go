package security

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"modelgate/internal/testing/waittest"
)

// where are the flags by which commands find the database of g.
func (g *gateway) where() []string {
	if g.options.database != "" {
		return []string{"--database-url", g.options.database}
	}
	return []string{"--data", g.data}
}

// apply brings the members of the first organisation to what a file says.
func (g *gateway) apply(t *testing.T, member string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "state.yaml")
	if err := os.WriteFile(file, []byte("version: 1\nmembers:\n  - "+member+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, errText, code := command(t, append(append([]string{"apply"}, g.where()...), file)...); code != 0 {
		t.Fatalf("apply: exit %d: %s%s", code, out, errText)
	}
}

func TestDisabledPeopleAreShutOut(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, o options) {
		all := nodes(t, o)
		g := all[0]
		session := g.member(t, "dan", "member", `[{"id":"default","role":"member"}]`)
		user := g.as(t, session, "GET", "/v1/auth/me", "").ok(t).text(t, "user_id")
		key := g.create(t, rootKey, "/v1/api-keys/workspace/user", fmt.Sprintf(`{"name":"k","scopes":["models.list"],"workspace_id":"default","user_id":%q}`, user), "key")
		g.awaitKey(t, key)
		link := g.create(t, rootKey, "/v1/admin/users/dan@example.com/password-reset", "", "link")
		g.apply(t, `{email: dan@example.com, role: member, disabled: true, workspaces: {default: member}}`)
		attack(t, "sessions", "the session of a disabled person", func(t *testing.T) {
			for _, node := range all {
				node.as(t, session, "GET", "/v1/auth/me", "").refused(t, http.StatusUnauthorized)
			}
		})
		attack(t, "tokens", "the key of a disabled person", func(t *testing.T) {
			for _, node := range all {
				waittest.Until(t, "the key is refused", func() bool { return node.as(t, key, "GET", "/v1/auth/me", "").status == http.StatusUnauthorized })
			}
		})
		attack(t, "sessions", "a disabled person signs in", func(t *testing.T) {
			g.signIn(t, "203.0.113.1", "dan@example.com", password).refused(t, http.StatusUnauthorized)
		})
		attack(t, "tokens", "a reset link of a disabled person", func(t *testing.T) {
			_, token, _ := strings.Cut(link, "token=")
			g.do(t, "POST", "/v1/auth/password", linkBody("", token)).refused(t, http.StatusNotFound)
			g.as(t, rootKey, "POST", "/v1/admin/users/dan@example.com/password-reset", "").refused(t, http.StatusConflict)
		})
		attack(t, "sessions", "an old session of a person who is enabled again", func(t *testing.T) {
			g.apply(t, `{email: dan@example.com, role: member, workspaces: {default: member}}`)
			g.as(t, session, "GET", "/v1/auth/me", "").refused(t, http.StatusUnauthorized)
			g.signIn(t, "203.0.113.1", "dan@example.com", password).ok(t)
			waittest.Until(t, "the key is accepted again", func() bool { return g.as(t, key, "GET", "/v1/auth/me", "").status == http.StatusOK })
		})
	})
}

func TestOnlyTheOperatorResetsAnOwner(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T, o options) {
		g := nodes(t, o)[0]
		owner := g.organisation(t, "owned")
		key := g.create(t, owner, "/v1/api-keys/organisation/service", `{"name":"k","scopes":["organisation_users.update","organisation_users.create","organisation_users.read"]}`, "key")
		g.awaitKey(t, key)
		for path, method := range map[string]string{"/password-reset": "POST", "/link": "POST", "/sessions": "DELETE", "/sessions/" + sessionID(t, g, owner): "DELETE"} {
			attack(t, "escalation", "a key of the organisation takes over its owner by "+path, func(t *testing.T) {
				g.as(t, key, method, "/v1/admin/users/owner@owned.example"+path, "").refused(t, http.StatusForbidden, "owner")
			})
		}
		attack(t, "sessions", "the owner's old session after a reset by the operator", func(t *testing.T) {
			out, errText, code := command(t, append([]string{"users", "reset-password", "--email", "owner@owned.example"}, g.where()...)...)
			_, token, ok := strings.Cut(strings.TrimSpace(out), "token=")
			if code != 0 || !ok {
				t.Fatalf("users reset-password: exit %d: %s%s", code, out, errText)
			}
			g.as(t, owner, "GET", "/v1/auth/me", "").ok(t)
			fresh := g.do(t, "POST", "/v1/auth/password", linkBody("", token)).ok(t).text(t, "token")
			g.as(t, owner, "GET", "/v1/auth/me", "").refused(t, http.StatusUnauthorized)
			g.signIn(t, "203.0.113.1", "owner@owned.example", password).refused(t, http.StatusUnauthorized)
			g.as(t, fresh, "GET", "/v1/auth/me", "").ok(t)
			g.do(t, "POST", "/v1/auth/password", linkBody("", token)).refused(t, http.StatusNotFound)
		})
	})
}
