package controlplane_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
	"modelgate/internal/testing/routetest"
)

// pendingRoutes are the routes that a pending session may call, by what it waits for. Every
// other one refuses it.
var pendingRoutes = map[string][]string{
	store.PendingFactor: {"logout", "who-am-i", "begin-second-factor", "prove-second-factor"},
	store.PendingEnrolment: {"logout", "who-am-i", "list-own-second-factors", "begin-passkey", "add-passkey", "begin-one-time-codes",
		"add-one-time-codes"},
}

// TestPendingSessionsMayOnlyBeCompleted calls every route as a session whose user has proved
// a password only.
func TestPendingSessionsMayOnlyBeCompleted(t *testing.T) {
	w := newWorld(t)
	codes := map[string]string{store.PendingFactor: route.CodeFactorRequired, store.PendingEnrolment: route.CodeEnrolmentRequired}
	for pending, allowed := range pendingRoutes {
		// Even one that had the scopes of an owner.
		c := w.As(access.Identity{Type: access.PendingSession, Pending: pending, UserID: "owner", KeyID: pending, Workspace: "-", Scopes: access.RoleScopes("owner")})
		tried := 0
		for _, r := range w.Routes() {
			if r.Open {
				continue
			}
			tried++
			path, body := w.request(r)
			a := c.Call(r.Method, path, body)
			refused := a.Status == http.StatusForbidden && strings.Contains(a.Body, `"code":"`+codes[pending]+`"`)
			if refused == slices.Contains(allowed, r.Name) {
				t.Errorf("%s %s waiting for %s: %d %s", r.Method, path, pending, a.Status, a.Body)
			}
		}
		if tried < 150 {
			t.Errorf("%d routes were tried", tried)
		}
		for _, path := range []string{"/scim/v2/Users", "/scim/v2/ServiceProviderConfig"} {
			if a := c.Call("GET", path, ""); a.Status != http.StatusForbidden {
				t.Errorf("%s waiting for %s: %d %s", path, pending, a.Status, a.Body)
			}
		}
	}
}

// freshRoutes are the routes that need a sign-in of the last minutes, all of them.
var freshRoutes = []string{
	"create-identity-provider", "update-identity-provider", "delete-identity-provider", "rotate-identity-provider-key", "create-domain", "verify-domain", "delete-domain",
	"link-identity", "delete-own-identity", "create-directory-token", "delete-directory-token", "create-password-link", "reset-password",
	"change-password", "begin-passkey", "add-passkey", "rename-passkey", "delete-passkey", "begin-one-time-codes", "add-one-time-codes",
	"delete-one-time-codes", "replace-recovery-codes", "reset-second-factors",
}

// freshWithBody are the routes that need it with the body of this test: to make an admin, or a key of
// the organisation, which can then do what needs a recent sign-in.
var freshWithBody = []string{"PUT /admin/users/mate", "POST /api-keys/organisation/service"}

// TestOldSignInsCannotChangeWaysIn calls every route as a session whose user proved more than
// ten minutes ago who they are, and with a key.
func TestOldSignInsCannotChangeWaysIn(t *testing.T) {
	w := newWorld(t)
	owner := access.Identity{Type: access.Session, UserID: "owner", Workspace: "-", Scopes: access.RoleScopes("owner")}
	as := func(name string, age time.Duration) *routetest.Caller {
		id := owner
		id.KeyID, id.ProvedAt = name, w.Clock.Add(-age)
		return w.As(id)
	}
	old, recent := as("old", route.FreshTime+time.Second), as("recent", route.FreshTime)
	stale := func(a routetest.Response) bool {
		return a.Status == http.StatusForbidden && strings.Contains(a.Body, `"code":"`+route.CodeFreshRequired+`"`)
	}
	for _, r := range w.Routes() {
		if r.Open {
			continue
		}
		path, body := w.request(r)
		for _, tt := range []struct {
			name string
			c    *routetest.Caller
			want bool
		}{{"an old sign-in", old, slices.Contains(freshRoutes, r.Name) || slices.Contains(freshWithBody, r.Method+" "+path)}, {"a recent one", recent, false}, {"a key", w.root, false}} {
			a := tt.c.Call(r.Method, path, body)
			if r.Method != http.MethodGet && a.Status == http.StatusOK {
				w.restore()
			}
			if stale(a) != tt.want {
				t.Errorf("%s %s with %s: %d %s", r.Method, path, tt.name, a.Status, a.Body)
			}
		}
	}
	var made struct{ ID string }
	w.root.Must("POST", "/api-keys/organisation/service", `{"name":"k","scopes":["audit_logs.list","workspaces.list"]}`, &made)
	for body, want := range map[string]bool{`{"scopes":["audit_logs.list"]}`: true, `{"expires_at":null}`: true, `{"status":"disabled"}`: false} {
		if a := old.Call("PUT", "/api-keys/"+made.ID, body); stale(a) != want || !want && a.Status != http.StatusOK {
			t.Errorf("PUT of a key of the organisation, %s: %d %s", body, a.Status, a.Body)
		}
	}
	for path, body := range map[string]string{
		"/admin/organisation": `{"settings":{"require_second_factor":true}}`,
		"/organisation":       `{"settings":{"password_sign_in":true}}`,
		"/admin/users/mate":   `{"role":"admin"}`,
		"/auth/me":            `{"password":{"current":"not the password","new":"a long enough password"}}`,
	} {
		if a := old.Call("PUT", path, body); !stale(a) {
			t.Errorf("PUT %s %s: %d %s", path, body, a.Status, a.Body)
		}
		if a := recent.Call("PUT", path, body); stale(a) {
			t.Errorf("PUT %s %s with a recent sign-in: %d %s", path, body, a.Status, a.Body)
		}
		w.restore()
	}
	if a := old.Call("PUT", "/admin/organisation", `{"name":"N"}`); a.Status != http.StatusOK {
		t.Errorf("another setting: %d %s", a.Status, a.Body)
	}
}
