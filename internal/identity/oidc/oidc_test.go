package oidc_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"modelgate/internal/base/secret"
	"modelgate/internal/identity/oidc"
	"modelgate/internal/testing/oidctest"
)

// plain sends requests without a guard, because the provider of a test is on loopback.
type plain struct{ guarded *bool }

func (p plain) Do(r *http.Request, guarded bool) (*http.Response, error) {
	if p.guarded != nil {
		*p.guarded = *p.guarded || !guarded
	}
	return http.DefaultTransport.RoundTrip(r)
}

// world is a provider and a cache whose clock can be moved.
type world struct {
	*oidctest.Provider
	set   oidc.Settings
	cache *oidc.Cache
	ahead time.Duration
}

func newWorld(t *testing.T) *world {
	w := &world{Provider: oidctest.New(t)}
	w.set = oidc.Settings{Issuer: w.URL, ClientID: oidctest.ClientID, Secret: secret.New(oidctest.ClientSecret), RedirectURL: "https://gateway.example/callback"}
	w.cache = oidc.NewCache(plain{}, func() time.Time { return time.Now().Add(w.ahead) })
	return w
}

// signIn runs a flow as a browser does.
func (w *world) signIn(t *testing.T) (*oidc.SignIn, error) {
	t.Helper()
	p, err := w.cache.Provider(t.Context(), w.set)
	if err != nil {
		return nil, err
	}
	f := oidc.NewFlow()
	code, err := p.Callback(w.visit(t, p.StartURL(f, false)), f)
	if err != nil {
		return nil, err
	}
	return p.Finish(t.Context(), code, f)
}

// visit returns the query with which the provider sends the browser back.
func (w *world) visit(t *testing.T, address string) url.Values {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	back, err := res.Location()
	if err != nil {
		t.Fatalf("the provider answered %d: %v", res.StatusCode, err)
	}
	return back.Query()
}

func TestAFlowSignsIn(t *testing.T) {
	w := newWorld(t)
	w.set.Scopes = []string{" groups", "email", ""}
	w.set.GroupsClaim = "groups"
	w.Claims = map[string]any{"groups": []any{"engineers", "admins"}, "amr": []any{"mfa"}}
	got, err := w.signIn(t)
	if err != nil {
		t.Fatal(err)
	}
	if got.Issuer != w.URL || got.Subject != "ada" || got.Email != "ada@example.com" || !got.Proved || got.Domain != "example.com" ||
		got.FirstName != "Ada" || got.LastName != "Lovelace" || got.Session != "session-1" ||
		!slices.Equal(got.Groups, []string{"engineers", "admins"}) || !got.GroupsKnown || !slices.Equal(got.Methods, []string{"mfa"}) {
		t.Errorf("the token was read as %+v", got.Person)
	}
	start := w.Starts()[0]
	if got := start.Get("scope"); got != "openid profile email offline_access groups" {
		t.Errorf("the scopes were %q", got)
	}
	if start.Get("code_challenge_method") != "S256" || start.Get("nonce") == "" || start.Get("state") == "" {
		t.Errorf("the flow began with %v", start)
	}
}

func TestOfflineAccessIsLeftOutWhereItIsUnknown(t *testing.T) {
	w := newWorld(t)
	w.Document = map[string]any{"scopes_supported": []string{"openid", "profile", "email"}}
	if _, err := w.signIn(t); err != nil {
		t.Fatal(err)
	}
	if got := w.Starts()[0].Get("scope"); got != "openid profile email" {
		t.Errorf("the scopes were %q", got)
	}
}

func TestClientsAuthenticateInEachWay(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(jose.JSONWebKey{Key: key, KeyID: "own", Algorithm: "RS256"})
	if err != nil {
		t.Fatal(err)
	}
	for _, method := range []string{"", oidc.SecretBasic, oidc.SecretPost, oidc.PrivateKey} {
		w := newWorld(t)
		w.set.Method = method
		if method == oidc.PrivateKey {
			w.set.Secret = secret.New(string(text))
		}
		if _, err := w.signIn(t); err != nil {
			t.Errorf("%q: %v", method, err)
			continue
		}
		form := w.Forms()[0]
		if posted := form.Get("client_secret") != ""; posted != (method == oidc.SecretPost) {
			t.Errorf("%q: the form has the secret: %v", method, posted)
		}
		if method == oidc.PrivateKey {
			s, err := jose.ParseSignedCompact(form.Get("client_assertion"), []jose.SignatureAlgorithm{jose.RS256})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Verify(key.Public()); err != nil {
				t.Errorf("the assertion: %v", err)
			}
		}
	}
	if oidc.CheckKey("no key") == nil || oidc.CheckKey(string(text)) != nil {
		t.Error("private keys are not told from other text")
	}
}

// TestTokensAreRefused is behaviour 2 of the tokens: each has its own reason.
func TestTokensAreRefused(t *testing.T) {
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	claims := func(name string, value any) func(*world) {
		return func(w *world) { w.Claims = map[string]any{name: value} }
	}
	now := time.Now()
	for _, test := range []struct {
		name, reason string
		change       func(*world)
	}{
		{"another issuer", "issuer", claims("iss", "https://other.example")},
		{"another audience", "audience", claims("aud", "another")},
		{"no audience", "audience", claims("aud", nil)},
		{"several audiences without a party", "authorized_party", claims("aud", []string{"gateway", "another"})},
		{"another party", "authorized_party", claims("azp", "another")},
		{"expired", "expired", claims("exp", now.Add(-2*time.Minute).Unix())},
		{"no end", "expired", claims("exp", nil)},
		{"issued in the future", "issued_at", claims("iat", now.Add(5*time.Minute).Unix())},
		{"no time of issue", "issued_at", claims("iat", nil)},
		{"not valid yet", "not_before", claims("nbf", now.Add(2*time.Minute).Unix())},
		{"another nonce", "nonce", claims("nonce", "other")},
		{"no nonce", "nonce", claims("nonce", nil)},
		{"no subject", "subject", claims("sub", nil)},
		{"another access token", "access_token", claims("at_hash", "AAAA")},
		{"no signature", "algorithm", func(w *world) {
			w.Sign = func(c map[string]any) string {
				text, _ := json.Marshal(c)
				return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + base64.RawURLEncoding.EncodeToString(text) + "."
			}
		}},
		{"signed with the public key as a secret", "algorithm", func(w *world) {
			w.Sign = func(c map[string]any) string {
				text, _ := json.Marshal(w.Key())
				return oidctest.Signed(jose.HS256, text, c, "JWT")
			}
		}},
		{"signed with the client secret", "algorithm", func(w *world) {
			w.Sign = func(c map[string]any) string {
				return oidctest.Signed(jose.HS256, []byte(strings.Repeat(oidctest.ClientSecret, 2)), c, "JWT")
			}
		}},
		{"another key with the same id", "signature", func(w *world) {
			w.Sign = func(c map[string]any) string {
				return oidctest.Signed(jose.RS256, jose.JSONWebKey{Key: other, KeyID: w.Key().KeyID}, c, "JWT")
			}
		}},
		{"an unknown key", "signature", func(w *world) {
			w.Sign = func(c map[string]any) string {
				return oidctest.Signed(jose.RS256, jose.JSONWebKey{Key: other, KeyID: "unknown"}, c, "JWT")
			}
		}},
		{"no keys", "keys", func(w *world) { w.KeysDown = true }},
		{"the wrong secret", "exchange", func(w *world) { w.set.Secret = secret.New("wrong") }},
		{"another issuer in the answer", "mix_up", func(w *world) { w.Answer = url.Values{"iss": {"https://other.example"}} }},
		{"no issuer in the answer", "mix_up", func(w *world) {
			w.Document = map[string]any{"authorization_response_iss_parameter_supported": true}
		}},
		{"another state", "state", func(w *world) { w.Answer = url.Values{"state": {"other"}} }},
		{"a refusal", "provider", func(w *world) { w.Answer = url.Values{"error": {"access_denied"}} }},
		{"no code", "code", func(w *world) { w.Answer = url.Values{"code": nil} }},
		{"another issuer in the document", "issuer", func(w *world) { w.Document = map[string]any{"issuer": w.URL + "/"} }},
		{"no token endpoint", "discovery", func(w *world) { w.Document = map[string]any{"token_endpoint": nil} }},
		{"a file as token endpoint", "discovery", func(w *world) { w.Document = map[string]any{"token_endpoint": "file:///etc/passwd"} }},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			test.change(w)
			got, err := w.signIn(t)
			if err == nil {
				t.Fatalf("was accepted: %+v", got.Person)
			}
			if reason := oidc.ReasonOf(err); reason != test.reason {
				t.Errorf("the reason is %q, not %q: %v", reason, test.reason, err)
			}
			if strings.Contains(err.Error(), oidctest.ClientSecret) {
				t.Errorf("the error has the secret: %v", err)
			}
		})
	}
}

func TestAnIssuerInTheAnswerIsAccepted(t *testing.T) {
	w := newWorld(t)
	w.Document = map[string]any{"authorization_response_iss_parameter_supported": true}
	w.Answer = url.Values{"iss": {w.URL}}
	if _, err := w.signIn(t); err != nil {
		t.Error(err)
	}
}

func TestKeysRotateWithoutARestart(t *testing.T) {
	w := newWorld(t)
	if _, err := w.signIn(t); err != nil {
		t.Fatal(err)
	}
	w.Rotate(t)
	w.ahead = time.Minute // the pause between two requests for the keys
	w.Clock = time.Minute
	if _, err := w.signIn(t); err != nil {
		t.Errorf("after a rotation: %v", err)
	}
	w.KeysDown = true
	if _, err := w.signIn(t); err != nil {
		t.Errorf("with a known key while the provider's keys are unavailable: %v", err)
	}
	w.Rotate(t)
	w.ahead, w.Clock = 2*time.Minute, 2*time.Minute
	if _, err := w.signIn(t); oidc.ReasonOf(err) != "keys" {
		t.Errorf("with an unknown key while the provider's keys are unavailable: %v", err)
	}
}

// TestUnknownKeysCauseNoStorm covers tokens with made-up keys: they must not make the
// gateway ask the provider for each.
func TestUnknownKeysCauseNoStorm(t *testing.T) {
	w := newWorld(t)
	if _, err := w.signIn(t); err != nil {
		t.Fatal(err)
	}
	before := w.KeyRequests()
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	w.Sign = func(c map[string]any) string {
		return oidctest.Signed(jose.RS256, jose.JSONWebKey{Key: other, KeyID: rand.Text()}, c, "JWT")
	}
	for range 10 {
		if _, err := w.signIn(t); oidc.ReasonOf(err) != "signature" {
			t.Fatalf("a made-up key: %v", err)
		}
	}
	if n := w.KeyRequests() - before; n > 1 {
		t.Errorf("ten tokens with unknown keys made %d requests for the keys", n)
	}
}

func TestProvidersVouchForAddresses(t *testing.T) {
	for _, test := range []struct {
		name   string
		claims map[string]any
		proved bool
		domain string
	}{
		{"verified", nil, true, "example.com"},
		{"verified as text", map[string]any{"email_verified": "true"}, true, "example.com"},
		{"not verified", map[string]any{"email_verified": false}, false, "example.com"},
		{"nothing said", map[string]any{"email_verified": nil}, false, "example.com"},
		{"capitals in the domain", map[string]any{"email": "Ada@Example.COM"}, true, "example.com"},
	} {
		w := newWorld(t)
		w.Claims = test.claims
		got, err := w.signIn(t)
		if err != nil {
			t.Fatal(err)
		}
		if got.Proved != test.proved || got.Domain != test.domain {
			t.Errorf("%s: proved %v in %q", test.name, got.Proved, got.Domain)
		}
	}
}

// TestGroupsAreKnownOrNot: what a token leaves out takes nothing away.
func TestGroupsAreKnownOrNot(t *testing.T) {
	for _, test := range []struct {
		name, claim string
		claims      map[string]any
		want        string
		known       bool
	}{
		{"a list", "groups", map[string]any{"groups": []any{"a", "b"}}, "a b", true},
		{"an empty list", "groups", map[string]any{"groups": []any{}}, "", true},
		{"one name", "role", map[string]any{"role": "a"}, "a", true},
		{"nested", "realm.roles", map[string]any{"realm": map[string]any{"roles": []any{"a"}}}, "a", true},
		{"a name with a dot", "https://x.y/roles", map[string]any{"https://x.y/roles": []any{"a"}}, "a", true},
		{"missing", "groups", nil, "", false},
		{"too many for the token", "groups", map[string]any{"_claim_names": map[string]any{"groups": "src1"},
			"_claim_sources": map[string]any{"src1": map[string]any{"endpoint": "https://graph.example/x"}}}, "", false},
		{"too many, in an implicit flow", "groups", map[string]any{"hasgroups": true}, "", false},
		{"an object", "groups", map[string]any{"groups": map[string]any{"a": 1}}, "", false},
		{"no claim is set", "", map[string]any{"groups": []any{"a"}}, "", false},
	} {
		w := newWorld(t)
		w.Claims, w.set.GroupsClaim = test.claims, test.claim
		got, err := w.signIn(t)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if strings.Join(got.Groups, " ") != test.want || got.GroupsKnown != test.known {
			t.Errorf("%s: groups %q, known %v", test.name, got.Groups, got.GroupsKnown)
		}
	}
}

func TestUserInfoAddsWhatTheTokenLacks(t *testing.T) {
	w := newWorld(t)
	w.Claims = map[string]any{"email": nil}
	w.UserInfo = map[string]any{"email": "ada@example.org", "given_name": "Other"}
	got, err := w.signIn(t)
	if err != nil {
		t.Fatal(err)
	}
	if got.Email != "ada@example.org" || got.FirstName != "Ada" {
		t.Errorf("read %+v", got.Person)
	}
	w = newWorld(t)
	w.Claims = map[string]any{"email": nil}
	w.UserInfo = map[string]any{"sub": "eve", "email": "eve@example.org"}
	if got, err = w.signIn(t); err != nil || got.Email != "" {
		t.Errorf("of another subject: %+v, %v", got, err)
	}
}

func TestLogoutTokens(t *testing.T) {
	w := newWorld(t)
	p, err := w.cache.Provider(t.Context(), w.set)
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.VerifyLogout(t.Context(), w.LogoutToken(nil))
	if err != nil || got.Subject != "ada" || got.Session != "session-1" || got.ID == "" {
		t.Fatalf("got %+v, %v", got, err)
	}
	for name, claims := range map[string]map[string]any{
		"a nonce":          {"nonce": "x"},
		"another audience": {"aud": "another"},
		"no event":         {"events": nil},
		"another event":    {"events": map[string]any{"x": map[string]any{}}},
		"another issuer":   {"iss": "https://other.example"},
		"no id":            {"jti": nil},
		"nobody":           {"sub": nil, "sid": nil},
		"expired":          {"exp": time.Now().Add(-2 * time.Minute).Unix()},
		"from the future":  {"iat": time.Now().Add(5 * time.Minute).Unix()},
	} {
		if got, err := p.VerifyLogout(t.Context(), w.LogoutToken(claims)); err == nil {
			t.Errorf("%s was accepted: %+v", name, got)
		}
	}
	if got, err := p.VerifyLogout(t.Context(), w.IDToken("")); err == nil {
		t.Errorf("an ID token was accepted: %+v", got)
	}
	if !strings.HasPrefix(p.EndURL("token", "https://gateway.example/"), w.URL+"/end?") {
		t.Error("the provider's address of logout is unknown")
	}
}

func TestRequestsAreGuardedAndBounded(t *testing.T) {
	w := newWorld(t)
	unguarded := false
	w.cache = oidc.NewCache(plain{&unguarded}, nil)
	if _, err := w.signIn(t); err != nil || unguarded {
		t.Errorf("unguarded request: %v; %v", unguarded, err)
	}
	w.Document = map[string]any{"more": strings.Repeat("x", 2<<20)}
	w.cache = oidc.NewCache(plain{}, nil)
	if _, err := w.signIn(t); oidc.ReasonOf(err) != "discovery" {
		t.Errorf("a document of 2 MB: %v", err)
	}
}

func TestAProviderThatIsAwayKeepsItsDocument(t *testing.T) {
	w := newWorld(t)
	if _, err := w.cache.Provider(t.Context(), w.set); err != nil {
		t.Fatal(err)
	}
	w.Close()
	w.ahead = 2 * time.Hour
	if _, err := w.cache.Provider(t.Context(), w.set); err != nil {
		t.Errorf("a known provider: %v", err)
	}
	_, err := w.cache.Provider(context.Background(), oidc.Settings{Issuer: w.URL + "/new"})
	if r, ok := errors.AsType[*oidc.Refusal](err); !ok || r.Reason != "discovery" {
		t.Errorf("an unknown one: %v", err)
	}
}

// TestAProviderThatIsAwayIsNotAskedByEverybody: people who try again must not wait in a row.
func TestAProviderThatIsAwayIsNotAskedByEverybody(t *testing.T) {
	w := newWorld(t)
	w.Document = map[string]any{"token_endpoint": nil}
	if _, err := w.cache.Provider(t.Context(), w.set); oidc.ReasonOf(err) != "discovery" {
		t.Fatal(err)
	}
	w.Document = nil
	if _, err := w.cache.Provider(t.Context(), w.set); oidc.ReasonOf(err) != "discovery" {
		t.Errorf("at once: %v", err)
	}
	w.cache.Forget(w.URL)
	if _, err := w.cache.Provider(t.Context(), w.set); err != nil {
		t.Errorf("after it was forgotten: %v", err)
	}
}

func TestOnlyAllowedAddressesAreRequested(t *testing.T) {
	w := newWorld(t)
	const other = "http://other.example"
	for _, field := range []string{"issuer", "jwks_uri", "token_endpoint", "userinfo_endpoint"} {
		w.cache.Forget(w.URL)
		w.Document = map[string]any{}
		w.set.Allow = func(u *url.URL) error {
			if field == "issuer" && u.String() == w.URL || u.Host == "other.example" {
				return errors.New("not allowed")
			}
			return nil
		}
		if field != "issuer" {
			w.Document[field] = other + "/path"
		}
		forms := len(w.Forms())
		if _, err := w.signIn(t); oidc.ReasonOf(err) != "egress" || len(w.Forms()) != forms {
			t.Errorf("%s: a sign-in ended with %v, and %d requests for a token", field, err, len(w.Forms())-forms)
		}
	}
	w.Document = map[string]any{"authorization_endpoint": other + "/authorize"}
	w.cache.Forget(w.URL)
	p, err := w.cache.Provider(t.Context(), w.set)
	if err != nil { // browsers go there, not the gateway
		t.Fatal(err)
	}
	for _, e := range p.Check(t.Context()) {
		if e.Step == "authorization" && (e.Err == nil || !strings.Contains(e.Err.Error(), "not allowed")) {
			t.Errorf("the test of the provider requested its authorization endpoint: %v", e.Err)
		}
	}
	// A document that another organisation read is not a way around the policy.
	w.Document = nil
	w.cache.Forget(w.URL)
	set := w.set
	set.Allow = nil
	if _, err := w.cache.Provider(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	w.set.Allow = func(*url.URL) error { return errors.New("not allowed") }
	if _, err := w.cache.Provider(t.Context(), w.set); oidc.ReasonOf(err) != "egress" {
		t.Errorf("the cached document was used: %v", err)
	}
}

func TestBrowsersEndSessionsOnlyAtAddressesOfTheWeb(t *testing.T) {
	w := newWorld(t)
	for address, ok := range map[string]bool{
		"https://login.example/end?x=1": true, "http://login.example/end": true, "": false, "javascript:alert(1)": false,
		"javascript://login.example/%0aalert(1)": false, "data:text/html,x": false, "/end": false, "//evil.example": false,
	} {
		w.cache.Forget(w.URL)
		w.Document = map[string]any{"end_session_endpoint": address}
		p, err := w.cache.Provider(t.Context(), w.set)
		if err != nil {
			t.Fatal(err)
		}
		got := p.EndURL("a token", "https://gateway.example/login")
		if (got != "") != ok || ok && !strings.HasPrefix(got, strings.TrimSuffix(address, "?x=1")) {
			t.Errorf("%q: a browser is sent to %q", address, got)
		}
	}
}
