package sessions_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"modelgate/internal/controlplane/sessions"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
	"modelgate/internal/testing/routetest"
)

// signIn returns a session and its caller.
func signIn(t *testing.T, b *routetest.Bench, email, password, address string) (opened, *routetest.Caller) {
	t.Helper()
	var s opened
	b.Nobody().At(address).Must("POST", "/auth/login", `{"email":"`+email+`","password":"`+password+`"}`, &s)
	return s, withSession(t, b, s.Token).At(address)
}

func withSession(t *testing.T, b *routetest.Bench, token string) *routetest.Caller {
	t.Helper()
	id, err := identify(b, token, 0)
	if err != nil {
		t.Fatal(err)
	}
	id.KeyID = token // the bench knows callers by it
	id.Workspace = "-"
	return b.As(*id)
}

func valid(b *routetest.Bench, token string) bool {
	_, err := identify(b, token, 0)
	return err == nil
}

// joinUser returns a person who accepted an invite.
func joinUser(t *testing.T, b *routetest.Bench, name, role string) opened {
	t.Helper()
	var made struct {
		Link string `json:"invite_link"`
	}
	b.Root().Must("POST", "/admin/users/invites", `{"email":"`+name+`@example.com","role":"`+role+`","workspaces":[]}`, &made)
	_, secret, _ := strings.Cut(made.Link, "token=")
	var s opened
	b.Nobody().Must("POST", "/auth/invites/accept", setting(secret), &s)
	return s
}

type sessionList struct {
	Total int
	Data  []struct {
		ID, Address string
		UserAgent   string `json:"user_agent"`
		Current     bool
		Created     string `json:"created_at"`
		Used        string `json:"last_used_at"`
		Expires     string `json:"expires_at"`
	}
}

func TestAPersonListsAndEndsTheirSessions(t *testing.T) {
	b, first := claimInstallation(t)
	joinUser(t, b, "ann", "member")
	b.Clock = b.Clock.Add(time.Minute)
	second, c := signIn(t, b, "boss@example.com", password, "203.0.113.9")
	var out sessionList
	c.Must("GET", "/auth/sessions", "", &out)
	if out.Total != 2 || len(out.Data) != 2 || !out.Data[0].Current || out.Data[1].Current || out.Data[0].Address != "203.0.113.9" ||
		out.Data[0].Created != "2026-05-01T12:01:00.000Z" || out.Data[0].Expires != "2026-05-02T00:01:00.000Z" {
		t.Fatalf("listed %+v", out)
	}
	c.Must("DELETE", "/auth/sessions/"+out.Data[1].ID, "", nil)
	if valid(b, first.Token) || !valid(b, second.Token) {
		t.Error("another session was ended than the one that was named")
	}
	if a := c.Call("DELETE", "/auth/sessions/"+out.Data[1].ID, ""); a.Status != http.StatusNotFound {
		t.Errorf("a session that has ended: %d %s", a.Status, a.Body)
	}
	third, _ := signIn(t, b, "boss@example.com", password, "203.0.113.9")
	c.Must("DELETE", "/auth/sessions?keep_current=true", "", nil)
	if valid(b, third.Token) || !valid(b, second.Token) {
		t.Error("keep_current keeps another session than the current one")
	}
	c.Must("DELETE", "/auth/sessions", "", nil)
	if valid(b, second.Token) {
		t.Error("the session is valid after all were ended")
	}
	if a := b.Root().Call("GET", "/auth/sessions", ""); a.Status != http.StatusForbidden {
		t.Errorf("a key lists sessions: %d", a.Status)
	}
}

func TestNobodyEndsTheSessionOfAnother(t *testing.T) {
	b, boss := claimInstallation(t)
	ann := joinUser(t, b, "ann", "member")
	bossID := b.Query(`SELECT id FROM sessions WHERE user_id = '` + boss.UserID + `'`)[0]
	c := withSession(t, b, ann.Token)
	for _, path := range []string{"/auth/sessions/" + bossID, "/admin/users/" + boss.UserID + "/sessions/" + bossID, "/admin/users/" + boss.UserID + "/sessions"} {
		if a := c.Call("DELETE", path, ""); a.Status != http.StatusNotFound && a.Status != http.StatusForbidden {
			t.Errorf("DELETE %s by a member: %d %s", path, a.Status, a.Body)
		}
	}
	foreign := b.As(access.Identity{Type: access.OrganisationService, Organisation: "another", Workspace: "-", Scopes: access.Scopes(access.OrganisationService)})
	for _, call := range [][2]string{{"GET", ""}, {"DELETE", ""}, {"DELETE", "/" + bossID}} {
		if a := foreign.Call(call[0], "/admin/users/"+boss.UserID+"/sessions"+call[1], ""); a.Status != http.StatusNotFound {
			t.Errorf("%s%s from another organisation: %d %s", call[0], call[1], a.Status, a.Body)
		}
	}
	// An admin's key does not end the sessions of the owner, and of nobody by the
	// path of somebody else.
	if a := b.Root().Call("DELETE", "/admin/users/"+boss.UserID+"/sessions", ""); a.Status != http.StatusForbidden {
		t.Errorf("the owner's sessions: %d %s", a.Status, a.Body)
	}
	if a := b.Root().Call("DELETE", "/admin/users/"+ann.UserID+"/sessions/"+bossID, ""); a.Status != http.StatusNotFound {
		t.Errorf("the owner's session as a member's: %d %s", a.Status, a.Body)
	}
	if !valid(b, boss.Token) {
		t.Error("the owner's session was ended")
	}
}

func TestAnAdminEndsTheSessionsOfAMember(t *testing.T) {
	b, _ := claimInstallation(t)
	ann := joinUser(t, b, "ann", "member")
	again, _ := signIn(t, b, "ann@example.com", password, "203.0.113.9")
	var out sessionList
	b.Root().Must("GET", "/admin/users/ann@example.com/sessions", "", &out)
	if out.Total != 2 {
		t.Fatalf("listed %+v", out)
	}
	b.Clock = b.Clock.Add(time.Second)
	third, _ := signIn(t, b, "ann@example.com", password, "203.0.113.9")
	b.Root().Must("DELETE", "/admin/users/ann@example.com/sessions/"+third.ID, "", nil)
	if valid(b, third.Token) || !valid(b, again.Token) {
		t.Error("another session was ended than the one that was named")
	}
	b.Clock = b.Clock.Add(time.Second)
	b.Root().Must("DELETE", "/admin/users/"+ann.UserID+"/sessions", "", nil)
	if valid(b, ann.Token) || valid(b, again.Token) {
		t.Error("a session is valid after an admin ended them all")
	}
	if rows := b.Query(`SELECT action || ' ' || resource_id FROM audit_logs ORDER BY id DESC LIMIT 1`); rows[0] != "sessions_end "+ann.UserID {
		t.Errorf("the audit log has %q", rows)
	}
}

func TestIdleAndOldSessionsEnd(t *testing.T) {
	l := sessions.Lifetimes{Idle: time.Hour, Absolute: 3 * time.Hour}
	b, _ := claimWith(t, sessions.Routes{Lifetimes: func() sessions.Lifetimes { return l }})
	use := func(token string) error {
		_, err := sessions.Identify(t.Context(), b.DB, sessions.Use{Token: token, Address: "203.0.113.9", Now: b.Clock, Lifetimes: l})
		return err
	}
	idle, _ := signIn(t, b, "boss@example.com", password, "203.0.113.9")
	used, _ := signIn(t, b, "boss@example.com", password, "203.0.113.9")
	for range 5 {
		b.Clock = b.Clock.Add(30 * time.Minute)
		if err := use(used.Token); err != nil {
			t.Fatalf("a session in use at %s: %v", b.Clock, err)
		}
	}
	if use(idle.Token) == nil {
		t.Error("a session that was not used for hours is valid")
	}
	b.Clock = b.Clock.Add(30 * time.Minute)
	if use(used.Token) == nil {
		t.Error("a session is valid after its absolute lifetime")
	}
	old, _ := signIn(t, b, "boss@example.com", password, "203.0.113.9")
	l = sessions.Lifetimes{Idle: time.Minute, Absolute: 2 * time.Minute}
	if err := use(old.Token); err != nil {
		t.Errorf("a fresh session: %v", err)
	}
	b.Clock = b.Clock.Add(time.Minute)
	if use(old.Token) == nil {
		t.Error("a shorter idle time is not in effect for a session that began before")
	}
	l = sessions.Lifetimes{Idle: time.Hour, Absolute: time.Minute}
	if use(old.Token) == nil {
		t.Error("a shorter absolute lifetime is not in effect for a session that began before")
	}
}

func TestAUseIsNotedSeldom(t *testing.T) {
	b, _ := claimInstallation(t)
	s, _ := signIn(t, b, "boss@example.com", password, "203.0.113.9")
	noted := func() string {
		return b.Query(`SELECT last_used_at || ' ' || address FROM sessions WHERE id = '` + s.ID + `'`)[0]
	}
	use := func(later time.Duration, address string) {
		t.Helper()
		b.Clock = b.Clock.Add(later)
		if _, err := sessions.Identify(t.Context(), b.DB, sessions.Use{Token: s.Token, Address: address, Now: b.Clock}); err != nil {
			t.Fatal(err)
		}
	}
	before := noted()
	use(59*time.Second, "198.51.100.7")
	if after := noted(); after != before {
		t.Errorf("%s was written over %s within a minute", after, before)
	}
	use(time.Second, "198.51.100.7")
	if after := noted(); after == before || !strings.HasSuffix(after, "198.51.100.7") {
		t.Errorf("after a minute %s, before %s", after, before)
	}
}

func TestSessionsOfAPersonAreBounded(t *testing.T) {
	b, first := claimInstallation(t)
	err := b.DB.Update(t.Context(), nil, func(tx *store.Tx) error {
		for i := range 120 {
			at := b.Clock.Add(time.Duration(i+1) * time.Second)
			id := access.NewSessionToken().Reveal()
			s := store.Session{Hash: id, ID: id, UserID: first.UserID, Organisation: store.DefaultOrganisation, CreatedAt: at, ExpiresAt: at.Add(time.Hour)}
			if err := tx.CreateSession(t.Context(), s); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := b.Query(`SELECT COUNT(*) FROM sessions`)[0]; n != "100" || valid(b, first.Token) {
		t.Errorf("%s sessions, the oldest valid: %t", n, valid(b, first.Token))
	}
}

func TestChangedPasswordEndsOtherSessions(t *testing.T) {
	b, first := claimInstallation(t)
	_, c := signIn(t, b, "boss@example.com", password, "203.0.113.9")
	token := b.Query(`SELECT hash FROM sessions WHERE address = '203.0.113.9'`)[0]
	const next = "another battery horse"
	for body, want := range map[string]int{
		`{"current_password":"wrong","password":"` + next + `"}`:                http.StatusBadRequest,
		`{"password":"` + next + `"}`:                                           http.StatusBadRequest,
		`{"current_password":"` + password + `","password":"short"}`:            http.StatusBadRequest,
		`{"current_password":"` + password + `","password":"` + password + `"}`: http.StatusBadRequest,
	} {
		if a := c.Call("PUT", "/auth/password", body); a.Status != want {
			t.Errorf("%s: %d %s, want %d", body, a.Status, a.Body, want)
		}
	}
	if !signsIn(b, "boss@example.com", password) || !valid(b, first.Token) {
		t.Fatal("a refused change changed something")
	}
	c.Must("PUT", "/auth/password", `{"current_password":"`+password+`","password":"`+next+`"}`, nil)
	if rows := b.Query(`SELECT hash FROM sessions`); len(rows) != 1 || rows[0] != token {
		t.Errorf("sessions %q are left, want the one that changed the password", rows)
	}
	if signsIn(b, "boss@example.com", password) || !signsIn(b, "boss@example.com", next) {
		t.Error("the old password opens, or the new one does not")
	}
	if rows := b.Query(`SELECT user_id || ' ' || client_ip FROM audit_logs WHERE action = 'password_change' AND response_status_code = 200`); len(rows) != 1 || rows[0] != first.UserID+" 203.0.113.9" {
		t.Errorf("the audit log has %q", rows)
	}
	if a := b.Root().Call("PUT", "/auth/password", `{"current_password":"`+password+`","password":"`+next+`"}`); a.Status != http.StatusForbidden {
		t.Errorf("a key changes a password: %d %s", a.Status, a.Body)
	}
}

func TestAStolenSessionDoesNotGuessThePassword(t *testing.T) {
	b, s := claimInstallation(t)
	thief := withSession(t, b, s.Token).At("198.51.100.7")
	change := func(current string) int {
		return thief.Call("PUT", "/auth/password", `{"current_password":"`+current+`","password":"a password of the thief"}`).Status
	}
	for range 10 {
		if got := change("a guess"); got != http.StatusBadRequest {
			t.Fatalf("a guess: %d", got)
		}
	}
	if got := change(password); got != http.StatusTooManyRequests {
		t.Errorf("the eleventh guess, a right one: %d", got)
	}
}

func TestAdminResetsAPassword(t *testing.T) {
	b, boss := claimInstallation(t)
	ann := joinUser(t, b, "ann", "member")
	reset := func(user string) routetest.Response {
		return b.Root().Call("POST", "/admin/users/"+user+"/password-reset", "")
	}
	var made struct{ Link string }
	b.Root().Must("POST", "/admin/users/ann@example.com/password-reset", "", &made)
	old := made.Link
	b.Root().Must("POST", "/admin/users/"+ann.UserID+"/password-reset", "", &made)
	secret := strings.TrimPrefix(made.Link, sessions.PasswordPath+"?token=")
	if kept := b.Query(`SELECT hash FROM password_links`); len(kept) != 1 || kept[0] == secret {
		t.Errorf("stored of the link: %q", kept)
	}
	const next = "another battery horse"
	body := func(secret string) string { return `{"token":"` + secret + `","password":"` + next + `"}` }
	if a := b.Nobody().Call("POST", "/auth/password", body(strings.TrimPrefix(old, sessions.PasswordPath+"?token="))); a.Status != http.StatusNotFound {
		t.Errorf("a link that was replaced: %d %s", a.Status, a.Body)
	}
	if !valid(b, ann.Token) || !signsIn(b, "ann@example.com", password) {
		t.Error("making a link changed the account")
	}
	b.Nobody().Must("POST", "/auth/password", body(secret), nil)
	if valid(b, ann.Token) || signsIn(b, "ann@example.com", password) || !signsIn(b, "ann@example.com", next) {
		t.Error("the old session or the old password is valid after the reset, or the new one is not")
	}
	if u, err := b.DB.User(t.Context(), store.DefaultOrganisation, ann.UserID); err != nil || u.FirstName != "Self" {
		t.Errorf("the reset changed the name: %+v, %v", u, err)
	}
	if a := b.Nobody().Call("POST", "/auth/password", body(secret)); a.Status != http.StatusNotFound {
		t.Errorf("the link again: %d %s", a.Status, a.Body)
	}
	declareUser(t, b, "new", "member")
	for user, want := range map[string]int{boss.UserID: http.StatusForbidden, "new": http.StatusConflict, "nobody": http.StatusNotFound} {
		if a := reset(user); a.Status != want {
			t.Errorf("a reset for %s: %d %s, want %d", user, a.Status, a.Body, want)
		}
	}
}

func TestResetLinkExpires(t *testing.T) {
	for name, before := range map[string]func(t *testing.T, b *routetest.Bench, ann opened){
		"after a day": func(_ *testing.T, b *routetest.Bench, _ opened) { b.Clock = b.Clock.Add(24 * time.Hour) },
		"with a change of the password": func(t *testing.T, b *routetest.Bench, ann opened) {
			withSession(t, b, ann.Token).Must("PUT", "/auth/password", `{"current_password":"`+password+`","password":"another battery horse"}`, nil)
		},
		"with the membership": func(_ *testing.T, b *routetest.Bench, ann opened) {
			b.Root().Must("DELETE", "/admin/users/"+ann.UserID, "", nil)
		},
		"with a membership elsewhere": func(_ *testing.T, b *routetest.Bench, ann opened) {
			b.Exec(`INSERT INTO organisations (id, slug, name, owner_id, settings, data_key, status, created_at, updated_at) VALUES ('elsewhere', 'elsewhere', '', '', '{}', '', 'active', 0, 0)`)
			b.Exec(`INSERT INTO organisation_members (organisation_id, user_id, role, created_at, updated_at) VALUES ('elsewhere', $1, 'admin', 0, 0)`, ann.UserID)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, _ := claimInstallation(t)
			ann := joinUser(t, b, "ann", "member")
			var made struct{ Link string }
			b.Root().Must("POST", "/admin/users/ann@example.com/password-reset", "", &made)
			before(t, b, ann)
			body := `{"token":"` + strings.TrimPrefix(made.Link, sessions.PasswordPath+"?token=") + `","password":"a password of nobody"}`
			if a := b.Nobody().Call("POST", "/auth/password", body); a.Status != http.StatusNotFound {
				t.Errorf("the link: %d %s", a.Status, a.Body)
			}
			if signsIn(b, "ann@example.com", "a password of nobody") {
				t.Error("the password was set")
			}
		})
	}
}

func TestDisabledPersonHasNoSession(t *testing.T) {
	b, _ := claimInstallation(t)
	ann := joinUser(t, b, "ann", "member")
	b.Exec(`UPDATE users SET status = 'disabled' WHERE id = $1`, ann.UserID)
	if valid(b, ann.Token) {
		t.Error("the session of a disabled person is valid")
	}
}

func TestSignInsAndSignOutsAreAudited(t *testing.T) {
	b, s := claimInstallation(t)
	again, c := signIn(t, b, "boss@example.com", password, "203.0.113.9")
	b.Clock = b.Clock.Add(time.Second)
	c.Must("POST", "/auth/logout", "", nil)
	want := "sign_in " + s.UserID + " " + again.ID + " 203.0.113.9\nsign_out " + s.UserID + " " + again.ID + " 203.0.113.9"
	rows := b.Query(`SELECT action || ' ' || user_id || ' ' || resource_id || ' ' || client_ip FROM audit_logs WHERE client_ip = '203.0.113.9' ORDER BY id`)
	if got := strings.Join(rows, "\n"); got != want {
		t.Errorf("the audit log has\n%s\nwant\n%s", got, want)
	}
}

func TestSignInsAlwaysMakeAFreshToken(t *testing.T) {
	b, s := claimInstallation(t)
	planted := http.Header{"Cookie": {"session=" + s.Token}, "Authorization": {"Bearer " + s.Token}}
	a := b.Nobody().CallWith("POST", "/auth/login", `{"email":"boss@example.com","password":"`+password+`"}`, planted)
	if a.Status != http.StatusOK || strings.Contains(a.Body, s.Token) || len(a.Header.Values("Set-Cookie")) > 0 || a.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("signed in with a planted token: %d %v %s", a.Status, a.Header, a.Body)
	}
}
