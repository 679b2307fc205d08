package sessions_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"modelgate/internal/controlplane/members"
	"modelgate/internal/controlplane/sessions"
	"modelgate/internal/controlplane/workspaces"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
	"modelgate/internal/testing/routetest"
)

const password = "correct horse battery"

type opened struct {
	Token   string
	ID      string
	UserID  string `json:"user_id"`
	Expires string `json:"expires_at"`
}

// claimInstallation returns a bench whose organisation has an owner, and their session.
func claimInstallation(t *testing.T) (*routetest.Bench, opened) {
	t.Helper()
	return claimWith(t, sessions.Routes{})
}

// claimWith is claimInstallation with other routes.
func claimWith(t *testing.T, r sessions.Routes) (*routetest.Bench, opened) {
	t.Helper()
	b := routetest.New(t, r.Add, members.Add, workspaces.Add)
	link(t, b, "the-link")
	var s opened
	b.Nobody().Must("POST", "/auth/claim", `{"token":"the-link","email":"Boss@Example.com","first_name":"B","password":"`+password+`"}`, &s)
	return b, s
}

func link(t *testing.T, b *routetest.Bench, token string) {
	t.Helper()
	err := b.DB.Update(t.Context(), nil, func(tx *store.Tx) error {
		return tx.ReplaceClaim(t.Context(), store.Claim{Organisation: store.DefaultOrganisation}, access.HashKey(token).String(), b.Clock, b.Clock.Add(time.Hour))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// identify returns who a session's token stands for some time later.
func identify(b *routetest.Bench, token string, later time.Duration) (*access.Identity, error) {
	return sessions.Identify(context.Background(), b.DB, sessions.Use{Token: token, Now: b.Clock.Add(later)})
}

func TestAnInstallationIsClaimedOnce(t *testing.T) {
	b, s := claimInstallation(t)
	if !access.IsSessionToken(s.Token) || s.Expires != "2026-05-08T12:00:00.000Z" {
		t.Errorf("the session %+v", s)
	}
	o, err := b.DB.Organisation(t.Context(), store.DefaultOrganisation)
	if err != nil || o.OwnerID != s.UserID {
		t.Errorf("the owner is %q, %v; want %s", o.OwnerID, err, s.UserID)
	}
	const again = `{"token":"the-link","email":"other@example.com","password":"` + password + `"}`
	if a := b.Nobody().Call("POST", "/auth/claim", again); a.Status != http.StatusNotFound {
		t.Errorf("the link again: %d %s", a.Status, a.Body)
	}
	link(t, b, "late")
	b.Clock = b.Clock.Add(time.Hour)
	if a := b.Nobody().Call("POST", "/auth/claim", strings.Replace(again, "the-link", "late", 1)); a.Status != http.StatusNotFound {
		t.Errorf("a link that has ended: %d %s", a.Status, a.Body)
	}
	for body, want := range map[string]string{
		`{"token":"x","email":"nobody","password":"` + password + `"}`:              "email",
		`{"token":"x","email":"a@example.com","password":"short"}`:                  "password",
		`{"email":"a@example.com","password":"` + password + `"}`:                   "token",
		`{"token":"x","email":"a@example.com","password":"` + password + `","x":1}`: "x",
	} {
		if a := b.Nobody().Call("POST", "/auth/claim", body); a.Status != http.StatusBadRequest || !strings.Contains(a.Body, want) {
			t.Errorf("%s: %d %s", body, a.Status, a.Body)
		}
	}
}

func TestAPersonSignsInAndOut(t *testing.T) {
	b, _ := claimInstallation(t)
	var s opened
	b.Nobody().Must("POST", "/auth/login", `{"email":"BOSS@example.com","password":"`+password+`"}`, &s)
	id, err := identify(b, s.Token, 0)
	if err != nil || id.UserID != s.UserID || id.Type != access.Session || !id.Allows("workspaces.create") || id.Allows(access.ScopeAll) {
		t.Fatalf("Identify = %+v, %v", id, err)
	}
	if _, err := identify(b, s.Token, 12*time.Hour); err == nil {
		t.Error("the session counts after its end")
	}
	c := b.As(*id)
	var me struct {
		Type, Role string
		Scopes     []string
	}
	c.Must("GET", "/auth/me", "", &me)
	if me.Type != "session" || me.Role != "owner" || len(me.Scopes) == 0 {
		t.Errorf("me %+v", me)
	}
	c.Must("POST", "/auth/logout", "", nil)
	if _, err := identify(b, s.Token, 0); err == nil {
		t.Error("the session counts after signing out")
	}
	if a := b.Root().Call("POST", "/auth/logout", ""); a.Status != http.StatusBadRequest {
		t.Errorf("a key signs out: %d", a.Status)
	}
}

func TestPasswordGuessingIsSlowedDown(t *testing.T) {
	b, _ := claimInstallation(t)
	try := func(email, password string) routetest.Response {
		return b.Nobody().Call("POST", "/auth/login", `{"email":"`+email+`","password":"`+password+`"}`)
	}
	wrong, unknown := try("boss@example.com", "wrong"), try("nobody@example.com", "wrong")
	if wrong.Status != http.StatusUnauthorized || wrong.Body != unknown.Body {
		t.Errorf("a wrong password: %d %s; an unknown address: %s", wrong.Status, wrong.Body, unknown.Body)
	}
	for range 9 {
		try("boss@example.com", "wrong")
	}
	if a := try("boss@example.com", password); a.Status != http.StatusTooManyRequests {
		t.Errorf("the right one after ten wrong ones: %d %s", a.Status, a.Body)
	}
	b.Clock = b.Clock.Add(time.Minute)
	if a := try("boss@example.com", password); a.Status != http.StatusOK {
		t.Errorf("a minute later: %d %s", a.Status, a.Body)
	}
}

func TestAnInviteIsAcceptedOnce(t *testing.T) {
	b, _ := claimInstallation(t)
	var made struct {
		Link string `json:"invite_link"`
	}
	b.Root().Must("POST", "/admin/users/invites", `{"email":"new@example.com","role":"member","workspaces":[{"id":"default","role":"manager"}]}`, &made)
	_, token, _ := strings.Cut(made.Link, "token=")
	body := `{"token":"` + token + `","first_name":"N","password":"` + password + `"}`
	var s opened
	b.Nobody().Must("POST", "/auth/invites/accept", body, &s)
	id, err := identify(b, s.Token, 0)
	if err != nil || id.Allows("workspaces.create") || !id.Allows("configs.read") {
		t.Errorf("the member's identity %+v, %v", id, err)
	}
	if m, err := b.DB.Membership(t.Context(), store.DefaultOrganisation, s.UserID); err != nil || m.Role != "member" || m.RoleIn(store.DefaultWorkspace) != "manager" {
		t.Errorf("membership %+v, %v", m, err)
	}
	if a := b.Nobody().Call("POST", "/auth/invites/accept", body); a.Status != http.StatusNotFound {
		t.Errorf("the link again: %d %s", a.Status, a.Body)
	}
	b.Root().Must("DELETE", "/admin/users/"+s.UserID, "", nil)
	if _, err := identify(b, s.Token, 0); err == nil {
		t.Error("the session of who was taken out still counts")
	}
}

func TestIntrospectionReportsTheCallersOwnTokens(t *testing.T) {
	b, s := claimInstallation(t)
	key := store.Key{ID: "k1", Type: access.WorkspaceUser, UserID: s.UserID, Name: "hers", Hash: access.HashKey("mg-hers"), Scopes: []access.Scope{"completions.write", "logs.view"}, CreatedAt: b.Clock, ExpiresAt: b.Clock.Add(time.Hour)}
	if err := b.DB.CreateKey(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	ask := func(c *routetest.Caller, token string) map[string]any {
		t.Helper()
		var out map[string]any
		c.Must("POST", "/oauth/introspect", `{"token":"`+token+`"}`, &out)
		return out
	}
	root := b.Root()
	got := ask(root, "mg-hers")
	if got["active"] != true || got["scope"] != "completions.write logs.view" || got["email"] != "boss@example.com" || got["username"] != "boss@example.com" ||
		got["client_id"] != "k1" || got["sub"] != s.UserID || got["exp"] != float64(b.Clock.Add(time.Hour).Unix()) {
		t.Errorf("a key: %v", got)
	}
	if got := ask(root, s.Token); got["active"] != true || got["token_type"] != "session" {
		t.Errorf("a session: %v", got)
	}
	form := func(body string) routetest.Response {
		return root.CallWith("POST", "/oauth/introspect", body, http.Header{"Content-Type": {"application/x-www-form-urlencoded; charset=utf-8"}})
	}
	if a := form("token=mg-hers&token_type_hint=access_token&client_id=me"); a.Status != 200 || !strings.Contains(a.Body, `"active":true`) || !strings.Contains(a.Body, `"client_id":"k1"`) {
		t.Errorf("a form (RFC 7662, section 2.1): %d %s", a.Status, a.Body)
	}
	for _, body := range []string{"", "token=", "token=a&token=b", "token_type_hint=access_token", "token=%zz"} {
		if a := form(body); a.Status != 400 || strings.Contains(a.Body, "active") {
			t.Errorf("the form %q: %d %s, want 400", body, a.Status, a.Body)
		}
	}
	b.Exec(`UPDATE gateway_keys SET status = 'exhausted' WHERE id = 'k1'`)
	if got := ask(root, "mg-hers"); got["active"] != true || got["email"] != "boss@example.com" {
		t.Errorf("a key whose budget is spent: %v", got)
	}
	inactive := func(name string, got map[string]any) {
		if len(got) != 1 || got["active"] != false {
			t.Errorf("%s: %v", name, got)
		}
	}
	inactive("an unknown token", ask(root, "mg-nobody"))
	foreign := b.As(access.Identity{Organisation: "another", Workspace: "-", Scopes: []access.Scope{"configs.read"}})
	inactive("another organisation's key", ask(foreign, "mg-hers"))
	inactive("another organisation's session", ask(foreign, s.Token))
	b.Clock = b.Clock.Add(13 * time.Hour)
	inactive("an expired key", ask(root, "mg-hers"))
	inactive("an ended session", ask(root, s.Token))
	if a := b.Nobody().Call("POST", "/oauth/introspect", `{"token":"x"}`); a.Status != http.StatusUnauthorized {
		t.Errorf("nobody asks: %d", a.Status)
	}
}

func TestPasswordsAndTokensAreNotKept(t *testing.T) {
	b, s := claimInstallation(t)
	b.Nobody().Call("POST", "/auth/login", `{"email":"boss@example.com","password":"canary-password-of-mine"}`)
	for table, columns := range map[string]string{
		"users":      "email || password_hash || first_name || last_name",
		"sessions":   "hash || user_id",
		"audit_logs": "request_body || request_headers || query_params || uri",
	} {
		rows := strings.Join(b.Query("SELECT "+columns+" FROM "+table), "\n")
		if rows == "" {
			t.Errorf("%s is empty", table)
		}
		for _, secret := range []string{password, "canary-password", s.Token, "the-link"} {
			if strings.Contains(rows, secret) {
				t.Errorf("%s holds a secret", table)
			}
		}
	}
}
