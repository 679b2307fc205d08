package oauth_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"modelgate/internal/controlplane"
	"modelgate/internal/controlplane/oauth"
	"modelgate/internal/identity/access"
	wire "modelgate/internal/identity/oauth"
	"modelgate/internal/snapshot"
	"modelgate/internal/store"
	"modelgate/internal/store/publication"
	"modelgate/internal/testing/routetest"
)

const (
	gateway  = "http://listen.example:8787"
	verifier = "0123456789012345678901234567890123456789abc"
	callback = "https://client.example/callback"
	document = "https://client.example/mcp.json"
)

// site is the server of clients' documents.
type site struct {
	bodies map[string]string // by address
	asked  int
	header http.Header
}

func (s *site) Do(req *http.Request, guarded bool) (*http.Response, error) {
	s.asked++
	out := &http.Response{StatusCode: http.StatusNotFound, Header: s.header.Clone(), Body: http.NoBody}
	if body, ok := s.bodies[req.URL.String()]; ok && guarded {
		out.StatusCode, out.Body = http.StatusOK, io.NopCloser(strings.NewReader(body))
	}
	return out, nil
}

// codeWorld is a world in which clients sign in.
type codeWorld struct {
	*world
	*site
	settings  oauth.Settings
	workspace string
}

func newCodeWorld(t *testing.T) *codeWorld {
	w := &codeWorld{world: &world{t: t}, site: &site{header: http.Header{"Content-Type": {"application/json"}}}}
	w.bodies = map[string]string{document: `{"client_id":"` + document + `","client_name":"Editor","redirect_uris":["` + callback + `","http://127.0.0.1/back"],"token_endpoint_auth_method":"none"}`}
	w.Bench = routetest.New(t, controlplane.Families{OAuth: oauth.Routes{
		Documents: wire.NewDocuments(w.site), Settings: func() oauth.Settings { return w.settings },
		Lifetime: func() time.Duration { return 24 * time.Hour },
	}}.Add)
	w.signInOwner()
	w.workspace = store.DefaultWorkspace
	return w
}

// challenge returns the challenge of a verifier.
func challenge(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// request returns a valid request of the client, with changes; an empty value leaves one out.
func request(changes ...string) string {
	v := url.Values{
		"response_type": {"code"}, "client_id": {document}, "redirect_uri": {callback}, "state": {"s-1"}, "scope": {"mcp.invoke"},
		"code_challenge": {challenge(verifier)}, "code_challenge_method": {"S256"}, "resource": {gateway + "/mcp/github"},
	}
	for i := 0; i < len(changes); i += 2 {
		if v.Set(changes[i], changes[i+1]); changes[i+1] == "" {
			v.Del(changes[i])
		}
	}
	return v.Encode()
}

// wanted is what a person is asked.
type wanted struct {
	Client *struct {
		ID, Name, Source, Host string
		Loopback               bool `json:"loopback_only"`
	}
	Redirect   string `json:"redirect_uri"`
	Resource   string
	Scopes     []string
	Workspaces []struct{ ID, Name string }
	Token      string `json:"consent_token"`
	Error      string
	Target     string `json:"error_redirect_uri"`
}

func (w *codeWorld) ask(session, query string) (routetest.Response, wanted) {
	w.t.Helper()
	a := w.CallerOf(session).Call("GET", "/auth/consent?request="+url.QueryEscape(query), "")
	var out wanted
	if a.Status == http.StatusOK {
		if err := json.Unmarshal([]byte(a.Body), &out); err != nil {
			w.t.Fatal(err)
		}
	}
	return a, out
}

func (w *codeWorld) answer(session, query, token, decision string) routetest.Response {
	body, _ := json.Marshal(map[string]string{"request": query, "consent_token": token, "decision": decision, "workspace_id": w.workspace})
	return w.CallerOf(session).Call("POST", "/auth/consent", string(body))
}

// mustAllow lets a person consent and returns the parameters with which the client is called.
func (w *codeWorld) mustAllow(session, query string) url.Values {
	w.t.Helper()
	a, asked := w.ask(session, query)
	if a.Status != http.StatusOK || asked.Error != "" {
		w.t.Fatalf("asking about %s: %d %s", query, a.Status, a.Body)
	}
	return w.redirect(w.answer(session, query, asked.Token, "allow"))
}

// redirect returns the parameters of the redirect in a response.
func (w *codeWorld) redirect(a routetest.Response) url.Values {
	w.t.Helper()
	var out struct {
		Redirect string `json:"redirect_uri"`
	}
	if a.Status != http.StatusOK || json.Unmarshal([]byte(a.Body), &out) != nil {
		w.t.Fatalf("deciding: %d %s", a.Status, a.Body)
	}
	u, err := url.Parse(out.Redirect)
	if err != nil {
		w.t.Fatal(err)
	}
	return u.Query()
}

// issued is a response of the token endpoint.
type issued struct {
	Access  string `json:"access_token"`
	Refresh string `json:"refresh_token"`
	Type    string `json:"token_type"`
	Expires int64  `json:"expires_in"`
	Scope   string
	Error   string
}

func (w *codeWorld) exchange(code string, changes ...string) issued {
	w.t.Helper()
	form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "client_id": {document}, "redirect_uri": {callback}, "code_verifier": {verifier}}
	for i := 0; i < len(changes); i += 2 {
		form.Set(changes[i], changes[i+1])
	}
	var out issued
	w.post("/oauth/token", form, &out)
	return out
}

func (w *codeWorld) refresh(token string, changes ...string) issued {
	w.t.Helper()
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}, "client_id": {document}}
	for i := 0; i < len(changes); i += 2 {
		form.Set(changes[i], changes[i+1])
	}
	var out issued
	w.post("/oauth/token", form, &out)
	return out
}

// mustSignIn returns the tokens of a client that signed in.
func (w *codeWorld) mustSignIn(changes ...string) issued {
	w.t.Helper()
	out := w.exchange(w.mustAllow(w.owner, request(changes...)).Get("code"))
	if out.Access == "" || out.Refresh == "" {
		w.t.Fatalf("the client has %+v", out)
	}
	return out
}

// snapshot returns what a node knows now.
func (w *codeWorld) snapshot() *snapshot.Snapshot {
	w.t.Helper()
	state, err := publication.Load(w.t.Context(), w.DB, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	in := snapshot.Input{Keys: state.Identities}
	for _, g := range state.Grants {
		signing, err := w.Secrets.Open(w.t.Context(), g.Identity.Organisation, g.Sealed)
		if err != nil {
			w.t.Fatal(err)
		}
		in.Grants = append(in.Grants, snapshot.Grant{Identity: g.Identity, Resource: g.Resource, Signing: signing})
	}
	s, err := snapshot.Build(in)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// owner returns the owner of a token at the address of a tool server, as any node finds it.
func (w *codeWorld) ownerAt(token, slug string) (*access.Identity, error) {
	id, _, err := w.snapshot().AuthenticateTools(http.Header{"Authorization": {"Bearer " + token}}, slug, w.Clock)
	return id, err
}

func TestAClientSignsInByBrowser(t *testing.T) {
	w := newCodeWorld(t)
	a, asked := w.ask(w.owner, request())
	if a.Status != http.StatusOK || asked.Client.Name != "Editor" || asked.Client.Host != "client.example" || asked.Client.Source != "document" ||
		asked.Client.Loopback || asked.Redirect != callback || asked.Resource != gateway+"/mcp/github" || len(asked.Workspaces) == 0 {
		t.Errorf("the person is asked %s", a.Body)
	}
	back := w.redirect(w.answer(w.owner, request(), asked.Token, "allow"))
	if back.Get("state") != "s-1" || back.Get("iss") != gateway || back.Get("code") == "" {
		t.Errorf("the client is called with %v", back)
	}
	out := w.exchange(back.Get("code"), "resource", gateway+"/github/mcp/")
	if out.Type != "Bearer" || out.Expires != 3600 || out.Scope != "mcp.invoke" || !access.IsAccessToken(out.Access) {
		t.Fatalf("the client has %+v", out)
	}
	id, err := w.ownerAt(out.Access, "github")
	if err != nil || id.Workspace != store.DefaultWorkspace || id.UserID == "" || len(id.Scopes) != 1 || !id.Allows(access.ScopeTools) ||
		!id.ExpiresAt.Equal(w.Clock.Add(time.Hour)) {
		t.Errorf("the token is of %+v, %v", id, err)
	}
	w.Clock = w.Clock.Add(time.Hour)
	if _, err := w.ownerAt(out.Access, "github"); err == nil {
		t.Error("the token is valid after an hour")
	}
	next := w.refresh(out.Refresh)
	if _, err := w.ownerAt(next.Access, "github"); err != nil || next.Refresh == out.Refresh {
		t.Errorf("after a refresh: %v, and the refresh token was not replaced", err)
	}
	rows := w.Query(`SELECT action || ' ' || request_body FROM audit_logs WHERE resource_type = 'oauth_grant' OR action = 'oauth_token' `)
	if all := strings.Join(rows, ""); len(rows) != 2 || !strings.Contains(all, "oauth_allow {") || !strings.Contains(all, "oauth_token {") ||
		strings.Count(all, document) != 2 || strings.Contains(all, "s-1") {
		t.Errorf("the audit log has %q", rows)
	}
}

// TestAccessTokensAreForTheirAddressOnly: a server that gets one can use it nowhere else.
func TestAccessTokensAreForTheirAddressOnly(t *testing.T) {
	w := newCodeWorld(t)
	one, all := w.mustSignIn().Access, w.mustSignIn("resource", "").Access
	for token, own := range map[string]string{one: "github", all: ""} {
		for _, slug := range []string{"", "github", "GitHub", "other"} {
			if _, err := w.ownerAt(token, slug); (err == nil) != (slug == own) {
				t.Errorf("a token for %q at %q: %v", own, slug, err)
			}
		}
		s := w.snapshot()
		for name, h := range map[string]http.Header{"bearer": {"Authorization": {"Bearer " + token}}, "key": {"X-Gateway-Api-Key": {token}}} {
			if _, _, err := s.Authenticate(h, w.Clock); err == nil || !strings.Contains(err.Error(), "tool servers only") {
				t.Errorf("elsewhere, as %s: %v", name, err)
			}
		}
		if !s.IsCredential(token, w.Clock) || !access.HasToken("here: "+token+", ok") {
			t.Error("the token may be sent to a provider")
		}
	}
}

func TestTheCodeFlowIsAttacked(t *testing.T) {
	for name, attack := range map[string]func(w *codeWorld, code string) issued{
		"a wrong verifier": func(w *codeWorld, code string) issued {
			return w.exchange(code, "code_verifier", strings.Repeat("x", 43))
		},
		"the challenge for one": func(w *codeWorld, code string) issued { return w.exchange(code, "code_verifier", challenge(verifier)) },
		"no verifier":           func(w *codeWorld, code string) issued { return w.exchange(code, "code_verifier", "") },
		"another client": func(w *codeWorld, code string) issued {
			return w.exchange(code, "client_id", "https://evil.example/mcp.json")
		},
		"another redirect URI": func(w *codeWorld, code string) issued {
			return w.exchange(code, "redirect_uri", "http://127.0.0.1/back")
		},
		"another resource": func(w *codeWorld, code string) issued { return w.exchange(code, "resource", gateway+"/mcp/other") },
		"more scopes":      func(w *codeWorld, code string) issued { return w.exchange(code, "scope", "completions.write") },
		"a secret":         func(w *codeWorld, code string) issued { return w.exchange(code, "client_secret", "x") },
		"late": func(w *codeWorld, code string) issued {
			w.Clock = w.Clock.Add(time.Minute)
			return w.exchange(code)
		},
		"another code": func(w *codeWorld, code string) issued { return w.exchange(code + "x") },
		"as a refresh": func(w *codeWorld, code string) issued { return w.refresh(code) },
		"a deactivated": func(w *codeWorld, code string) issued {
			w.Exec(`UPDATE users SET status = 'inactive'`)
			return w.exchange(code)
		},
	} {
		w := newCodeWorld(t)
		code := w.mustAllow(w.owner, request()).Get("code")
		if out := attack(w, code); out.Error == "" || out.Access != "" {
			t.Errorf("%s: %+v", name, out)
		}
	}
}

// TestACodeThatIsUsedTwiceEndsTheGrant: one of the two is a thief.
func TestACodeThatIsUsedTwiceEndsTheGrant(t *testing.T) {
	for name, changes := range map[string][]string{"as before": nil, "without the verifier": {"code_verifier", strings.Repeat("x", 43)}} {
		w := newCodeWorld(t)
		code := w.mustAllow(w.owner, request()).Get("code")
		first := w.exchange(code)
		if out := w.exchange(code, changes...); out.Error != "invalid_grant" {
			t.Errorf("%s: the code again: %+v", name, out)
		}
		if _, err := w.ownerAt(first.Access, "github"); err == nil {
			t.Errorf("%s: the first token is valid after the code was used twice", name)
		}
		if out := w.refresh(first.Refresh); out.Error != "invalid_grant" {
			t.Errorf("%s: refreshing: %+v", name, out)
		}
		rows := w.Query(`SELECT request_body FROM audit_logs WHERE action = 'oauth_reuse'`)
		if len(rows) != 1 || !strings.Contains(rows[0], `"reused":"code"`) {
			t.Errorf("%s: the audit log has %q", name, rows)
		}
	}
}

func TestARefreshTokenThatWasReplacedEndsTheGrant(t *testing.T) {
	w := newCodeWorld(t)
	first := w.mustSignIn()
	second := w.refresh(first.Refresh)
	w.Clock = w.Clock.Add(29 * time.Second)
	if again := w.refresh(first.Refresh); again.Refresh != second.Refresh || again.Access == "" {
		t.Fatalf("the same token within the time for repeats: %+v, want the same successor", again)
	}
	third := w.refresh(second.Refresh)
	if third.Refresh == "" {
		t.Fatalf("the successor: %+v", third)
	}
	if out := w.refresh(first.Refresh, "client_id", "https://evil.example/mcp.json"); out.Error != "invalid_grant" {
		t.Errorf("another client: %+v", out)
	}
	if _, err := w.ownerAt(third.Access, "github"); err != nil {
		t.Errorf("another client ended the grant: %v", err)
	}
	if out := w.refresh(first.Refresh); out.Error != "invalid_grant" { // two steps behind, within the time
		t.Errorf("the first token: %+v", out)
	}
	if _, err := w.ownerAt(third.Access, "github"); err == nil {
		t.Error("the grant goes on after a replaced token was used")
	}
	for _, token := range []string{second.Refresh, third.Refresh} {
		if out := w.refresh(token); out.Error != "invalid_grant" {
			t.Errorf("refreshing: %+v", out)
		}
	}
	w = newCodeWorld(t)
	first = w.mustSignIn()
	w.refresh(first.Refresh)
	w.Clock = w.Clock.Add(31 * time.Second)
	if out := w.refresh(first.Refresh); out.Error != "invalid_grant" {
		t.Errorf("the same token after the time for repeats: %+v", out)
	}
	if rows := w.Query(`SELECT id FROM oauth_grants`); len(rows) != 0 {
		t.Error("the grant goes on")
	}
}

func TestAGrantHasAnEnd(t *testing.T) {
	w := newCodeWorld(t)
	out := w.mustSignIn()
	w.Clock = w.Clock.Add(23*time.Hour + 30*time.Minute)
	if out = w.refresh(out.Refresh); out.Expires != 1800 {
		t.Errorf("half an hour before the longest time of sessions: %+v", out)
	}
	w.Clock = w.Clock.Add(30 * time.Minute)
	if _, err := w.ownerAt(out.Access, "github"); err == nil {
		t.Error("the access token goes on")
	}
	if out = w.refresh(out.Refresh); out.Error != "invalid_grant" {
		t.Errorf("after it: %+v", out)
	}
}

func TestOnlyRequestsOfTheClientItselfAreShown(t *testing.T) {
	w := newCodeWorld(t)
	for name, query := range map[string]string{
		"no client":              request("client_id", ""),
		"an unknown client":      request("client_id", "x"),
		"the command line":       request("client_id", "modelgate-cli"),
		"http":                   request("client_id", "http://client.example/mcp.json"),
		"no document":            request("client_id", "https://client.example/other.json"),
		"no redirect":            request("redirect_uri", ""),
		"a longer redirect":      request("redirect_uri", callback+"/x"),
		"a query more":           request("redirect_uri", callback+"?x=1"),
		"a dot segment":          request("redirect_uri", "https://client.example/x/../callback"),
		"another case":           request("redirect_uri", "https://client.example/Callback"),
		"a port":                 request("redirect_uri", "https://client.example:443/callback"),
		"a user":                 request("redirect_uri", "https://client.example@evil.example/callback"),
		"a longer host":          request("redirect_uri", "https://client.example.evil.example/callback"),
		"a fragment":             request("redirect_uri", callback+"#x"),
		"http elsewhere":         request("redirect_uri", "http://client.example/callback"),
		"another loopback path":  request("redirect_uri", "http://127.0.0.1:9/other"),
		"another loopback name":  request("redirect_uri", "http://localhost:9/back"),
		"a loopback query":       request("redirect_uri", "http://127.0.0.1:9/back?x"),
		"loopback of a user":     request("redirect_uri", "http://x@127.0.0.1:9/back"),
		"a loopback look-alike":  request("redirect_uri", "http://127.0.0.1.evil.example/back"),
		"a script":               request("redirect_uri", "javascript:alert(1)"),
		"a redirect twice":       request() + "&redirect_uri=" + url.QueryEscape("https://evil.example"),
		"a client twice":         request() + "&client_id=x",
		"a request not a query;": "client_id=%zz",
	} {
		a, _ := w.ask(w.owner, query)
		if a.Status < 400 || a.Status >= 500 || strings.Contains(a.Body, "error_redirect_uri") {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
		if a := w.answer(w.owner, query, "x", "allow"); a.Status != http.StatusForbidden {
			t.Errorf("%s, allowed: %d %s", name, a.Status, a.Body)
		}
	}
	if rows := w.Query(`SELECT request_body FROM audit_logs WHERE action = 'oauth_client_refused'`); len(rows) != 24 {
		t.Errorf("the audit log has %d refusals: %q", len(rows), rows)
	}
	if a, asked := w.ask(w.owner, request("redirect_uri", "http://127.0.0.1:4711/back")); a.Status != http.StatusOK || asked.Redirect != "http://127.0.0.1:4711/back" {
		t.Errorf("another port of the own host: %d %s", a.Status, a.Body)
	}
}

// TestErrorsGoToTheClientWhenItIsKnown: with its state and our issuer.
func TestErrorsGoToTheClientWhenItIsKnown(t *testing.T) {
	w := newCodeWorld(t)
	for name, tt := range map[string]struct{ query, code string }{
		"no challenge":     {request("code_challenge", ""), "invalid_request"},
		"plain":            {request("code_challenge_method", "plain"), "invalid_request"},
		"no method":        {request("code_challenge_method", ""), "invalid_request"},
		"a short one":      {request("code_challenge", "abc"), "invalid_request"},
		"a token":          {request("response_type", "token"), "unsupported_response_type"},
		"a hybrid":         {request("response_type", "code token"), "unsupported_response_type"},
		"a fragment":       {request("response_mode", "fragment"), "invalid_request"},
		"more scopes":      {request("scope", "mcp.invoke completions.write"), "invalid_scope"},
		"all scopes":       {request("scope", "*"), "invalid_scope"},
		"another host":     {request("resource", "https://evil.example/mcp"), "invalid_target"},
		"a longer host":    {request("resource", gateway+".evil.example/mcp"), "invalid_target"},
		"another path":     {request("resource", gateway+"/v1/chat/completions"), "invalid_target"},
		"two segments":     {request("resource", gateway+"/mcp/a/b"), "invalid_target"},
		"the gateway":      {request("resource", gateway), "invalid_target"},
		"a request object": {request("request", "x"), "request_not_supported"},
		"without asking":   {request("prompt", "none"), "interaction_required"},
	} {
		a, asked := w.ask(w.owner, tt.query)
		u, err := url.Parse(asked.Target)
		if err != nil || a.Status != http.StatusOK || !strings.HasPrefix(asked.Target, callback+"?") || asked.Token != "" {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
			continue
		}
		if q := u.Query(); q.Get("error") != tt.code || q.Get("state") != "s-1" || q.Get("iss") != gateway || q.Has("code") {
			t.Errorf("%s: the client is called with %v, want %s", name, q, tt.code)
		}
	}
	_, asked := w.ask(w.owner, request())
	if q := w.redirect(w.answer(w.owner, request(), asked.Token, "deny")); q.Get("error") != "access_denied" || q.Get("state") != "s-1" || q.Get("iss") != gateway {
		t.Errorf("denied: the client is called with %v", q)
	}
	if rows := w.Query(`SELECT id FROM oauth_grants`); len(rows) != 0 {
		t.Error("a grant was stored")
	}
}

// TestAConsentIsForWhatWasShown: what another site makes a browser send is refused, and so is
// what differs from what the person saw.
func TestAConsentIsForWhatWasShown(t *testing.T) {
	w := newCodeWorld(t)
	_, asked := w.ask(w.owner, request())
	other := w.secondSession()
	for name, a := range map[string]routetest.Response{
		"no token":             w.answer(w.owner, request(), "x", "allow"),
		"another redirect URI": w.answer(w.owner, request("redirect_uri", "http://127.0.0.1:9/back"), asked.Token, "allow"),
		"another resource":     w.answer(w.owner, request("resource", ""), asked.Token, "allow"),
		"another session":      w.answer(other, request(), asked.Token, "allow"),
		"another decision":     w.answer(w.owner, request("state", "x"), asked.Token, "deny"),
	} {
		if a.Status != http.StatusForbidden || !strings.Contains(a.Body, "consent_token") {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
	if rows := w.Query(`SELECT id FROM oauth_grants`); len(rows) != 0 {
		t.Error("a grant was stored")
	}
	page := httpPage(t)
	if csp := page.Get("Content-Security-Policy"); !strings.Contains(csp, "frame-ancestors 'none'") || page.Get("X-Frame-Options") != "DENY" {
		t.Errorf("the page may be framed: %v", page)
	}
}

func (w *codeWorld) secondSession() string {
	var s struct{ Token string }
	w.Nobody().Must("POST", "/auth/login", `{"email":"ada@example.com","password":"correct horse battery"}`, &s)
	return s.Token
}

// A grant outlasts the session that gives it.
func TestOldSessionsConsentToNothing(t *testing.T) {
	w := newCodeWorld(t)
	w.Clock = w.Clock.Add(11 * time.Minute)
	_, asked := w.ask(w.owner, request())
	if a := w.answer(w.owner, request(), asked.Token, "allow"); a.Status != http.StatusForbidden || !strings.Contains(a.Body, "fresh_sign_in_required") {
		t.Errorf("allow: %d %s", a.Status, a.Body)
	}
	if a := w.answer(w.owner, request(), asked.Token, "deny"); a.Status != http.StatusOK {
		t.Errorf("deny: %d %s", a.Status, a.Body)
	}
}

func TestOnlyPeopleInBrowsersConsent(t *testing.T) {
	w := newCodeWorld(t)
	d := w.begin()
	w.mustApprove(d)
	line := w.later(d).Token
	for name, c := range map[string]string{"a command line": line, "a key": "root"} {
		caller := w.CallerOf(c)
		if c == "root" {
			caller = w.Root()
		}
		a := caller.Call("GET", "/auth/consent?request="+url.QueryEscape(request()), "")
		b := caller.Call("POST", "/auth/consent", `{"request":"x","consent_token":"x","decision":"allow"}`)
		if a.Status != http.StatusForbidden || b.Status != http.StatusForbidden {
			t.Errorf("%s: %d %s, %d", name, a.Status, a.Body, b.Status)
		}
	}
	if a := w.Nobody().Call("GET", "/auth/consent?request=x", ""); a.Status != http.StatusUnauthorized || w.asked != 0 {
		t.Errorf("nobody: %d, and %d documents were fetched", a.Status, w.asked)
	}
	w.Exec(`UPDATE sessions SET pending = 'second_factor'`)
	if a, _ := w.ask(w.owner, request()); a.Status != http.StatusForbidden || !strings.Contains(a.Body, "second_factor_required") {
		t.Errorf("a session that waits for a factor: %d %s", a.Status, a.Body)
	}
}

func TestAGrantEndsWithItsUser(t *testing.T) {
	for name, end := range map[string]func(w *codeWorld){
		"deactivated":                func(w *codeWorld) { w.Exec(`UPDATE users SET status = 'inactive'`) },
		"deactivated by a directory": func(w *codeWorld) { w.Exec(`UPDATE organisation_members SET status = 'inactive'`) },
		"no longer admin, and in no workspace": func(w *codeWorld) {
			w.Exec(`DELETE FROM workspace_members`)
			w.Exec(`UPDATE organisation_members SET role = 'member'`)
		},
		"workspace archived": func(w *codeWorld) { w.Exec(`UPDATE workspaces SET status = 'archived'`) },
		"removed":            func(w *codeWorld) { w.Exec(`DELETE FROM organisation_members`) },
	} {
		w := newCodeWorld(t)
		out := w.mustSignIn()
		if _, err := w.ownerAt(out.Access, "github"); err != nil {
			t.Fatal(err)
		}
		end(w)
		if _, err := w.ownerAt(out.Access, "github"); err == nil {
			t.Errorf("%s: the access token is valid", name)
		}
		if next := w.refresh(out.Refresh); next.Error != "invalid_grant" {
			t.Errorf("%s: refreshing: %+v", name, next)
		}
	}
}

// TestMembersConsentForTheirWorkspaces: a role that a member loses limits the tokens at once.
func TestMembersConsentForTheirWorkspaces(t *testing.T) {
	w := newCodeWorld(t)
	w.Exec(`UPDATE organisation_members SET role = 'member'`)
	w.Exec(`DELETE FROM workspace_members`)
	_, asked := w.ask(w.owner, request())
	if a := w.answer(w.owner, request(), asked.Token, "allow"); a.Status != http.StatusForbidden || len(asked.Workspaces) != 0 {
		t.Errorf("a member of no workspace: %d %s", a.Status, a.Body)
	}
	w.Exec(`INSERT INTO workspace_members (workspace_id, user_id, role, created_at, updated_at) SELECT $1, user_id, 'member', 0, 0 FROM sessions LIMIT 1`, store.DefaultWorkspace)
	w.workspace = "other"
	if a := w.answer(w.owner, request(), asked.Token, "allow"); a.Status != http.StatusNotFound {
		t.Errorf("another workspace: %d %s", a.Status, a.Body)
	}
	w.workspace = ""
	out := w.mustSignIn()
	id, err := w.ownerAt(out.Access, "github")
	if err != nil || !id.IsPerson() || len(id.Denied) == 0 || id.Allows(access.ScopeCompletions) {
		t.Errorf("a member's token is of %+v, %v", id, err)
	}
}

func TestPeopleAndAdminsRevokeGrants(t *testing.T) {
	w := newCodeWorld(t)
	type grants struct {
		Data []struct{ ID, Email string }
	}
	for name, revoke := range map[string]func(id string, out issued){
		"the person": func(id string, _ issued) { w.CallerOf(w.owner).Must("DELETE", "/auth/grants/"+id, "", nil) },
		"an admin":   func(id string, _ issued) { w.Root().Must("DELETE", "/oauth/grants/"+id, "", nil) },
		"the client, by its refresh token": func(_ string, out issued) {
			w.post("/oauth/revoke", url.Values{"token": {out.Refresh}, "client_id": {document}}, &struct{}{})
		},
		"the client, by its access token": func(_ string, out issued) {
			w.post("/oauth/revoke", url.Values{"token": {out.Access}, "client_id": {document}, "token_type_hint": {"refresh_token"}}, &struct{}{})
		},
	} {
		out := w.mustSignIn()
		var own, all grants
		w.CallerOf(w.owner).Must("GET", "/auth/grants", "", &own)
		w.Root().Must("GET", "/oauth/grants", "", &all)
		if len(own.Data) != 1 || len(all.Data) != 1 {
			t.Fatalf("the grants are %+v and %+v", own, all)
		}
		if status := w.post("/oauth/revoke", url.Values{"token": {out.Access}, "client_id": {"x"}}, &struct{}{}); status != http.StatusBadRequest {
			t.Errorf("another client: %d", status)
		}
		if status := w.post("/oauth/revoke", url.Values{"token": {"mg-at_x.y"}, "client_id": {document}}, &struct{}{}); status != http.StatusOK {
			t.Errorf("an unknown token: %d", status)
		}
		before := len(w.Query(`SELECT id FROM audit_logs WHERE action = 'oauth_revoke'`))
		revoke(own.Data[0].ID, out)
		if _, err := w.ownerAt(out.Access, "github"); err == nil {
			t.Errorf("revoked by %s: the access token is valid", name)
		}
		if next := w.refresh(out.Refresh); next.Error != "invalid_grant" {
			t.Errorf("revoked by %s: refreshing: %+v", name, next)
		}
		if after := len(w.Query(`SELECT id FROM audit_logs WHERE action = 'oauth_revoke'`)); after != before+1 {
			t.Errorf("revoked by %s: %d rows in the audit log", name, after-before)
		}
	}
	out := w.mustSignIn()
	another := w.As(access.Identity{Organisation: "other", Workspace: "-", Scopes: []access.Scope{access.ScopeAll}})
	for _, id := range w.Query(`SELECT id FROM oauth_grants`) {
		if a := another.Call("DELETE", "/oauth/grants/"+id, ""); a.Status != http.StatusNotFound {
			t.Errorf("an admin of another organisation: %d %s", a.Status, a.Body)
		}
	}
	if _, err := w.ownerAt(out.Access, "github"); err != nil {
		t.Errorf("after all of them: %v", err)
	}
}

// httpPage returns the header of the page on which people consent.
func httpPage(t *testing.T) http.Header {
	t.Helper()
	out := httptest.NewRecorder()
	oauth.ServeAuthorize(out, httptest.NewRequest("GET", oauth.AuthorizePath, nil))
	if out.Code != http.StatusOK {
		t.Fatalf("the page: %d", out.Code)
	}
	return out.Header()
}
