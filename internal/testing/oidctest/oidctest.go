// Package oidctest is an identity provider of OpenID Connect for tests. It signs in
// whoever asks for it, without a page, and misbehaves as a test tells it to.
package oidctest

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// ClientID and ClientSecret are those of the only client.
const (
	ClientID     = "gateway"
	ClientSecret = "secret-of-the-client"
)

// Provider is the identity provider. Its fields may be changed while no request is
// served.
type Provider struct {
	URL string // also the issuer; a test that changes it sends requests with Do

	// Claims are added to those of every ID token; nil values remove one.
	Claims map[string]any
	// UserInfo are the claims of the userinfo endpoint, in addition to sub. Nil has no
	// endpoint.
	UserInfo map[string]any
	// Document is added to the discovery document; nil values remove an entry.
	Document map[string]any
	// Answer is added to the query of the redirect to the client.
	Answer url.Values
	// Sign replaces the signature of ID tokens and of logout tokens. Nil signs with the key.
	Sign func(claims map[string]any) string
	// KeysDown makes the keys unavailable.
	KeysDown bool
	// Exchanging is called when a code is exchanged, before the response. Nil is not called.
	Exchanging func()
	// Clock is added to the provider's time.
	Clock time.Duration

	server *httptest.Server
	mu     sync.Mutex
	key    *rsa.PrivateKey
	kid    string
	codes  map[string]url.Values // of flows, by code
	starts []url.Values
	forms  []url.Values
	keys   int // how often the keys were asked for
}

// New starts a provider, which stops with the test.
func New(t testing.TB) *Provider {
	p := &Provider{codes: make(map[string]url.Values)}
	p.Rotate(t)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.document)
	mux.HandleFunc("GET /keys", p.serveKeys)
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	mux.HandleFunc("GET /userinfo", p.userinfo)
	p.server = httptest.NewServer(mux)
	p.URL = p.server.URL
	t.Cleanup(p.server.Close)
	return p
}

// Do sends a request for the provider's URL to the provider, whatever the URL is. It
// implements oidc.Doer.
func (p *Provider) Do(r *http.Request, _ bool) (*http.Response, error) {
	address, ok := strings.CutPrefix(r.URL.String(), p.URL)
	if !ok {
		return nil, fmt.Errorf("%s is not the provider", r.URL.Host)
	}
	u, err := url.Parse(p.server.URL + address)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.URL, r.Host = u, u.Host
	return http.DefaultTransport.RoundTrip(r)
}

// Close stops the provider before the test ends.
func (p *Provider) Close() { p.server.Close() }

// Rotate replaces the provider's key.
func (p *Provider) Rotate(t testing.TB) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.key, p.kid = key, rand.Text()
}

// KeyRequests returns how often the keys were asked for.
func (p *Provider) KeyRequests() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.keys
}

// Starts returns the queries with which flows began, and Forms those of the token
// endpoint.
func (p *Provider) Starts() []url.Values {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.starts
}

// Forms returns the requests of the token endpoint.
func (p *Provider) Forms() []url.Values {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.forms
}

func (p *Provider) document(w http.ResponseWriter, _ *http.Request) {
	doc := map[string]any{
		"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
		"id_token_signing_alg_values_supported": []string{"RS256"}, "response_types_supported": []string{"code"},
		"subject_types_supported": []string{"public"}, "end_session_endpoint": p.URL + "/end", "backchannel_logout_supported": true,
	}
	if p.UserInfo != nil {
		doc["userinfo_endpoint"] = p.URL + "/userinfo"
	}
	merge(doc, p.Document)
	reply(w, doc)
}

func merge(to, more map[string]any) {
	maps.Copy(to, more)
	maps.DeleteFunc(to, func(_ string, v any) bool { return v == nil })
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v)
}

// Key returns the public key with its id.
func (p *Provider) Key() jose.JSONWebKey {
	p.mu.Lock()
	defer p.mu.Unlock()
	return jose.JSONWebKey{Key: p.key.Public(), KeyID: p.kid, Algorithm: "RS256", Use: "sig"}
}

func (p *Provider) serveKeys(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	p.keys++
	p.mu.Unlock()
	if p.KeysDown {
		http.Error(w, "no keys", http.StatusServiceUnavailable)
		return
	}
	reply(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{p.Key()}})
}

func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	back, err := url.Parse(q.Get("redirect_uri"))
	if err != nil || q.Get("client_id") != ClientID || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" {
		http.Error(w, "invalid_request", http.StatusBadRequest)
		return
	}
	code := rand.Text()
	p.mu.Lock()
	p.codes[code] = q
	p.starts = append(p.starts, q)
	p.mu.Unlock()
	answer := url.Values{"code": {code}, "state": {q.Get("state")}}
	maps.Copy(answer, p.Answer)
	back.RawQuery = answer.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound)
}

func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	if p.Exchanging != nil {
		p.Exchanging()
	}
	r.ParseForm()
	p.mu.Lock()
	flow, known := p.codes[r.PostForm.Get("code")]
	delete(p.codes, r.PostForm.Get("code"))
	p.forms = append(p.forms, r.PostForm)
	p.mu.Unlock()
	id, secret, basic := r.BasicAuth()
	if !basic {
		id, secret = r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
	}
	sum := sha256.Sum256([]byte(r.PostForm.Get("code_verifier")))
	w.Header().Set("Content-Type", "application/json")
	switch {
	case id != ClientID || secret != ClientSecret && r.PostForm.Get("client_assertion") == "":
		w.WriteHeader(http.StatusUnauthorized)
		reply(w, map[string]string{"error": "invalid_client"})
	case !known, flow.Get("redirect_uri") != r.PostForm.Get("redirect_uri"),
		base64.RawURLEncoding.EncodeToString(sum[:]) != flow.Get("code_challenge"):
		w.WriteHeader(http.StatusBadRequest)
		reply(w, map[string]string{"error": "invalid_grant", "error_description": "the code is spent, or of another flow"})
	default:
		reply(w, map[string]any{"access_token": "access", "token_type": "Bearer", "expires_in": 60, "id_token": p.IDToken(flow.Get("nonce"))})
	}
}

func (p *Provider) userinfo(w http.ResponseWriter, _ *http.Request) {
	info := map[string]any{"sub": "ada"}
	merge(info, p.UserInfo)
	reply(w, info)
}

// IDToken returns an ID token for a nonce.
func (p *Provider) IDToken(nonce string) string {
	now := time.Now().Add(p.Clock)
	c := map[string]any{
		"iss": p.URL, "aud": ClientID, "sub": "ada", "nonce": nonce, "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(),
		"email": "ada@example.com", "email_verified": true, "given_name": "Ada", "family_name": "Lovelace", "sid": "session-1",
	}
	merge(c, p.Claims)
	return p.signed(c, "JWT")
}

// LogoutToken returns a token of back-channel logout with further claims; nil values
// remove one.
func (p *Provider) LogoutToken(more map[string]any) string {
	now := time.Now().Add(p.Clock)
	c := map[string]any{
		"iss": p.URL, "aud": ClientID, "sub": "ada", "sid": "session-1", "jti": rand.Text(),
		"iat": now.Unix(), "exp": now.Add(time.Minute).Unix(),
		"events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}},
	}
	merge(c, more)
	return p.signed(c, "logout+jwt")
}

func (p *Provider) signed(claims map[string]any, typ string) string {
	if p.Sign != nil {
		return p.Sign(claims)
	}
	p.mu.Lock()
	key := jose.JSONWebKey{Key: p.key, KeyID: p.kid}
	p.mu.Unlock()
	return Signed(jose.RS256, key, claims, typ)
}

// Signed returns a token with these claims alone.
func (p *Provider) Signed(claims map[string]any) string { return p.signed(claims, "JWT") }

// Signed returns claims signed with a key.
func Signed(algorithm jose.SignatureAlgorithm, key any, claims map[string]any, typ string) string {
	options := (&jose.SignerOptions{}).WithType(jose.ContentType(typ))
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, options)
	if err != nil {
		panic(err)
	}
	text, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		panic(err)
	}
	return text
}
