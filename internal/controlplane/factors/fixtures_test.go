package factors_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane"
	"modelgate/internal/controlplane/sessions"
	"modelgate/internal/identity/access"
	"modelgate/internal/identity/totp"
	"modelgate/internal/store"
	"modelgate/internal/testing/passkeytest"
	"modelgate/internal/testing/routetest"
)

const (
	password = "correct horse battery"
	host     = "gateway.example.com"
	origin   = "https://" + host
)

// world is an installation that its owner claimed, whose callers are real sessions.
type world struct {
	*routetest.Bench
	t    *testing.T
	root *routetest.Caller
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{Bench: routetest.New(t, controlplane.Families{}.Add), t: t}
	w.useSessions(w.Bench)
	w.root = w.Root()
	err := w.DB.Update(t.Context(), nil, func(tx *store.Tx) error {
		return tx.ReplaceClaim(t.Context(), store.Claim{Organisation: store.DefaultOrganisation}, access.HashKey("the-link").String(), w.Clock, w.Clock.Add(time.Hour))
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Nobody().Must("POST", "/auth/claim", `{"token":"the-link","email":"boss@example.com","password":"`+password+`"}`, nil)
	return w
}

// useSessions has b know real sessions in addition to the callers of the bench.
func (w *world) useSessions(b *routetest.Bench) {
	known := b.API.Authenticate
	b.API.PublicURL = func() string { return origin }
	b.API.Authenticate = func(r *http.Request) (*access.Identity, error) {
		if token := r.Header.Get("Authorization"); token != "" {
			return sessions.Identify(r.Context(), b.DB, sessions.Use{Token: strings.TrimPrefix(token, "Bearer "), Now: w.Clock, Address: "192.0.2.1"})
		}
		return known(r)
	}
}

// browser is a client with cookies and a session.
type browser struct {
	w       *world
	b       *routetest.Bench // the node that it calls
	ip      string
	cookies map[string]string
	token   string
}

func (w *world) browser() *browser {
	return &browser{w, w.Bench, "192.0.2.1", make(map[string]string), ""}
}

func (b *browser) call(method, path, body string) routetest.Response {
	h := http.Header{}
	if b.token != "" {
		h.Set("Authorization", "Bearer "+b.token)
	}
	for name, value := range b.cookies {
		h.Add("Cookie", name+"="+value)
	}
	a := b.b.Nobody().At(b.ip).CallWith(method, path, body, h)
	for _, k := range (&http.Response{Header: a.Header}).Cookies() {
		b.cookies[k.Name] = k.Value
		if k.MaxAge < 0 {
			delete(b.cookies, k.Name)
		}
	}
	return a
}

func (b *browser) must(method, path, body string, out any) {
	b.w.t.Helper()
	a := b.call(method, path, body)
	if a.Status != http.StatusOK {
		b.w.t.Fatalf("%s %s: %d %s", method, path, a.Status, a.Body)
	}
	if out != nil {
		if err := json.Unmarshal([]byte(a.Body), out); err != nil {
			b.w.t.Fatalf("%s %s: %v: %s", method, path, err, a.Body)
		}
	}
}

type session struct {
	Token, ID, Pending string
	Methods            []string
}

// login signs in with a password, and keeps the session.
func (b *browser) login(email string) session {
	b.w.t.Helper()
	var s session
	b.must("POST", "/auth/login", `{"email":"`+email+`","password":"`+password+`"}`, &s)
	b.token = s.Token
	return s
}

type added struct {
	ID       string
	Recovery []string `json:"recovery_codes"`
	Session  *session
}

// keep uses the session of an answer from now on.
func (b *browser) keep(s *session) {
	if s != nil {
		b.token = s.Token
	}
}

func (b *browser) options(path string) json.RawMessage {
	b.w.t.Helper()
	var out struct{ Options json.RawMessage }
	b.must("POST", path+"/options", "", &out)
	return out.Options
}

// addPasskey adds a passkey that a has.
func (b *browser) addPasskey(a *passkeytest.Authenticator) added {
	b.w.t.Helper()
	var out added
	b.must("POST", "/auth/passkeys", `{"name":"Laptop","passkey":`+a.Create(b.options("/auth/passkeys"))+`}`, &out)
	b.keep(out.Session)
	return out
}

// addCodes adds an app, and returns its secret.
func (b *browser) addCodes() (secret.String, added) {
	b.w.t.Helper()
	var begun struct{ Secret, URI, Enrolment string }
	b.must("POST", "/auth/one-time-codes", "", &begun)
	s := secret.New(begun.Secret)
	var out added
	b.must("POST", "/auth/one-time-codes/confirm", `{"enrolment":"`+begun.Enrolment+`","code":"`+b.w.code(s)+`"}`, &out)
	b.keep(out.Session)
	return s, out
}

func (w *world) code(s secret.String) string {
	w.t.Helper()
	code, err := totp.Code(s, w.Clock)
	if err != nil {
		w.t.Fatal(err)
	}
	return code
}

// wrong returns a code that is not valid around now.
func (w *world) wrong(s secret.String) string {
	for _, code := range []string{"000000", "111111", "222222", "333333"} {
		if _, ok, err := totp.Check(s, code, w.Clock, 0); err == nil && !ok {
			return code
		}
	}
	w.t.Fatal("no wrong code")
	return ""
}

func (w *world) authenticator() *passkeytest.Authenticator { return passkeytest.New(w.t, host, origin) }

// member adds a user with the password, and returns their id.
func (w *world) member(email, role string) string {
	w.t.Helper()
	id := email[:strings.IndexByte(email, '@')]
	hash := w.Query(`SELECT password_hash FROM users WHERE email = 'boss@example.com'`)[0]
	w.Exec(`INSERT INTO users (id, email, first_name, last_name, password_hash, status, created_at, updated_at)
		VALUES ($1, $2, '', '', $3, 'active', 0, 0)`, id, email, hash)
	w.Exec(`INSERT INTO organisation_members (organisation_id, user_id, role, created_at, updated_at) VALUES ($1, $2, $3, 0, 0)`,
		store.DefaultOrganisation, id, role)
	return id
}

// reasons returns the reasons in the audit log, newest last.
func (w *world) reasons() []string {
	var list []string
	for _, row := range w.Query(`SELECT request_body FROM audit_logs WHERE request_body LIKE '{%' ORDER BY rowid`) {
		var body struct{ Reason string }
		if json.Unmarshal([]byte(row), &body) == nil && body.Reason != "" {
			list = append(list, body.Reason)
		}
	}
	return list
}

func expect(t *testing.T, what string, a routetest.Response, status int, code string) {
	t.Helper()
	if a.Status != status || code != "" && !strings.Contains(a.Body, `"code":"`+code+`"`) {
		t.Errorf("%s: %d %s, want %d %s", what, a.Status, a.Body, status, code)
	}
}

func lastReason(t *testing.T, w *world, want string) {
	t.Helper()
	if got := w.reasons(); !slices.Contains(got[max(len(got)-1, 0):], want) {
		t.Errorf("the audit log ends with the reasons %q, want %q", got, want)
	}
}
