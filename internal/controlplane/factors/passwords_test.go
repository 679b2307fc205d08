package factors_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

// withoutPasswords returns an organisation that accepts no passwords, whose owner has a passkey.
func withoutPasswords(t *testing.T) *world {
	t.Helper()
	w, _ := withPasskey(t)
	w.root.Must("PUT", "/admin/organisation", `{"settings":{"password_sign_in":false}}`, nil)
	return w
}

func TestWithPasswordsOffEveryPasswordRouteRefuses(t *testing.T) {
	w, a := withPasskey(t)
	id := w.member("mate@example.com", "member")
	mate := w.browser()
	mate.login("mate@example.com")
	var invite, link struct {
		Link   string
		Invite string `json:"invite_link"`
	}
	w.root.Must("POST", "/admin/users/invites", `{"email":"new@example.com","role":"member","workspaces":[{"id":"default","role":"member"}]}`, &invite)
	w.root.Must("POST", "/admin/users/"+id+"/password-reset", "", &link)
	token := func(link string) string { return link[strings.Index(link, "token=")+len("token="):] }
	w.root.Must("PUT", "/admin/organisation", `{"settings":{"password_sign_in":false}}`, nil)
	b := w.browser()
	const off = "password_sign_in_off"
	expect(t, "signing in", b.call("POST", "/auth/login", `{"email":"mate@example.com","password":"`+password+`"}`), http.StatusForbidden, off)
	expect(t, "a wrong password, which learns nothing", b.call("POST", "/auth/login", `{"email":"mate@example.com","password":"wrong"}`), http.StatusUnauthorized, "")
	expect(t, "accepting an invite", b.call("POST", "/auth/invites/accept", `{"token":"`+token(invite.Invite+invite.Link)+`","password":"a long enough password"}`), http.StatusForbidden, off)
	expect(t, "a link", b.call("POST", "/auth/password", `{"token":"`+token(link.Link)+`","password":"a long enough password"}`), http.StatusForbidden, off)
	expect(t, "a change", mate.call("PUT", "/auth/password", `{"current_password":"`+password+`","password":"a long enough password"}`), http.StatusForbidden, off)
	expect(t, "a change of the profile", mate.call("PUT", "/auth/me", `{"password":{"current":"`+password+`","new":"a long enough password"}}`), http.StatusForbidden, off)
	expect(t, "a confirmation", mate.call("POST", "/auth/confirm", `{"password":"`+password+`"}`), http.StatusForbidden, off)
	expect(t, "a new link", w.root.Call("POST", "/admin/users/"+id+"/password-reset", ""), http.StatusForbidden, off)
	expect(t, "a first link", w.root.Call("POST", "/admin/users/"+id+"/link", ""), http.StatusForbidden, off)
	if got := w.Query(`SELECT COUNT(*) FROM users WHERE email = 'new@example.com'`)[0]; got != "0" {
		t.Error("the invite made a user")
	}
	var methods struct{ Password bool }
	b.must("GET", "/auth/methods", "", &methods)
	if methods.Password {
		t.Error("the page still offers passwords")
	}
	if _, status := b.answer("/auth/passkey", a.Get(b.options("/auth/passkey"))); status != http.StatusOK {
		t.Errorf("the passkey: %d", status)
	}
	w.root.Must("PUT", "/admin/organisation", `{"settings":{"password_sign_in":true}}`, nil)
	w.browser().login("mate@example.com")
}

func TestPasswordsStayOnUntilAnOwnerHasAnotherWay(t *testing.T) {
	const off = `{"settings":{"password_sign_in":false}}`
	for _, tt := range []struct {
		name string
		set  func(w *world)
		ok   bool
	}{
		{"nothing", func(*world) {}, false},
		{"one-time codes only", func(w *world) { b := w.browser(); b.login("boss@example.com"); b.addCodes() }, false},
		{"a passkey without verification", func(w *world) {
			a, b := w.authenticator(), w.browser()
			a.Flags = 1
			b.login("boss@example.com")
			b.addPasskey(a)
		}, false},
		{"a passkey of a member", func(w *world) {
			b := w.browser()
			w.member("mate@example.com", "member")
			b.login("mate@example.com")
			b.addPasskey(w.authenticator())
		}, false},
		{"a passkey", func(w *world) { b := w.browser(); b.login("boss@example.com"); b.addPasskey(w.authenticator()) }, true},
		{"an identity", func(w *world) { w.link("active") }, true},
		{"an identity of a disabled provider", func(w *world) { w.link("disabled") }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			tt.set(w)
			a := w.root.Call("PUT", "/admin/organisation", off)
			if tt.ok != (a.Status == http.StatusOK) || !tt.ok && !strings.Contains(a.Body, "no_other_sign_in") {
				t.Errorf("%d %s", a.Status, a.Body)
			}
		})
	}
}

// link gives the owner an identity at a provider.
func (w *world) link(status string) {
	w.Exec(`INSERT INTO identity_providers (id, organisation_id, slug, name, type, settings, sealed, status, created_by, created_at, updated_at)
		VALUES ('p', $1, 'p', 'P', 'oidc', '{}', '', $2, '', 0, 0)`, store.DefaultOrganisation, status)
	w.Exec(`INSERT INTO identities (id, organisation_id, provider_id, issuer, subject, user_id, email, created_at, last_used_at)
		SELECT 'i', $1, 'p', 'https://login.example.com', 'ada', id, email, 0, 0 FROM users`, store.DefaultOrganisation)
}

// giveOwner makes the link with which an owner signs in.
func (w *world) giveOwner(token, user string) {
	w.t.Helper()
	of := store.Claim{Organisation: store.DefaultOrganisation, User: user}
	err := w.DB.Update(w.t.Context(), nil, func(tx *store.Tx) error {
		return tx.ReplaceClaim(w.t.Context(), of, access.HashKey(token).String(), w.Clock, w.Clock.Add(time.Hour))
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// TestAnOwnersLinkReplacesThePasswordOnly: whoever has the gateway's host gives an owner a way
// in, once, for an hour, and not past a second factor.
func TestAnOwnersLinkReplacesThePasswordOnly(t *testing.T) {
	w := withoutPasswords(t)
	owner := w.Query(`SELECT id FROM users`)[0]
	try := func(token string, want int, pending string) {
		t.Helper()
		a := w.browser().call("POST", "/auth/owner", `{"token":"`+token+`"}`)
		if a.Status != want || want == http.StatusOK && strings.Contains(a.Body, `"pending":"`) != (pending != "") || !strings.Contains(a.Body, pending) {
			t.Errorf("the link %s: %d %s", token, a.Status, a.Body)
		}
	}
	w.giveOwner("first", owner)
	expect(t, "as a claim", w.browser().call("POST", "/auth/claim", `{"token":"first","email":"x@example.com","password":"a long enough password"}`), http.StatusNotFound, "")
	try("first", http.StatusOK, "second_factor")
	try("first", http.StatusNotFound, "")
	w.Exec(`DELETE FROM passkeys`)
	w.giveOwner("second", owner)
	try("second", http.StatusOK, "")
	w.giveOwner("late", owner)
	w.Clock = w.Clock.Add(time.Hour)
	try("late", http.StatusNotFound, "")
	w.Exec(`UPDATE organisation_members SET role = 'member'`)
	w.giveOwner("demoted", owner)
	try("demoted", http.StatusNotFound, "")
	w.giveOwner("nobodys", "")
	try("nobodys", http.StatusNotFound, "")
	if got := w.Query(`SELECT request_body FROM audit_logs WHERE uri = '/v1/auth/owner' AND action LIKE 'sign_in%' ORDER BY rowid`); !slices.Equal(got, []string{`{"method":"operator"}`, `{"method":"operator"}`}) {
		t.Errorf("the audit log has %q", got)
	}
}

// TestFactorsDoNotTellWhoHasAnAccount: until the password is right, an account with factors
// looks like one without, and like none.
func TestFactorsDoNotTellWhoHasAnAccount(t *testing.T) {
	w, _ := withPasskey(t)
	w.member("mate@example.com", "member")
	var bodies []string
	for _, email := range []string{"boss@example.com", "mate@example.com", "nobody@example.com"} {
		a := w.browser().call("POST", "/auth/login", `{"email":"`+email+`","password":"wrong"}`)
		if a.Status != http.StatusUnauthorized || len(a.Header["Set-Cookie"]) != 0 {
			t.Errorf("%s: %d", email, a.Status)
		}
		bodies = append(bodies, a.Body)
	}
	if bodies[0] != bodies[1] || bodies[1] != bodies[2] {
		t.Errorf("the answers differ: %q", bodies)
	}
}
