package signin_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"modelgate/internal/controlplane"
	"modelgate/internal/controlplane/signin"
	"modelgate/internal/identity/access"
	"modelgate/internal/identity/oidc"
	"modelgate/internal/identity/saml"
	"modelgate/internal/store"
	"modelgate/internal/testing/oidctest"
	"modelgate/internal/testing/routetest"
)

// world is a control plane with an identity provider whose domain is verified.
type world struct {
	*routetest.Bench
	*oidctest.Provider
	t       *testing.T
	root    *routetest.Caller
	id      string // of the identity provider
	records []string
}

func newWorld(t *testing.T) *world {
	w := &world{Provider: oidctest.New(t), t: t}
	w.URL = "https://login.example.com"
	w.Bench = routetest.New(t, controlplane.Families{SignIn: signin.Routes{
		Protocols: signin.Protocols{OIDC: oidc.NewCache(w.Provider, nil), SAML: saml.NewCache(w.Provider, nil)},
		LookupTXT: func(context.Context, string) ([]string, error) { return w.records, nil },
	}}.Add)
	w.API.Now = time.Now
	w.root = w.Root()
	w.id = w.provider("login", `"domains":["example.com","example.net"]`)
	w.verify("example.com")
	return w
}

// provider adds an identity provider with further fields, and returns its id.
func (w *world) provider(slug, more string) string {
	w.t.Helper()
	var out struct{ ID string }
	w.root.Must("POST", "/identity-providers", fmt.Sprintf(`{"name":"Main %s","slug":%q,"issuer":%q,"client_id":%q,"client_secret":%q,%s}`,
		slug, slug, w.URL, oidctest.ClientID, oidctest.ClientSecret, more), &out)
	return out.ID
}

func (w *world) verify(domain string) {
	w.t.Helper()
	var d struct {
		ID     string
		Record string `json:"record_value"`
	}
	w.root.Must("POST", "/domains", fmt.Sprintf(`{"name":%q}`, domain), &d)
	w.records = []string{"something else", d.Record}
	w.root.Must("POST", "/domains/"+d.ID+"/verify", "", nil)
}

// browser keeps cookies.
type browser struct {
	w       *world
	cookies map[string]string
}

func (w *world) browser() *browser { return &browser{w, make(map[string]string)} }

func (b *browser) open(path string) routetest.Response {
	b.w.t.Helper()
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(b.cookies)) {
		pairs = append(pairs, name+"="+b.cookies[name])
	}
	a := b.w.Nobody().CallWith("GET", path, "", http.Header{"Cookie": {strings.Join(pairs, "; ")}})
	b.keep(a)
	return a
}

// keep stores the cookies of a response.
func (b *browser) keep(a routetest.Response) {
	for _, k := range (&http.Response{Header: a.Header}).Cookies() {
		if k.MaxAge < 0 {
			delete(b.cookies, k.Name)
			continue
		}
		if !k.HttpOnly {
			b.w.t.Errorf("scripts can read the cookie %s", k.Name)
		}
		b.cookies[k.Name] = k.Value
	}
}

// begin opens the start of a sign-in, and returns where the provider sends the browser.
func (b *browser) begin(query string) string {
	b.w.t.Helper()
	a := b.open("/auth/sso/" + b.w.id + query)
	if a.Status != http.StatusFound {
		b.w.t.Fatalf("the start: %d %s", a.Status, a.Body)
	}
	return b.visit(a.Header.Get("Location"))
}

// visit opens an address of the provider, and returns where it sends the browser.
func (b *browser) visit(address string) string {
	b.w.t.Helper()
	r, err := http.NewRequestWithContext(b.w.t.Context(), http.MethodGet, address, nil)
	if err != nil {
		b.w.t.Fatal(err)
	}
	res, err := b.w.Do(r, true)
	if err != nil {
		b.w.t.Fatal(err)
	}
	res.Body.Close()
	back, err := res.Location()
	if err != nil {
		b.w.t.Fatalf("the provider answered %d", res.StatusCode)
	}
	return strings.TrimPrefix(back.Path, "/v1") + "?" + back.RawQuery
}

// signIn signs in and returns the last response.
func (b *browser) signIn() routetest.Response {
	b.w.t.Helper()
	return b.open(b.begin(""))
}

const login = "mg_login"

// reason returns the reason of the last event of the audit log.
func (w *world) reason() string {
	w.t.Helper()
	rows := w.Query(`SELECT request_body FROM audit_logs ORDER BY rowid DESC LIMIT 1`)
	var details map[string]string
	if len(rows) == 0 || json.Unmarshal([]byte(rows[0]), &details) != nil {
		w.t.Fatalf("the audit log has %v", rows)
	}
	return details["reason"]
}

func (w *world) users() string {
	return strings.Join(w.Query(`SELECT u.email || ' ' || m.role FROM users u JOIN organisation_members m ON m.user_id = u.id ORDER BY u.email`), ", ")
}

// addUser adds a user of the organisation.
func (w *world) addUser(id, email, role string) {
	w.Exec(`INSERT INTO users (id, email, first_name, last_name, password_hash, status, created_at, updated_at)
		VALUES ($1, $2, '', '', '', 'active', 0, 0)`, id, email)
	w.Exec(`INSERT INTO organisation_members (organisation_id, user_id, role, created_at, updated_at) VALUES ($3, $1, $2, 0, 0)`, id, role, store.DefaultOrganisation)
}

func TestAFirstSignInMakesAMember(t *testing.T) {
	w := newWorld(t)
	b := w.browser()
	b.cookies[login] = "mgs-fixed"
	a := b.signIn()
	if a.Status != http.StatusSeeOther || a.Header.Get("Location") != "/login" {
		t.Fatalf("the end: %d %s %s", a.Status, a.Header.Get("Location"), a.Body)
	}
	if b.cookies[login] == "" || b.cookies[login] == "mgs-fixed" {
		t.Error("the session has no cookie of its own")
	}
	if got := w.users(); got != "ada@example.com member" {
		t.Errorf("the users are %q", got)
	}
	if rows := w.Query(`SELECT method || ' ' || subject || ' ' || provider_session FROM sessions`); len(rows) != 1 || rows[0] != "sso ada session-1" {
		t.Errorf("the sessions are %q", rows)
	}
	rows := w.Query(`SELECT action || ' ' || user_id || ' ' || request_body || query_params FROM audit_logs WHERE action = 'sign_in'`)
	if len(rows) != 1 || !strings.Contains(rows[0], `"provider":"login"`) || !strings.Contains(rows[0], `"method":"oidc"`) {
		t.Errorf("the audit log has %q", rows)
	}
	if len(b.cookies) != 1 {
		t.Errorf("the browser still has %v", b.cookies)
	}
	if a = b.signIn(); a.Status != http.StatusSeeOther || w.users() != "ada@example.com member" {
		t.Errorf("the second sign-in: %d, users %q", a.Status, w.users())
	}
}

// TestNothingOfASignInIsKept searches the database for what must not be there.
func TestNothingOfASignInIsKept(t *testing.T) {
	w := newWorld(t)
	b := w.browser()
	back := b.begin("")
	u, err := url.Parse(back)
	if err != nil {
		t.Fatal(err)
	}
	if a := b.open(back); a.Status != http.StatusSeeOther {
		t.Fatal(a.Body)
	}
	token := w.IDToken("")
	secrets := []string{u.Query().Get("code"), u.Query().Get("state"), b.cookies[login], oidctest.ClientSecret, token[:strings.IndexByte(token, '.')]}
	for _, table := range []string{"audit_logs", "sessions", "identities", "identity_providers"} {
		for _, column := range w.Query(`SELECT name FROM pragma_table_info('` + table + `')`) {
			for _, value := range w.Query(`SELECT COALESCE(CAST(` + column + ` AS TEXT), '') FROM ` + table) {
				for _, s := range secrets {
					if strings.Contains(value, s) {
						t.Errorf("%s.%s has %q", table, column, s)
					}
				}
			}
		}
	}
}

func TestAWaitingInviteIsAccepted(t *testing.T) {
	w := newWorld(t)
	w.root.Must("POST", "/admin/users/invites", `{"email":"Ada@example.com","role":"admin","workspaces":[{"id":"default","role":"manager"}],"workspace_api_key_details":{"scopes":["models.list"]}}`, nil)
	w.root.Must("PUT", "/identity-providers/login", `{"disable_auto_provision_user":true}`, nil)
	if a := w.browser().signIn(); a.Status != http.StatusSeeOther {
		t.Fatalf("%d %s", a.Status, w.reason())
	}
	if got := w.users(); got != "ada@example.com admin" {
		t.Errorf("the users are %q", got)
	}
	if got := w.Query(`SELECT status FROM invites`); !slices.Equal(got, []string{"accepted"}) {
		t.Errorf("the invite is %q", got)
	}
	if got := w.Query(`SELECT workspace_id || ' ' || role FROM workspace_members`); !slices.Equal(got, []string{store.DefaultWorkspace + " manager"}) {
		t.Errorf("the memberships are %q", got)
	}
}

// TestUnknownPeopleStayOutside has the reasons for which nobody becomes a member. The page is
// the same for all.
func TestUnknownPeopleStayOutside(t *testing.T) {
	texts := make(map[string]bool)
	for _, test := range []struct {
		name, reason string
		change       func(*world)
	}{
		{"an address that is not verified", "unproved_email", func(w *world) { w.Claims = map[string]any{"email_verified": false} }},
		{"nothing about the address", "unproved_email", func(w *world) { w.Claims = map[string]any{"email_verified": nil} }},
		{"a foreign domain", "unproved_email", func(w *world) { w.Claims = map[string]any{"email": "ada@example.org"} }},
		{"a domain that is not verified", "unproved_email", func(w *world) { w.Claims = map[string]any{"email": "ada@example.net"} }},
		{"a domain below", "unproved_email", func(w *world) { w.Claims = map[string]any{"email": "ada@evil.example.com"} }},
		{"two signs", "no_email", func(w *world) { w.Claims = map[string]any{"email": `"ada@example.com"@evil.example`} }},
		{"no address", "no_email", func(w *world) { w.Claims = map[string]any{"email": nil} }},
		{"no provisioning", "no_provisioning", func(w *world) {
			w.root.Must("PUT", "/identity-providers/login", `{"disable_auto_provision_user":true}`, nil)
		}},
		{"an address of another organisation", "address_in_use", func(w *world) {
			w.Exec(`INSERT INTO organisations (id, slug, name, owner_id, settings, data_key, status, created_at, updated_at)
				VALUES ('other', 'other', '', '', '{}', '', 'active', 0, 0)`)
			w.addUser("eve", "ada@example.com", "member")
			w.Exec(`UPDATE organisation_members SET organisation_id = 'other' WHERE user_id = 'eve'`)
		}},
		{"a member of two organisations", "must_link", func(w *world) {
			w.Exec(`INSERT INTO organisations (id, slug, name, owner_id, settings, data_key, status, created_at, updated_at)
				VALUES ('other', 'other', '', '', '{}', '', 'active', 0, 0)`)
			w.addUser("eve", "ada@example.com", "member")
			w.Exec(`INSERT INTO organisation_members (organisation_id, user_id, role, created_at, updated_at) VALUES ('other', 'eve', 'member', 0, 0)`)
		}},
		{"a disabled user", "must_link", func(w *world) {
			w.addUser("eve", "ada@example.com", "member")
			w.Exec(`UPDATE users SET status = 'disabled'`)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			test.change(w)
			before := w.users()
			b := w.browser()
			a := b.signIn()
			if a.Status != http.StatusForbidden || b.cookies[login] != "" {
				t.Errorf("%d, cookies %v", a.Status, b.cookies)
			}
			if got := w.reason(); got != test.reason {
				t.Errorf("the audit log says %q, want %q", got, test.reason)
			}
			if got := w.users(); got != before {
				t.Errorf("the users were %q and are %q", before, got)
			}
			texts[a.Body] = true
		})
	}
	if len(texts) != 1 {
		t.Errorf("there are %d different pages", len(texts))
	}
}

func TestAccountsAreLinked(t *testing.T) {
	w := newWorld(t)
	w.addUser("mate", "ada@example.com", "member")
	if a := w.browser().signIn(); a.Status != http.StatusSeeOther {
		t.Fatalf("%d %s", a.Status, w.reason())
	}
	if got := w.Query(`SELECT subject || ' ' || user_id FROM identities`); !slices.Equal(got, []string{"ada mate"}) {
		t.Errorf("the identities are %q", got)
	}
	w.Claims = map[string]any{"sub": "eve"}
	if a := w.browser().signIn(); a.Status != http.StatusForbidden || w.reason() != "another_subject" {
		t.Errorf("another subject with the same address: %d %s", a.Status, w.reason())
	}
	w.Claims = map[string]any{"email": "lovelace@example.com", "email_verified": false}
	if a := w.browser().signIn(); a.Status != http.StatusSeeOther || w.users() != "ada@example.com member" {
		t.Errorf("with another address that is not verified: %d, users %q", a.Status, w.users())
	}
	w.Claims = map[string]any{"email": "lovelace@example.com"}
	if a := w.browser().signIn(); a.Status != http.StatusSeeOther || w.users() != "lovelace@example.com member" {
		t.Errorf("with another address: %d, users %q", a.Status, w.users())
	}
	w.Exec(`UPDATE users SET status = 'disabled'`)
	if a := w.browser().signIn(); a.Status != http.StatusForbidden || w.reason() != "disabled" {
		t.Errorf("disabled: %d %s", a.Status, w.reason())
	}
}

// TestNoProviderMakesAnOwner: admins configure identity providers, and must not get at the
// owner's account with one.
func TestNoProviderMakesAnOwner(t *testing.T) {
	w := newWorld(t)
	w.addUser("boss", "ada@example.com", "owner")
	if a := w.browser().signIn(); a.Status != http.StatusForbidden || w.reason() != "owner_must_link" {
		t.Errorf("%d %s", a.Status, w.reason())
	}
	for _, role := range []string{"owner", "root"} {
		if a := w.root.Call("PUT", "/identity-providers/login", `{"role":"`+role+`"}`); a.Status != http.StatusBadRequest {
			t.Errorf("the role %s: %d", role, a.Status)
		}
	}
}

// TestAProviderSpeaksForItsOrganisationOnly: the same issuer and subject in two
// organisations are two users.
func TestAProviderSpeaksForItsOrganisationOnly(t *testing.T) {
	w := newWorld(t)
	if a := w.browser().signIn(); a.Status != http.StatusSeeOther {
		t.Fatal(w.reason())
	}
	w.Exec(`INSERT INTO organisations (id, slug, name, owner_id, settings, data_key, status, created_at, updated_at)
		VALUES ('other', 'other', '', '', '{}', '', 'active', 0, 0)`)
	w.Exec(`INSERT INTO identity_providers SELECT 'copy', 'other', slug, name, type, settings, sealed, status, created_by, created_at, updated_at
		FROM identity_providers`)
	w.id = "copy"
	b := w.browser()
	if a := b.signIn(); a.Status != http.StatusForbidden || b.cookies[login] != "" || w.reason() != "unproved_email" {
		t.Errorf("at the provider of another organisation: %d %s", a.Status, w.reason())
	}
}

func TestFlowsBelongToOneBrowserAndProvider(t *testing.T) {
	w := newWorld(t)
	second := w.provider("second", `"domains":["example.com"]`)
	first := w.browser()
	back := first.begin("")
	refused := func(what string, b *browser, path, reason string) {
		t.Helper()
		if a := b.open(path); a.Status != http.StatusForbidden || b.cookies[login] != "" || w.reason() != reason {
			t.Errorf("%s: %d %s", what, a.Status, w.reason())
		}
	}
	refused("another browser", w.browser(), back, "state")
	other := w.browser()
	other.begin("")
	refused("another browser with a flow of its own", other, back, "state")
	refused("no state", w.browser(), "/auth/sso/"+w.id+"/callback?code=x", "state")
	stolen := w.browser()
	maps.Copy(stolen.cookies, first.cookies)
	refused("another provider", stolen, strings.Replace(back, w.id, second, 1), "state")
	for name, value := range first.cookies {
		altered := w.browser()
		altered.cookies[name] = value[:len(value)-4] + "AAAA"
		refused("an altered cookie", altered, back, "state")
	}
	late := w.browser()
	maps.Copy(late.cookies, first.cookies)
	w.API.Now = func() time.Time { return time.Now().Add(11 * time.Minute) }
	refused("late", late, back, "expired_flow")
	w.API.Now = time.Now
	if a := first.open(back); a.Status != http.StatusSeeOther {
		t.Fatalf("the right browser: %d %s", a.Status, w.reason())
	}
	refused("again", func() *browser { delete(first.cookies, login); return first }(), back, "state")
	if a := w.browser().open("/auth/sso/unknown"); a.Status != http.StatusNotFound {
		t.Errorf("an unknown provider: %d", a.Status)
	}
}

func TestTheWayBackStaysHere(t *testing.T) {
	w := newWorld(t)
	b := w.browser()
	if a := b.open(b.begin("?next=" + url.QueryEscape("/console/logs?id=1"))); a.Header.Get("Location") != "/console/logs?id=1" {
		t.Errorf("sent to %q", a.Header.Get("Location"))
	}
	for _, next := range []string{"https://evil.example", "//evil.example", `/\evil.example`, "/%2fevil.example", "javascript:x"} {
		if a := b.open("/auth/sso/" + w.id + "?next=" + url.QueryEscape(next)); a.Status != http.StatusBadRequest || a.Header.Get("Location") != "" {
			t.Errorf("%q: %d %s", next, a.Status, a.Header.Get("Location"))
		}
	}
}

func TestRefusedTokensHaveTheirReasonInTheAuditLog(t *testing.T) {
	w := newWorld(t)
	w.Claims = map[string]any{"aud": "another"}
	a := w.browser().signIn()
	if a.Status != http.StatusForbidden || w.reason() != "audience" || strings.Contains(a.Body, "another") {
		t.Errorf("%d %s: %s", a.Status, w.reason(), a.Body)
	}
	w.KeysDown = true
	w.Close()
	if a := w.browser().open("/auth/sso/" + w.id); a.Status != http.StatusFound {
		t.Errorf("a known provider that is away: %d", a.Status)
	}
}

func (w *world) sessions() int { return len(w.Query(`SELECT id FROM sessions`)) }

func (w *world) logOut(token string) routetest.Response {
	form := url.Values{"logout_token": {token}}.Encode()
	return w.Nobody().CallWith("POST", "/auth/sso/"+w.id+"/logout", form, http.Header{"Content-Type": {"application/x-www-form-urlencoded"}})
}

func TestBackChannelLogout(t *testing.T) {
	w := newWorld(t)
	signIn := func(session string) {
		t.Helper()
		w.Claims = map[string]any{"sid": session}
		if a := w.browser().signIn(); a.Status != http.StatusSeeOther {
			t.Fatal(w.reason())
		}
	}
	signIn("one")
	signIn("two")
	w.Claims = map[string]any{"sub": "eve", "email": "eve@example.com"}
	if a := w.browser().signIn(); a.Status != http.StatusSeeOther {
		t.Fatal(w.reason())
	}
	for name, claims := range map[string]map[string]any{
		"a nonce": {"nonce": "x"}, "another audience": {"aud": "x"}, "no event": {"events": nil}, "another issuer": {"iss": "https://x.example"},
	} {
		if a := w.logOut(w.LogoutToken(claims)); a.Status != http.StatusBadRequest || w.sessions() != 3 || a.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d, %d sessions left", name, a.Status, w.sessions())
		}
	}
	token := w.LogoutToken(map[string]any{"sid": "one"})
	if a := w.logOut(token); a.Status != http.StatusOK || w.sessions() != 2 || a.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("a session: %d %s, %d sessions left", a.Status, a.Body, w.sessions())
	}
	signIn("one")
	if a := w.logOut(token); a.Status != http.StatusBadRequest || w.sessions() != 3 || w.reason() != "replayed" {
		t.Errorf("the same token again: %d, %d sessions left", a.Status, w.sessions())
	}
	if a := w.logOut(w.LogoutToken(map[string]any{"sid": nil})); a.Status != http.StatusOK || w.sessions() != 1 {
		t.Errorf("all of a subject: %d, %d sessions left", a.Status, w.sessions())
	}
}

func TestATestShowsWhatASignInWouldDo(t *testing.T) {
	w := newWorld(t)
	var out struct {
		OK    bool
		Steps []struct{ Name, Outcome, Detail string }
	}
	w.root.Must("POST", "/identity-providers/login/test", "", &out)
	var names []string
	for _, s := range out.Steps {
		names = append(names, s.Name+" "+s.Outcome)
	}
	want := []string{"redirect_uri warning", "discovery ok", "keys ok", "clock ok", "authorization ok", "client ok", "domains ok", "domains warning"}
	if !out.OK || !slices.Equal(names, want) {
		t.Errorf("ok %v, steps %q, want %q", out.OK, names, want)
	}
	w.root.Must("PUT", "/identity-providers/login", `{"client_secret":"wrong"}`, nil)
	w.root.Must("POST", "/identity-providers/login/test", "", &out)
	if out.OK || !slices.ContainsFunc(out.Steps, func(s struct{ Name, Outcome, Detail string }) bool {
		return s.Name == "client" && s.Outcome == "failed"
	}) {
		t.Errorf("with the wrong secret: %+v", out)
	}
	w.Document = map[string]any{"issuer": "https://login.example.com/"}
	if _, err := oidc.NewCache(w.Provider, nil).Provider(t.Context(), oidc.Settings{Issuer: w.URL}); oidc.ReasonOf(err) != "issuer" {
		t.Errorf("an issuer with a slash: %v", err)
	}
}

func TestUnusableIdentityProvidersAreRefusedByField(t *testing.T) {
	w := newWorld(t)
	for _, test := range []struct{ body, param string }{
		{`{"name":"x","issuer":"login.example.com","client_id":"x","client_secret":"x"}`, "issuer"},
		{`{"name":"x","issuer":"https://user:pass@login.example.com","client_id":"x","client_secret":"x"}`, "issuer"},
		{`{"name":"x","issuer":"https://login.example.com?a=b","client_id":"x","client_secret":"x"}`, "issuer"},
		{`{"name":"x","issuer":"https://169.254.169.254","client_id":"x","client_secret":"x"}`, "issuer"},
		{`{"name":"x","issuer":"http://localhost:8080","client_id":"x","client_secret":"x"}`, "issuer"},
		{`{"name":"x","issuer":"https://login.microsoftonline.com/common/v2.0","client_id":"x","client_secret":"x"}`, "issuer"},
		{`{"name":"x","issuer":"https://login.microsoftonline.com/Organizations/v2.0","client_id":"x","client_secret":"x"}`, "issuer"},
		{`{"name":"x","issuer":"https://login.example.com","client_secret":"x"}`, "client_id"},
		{`{"name":"x","issuer":"https://login.example.com","client_id":"x"}`, "client_secret"},
		{`{"name":"x","issuer":"https://login.example.com","client_id":"x","client_secret":"x","token_endpoint_auth_method":"none"}`, "client_secret"},
		{`{"name":"x","issuer":"https://login.example.com","client_id":"x","client_secret":"x","token_endpoint_auth_method":"private_key_jwt"}`, "client_secret"},
		{`{"name":"x","issuer":"https://login.example.com","client_id":"x","client_secret":"x","domains":["example"]}`, "domains"},
		{`{"name":"x","issuer":"https://login.example.com","client_id":"x","client_secret":"x","domains":["*.example.com"]}`, "domains"},
		{`{"name":"x","issuer":"https://login.example.com","client_id":"x","client_secret":"x","scopes":["a b"]}`, "scopes"},
		{`{"name":"x","slug":"login","issuer":"https://login.example.com","client_id":"x","client_secret":"x"}`, "slug"},
	} {
		a := w.root.Call("POST", "/identity-providers", test.body)
		if a.Status/100 != 4 || !strings.Contains(a.Body, `"param":"`+test.param+`"`) {
			t.Errorf("%s: %d %s", test.body, a.Status, a.Body)
		}
	}
	// The secret must not be sent to another host by who does not know it.
	if a := w.root.Call("PUT", "/identity-providers/login", `{"issuer":"https://evil.example"}`); a.Status != http.StatusBadRequest || !strings.Contains(a.Body, "client_secret") {
		t.Errorf("another issuer without the secret: %d %s", a.Status, a.Body)
	}
	if a := w.root.Call("GET", "/identity-providers/login", ""); strings.Contains(a.Body, oidctest.ClientSecret) {
		t.Error("the secret is shown")
	}
}

func TestADomainBelongsToWhoProvesIt(t *testing.T) {
	w := newWorld(t)
	w.root.Must("POST", "/domains", `{"name":"Example.NET."}`, nil)
	w.records = nil
	if a := w.root.Call("POST", "/domains/example.net/verify", ""); a.Status != http.StatusConflict || !strings.Contains(a.Body, "modelgate-domain=") {
		t.Errorf("without the record: %d %s", a.Status, a.Body)
	}
	w.Exec(`INSERT INTO organisations (id, slug, name, owner_id, settings, data_key, status, created_at, updated_at)
		VALUES ('other', 'other', '', '', '{}', '', 'active', 0, 0)`)
	w.Exec(`INSERT INTO domains (id, organisation_id, name, challenge, verified_at, created_by, created_at, updated_at)
		VALUES ('d', 'other', 'example.net', 'x', 1, '', 0, 0)`)
	w.records = w.Query(`SELECT 'modelgate-domain=' || challenge FROM domains WHERE organisation_id <> 'other'`)
	if a := w.root.Call("POST", "/domains/example.net/verify", ""); a.Status != http.StatusConflict || strings.Contains(a.Body, "other") {
		t.Errorf("a domain of another organisation: %d %s", a.Status, a.Body)
	}
}

func TestMethodsNameNoOrganisations(t *testing.T) {
	w := newWorld(t)
	var known, unknown struct {
		Password bool
		SSO      []struct{ ID, Name, Start string }
	}
	w.Nobody().Must("GET", "/auth/methods", "", &known)
	if len(known.SSO) != 1 || known.SSO[0].Start != "/v1/auth/sso/"+w.id || !known.Password {
		t.Errorf("the methods are %+v", known)
	}
	w.Nobody().Must("GET", "/auth/methods?organisation=unknown", "", &unknown)
	if len(unknown.SSO) != 0 || !unknown.Password {
		t.Errorf("of an unknown organisation: %+v", unknown)
	}
}

// TestSessionsEndWithTheirProvider: whoever turns a provider off expects that nobody it
// let in stays.
func TestSessionsEndWithTheirProvider(t *testing.T) {
	w := newWorld(t)
	for _, end := range []struct{ method, body string }{{"PUT", `{"status":"disabled"}`}, {"DELETE", ""}} {
		if a := w.browser().signIn(); a.Status != http.StatusSeeOther || w.sessions() != 1 {
			t.Fatalf("%s: %d", end.method, a.Status)
		}
		w.root.Must(end.method, "/identity-providers/login", end.body, nil)
		if n := w.sessions(); n != 0 {
			t.Errorf("%s left %d sessions", end.method, n)
		}
		if a := w.browser().open("/auth/sso/" + w.id); a.Status != http.StatusNotFound {
			t.Errorf("after %s the start answered %d", end.method, a.Status)
		}
		if end.method == "PUT" {
			w.root.Must("PUT", "/identity-providers/login", `{"status":"active"}`, nil)
		}
	}
}

func TestASessionIsNoLongerThanItsProviderAllows(t *testing.T) {
	w := newWorld(t)
	w.root.Must("PUT", "/identity-providers/login", `{"max_session_ttl":600}`, nil)
	if a := w.browser().signIn(); a.Status != http.StatusSeeOther {
		t.Fatal(w.reason())
	}
	if rows := w.Query(`SELECT expires_at - created_at FROM sessions`); !slices.Equal(rows, []string{"600000"}) {
		t.Errorf("the session is %v ms long", rows)
	}
}

func TestGroupsGiveRoles(t *testing.T) {
	w := newWorld(t)
	w.root.Must("PUT", "/identity-providers/login", `{"groups_claim":"groups"}`, nil)
	w.root.Must("POST", "/scim/workspaces", `{"workspace_id":"default","role":"manager","scim_group_name":"Engineers"}`, nil)
	role := func() string {
		return strings.Join(w.Query(`SELECT role FROM workspace_members`), ",")
	}
	for _, step := range []struct {
		name   string
		groups any
		want   string
	}{
		{"a mapped group", []any{"Engineers", "Others"}, "manager"},
		{"no claim with groups", nil, "manager"},
		{"no group", []any{}, ""},
	} {
		w.Claims = map[string]any{"groups": step.groups}
		if a := w.browser().signIn(); a.Status != http.StatusSeeOther || role() != step.want {
			t.Errorf("%s: %d, the role is %q, want %q", step.name, a.Status, role(), step.want)
		}
	}
	w.Claims = map[string]any{"groups": []any{"Engineers"}}
	if a := w.browser().signIn(); a.Status != http.StatusSeeOther || role() != "manager" {
		t.Fatalf("again: %d, the role is %q", a.Status, role())
	}
	w.root.Must("DELETE", "/identity-providers/login", "", nil)
	if got := role(); got != "" {
		t.Errorf("without the provider the role is %q", got)
	}
}

func TestADirectoryUsesVerifiedDomains(t *testing.T) {
	w := newWorld(t)
	w.Exec(`INSERT INTO organisations (id, slug, name, owner_id, settings, data_key, status, created_at, updated_at)
		VALUES ('other', 'other', '', '', '{}', '', 'active', 0, 0)`)
	q := w.API.DB.Queries
	for _, test := range []struct {
		organisation, email string
		ok                  bool
	}{
		{store.DefaultOrganisation, "a@example.com", true},
		{store.DefaultOrganisation, "a@Example.org", false}, // it has verified domains, and this is none of them
		{"other", "a@example.com", false},                   // of another organisation
		{"other", "a@example.org", true},                    // it has no verified domains
	} {
		if err := signin.CheckDirectoryEmail(t.Context(), q, test.organisation, test.email); (err == nil) != test.ok {
			t.Errorf("%s of %s: %v", test.email, test.organisation, err)
		}
	}
}

func TestFieldsOfAnIdentityProviderTakeEffect(t *testing.T) {
	w := newWorld(t)
	w.root.Must("PUT", "/identity-providers/login", `{"name":"Renamed","scopes":["groups"],"role":"admin"}`, nil)
	if a := w.browser().signIn(); a.Status != http.StatusSeeOther || w.users() != "ada@example.com admin" {
		t.Errorf("%d, users %q", a.Status, w.users())
	}
	if got := w.Starts()[0].Get("scope"); !strings.HasSuffix(got, " groups") {
		t.Errorf("the scopes are %q", got)
	}
	var p struct{ Name, Slug, Type string }
	if w.root.Must("GET", "/identity-providers/login", "", &p); p.Name != "Renamed" || p.Slug != "login" || p.Type != "oidc" {
		t.Errorf("the provider is %+v", p)
	}
	w.root.Must("PUT", "/identity-providers/login", `{"token_endpoint_auth_method":"client_secret_post","client_secret":"`+oidctest.ClientSecret+`"}`, nil)
	if a := w.browser().signIn(); a.Status != http.StatusSeeOther || w.Forms()[1].Get("client_secret") != oidctest.ClientSecret {
		t.Errorf("with the secret in the form: %d, %v", a.Status, w.Forms()[1])
	}
}

// as returns the user of the last session as a caller.
func (w *world) as(user string) *routetest.Caller {
	hash := w.Query(`SELECT hash FROM sessions ORDER BY rowid DESC LIMIT 1`)
	var h access.Hash
	if len(hash) == 1 {
		if b, err := hex.DecodeString(hash[0]); err == nil {
			copy(h[:], b)
		}
	}
	return w.As(access.Identity{KeyID: user, UserID: user, Type: access.Session, Scopes: access.Scopes(access.Session), Hash: h})
}

// TestALinkNeedsTheSessionThatBeganIt: ending a stolen session must end what it began.
func TestALinkNeedsTheSessionThatBeganIt(t *testing.T) {
	w := newWorld(t)
	w.addUser("boss", "boss@example.com", "owner")
	begin := func() (*browser, string) {
		t.Helper()
		w.Exec(`INSERT INTO sessions (hash, id, user_id, organisation_id, address, user_agent, created_at, last_used_at, expires_at)
			VALUES ($1, $1, 'boss', $2, '', '', 0, 0, $3)`, access.HashKey(rand.Text()).String(), store.DefaultOrganisation, time.Now().Add(time.Hour).UnixMilli())
		a := w.as("boss").Call("POST", "/auth/sso/"+w.id+"/link", "")
		var out struct{ Start string }
		if err := json.Unmarshal([]byte(a.Body), &out); err != nil || a.Status != http.StatusOK {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
		b := w.browser()
		b.keep(a)
		return b, b.visit(out.Start)
	}
	b, back := begin()
	w.Exec(`DELETE FROM sessions`)
	if a := b.open(back); a.Status != http.StatusForbidden || w.reason() != "session_ended" || len(w.Query(`SELECT id FROM identities`)) != 0 {
		t.Errorf("after the session: %d %s", a.Status, w.reason())
	}
	b, back = begin()
	if a := b.open(back); a.Status != http.StatusSeeOther {
		t.Fatalf("%d %s", a.Status, w.reason())
	}
	if got := w.Query(`SELECT user_id || ' ' || subject FROM identities`); !slices.Equal(got, []string{"boss ada"}) {
		t.Errorf("the identities are %q", got)
	}
	if a := w.browser().signIn(); a.Status != http.StatusSeeOther {
		t.Errorf("the owner's sign-in: %d %s", a.Status, w.reason())
	}
}

func TestRemovedIdentitiesTakeTheirRolesAlong(t *testing.T) {
	w := newWorld(t)
	w.root.Must("PUT", "/identity-providers/login", `{"groups_claim":"groups"}`, nil)
	w.root.Must("POST", "/scim/workspaces", `{"workspace_id":"default","role":"manager","scim_group_name":"Engineers"}`, nil)
	w.Claims = map[string]any{"groups": []any{"Engineers"}}
	if a := w.browser().signIn(); a.Status != http.StatusSeeOther || len(w.Query(`SELECT role FROM workspace_members`)) != 1 {
		t.Fatal(w.reason())
	}
	user := w.Query(`SELECT user_id FROM identities`)[0]
	w.as(user).Must("DELETE", "/auth/identities/"+w.Query(`SELECT id FROM identities`)[0], "", nil)
	if got := w.Query(`SELECT role FROM workspace_members`); len(got) != 0 {
		t.Errorf("the roles are %q", got)
	}
}
