package factors_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"modelgate/internal/identity/access"
	"modelgate/internal/store"
	"modelgate/internal/testing/passkeytest"
)

// withPasskey returns the owner's authenticator, whose passkey was added.
func withPasskey(t *testing.T) (*world, *passkeytest.Authenticator) {
	t.Helper()
	w := newWorld(t)
	a := w.authenticator()
	b := w.browser()
	b.login("boss@example.com")
	b.addPasskey(a)
	return w, a
}

func (b *browser) answer(path, answer string) (session, int) {
	b.w.t.Helper()
	a := b.call("POST", path, `{"passkey":`+answer+`}`)
	var s session
	if a.Status == http.StatusOK {
		if err := json.Unmarshal([]byte(a.Body), &s); err != nil {
			b.w.t.Fatal(err)
		}
	}
	return s, a.Status
}

func TestAPasskeySignsInAlone(t *testing.T) {
	w, a := withPasskey(t)
	b := w.browser()
	s, status := b.answer("/auth/passkey", a.Get(b.options("/auth/passkey")))
	if status != http.StatusOK || s.Pending != "" {
		t.Fatalf("%d %+v", status, s)
	}
	b.keep(&s)
	var list struct {
		Data []struct {
			Method  string
			Factor  string `json:"second_factor"`
			Current bool
		}
	}
	b.must("GET", "/auth/sessions", "", &list)
	if i := slices.IndexFunc(list.Data, func(s struct {
		Method  string
		Factor  string `json:"second_factor"`
		Current bool
	}) bool {
		return s.Current
	}); i < 0 || list.Data[i].Method != "passkey" || list.Data[i].Factor != "passkey" {
		t.Errorf("the sessions are %+v", list.Data)
	}
	row := w.Query(`SELECT sign_count || ' ' || (last_used_at > 0) || ' ' || rp_id || ' ' || clones FROM passkeys`)[0]
	if row != "2 1 gateway.example.com 0" {
		t.Errorf("the passkey is stored as %q", row)
	}
	w.root.Must("PUT", "/admin/organisation", `{"settings":{"require_second_factor":true}}`, nil)
	b.must("GET", "/auth/sessions", "", nil) // it proved two factors
}

func TestAPasskeyIsASecondFactor(t *testing.T) {
	w, a := withPasskey(t)
	a.Flags = passkeytest.UserPresent // a key without a PIN is enough with a password
	b := w.browser()
	s := b.login("boss@example.com")
	if s.Pending != store.PendingFactor || !slices.Equal(s.Methods, []string{"passkey", "recovery_code"}) {
		t.Fatalf("the session is %+v", s)
	}
	full, status := b.answer("/auth/second-factor", a.Get(b.options("/auth/second-factor")))
	if status != http.StatusOK || full.Pending != "" || full.Token == s.Token {
		t.Fatalf("%d %+v", status, full)
	}
	b.keep(&full)
	w.Clock = w.Clock.Add(time.Hour)
	again, status := b.answer("/auth/confirm", a.Get(b.options("/auth/second-factor")))
	if status != http.StatusOK {
		t.Fatalf("the confirmation: %d", status)
	}
	b.keep(&again)
	b.must("POST", "/auth/recovery-codes", "", nil)
}

// TestPasskeysOfAttackersAreRefused has one row for each attack on a sign-in with a passkey
// alone.
func TestPasskeysOfAttackersAreRefused(t *testing.T) {
	for _, tt := range []struct {
		name   string
		attack func(w *world, b *browser, a *passkeytest.Authenticator) string // returns the answer
		reason string
	}{
		{"an answer without its challenge", func(w *world, b *browser, a *passkeytest.Authenticator) string {
			answer := a.Get(b.options("/auth/passkey"))
			clear(b.cookies)
			return answer
		}, "challenge"},
		{"an answer to another challenge", func(w *world, b *browser, a *passkeytest.Authenticator) string {
			answer := a.Get(b.options("/auth/passkey"))
			b.options("/auth/passkey")
			return answer
		}, "passkey"},
		{"an old challenge", func(w *world, b *browser, a *passkeytest.Authenticator) string {
			answer := a.Get(b.options("/auth/passkey"))
			w.Clock = w.Clock.Add(5*time.Minute + time.Second)
			return answer
		}, "expired_challenge"},
		{"a challenge of a registration", func(w *world, b *browser, a *passkeytest.Authenticator) string {
			b.login("boss@example.com")
			b.token = w.full(b, a).Token
			return a.Get(b.options("/auth/passkeys"))
		}, "challenge"},
		{"a challenge of a second factor", func(w *world, b *browser, a *passkeytest.Authenticator) string {
			b.login("boss@example.com")
			return a.Get(b.options("/auth/second-factor"))
		}, "challenge"},
		{"a forged challenge", func(w *world, b *browser, a *passkeytest.Authenticator) string {
			answer := a.Get(b.options("/auth/passkey"))
			b.cookies["__Host-mg_passkey"] = "v1.forged"
			return answer
		}, "challenge"},
		{"another origin", func(w *world, b *browser, a *passkeytest.Authenticator) string {
			a.Origin = "https://gateway.example.com.evil.example"
			return a.Get(b.options("/auth/passkey"))
		}, "passkey"},
		{"another host", func(w *world, b *browser, a *passkeytest.Authenticator) string {
			a.Host = "example.com"
			return a.Get(b.options("/auth/passkey"))
		}, "passkey"},
		{"no verification", func(w *world, b *browser, a *passkeytest.Authenticator) string {
			a.Flags = passkeytest.UserPresent
			return a.Get(b.options("/auth/passkey"))
		}, "passkey"},
		{"another backup eligibility", func(w *world, b *browser, a *passkeytest.Authenticator) string {
			a.Flags |= passkeytest.BackupEligible | passkeytest.BackupState
			return a.Get(b.options("/auth/passkey"))
		}, "passkey"},
		{"an unknown passkey", func(w *world, b *browser, a *passkeytest.Authenticator) string {
			other := w.authenticator()
			other.Handle = a.Handle
			return other.Get(b.options("/auth/passkey"))
		}, "unknown_passkey"},
		{"a passkey of a disabled user", func(w *world, b *browser, a *passkeytest.Authenticator) string {
			w.Exec(`UPDATE users SET status = 'disabled'`)
			return a.Get(b.options("/auth/passkey"))
		}, "disabled"},
		{"no answer at all", func(w *world, b *browser, a *passkeytest.Authenticator) string {
			b.options("/auth/passkey")
			return `[[[[{"id":1}]]]]`
		}, "passkey"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, a := withPasskey(t)
			b := w.browser()
			before := w.Query(`SELECT COUNT(*) FROM sessions WHERE method = 'passkey'`)[0]
			s, status := b.answer("/auth/passkey", tt.attack(w, b, a))
			if status != http.StatusUnauthorized || s.Token != "" || w.Query(`SELECT COUNT(*) FROM sessions WHERE method = 'passkey'`)[0] != before {
				t.Errorf("%d %+v", status, s)
			}
			lastReason(t, w, tt.reason)
			if b.cookies["__Host-mg_passkey"] != "" {
				t.Error("the challenge can be used again")
			}
		})
	}
}

// full completes the sign-in of b with a.
func (w *world) full(b *browser, a *passkeytest.Authenticator) session {
	s, status := b.answer("/auth/second-factor", a.Get(b.options("/auth/second-factor")))
	if status != http.StatusOK {
		w.t.Fatalf("the second factor: %d", status)
	}
	return s
}

// TestAChallengeIsAnsweredOnceOnAllNodes replays an answer with the cookie of its challenge.
func TestAChallengeIsAnsweredOnceOnAllNodes(t *testing.T) {
	w, a := withPasskey(t)
	a.Count = 0 // as authenticators of phones, whose counter says nothing about a replay
	w.Exec(`UPDATE passkeys SET sign_count = 0`)
	for _, path := range []string{"/auth/passkey", "/auth/second-factor"} {
		b, thief := w.browser(), w.browser()
		if path != "/auth/passkey" {
			b.login("boss@example.com")
		}
		options := b.options(path)
		thief.b, thief.token = w.secondNode(), b.token
		maps.Copy(thief.cookies, b.cookies)
		answer := a.Get(options)
		if _, status := b.answer(path, answer); status != http.StatusOK {
			t.Fatalf("%s: %d", path, status)
		}
		if s, status := thief.answer(path, answer); status != http.StatusUnauthorized {
			t.Errorf("the replay at %s: %d %+v", path, status, s)
		}
	}
	lastReason(t, w, "challenge")
}

func TestACopiedPasskeyIsRefusedAndRecorded(t *testing.T) {
	w, a := withPasskey(t)
	copied := *a
	b := w.browser()
	for range 2 {
		if _, status := b.answer("/auth/passkey", a.Get(b.options("/auth/passkey"))); status != http.StatusOK {
			t.Fatal(status)
		}
	}
	if _, status := b.answer("/auth/passkey", copied.Get(b.options("/auth/passkey"))); status != http.StatusUnauthorized {
		t.Errorf("the copy: %d", status)
	}
	lastReason(t, w, "cloned")
	rows := w.Query(`SELECT resource_id || ' ' || organisation_id FROM audit_logs WHERE action = 'passkey_cloned'`)
	if id := w.Query(`SELECT id FROM passkeys WHERE clones = 1`); len(id) != 1 || !slices.Equal(rows, []string{id[0] + " " + store.DefaultOrganisation}) {
		t.Errorf("the events %q, the passkeys %q", rows, id)
	}
}

// TestAnothersPasskeyIsRefused: a passkey proves who its own member is.
func TestAnothersPasskeyIsRefused(t *testing.T) {
	w, _ := withPasskey(t)
	w.member("mallory@example.com", "member")
	own, of := w.authenticator(), w.browser()
	of.login("mallory@example.com")
	of.addPasskey(own)
	b := w.browser()
	b.login("boss@example.com")
	if s, status := b.answer("/auth/second-factor", own.Get(b.options("/auth/second-factor"))); status != http.StatusUnauthorized {
		t.Errorf("%d %+v", status, s)
	}
	lastReason(t, w, "unknown_passkey")
	// Nor does a challenge of one session serve another.
	other := w.browser()
	other.login("mallory@example.com")
	b.cookies["__Host-mg_passkey"] = ""
	other.options("/auth/second-factor")
	b.cookies["__Host-mg_passkey"] = other.cookies["__Host-mg_passkey"]
	if _, status := b.answer("/auth/second-factor", `{}`); status != http.StatusUnauthorized {
		t.Errorf("another session's challenge: %d", status)
	}
	lastReason(t, w, "challenge")
}

func TestAPasskeyIsAddedOnceAndWithinLimits(t *testing.T) {
	w, a := withPasskey(t)
	b := w.browser()
	b.login("boss@example.com")
	b.token = w.full(b, a).Token
	again := b.call("POST", "/auth/passkeys", `{"passkey":`+a.Create(b.options("/auth/passkeys"))+`}`)
	expect(t, "the same passkey", again, http.StatusConflict, "")
	answer := w.authenticator().Create(b.options("/auth/passkeys"))
	cookies := map[string]string{"__Host-mg_passkey": b.cookies["__Host-mg_passkey"]}
	b.must("POST", "/auth/passkeys", `{"passkey":`+answer+`}`, nil)
	b.cookies = cookies
	expect(t, "a replayed registration", b.call("POST", "/auth/passkeys", `{"passkey":`+answer+`}`), http.StatusBadRequest, "")
	elsewhere := w.authenticator()
	elsewhere.Origin = "https://evil.example"
	expect(t, "another origin", b.call("POST", "/auth/passkeys", `{"passkey":`+elsewhere.Create(b.options("/auth/passkeys"))+`}`), http.StatusBadRequest, "")
	expect(t, "a long answer", b.call("POST", "/auth/passkeys", `{"passkey":"`+strings.Repeat("a", 65<<10)+`"}`), http.StatusRequestEntityTooLarge, "")
	for i := range 18 {
		b.must("POST", "/auth/passkeys", fmt.Sprintf(`{"name":"Key %d","passkey":%s}`, i, w.authenticator().Create(b.options("/auth/passkeys"))), nil)
	}
	expect(t, "one too many", b.call("POST", "/auth/passkeys", `{"passkey":`+w.authenticator().Create(b.options("/auth/passkeys"))+`}`), http.StatusBadRequest, "")
	if handles := w.Query(`SELECT DISTINCT handle FROM passkeys`); len(handles) != 1 {
		t.Errorf("%d handles of one member", len(handles))
	}
}

func TestPasskeysNeedTheNameOfAHost(t *testing.T) {
	w := newWorld(t)
	for _, tt := range []struct {
		public, host string
		want         int
	}{
		{"https://gateway.example.com/below", "evil.example", http.StatusOK},
		{"https://192.0.2.7", "192.0.2.7", http.StatusServiceUnavailable},
		{"", "evil.example", http.StatusServiceUnavailable},
		{"", "127.0.0.1:8787", http.StatusServiceUnavailable},
		{"", "localhost.evil.example", http.StatusServiceUnavailable},
		{"", "localhost:8787", http.StatusOK},
	} {
		w.API.PublicURL = func() string { return tt.public }
		r, err := http.NewRequest("POST", "http://"+tt.host+"/v1/auth/passkey/options", nil)
		if err != nil {
			t.Fatal(err)
		}
		if a := w.Serve(r); a.Status != tt.want {
			t.Errorf("public_url %q, host %q: %d %s", tt.public, tt.host, a.Status, a.Body)
		}
	}
}

func TestFactorsOfAMemberAreResetByTheirRank(t *testing.T) {
	w := newWorld(t)
	for email, role := range map[string]string{"admin@example.com": "admin", "mate@example.com": "member"} {
		w.member(email, role)
	}
	enrolled := func(email string) *browser {
		b := w.browser()
		b.login(email)
		b.addPasskey(w.authenticator())
		return b
	}
	boss, admin, mate := enrolled("boss@example.com"), enrolled("admin@example.com"), enrolled("mate@example.com")
	id := w.Query(`SELECT id FROM users WHERE email = 'boss@example.com'`)[0]
	expect(t, "a member", mate.call("DELETE", "/admin/users/admin/second-factors", ""), http.StatusForbidden, "AB03")
	expect(t, "an admin, of an owner", admin.call("DELETE", "/admin/users/"+id+"/second-factors", ""), http.StatusForbidden, "AB03")
	few := w.As(access.Identity{Type: access.OrganisationService, Workspace: "-", Scopes: []access.Scope{"organisation_users.update"}})
	expect(t, "a key with few scopes, of an admin", few.Call("DELETE", "/admin/users/admin/second-factors", ""), http.StatusForbidden, "AB03")
	expect(t, "nobody", admin.call("DELETE", "/admin/users/none/second-factors", ""), http.StatusNotFound, "")
	if n := w.Query(`SELECT COUNT(*) FROM passkeys`)[0]; n != "3" {
		t.Fatalf("%s passkeys are left", n)
	}
	admin.must("DELETE", "/admin/users/mate/second-factors", "", nil)
	boss.must("DELETE", "/admin/users/admin/second-factors", "", nil)
	boss.must("DELETE", "/admin/users/"+id+"/second-factors", "", nil)
	for name, b := range map[string]*browser{"mate": mate, "admin": admin} {
		expect(t, name+"'s session", b.call("GET", "/auth/me", ""), http.StatusUnauthorized, "")
	}
	if got := w.Query(`SELECT resource_id FROM audit_logs WHERE action = 'second_factor_reset' ORDER BY rowid`); !slices.Equal(got, []string{"mate", "admin", id}) {
		t.Errorf("the audit log has %q", got)
	}
	if left := w.Query(`SELECT user_id FROM passkeys UNION SELECT user_id FROM recovery_codes`); len(left) != 0 {
		t.Errorf("left: %q", left)
	}
}

func TestARemovedMemberLeavesNoFactors(t *testing.T) {
	w := newWorld(t)
	w.member("mate@example.com", "member")
	b := w.browser()
	b.login("mate@example.com")
	b.addPasskey(w.authenticator())
	b.addCodes()
	w.root.Must("DELETE", "/admin/users/mate", "", nil)
	if left := w.Query(`SELECT user_id FROM passkeys UNION ALL SELECT user_id FROM one_time_codes UNION ALL SELECT user_id FROM recovery_codes`); len(left) != 0 {
		t.Errorf("left: %q", left)
	}
}
