package factors_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
	"modelgate/internal/testing/routetest"
)

// later moves the clock to a step of one-time codes that was not used.
func (w *world) later() { w.Clock = w.Clock.Add(time.Minute) }

func TestASignInIsCompletedWithAOneTimeCodeThatWorksOnce(t *testing.T) {
	w := newWorld(t)
	b := w.browser()
	if s := b.login("boss@example.com"); s.Pending != "" {
		t.Fatalf("the session waits for %q", s.Pending)
	}
	key, got := b.addCodes()
	if len(got.Recovery) != 10 || got.Session != nil {
		t.Fatalf("added %+v", got)
	}
	first := w.code(key)
	b = w.browser()
	s := b.login("boss@example.com")
	if s.Pending != store.PendingFactor || !slices.Equal(s.Methods, []string{"one_time_code", "recovery_code"}) {
		t.Fatalf("the session is %+v", s)
	}
	expect(t, "another route", b.call("GET", "/admin/users", ""), http.StatusForbidden, "second_factor_required")
	var me struct {
		Type, Pending string
		Scopes        []string
		Email         string
		Methods       []string
	}
	b.must("GET", "/auth/me", "", &me)
	if me.Type != "pending-session" || me.Pending != s.Pending || len(me.Scopes) != 0 || me.Email != "" || !slices.Equal(me.Methods, s.Methods) {
		t.Errorf("me is %+v", me)
	}
	expect(t, "the code of the enrolment again", b.call("POST", "/auth/second-factor", `{"code":"`+first+`"}`), http.StatusUnauthorized, "second_factor_refused")
	expect(t, "a wrong code", b.call("POST", "/auth/second-factor", `{"code":"`+w.wrong(key)+`"}`), http.StatusUnauthorized, "second_factor_refused")
	lastReason(t, w, "code")
	expect(t, "two at once", b.call("POST", "/auth/second-factor", `{"code":"123456","recovery_code":"a"}`), http.StatusBadRequest, "")
	expect(t, "none", b.call("POST", "/auth/second-factor", `{}`), http.StatusBadRequest, "")
	expect(t, "a mistyped one", b.call("POST", "/auth/second-factor", `{"code":"`+w.code(key)+` "}`), http.StatusBadRequest, "")
	w.later()
	var full session
	b.must("POST", "/auth/second-factor", `{"code":"`+w.code(key)+`"}`, &full)
	if full.Token == "" || full.Token == s.Token || full.ID == s.ID || full.Pending != "" {
		t.Errorf("the session is %+v", full)
	}
	expect(t, "the session before", b.call("GET", "/auth/me", ""), http.StatusUnauthorized, "")
	b.token = full.Token
	b.must("GET", "/admin/users", "", nil)
	expect(t, "a second time", b.call("POST", "/auth/second-factor", `{"code":"123456"}`), http.StatusBadRequest, "")
	other := w.browser()
	other.login("boss@example.com")
	expect(t, "the code again", other.call("POST", "/auth/second-factor", `{"code":"`+w.code(key)+`"}`), http.StatusUnauthorized, "second_factor_refused")
	if rows := w.Query(`SELECT action FROM audit_logs WHERE action LIKE 'sign_in%' ORDER BY rowid`); !slices.Contains(rows, "sign_in_pending") ||
		!slices.Contains(rows, "sign_in") {
		t.Errorf("the audit log has %q", rows)
	}
	if leaks := w.Query(`SELECT request_body FROM audit_logs WHERE request_body LIKE '%` + w.code(key) + `%' OR request_body LIKE '%` + first + `%'`); len(leaks) != 0 {
		t.Errorf("the audit log has codes: %q", leaks)
	}
	sealed := w.Query(`SELECT sealed FROM one_time_codes`)[0]
	if strings.Contains(sealed, key.Reveal()) {
		t.Error("the secret is stored as it is")
	}
}

func TestARecoveryCodeWorksOnceHoweverItIsTyped(t *testing.T) {
	w := newWorld(t)
	b := w.browser()
	b.login("boss@example.com")
	_, got := b.addCodes()
	for i, tt := range []struct {
		code string
		want int
	}{
		{got.Recovery[0], http.StatusOK},
		{got.Recovery[0], http.StatusUnauthorized},
		{" " + strings.ToUpper(strings.ReplaceAll(got.Recovery[1], "-", "")), http.StatusOK},
		{got.Recovery[1], http.StatusUnauthorized},
		{"aaaaa-aaaaa-aaaaa-aaaaa", http.StatusUnauthorized},
	} {
		b := w.browser()
		b.login("boss@example.com")
		if a := b.call("POST", "/auth/second-factor", `{"recovery_code":"`+tt.code+`"}`); a.Status != tt.want {
			t.Errorf("%d: %d %s", i, a.Status, a.Body)
		}
	}
	if left := w.Query(`SELECT COUNT(*) FROM recovery_codes`)[0]; left != "8" {
		t.Errorf("%s codes are left", left)
	}
	var again struct {
		Codes []string `json:"recovery_codes"`
	}
	b.must("POST", "/auth/recovery-codes", "", &again)
	if len(again.Codes) != 10 || slices.Contains(again.Codes, got.Recovery[2]) {
		t.Errorf("the new codes %q", again.Codes)
	}
	other := w.browser()
	other.login("boss@example.com")
	expect(t, "a code of before", other.call("POST", "/auth/second-factor", `{"recovery_code":"`+got.Recovery[2]+`"}`), http.StatusUnauthorized, "")
	if stored := w.Query(`SELECT hash FROM recovery_codes`); slices.ContainsFunc(stored, func(h string) bool { return len(h) != 64 }) {
		t.Errorf("the codes are stored as %q", stored)
	}
}

// secondNode is another gateway with the same database.
func (w *world) secondNode() *routetest.Bench {
	b := w.Another()
	w.useSessions(b)
	b.API.Now = func() time.Time { return w.Clock }
	return b
}

func TestGuessesOfCodesAreSlowedDownOnAllNodes(t *testing.T) {
	w := newWorld(t)
	b := w.browser()
	b.login("boss@example.com")
	key, got := b.addCodes()
	nodes := []*routetest.Bench{w.Bench, w.secondNode()}
	statuses := make(map[int]int)
	w.later()
	for i := range 12 {
		b := w.browser()
		b.b, b.ip = nodes[i%2], []string{"198.51.100.1", "198.51.100.2", "198.51.100.3"}[i%3]
		b.login("boss@example.com")
		statuses[b.call("POST", "/auth/second-factor", `{"code":"`+w.wrong(key)+`"}`).Status]++
	}
	if statuses[http.StatusUnauthorized] != 5 || statuses[http.StatusTooManyRequests] != 7 {
		t.Errorf("12 guesses were answered %v, want 5 of them checked", statuses)
	}
	lastReason(t, w, "limited")
	b = w.browser()
	b.login("boss@example.com")
	for name, body := range map[string]string{"the right code": `{"code":"` + w.code(key) + `"}`, "a recovery code": `{"recovery_code":"` + got.Recovery[0] + `"}`} {
		a := b.call("POST", "/auth/second-factor", body)
		expect(t, name, a, http.StatusTooManyRequests, "")
		if a.Header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
	}
	w.Clock = w.Clock.Add(5 * time.Minute)
	b.must("POST", "/auth/second-factor", `{"code":"`+w.code(key)+`"}`, nil)
	for range 4 { // a right one ends the count
		b = w.browser()
		b.login("boss@example.com")
		expect(t, "a wrong code later", b.call("POST", "/auth/second-factor", `{"code":"`+w.wrong(key)+`"}`), http.StatusUnauthorized, "")
	}
}

// TestOtherFactorsDoNotResetTheCount: a guess of one kind must not make room for another.
func TestOtherFactorsDoNotResetTheCount(t *testing.T) {
	w := newWorld(t)
	b := w.browser()
	b.login("boss@example.com")
	key, _ := b.addCodes()
	statuses := make(map[int]int)
	for i := range 12 {
		body := `{"code":"` + w.wrong(key) + `"}`
		if i%2 == 0 {
			body = `{"recovery_code":"aaaaa"}`
		}
		statuses[b.call("POST", "/auth/confirm", body).Status]++
	}
	if statuses[http.StatusUnauthorized] != 5 || statuses[http.StatusTooManyRequests] != 7 {
		t.Errorf("12 guesses were answered %v, want 5 of them checked", statuses)
	}
}

func TestMembersEnrolWhereAnOrganisationRequiresASecondFactor(t *testing.T) {
	w := newWorld(t)
	w.member("mate@example.com", "member")
	before := w.browser()
	before.login("mate@example.com")
	w.root.Must("PUT", "/admin/organisation", `{"settings":{"require_second_factor":true}}`, nil)
	expect(t, "a session of before", before.call("GET", "/auth/me", ""), http.StatusUnauthorized, "")
	w.root.Must("GET", "/admin/users", "", nil) // keys are untouched
	for _, tt := range []struct {
		email string
		enrol func(b *browser) added
	}{
		{"mate@example.com", func(b *browser) added { _, got := b.addCodes(); return got }},
		{"boss@example.com", func(b *browser) added { return b.addPasskey(w.authenticator()) }},
	} {
		b := w.browser()
		s := b.login(tt.email)
		if s.Pending != store.PendingEnrolment || !slices.Equal(s.Methods, []string{"passkey", "one_time_code"}) {
			t.Fatalf("the session is %+v", s)
		}
		expect(t, "another route", b.call("GET", "/auth/sessions", ""), http.StatusForbidden, "enrolment_required")
		expect(t, "a factor that is not there", b.call("POST", "/auth/second-factor", `{"code":"123456"}`), http.StatusForbidden, "enrolment_required")
		got := tt.enrol(b)
		if got.Session == nil || got.Session.Token == s.Token || len(got.Recovery) != 10 {
			t.Fatalf("added %+v", got)
		}
		b.must("GET", "/auth/sessions", "", nil)
		old := w.browser()
		old.token = s.Token
		expect(t, "the session before", old.call("GET", "/auth/me", ""), http.StatusUnauthorized, "")
	}
	b := w.browser()
	b.login("mate@example.com")
	expect(t, "a factor with a password and another's session", b.call("POST", "/auth/one-time-codes", ""), http.StatusForbidden, "second_factor_required")
	w.later()
	key, err := w.Secrets.Open(t.Context(), store.DefaultOrganisation, w.Query(`SELECT sealed FROM one_time_codes`)[0])
	if err != nil {
		t.Fatal(err)
	}
	var s session
	b.must("POST", "/auth/second-factor", `{"code":"`+w.code(key)+`"}`, &s)
	b.keep(&s)
	expect(t, "removing the last one", b.call("DELETE", "/auth/one-time-codes", ""), http.StatusConflict, "last_second_factor")
	if len(w.Query(`SELECT user_id FROM one_time_codes`)) != 1 {
		t.Error("the refused removal had an effect")
	}
	newKey, _ := b.addCodes() // another phone replaces it
	if newKey.Reveal() == key.Reveal() || len(w.Query(`SELECT user_id FROM one_time_codes`)) != 1 {
		t.Error("the app was not replaced")
	}
}

// TestAPasswordAddsNoFurtherFactor: whoever has the password of a member who is to enrol
// may begin to do so too, and must not end it after the member.
func TestAPasswordAddsNoFurtherFactor(t *testing.T) {
	w := newWorld(t)
	w.root.Must("PUT", "/admin/organisation", `{"settings":{"require_second_factor":true}}`, nil)
	thief, boss := w.browser(), w.browser()
	thief.login("boss@example.com")
	options := thief.options("/auth/passkeys")
	boss.login("boss@example.com")
	boss.addCodes()
	a := thief.call("POST", "/auth/passkeys", `{"passkey":`+w.authenticator().Create(options)+`}`)
	expect(t, "the thief", a, http.StatusForbidden, "second_factor_required")
	if n := w.Query(`SELECT COUNT(*) FROM passkeys`)[0]; n != "0" {
		t.Errorf("%s passkeys were added", n)
	}
}

func TestPendingSessionsEndSoonAndEndNoOthers(t *testing.T) {
	w := newWorld(t)
	b := w.browser()
	b.login("boss@example.com")
	b.addCodes()
	thief := w.browser()
	for range 15 {
		thief.login("boss@example.com")
	}
	b.must("GET", "/auth/sessions", "", nil)
	if n := w.Query(`SELECT COUNT(*) FROM sessions WHERE pending <> ''`)[0]; n != "10" {
		t.Errorf("%s sessions wait", n)
	}
	w.Clock = w.Clock.Add(10 * time.Minute)
	expect(t, "after ten minutes", thief.call("GET", "/auth/me", ""), http.StatusUnauthorized, "")
	b.must("GET", "/auth/sessions", "", nil)
	b.must("POST", "/auth/logout", "", nil)
}

func TestAPendingSessionIsNotActive(t *testing.T) {
	w := newWorld(t)
	b := w.browser()
	b.login("boss@example.com")
	b.addCodes()
	s := w.browser().login("boss@example.com")
	var out struct{ Active bool }
	for token, want := range map[string]bool{b.token: true, s.Token: false} {
		w.root.Must("POST", "/oauth/introspect", `{"token":"`+token+`"}`, &out)
		if out.Active != want {
			t.Errorf("active is %t, want %t", out.Active, want)
		}
	}
}

func TestAStolenSessionCannotRemoveFactors(t *testing.T) {
	w := newWorld(t)
	b := w.browser()
	b.login("boss@example.com")
	key, _ := b.addCodes()
	stolen := w.browser()
	stolen.token = b.token
	w.Clock = w.Clock.Add(10*time.Minute + time.Second)
	for _, r := range [][3]string{
		{"DELETE", "/auth/one-time-codes", ""}, {"POST", "/auth/recovery-codes", ""}, {"POST", "/auth/passkeys/options", ""},
		{"PUT", "/auth/password", `{"current_password":"` + password + `","password":"a long enough password"}`},
	} {
		expect(t, r[1], stolen.call(r[0], r[1], r[2]), http.StatusForbidden, "fresh_sign_in_required")
	}
	alone := stolen.call("POST", "/auth/confirm", `{"password":"`+password+`"}`)
	if alone.Status != http.StatusBadRequest || !strings.Contains(alone.Body, "is not enough") {
		t.Errorf("the password alone: %d %s", alone.Status, alone.Body)
	}
	expect(t, "a wrong code", stolen.call("POST", "/auth/confirm", `{"code":"`+w.wrong(key)+`"}`), http.StatusUnauthorized, "second_factor_refused")
	var s session
	b.must("POST", "/auth/confirm", `{"code":"`+w.code(key)+`"}`, &s)
	expect(t, "what was stolen, after a confirmation", stolen.call("GET", "/auth/me", ""), http.StatusUnauthorized, "")
	b.keep(&s)
	b.must("POST", "/auth/recovery-codes", "", nil)
	b.must("DELETE", "/auth/one-time-codes", "", nil)
	if n := w.Query(`SELECT COUNT(*) FROM recovery_codes`)[0]; n != "0" {
		t.Errorf("%s recovery codes are left without a factor", n)
	}
	if s := w.browser().login("boss@example.com"); s.Pending != "" {
		t.Errorf("without factors, a session waits for %q", s.Pending)
	}
}

func TestAPasswordConfirmsASessionWithoutFactors(t *testing.T) {
	w := newWorld(t)
	b := w.browser()
	s := b.login("boss@example.com")
	w.Clock = w.Clock.Add(time.Hour)
	expect(t, "before", b.call("POST", "/auth/one-time-codes", ""), http.StatusForbidden, "fresh_sign_in_required")
	expect(t, "a wrong password", b.call("POST", "/auth/confirm", `{"password":"not the password"}`), http.StatusUnauthorized, "")
	expect(t, "none", b.call("POST", "/auth/confirm", `{}`), http.StatusBadRequest, "")
	expect(t, "with a key", w.root.Call("POST", "/auth/confirm", `{"password":"x"}`), http.StatusForbidden, "AB03")
	var now session
	b.must("POST", "/auth/confirm", `{"password":"`+password+`"}`, &now)
	if now.Token == s.Token || now.Pending != "" {
		t.Errorf("the session is %+v", now)
	}
	b.keep(&now)
	b.must("POST", "/auth/one-time-codes", "", nil)
}

func TestFactorsOfOthersAreOutOfReach(t *testing.T) {
	w := newWorld(t)
	w.member("mate@example.com", "member")
	boss, mate := w.browser(), w.browser()
	boss.login("boss@example.com")
	mate.login("mate@example.com")
	id := boss.addPasskey(w.authenticator()).ID
	expect(t, "renaming another's", mate.call("PUT", "/auth/passkeys/"+id, `{"name":"mine"}`), http.StatusNotFound, "")
	expect(t, "removing another's", mate.call("DELETE", "/auth/passkeys/"+id, ""), http.StatusNotFound, "")
	var begun struct{ Secret, Enrolment string }
	boss.must("POST", "/auth/one-time-codes", "", &begun)
	code := w.code(secret.New(begun.Secret))
	expect(t, "another's enrolment", mate.call("POST", "/auth/one-time-codes/confirm", `{"enrolment":"`+begun.Enrolment+`","code":"`+code+`"}`), http.StatusBadRequest, "")
	boss.must("PUT", "/auth/passkeys/"+id, `{"name":"Key"}`, nil)
	var list struct {
		Passkeys []struct{ Name string }
		Codes    bool `json:"one_time_codes"`
		Recovery int  `json:"recovery_codes_left"`
	}
	boss.must("GET", "/auth/second-factors", "", &list)
	if len(list.Passkeys) != 1 || list.Passkeys[0].Name != "Key" || list.Codes || list.Recovery != 10 {
		t.Errorf("the factors are %+v", list)
	}
	w.Clock = w.Clock.Add(10*time.Minute + time.Second)
	boss.login("boss@example.com")
	a := boss.call("POST", "/auth/one-time-codes/confirm", `{"enrolment":"`+begun.Enrolment+`","code":"`+w.code(secret.New(begun.Secret))+`"}`)
	expect(t, "an enrolment of before, while a factor is due", a, http.StatusForbidden, "second_factor_required")
}

// TestFactorsAreOfOneOrganisation: a factor that was added in one organisation, whose
// administrators choose who signs in there, proves nothing in another.
func TestFactorsAreOfOneOrganisation(t *testing.T) {
	w := newWorld(t)
	b := w.browser()
	b.login("boss@example.com")
	b.addCodes()
	w.Exec(`INSERT INTO organisations (id, slug, name, owner_id, settings, data_key, status, created_at, updated_at)
		VALUES ('other', 'other', 'Other', '', '{}', '', 'active', 0, 0)`)
	user := w.Query(`SELECT id FROM users`)[0]
	w.Exec(`INSERT INTO organisation_members (organisation_id, user_id, role, created_at, updated_at) VALUES ('other', $1, 'member', $2, $2)`,
		user, w.Clock.Add(time.Hour).UnixMilli())
	w.Exec(`INSERT INTO sessions (hash, id, user_id, organisation_id, address, user_agent, created_at, last_used_at, expires_at, pending)
		VALUES ($1, 's', $2, 'other', '', '', $3, $3, $4, 'second_factor')`,
		access.HashKey("mgs-other").String(), user, w.Clock.UnixMilli(), w.Clock.AddDate(0, 0, 1).UnixMilli())
	c := w.As(access.Identity{
		KeyID: "other", Type: access.PendingSession, Pending: store.PendingFactor, UserID: user, Organisation: "other", Workspace: "-",
		Hash: access.HashKey("mgs-other"),
	})
	key, err := w.Secrets.Open(t.Context(), store.DefaultOrganisation, w.Query(`SELECT sealed FROM one_time_codes`)[0])
	if err != nil {
		t.Fatal(err)
	}
	w.later()
	expect(t, "the code of another organisation", c.Call("POST", "/auth/second-factor", `{"code":"`+w.code(key)+`"}`), http.StatusUnauthorized, "second_factor_refused")
	admin := w.As(access.Identity{Type: access.OrganisationService, Organisation: "other", Workspace: "-", Scopes: access.Scopes(access.OrganisationService)})
	admin.Must("DELETE", "/admin/users/"+user+"/second-factors", "", nil)
	if n := len(w.Query(`SELECT user_id FROM one_time_codes`)); n != 1 {
		t.Error("another organisation removed a factor")
	}
	b.must("GET", "/auth/sessions", "", nil)
}

// TestATokenGoesIntoACookieIfTheRequestAsks covers every route of this family that begins or
// replaces a session.
func TestATokenGoesIntoACookieIfTheRequestAsks(t *testing.T) {
	w, a := withPasskey(t)
	b := w.browser()
	check := func(path, body string) {
		t.Helper()
		delete(b.cookies, access.SessionCookie)
		got := b.call("POST", path, strings.TrimSuffix(body, "}")+`,"cookie":{"path":"/console"}}`)
		cookies := strings.Join(got.Header["Set-Cookie"], "\n")
		if got.Status != http.StatusOK || strings.Contains(got.Body, `"token"`) || !strings.Contains(cookies, "Path=/console") ||
			!strings.Contains(cookies, "SameSite=Strict") || !strings.Contains(cookies, "HttpOnly") || !strings.Contains(cookies, "; Secure") {
			t.Errorf("%s: %d %s, cookies %q", path, got.Status, got.Body, cookies)
		}
		b.token = b.cookies[access.SessionCookie]
	}
	check("/auth/passkey", `{"passkey":`+a.Get(b.options("/auth/passkey"))+`}`)
	check("/auth/confirm", `{"passkey":`+a.Get(b.options("/auth/second-factor"))+`}`)
	w.giveOwner("the-owners-link", w.Query(`SELECT id FROM users`)[0])
	check("/auth/owner", `{"token":"the-owners-link"}`)
	check("/auth/second-factor", `{"passkey":`+a.Get(b.options("/auth/second-factor"))+`}`)
	w.member("mate@example.com", "member")
	w.member("other@example.com", "member")
	w.root.Must("PUT", "/admin/organisation", `{"settings":{"require_second_factor":true}}`, nil)
	b.login("mate@example.com")
	check("/auth/passkeys", `{"passkey":`+w.authenticator().Create(b.options("/auth/passkeys"))+`}`)
	b.login("other@example.com")
	var begun struct{ Secret, Enrolment string }
	b.must("POST", "/auth/one-time-codes", "", &begun)
	check("/auth/one-time-codes/confirm", `{"enrolment":"`+begun.Enrolment+`","code":"`+w.code(secret.New(begun.Secret))+`"}`)
	b.must("GET", "/auth/sessions", "", nil)
}
