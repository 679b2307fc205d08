package oauth_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"modelgate/internal/controlplane"
	"modelgate/internal/controlplane/oauth"
	"modelgate/internal/controlplane/sessions"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
	"modelgate/internal/testing/routetest"
)

// world is a control plane whose owner is signed in.
type world struct {
	*routetest.Bench
	t     *testing.T
	owner string // session token
}

func newWorld(t *testing.T) *world {
	w := &world{Bench: routetest.New(t, controlplane.Families{OAuth: oauth.Routes{Lifetime: func() time.Duration { return 24 * time.Hour }}}.Add), t: t}
	w.signInOwner()
	return w
}

// signInOwner begins a session of the first owner.
func (w *world) signInOwner() {
	t := w.t
	others := w.Authenticate
	w.Authenticate = func(r *http.Request) (*access.Identity, error) {
		if token := r.Header.Get("x-gateway-api-key"); access.IsSessionToken(token) {
			return sessions.Identify(r.Context(), w.DB, sessions.Use{Token: token, Now: w.Clock})
		}
		return others(r)
	}
	err := w.DB.Update(t.Context(), nil, func(tx *store.Tx) error {
		return tx.ReplaceClaim(t.Context(), store.Claim{Organisation: store.DefaultOrganisation}, access.HashKey("link").String(), w.Clock, w.Clock.Add(time.Hour))
	})
	if err != nil {
		t.Fatal(err)
	}
	var s struct{ Token string }
	w.Nobody().Must("POST", "/auth/claim", `{"token":"link","email":"ada@example.com","password":"correct horse battery"}`, &s)
	w.owner = s.Token
}

// device is a sign-in that waits.
type device struct {
	Code     string `json:"device_code"`
	User     string `json:"user_code"`
	URI      string `json:"verification_uri"`
	Complete string `json:"verification_uri_complete"`
	Expires  int64  `json:"expires_in"`
	Interval int64
}

// post sends a form and returns the status and the response.
func (w *world) post(path string, form url.Values, out any) int {
	w.t.Helper()
	a := w.Nobody().CallWith("POST", path, form.Encode(), http.Header{"Content-Type": {"application/x-www-form-urlencoded"}})
	if err := json.Unmarshal([]byte(a.Body), out); err != nil || a.Header.Get("Cache-Control") != "no-store" || a.Header.Get("Content-Type") != "application/json" {
		w.t.Fatalf("POST %s: %s with %v", path, a.Body, a.Header)
	}
	return a.Status
}

func (w *world) begin() device {
	w.t.Helper()
	var d device
	if status := w.post("/oauth/device_authorization", url.Values{"client_id": {"modelgate-cli"}, "device_name": {"laptop"}}, &d); status != http.StatusOK {
		w.t.Fatalf("beginning: %d", status)
	}
	return d
}

type token struct {
	Token string `json:"access_token"`
	Type  string `json:"token_type"`
	Error string
}

func (w *world) poll(d device) (int, token) {
	w.t.Helper()
	var out token
	status := w.post("/oauth/token", url.Values{
		"grant_type": {"urn:ietf:params:oauth:grant-type:device_code"}, "device_code": {d.Code}, "client_id": {"modelgate-cli"},
	}, &out)
	return status, out
}

// later polls after the interval.
func (w *world) later(d device) token {
	w.t.Helper()
	w.Clock = w.Clock.Add(61 * time.Second)
	_, out := w.poll(d)
	return out
}

func (w *world) decide(session, code, decision string) routetest.Response {
	return w.CallerOf(session).Call("POST", "/auth/device", fmt.Sprintf(`{"user_code":%q,"decision":%q}`, code, decision))
}

func (w *world) mustApprove(d device) {
	w.t.Helper()
	if a := w.decide(w.owner, d.User, "approve"); a.Status != http.StatusOK {
		w.t.Fatalf("approving: %d %s", a.Status, a.Body)
	}
}

func TestACommandLineSignsInWhenAPersonApproves(t *testing.T) {
	w := newWorld(t)
	d := w.begin()
	if len(d.User) != 9 || d.URI != "http://listen.example:8787/device" || d.Complete != d.URI+"?user_code="+d.User || d.Expires != 600 || d.Interval != 5 {
		t.Errorf("the device is %+v", d)
	}
	if _, out := w.poll(d); out.Error != "authorization_pending" {
		t.Errorf("before: %+v", out)
	}
	if status, out := w.poll(d); status != http.StatusBadRequest || out.Error != "slow_down" {
		t.Errorf("at once: %d %+v", status, out)
	}
	w.Clock = w.Clock.Add(6 * time.Second)
	if _, out := w.poll(d); out.Error != "slow_down" {
		t.Errorf("after six seconds, when ten are needed: %+v", out)
	}
	var shown struct {
		Name    string `json:"device_name"`
		Address string
		Created string `json:"created_at"`
	}
	w.CallerOf(w.owner).Must("GET", "/auth/device?user_code="+strings.ToLower(strings.ReplaceAll(d.User, "-", "")), "", &shown)
	if shown.Name != "laptop" || shown.Address != "192.0.2.1" || shown.Created != "2026-05-01T12:00:00.000Z" {
		t.Errorf("the person sees %+v", shown)
	}
	w.mustApprove(d)
	out := w.later(d)
	if out.Type != "Bearer" || !access.IsSessionToken(out.Token) {
		t.Fatalf("after: %+v", out)
	}
	if again := w.later(d); again.Error != "invalid_grant" {
		t.Errorf("the code again: %+v", again)
	}
	var list struct {
		Data []struct{ Method, Address string }
	}
	w.CallerOf(out.Token).Must("GET", "/auth/sessions", "", &list)
	if len(list.Data) != 2 || list.Data[0].Method != "device" && list.Data[1].Method != "device" {
		t.Errorf("the sessions are %+v", list)
	}
	rows := w.Query(`SELECT request_body FROM audit_logs WHERE action IN ('device_approve', 'sign_in') AND request_body LIKE '%device%' ORDER BY id`)
	if len(rows) != 2 || !strings.Contains(rows[0]+rows[1], `"device_name":"laptop"`) || strings.Contains(rows[0]+rows[1], d.User) || strings.Contains(rows[0]+rows[1], d.Code) {
		t.Errorf("the audit log has %q", rows)
	}
	w.Clock = w.Clock.Add(24 * time.Hour)
	if a := w.CallerOf(out.Token).Call("GET", "/auth/me", ""); a.Status != http.StatusUnauthorized {
		t.Errorf("after the time of sessions: %d", a.Status)
	}
}

func TestASignInIsDeniedOrExpires(t *testing.T) {
	w := newWorld(t)
	d := w.begin()
	if a := w.decide(w.owner, d.User, "deny"); a.Status != http.StatusOK {
		t.Fatalf("denying: %d %s", a.Status, a.Body)
	}
	if out := w.later(d); out.Error != "access_denied" {
		t.Errorf("denied: %+v", out)
	}
	if a := w.decide(w.owner, d.User, "approve"); a.Status != http.StatusNotFound {
		t.Errorf("approved after it was denied: %d %s", a.Status, a.Body)
	}
	d = w.begin()
	w.mustApprove(d)
	w.Clock = w.Clock.Add(10 * time.Minute)
	if _, out := w.poll(d); out.Error != "expired_token" {
		t.Errorf("approved and expired: %+v", out)
	}
	d = w.begin()
	w.Clock = w.Clock.Add(10 * time.Minute)
	if a := w.decide(w.owner, d.User, "approve"); a.Status != http.StatusNotFound {
		t.Errorf("approving an expired code: %d %s", a.Status, a.Body)
	}
	w.begin()
	if rows := w.Query(`SELECT status FROM device_codes`); len(rows) != 1 {
		t.Errorf("expired codes are stored: %q", rows)
	}
}

func TestAnApprovalEndsWithTheSessionOfThePerson(t *testing.T) {
	for name, end := range map[string]func(w *world){
		"signed out":  func(w *world) { w.CallerOf(w.owner).Must("POST", "/auth/logout", "", nil) },
		"deactivated": func(w *world) { w.Exec(`UPDATE users SET status = 'inactive'`) },
		"deactivated by a directory": func(w *world) {
			w.Exec(`UPDATE organisation_members SET status = 'inactive'`)
		},
	} {
		w := newWorld(t)
		d := w.begin()
		w.mustApprove(d)
		end(w)
		if out := w.later(d); out.Error != "invalid_grant" || out.Token != "" {
			t.Errorf("%s before the command line asked: %+v", name, out)
		}
	}
	w := newWorld(t)
	d := w.begin()
	w.mustApprove(d)
	out := w.later(d)
	w.Exec(`UPDATE organisation_members SET status = 'inactive'`)
	if a := w.CallerOf(out.Token).Call("GET", "/auth/me", ""); a.Status != http.StatusUnauthorized {
		t.Errorf("a session of a command line after its user was deactivated: %d", a.Status)
	}
}

// TestACommandLineIsAsStrongAsWhoApprovesIt: approving is no way around a second factor.
func TestACommandLineIsAsStrongAsWhoApprovesIt(t *testing.T) {
	for _, factor := range []string{"", "passkey"} {
		w := newWorld(t)
		w.Exec(`UPDATE sessions SET factor = $1`, factor)
		d := w.begin()
		w.mustApprove(d)
		out := w.later(d)
		if rows := w.Query(`SELECT factor FROM sessions WHERE method = 'device'`); len(rows) != 1 || (rows[0] == "") != (factor == "") {
			t.Errorf("approved with the factor %q: %q %s", factor, rows, out.Error)
		}
		w.Exec(`DELETE FROM sessions WHERE method = 'device'`)
		d = w.begin()
		w.mustApprove(d)
		w.Exec(`INSERT INTO one_time_codes (organisation_id, user_id, sealed, last_step, created_at) SELECT organisation_id, user_id, '', 0, 0 FROM sessions`)
		out = w.later(d)
		rows := w.Query(`SELECT pending FROM sessions WHERE method = 'device'`)
		if factor == "" && (out.Error != "access_denied" || len(rows) != 0) || factor != "" && len(rows) != 1 {
			t.Errorf("a person with a second factor who proved %q: %q %s", factor, rows, out.Error)
		}
	}
}

// TestAStolenSessionApprovesNoCommandLine: it would outlive the session.
func TestAStolenSessionApprovesNoCommandLine(t *testing.T) {
	w := newWorld(t)
	w.Clock = w.Clock.Add(11 * time.Minute)
	d := w.begin()
	if a := w.decide(w.owner, d.User, "approve"); a.Status != http.StatusForbidden || !strings.Contains(a.Body, "fresh_sign_in_required") {
		t.Errorf("approved with an old sign-in: %d %s", a.Status, a.Body)
	}
	if a := w.decide(w.owner, d.User, "deny"); a.Status != http.StatusOK {
		t.Errorf("denied with an old sign-in: %d %s", a.Status, a.Body)
	}
}

func TestOnlyPeopleInBrowsersApprove(t *testing.T) {
	w := newWorld(t)
	d := w.begin()
	w.mustApprove(d)
	line := w.later(d).Token
	d = w.begin()
	service := w.Root()
	for name, c := range map[string]*routetest.Caller{"a command line": w.CallerOf(line), "a key": service} {
		for _, call := range [][3]string{{"GET", "?user_code=" + d.User, ""}, {"POST", "", `{"user_code":"` + d.User + `","decision":"approve"}`}} {
			if a := c.Call(call[0], "/auth/device"+call[1], call[2]); a.Status != http.StatusForbidden {
				t.Errorf("%s: %s: %d %s", name, call[0], a.Status, a.Body)
			}
		}
	}
	if a := w.Nobody().Call("POST", "/auth/device", `{"user_code":"`+d.User+`","decision":"approve"}`); a.Status != http.StatusUnauthorized {
		t.Errorf("nobody: %d %s", a.Status, a.Body)
	}
	if a := w.CallerOf(w.owner).Call("GET", "/auth/device?decision=approve&user_code="+d.User, ""); a.Status != http.StatusBadRequest {
		t.Errorf("approving by GET: %d %s", a.Status, a.Body)
	}
	if out := w.later(d); out.Error != "authorization_pending" {
		t.Errorf("after all of them: %+v", out)
	}
}

func TestUserCodesCannotBeGuessed(t *testing.T) {
	w := newWorld(t)
	d := w.begin()
	guess := func(i int) string { return fmt.Sprintf("BBBB-BB%c%c", "CDFGHJKLMN"[i/10], "CDFGHJKLMN"[i%10]) }
	for i := range 10 {
		if a := w.decide(w.owner, guess(i), "approve"); a.Status != http.StatusNotFound {
			t.Fatalf("guess %d: %d %s", i, a.Status, a.Body)
		}
	}
	if a := w.decide(w.owner, d.User, "approve"); a.Status != http.StatusTooManyRequests || a.Header.Get("Retry-After") == "" {
		t.Errorf("the right code after ten wrong ones: %d %s", a.Status, a.Body)
	}
	w.Clock = w.Clock.Add(61 * time.Second)
	if a := w.decide(w.owner, d.User, "approve"); a.Status != http.StatusOK {
		t.Errorf("the right code a minute later: %d %s", a.Status, a.Body)
	}
}

func TestACodeBeginsOneSessionHoweverManyAsk(t *testing.T) {
	w := newWorld(t)
	d := w.begin()
	w.mustApprove(d)
	w.Exec(`UPDATE device_codes SET poll_interval = 0`) // all ask at once, as a thief would
	var wait sync.WaitGroup
	outs := make([]token, 8)
	for i := range outs {
		wait.Go(func() { _, outs[i] = w.poll(d) })
	}
	wait.Wait()
	sessions := 0
	for _, out := range outs {
		if out.Token != "" {
			sessions++
		} else if out.Error != "invalid_grant" {
			t.Errorf("a request that came late: %+v", out)
		}
	}
	if rows := w.Query(`SELECT id FROM sessions WHERE method = 'device'`); sessions != 1 || len(rows) != 1 {
		t.Errorf("%d requests got a session, %d began", sessions, len(rows))
	}
}

func TestRequestsOfCommandLinesAreChecked(t *testing.T) {
	w := newWorld(t)
	long := strings.Repeat("x", 65)
	for name, tt := range map[string]struct {
		path   string
		form   url.Values
		status int
		code   string
	}{
		"no client":        {"device_authorization", url.Values{}, 401, "invalid_client"},
		"another client":   {"device_authorization", url.Values{"client_id": {"x"}}, 401, "invalid_client"},
		"a scope":          {"device_authorization", url.Values{"client_id": {"modelgate-cli"}, "scope": {"x"}}, 400, "invalid_scope"},
		"a long name":      {"device_authorization", url.Values{"client_id": {"modelgate-cli"}, "device_name": {long}}, 400, "invalid_request"},
		"a control in it":  {"device_authorization", url.Values{"client_id": {"modelgate-cli"}, "device_name": {"a\x1b"}}, 400, "invalid_request"},
		"a client twice":   {"device_authorization", url.Values{"client_id": {"modelgate-cli", "x"}}, 400, "invalid_request"},
		"no code":          {"token", url.Values{"client_id": {"modelgate-cli"}}, 400, "invalid_request"},
		"an unknown code":  {"token", url.Values{"client_id": {"modelgate-cli"}, "device_code": {"x"}}, 400, "invalid_grant"},
		"no client's code": {"token", url.Values{"device_code": {"x"}}, 401, "invalid_client"},
	} {
		if tt.path == "token" {
			tt.form.Set("grant_type", "urn:ietf:params:oauth:grant-type:device_code")
		}
		var out struct{ Error string }
		if status := w.post("/oauth/"+tt.path, tt.form, &out); status != tt.status || out.Error != tt.code {
			t.Errorf("%s: %d %s, want %d %s", name, status, out.Error, tt.status, tt.code)
		}
	}
	var all []int
	for range 32 {
		var out struct{ Error string }
		all = append(all, w.post("/oauth/device_authorization", url.Values{"client_id": {"modelgate-cli"}}, &out))
	}
	if all[0] != http.StatusOK || all[31] != http.StatusTooManyRequests {
		t.Errorf("32 sign-ins from an address: %v", all)
	}
}

func TestTheMetadataNamesWhatWorks(t *testing.T) {
	w := newWorld(t)
	var m struct {
		Issuer string
		Token  string   `json:"token_endpoint"`
		Device string   `json:"device_authorization_endpoint"`
		Grants []string `json:"grant_types_supported"`
	}
	w.Nobody().Must("GET", "/.well-known/oauth-authorization-server", "", &m)
	if m.Issuer != "http://listen.example:8787" || m.Token != m.Issuer+"/oauth/token" || m.Device != m.Issuer+"/oauth/device_authorization" {
		t.Errorf("the metadata is %+v", m)
	}
	for _, grant := range m.Grants {
		var out struct{ Error string }
		if w.post("/oauth/token", url.Values{"grant_type": {grant}}, &out); out.Error == "unsupported_grant_type" {
			t.Errorf("the grant %s is named and not supported", grant)
		}
	}
}
