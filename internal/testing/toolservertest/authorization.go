package toolservertest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Authorization is an authorization server for tool servers. It signs in whoever comes, without
// a page, checks PKCE, redirect URIs, clients and resources, replaces each refresh token, and
// ends a grant of which one is used twice. Its fields may be changed while no request is served.
type Authorization struct {
	URL string // also the issuer

	Life          int            // of access tokens in seconds; zero is an hour
	NoRefresh     bool           // it gives no refresh tokens
	Document      map[string]any // added to the metadata; nil values remove an entry
	Answer        url.Values     // added to the query of the redirect to the client
	ClientSecrets map[string]string

	http *httptest.Server

	mu       sync.Mutex
	fail     func(path string, form url.Values) (status int, body string) // guarded by mu, like the following
	last     int
	clients  map[string][]string // redirect URIs by id
	codes    map[string]url.Values
	tokens   map[string]*grant // by access or refresh token
	requests []AuthorizationRequest
}

// grant is what a user allowed. Its fields are guarded by the lock of the server.
type grant struct {
	client, resource, scope string
	access, refresh         string // the current ones
	ended                   bool
}

// AuthorizationRequest is a request that an authorization server received.
type AuthorizationRequest struct {
	Path string
	Form url.Values
}

// NewAuthorization starts an authorization server that ends with the test.
func NewAuthorization(t testing.TB) *Authorization {
	t.Helper()
	a := &Authorization{ClientSecrets: map[string]string{}, clients: map[string][]string{}, codes: map[string]url.Values{},
		tokens: map[string]*grant{}}
	a.http = httptest.NewServer(a)
	a.URL = a.http.URL
	t.Cleanup(a.http.Close)
	return a
}

// Fail sets what is answered instead of serving a request; a status of zero serves it. Nil is
// none.
func (a *Authorization) Fail(f func(path string, form url.Values) (status int, body string)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fail = f
}

// Requests returns the requests for a path, in the order in which they came.
func (a *Authorization) Requests(path string) (found []AuthorizationRequest) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.requests {
		if r.Path == path {
			found = append(found, r)
		}
	}
	return found
}

// Expire makes all access tokens invalid; refresh tokens stay.
func (a *Authorization) Expire() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, g := range a.tokens {
		g.access = ""
	}
}

// End ends all grants.
func (a *Authorization) End() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, g := range a.tokens {
		g.ended = true
	}
}

// LastRefresh returns the refresh token of the last grant that has one.
func (a *Authorization) LastRefresh() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	for n := a.last; n > 0; n-- {
		if token := fmt.Sprintf("refresh-%d", n); a.tokens[token] != nil {
			return token
		}
	}
	return ""
}

// Allows reports whether an Authorization header is valid for a resource and has a scope.
func (a *Authorization) Allows(header, resource, scope string) (valid, enough bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	token, _ := strings.CutPrefix(header, "Bearer ")
	g := a.tokens[token]
	if g == nil || g.ended || g.access != token || g.resource != resource {
		return false, false
	}
	return true, scope == "" || slices.Contains(strings.Fields(g.scope), scope)
}

// Protect makes a tool server demand tokens of this authorization server for itself. Scope
// returns the scope that a call needs; nil needs none.
func (a *Authorization) Protect(s *Server, scope func(x *Exchange) string) {
	root := strings.TrimSuffix(s.URL, "/mcp")
	s.Handle("GET", func(x *Exchange) {
		if x.R.URL.Path != "/.well-known/oauth-protected-resource/mcp" {
			x.Default()
			return
		}
		x.write(http.StatusOK, fmt.Sprintf(`{"resource":%q,"authorization_servers":[%q],"scopes_supported":["read"]}`, s.URL, a.URL))
	})
	s.Handle("POST", func(x *Exchange) {
		needs := ""
		if scope != nil {
			needs = scope(x)
		}
		switch valid, enough := a.Allows(x.R.Header.Get("Authorization"), s.URL, needs); {
		case !valid:
			Status(http.StatusUnauthorized, "WWW-Authenticate",
				`Bearer realm="x, y", resource_metadata="`+root+`/.well-known/oauth-protected-resource/mcp", scope="read"`)(x)
		case !enough:
			Status(http.StatusForbidden, "WWW-Authenticate", `Bearer error="insufficient_scope", scope="`+needs+`"`)(x)
		default:
			x.Default()
		}
	})
}

// ServeHTTP implements http.Handler.
func (a *Authorization) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.ParseForm()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests = append(a.requests, AuthorizationRequest{r.URL.Path, r.Form})
	if a.fail != nil {
		if status, body := a.fail(r.URL.Path, r.Form); status != 0 {
			a.write(w, status, body)
			return
		}
	}
	switch r.URL.Path {
	case "/.well-known/oauth-authorization-server":
		a.metadata(w)
	case "/register":
		a.register(w, r)
	case "/authorize":
		a.authorize(w, r)
	case "/token":
		a.token(w, r)
	case "/revoke":
		if g := a.tokens[r.Form.Get("token")]; g != nil {
			g.ended = true
		}
	default:
		http.NotFound(w, r)
	}
}

func (a *Authorization) write(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write([]byte(body))
}

func (a *Authorization) metadata(w http.ResponseWriter) {
	doc := map[string]any{
		"issuer": a.URL, "authorization_endpoint": a.URL + "/authorize", "token_endpoint": a.URL + "/token",
		"registration_endpoint": a.URL + "/register", "revocation_endpoint": a.URL + "/revoke",
		"code_challenge_methods_supported":               []string{"S256"},
		"authorization_response_iss_parameter_supported": true, "token_endpoint_auth_methods_supported": []string{"none", "client_secret_basic"},
	}
	for name, v := range a.Document {
		if doc[name] = v; v == nil {
			delete(doc, name)
		}
	}
	text, _ := json.Marshal(doc)
	a.write(w, http.StatusOK, string(text))
}

func (a *Authorization) number(prefix string) string {
	a.last++
	return fmt.Sprintf("%s-%d", prefix, a.last)
}

func (a *Authorization) register(w http.ResponseWriter, r *http.Request) {
	var in struct {
		RedirectURIs []string `json:"redirect_uris"`
	}
	json.NewDecoder(r.Body).Decode(&in)
	id := a.number("client")
	a.clients[id] = in.RedirectURIs
	a.write(w, http.StatusCreated, fmt.Sprintf(`{"client_id":%q,"token_endpoint_auth_method":"none"}`, id))
}

// Client adds a client that an administrator registered.
func (a *Authorization) Client(id, password string, redirects ...string) {
	a.clients[id], a.ClientSecrets[id] = redirects, password
}

func (a *Authorization) authorize(w http.ResponseWriter, r *http.Request) {
	f := r.Form
	known := slices.Contains(a.clients[f.Get("client_id")], f.Get("redirect_uri"))
	if !known || f.Get("code_challenge_method") != "S256" || f.Get("resource") == "" {
		a.write(w, http.StatusBadRequest, `{"error":"invalid_request"}`)
		return
	}
	code := a.number("code")
	a.codes[code] = f
	q := url.Values{"code": {code}, "state": {f.Get("state")}, "iss": {a.URL}}
	for name, values := range a.Answer {
		if q[name] = values; values == nil {
			delete(q, name)
		}
	}
	http.Redirect(w, r, f.Get("redirect_uri")+"?"+q.Encode(), http.StatusFound)
}

func (a *Authorization) token(w http.ResponseWriter, r *http.Request) {
	refuse := func(code string) { a.write(w, http.StatusBadRequest, `{"error":"`+code+`"}`) }
	f := r.Form
	client, password, _ := r.BasicAuth()
	if client == "" {
		client = f.Get("client_id")
	}
	if a.ClientSecrets[client] != password {
		a.write(w, http.StatusUnauthorized, `{"error":"invalid_client"}`)
		return
	}
	switch f.Get("grant_type") {
	case "client_credentials":
		if password == "" {
			refuse("unauthorized_client")
			return
		}
		a.give(w, &grant{client: client, resource: f.Get("resource"), scope: f.Get("scope")}, false)
	case "authorization_code":
		q, ok := a.codes[f.Get("code")]
		delete(a.codes, f.Get("code"))
		sum := sha256.Sum256([]byte(f.Get("code_verifier")))
		if !ok || q.Get("client_id") != client || q.Get("redirect_uri") != f.Get("redirect_uri") || f.Get("resource") != q.Get("resource") ||
			base64.RawURLEncoding.EncodeToString(sum[:]) != q.Get("code_challenge") {
			refuse("invalid_grant")
			return
		}
		a.give(w, &grant{client: client, resource: q.Get("resource"), scope: q.Get("scope")}, !a.NoRefresh)
	case "refresh_token":
		g := a.tokens[f.Get("refresh_token")]
		if g != nil && g.refresh != f.Get("refresh_token") { // it was used before
			g.ended = true
		}
		if g == nil || g.ended || g.client != client {
			refuse("invalid_grant")
			return
		}
		a.give(w, g, true)
	default:
		refuse("unsupported_grant_type")
	}
}

// give gives the next tokens of a grant.
func (a *Authorization) give(w http.ResponseWriter, g *grant, refresh bool) {
	life := a.Life
	if life == 0 {
		life = 3600
	}
	g.access = a.number("access")
	a.tokens[g.access] = g
	more := ""
	if refresh {
		g.refresh = a.number("refresh")
		a.tokens[g.refresh] = g
		more = fmt.Sprintf(`,"refresh_token":%q`, g.refresh)
	}
	text := fmt.Sprintf(`{"access_token":%q,"token_type":"bearer","expires_in":%d,"scope":%q%s}`, g.access, life, g.scope, more)
	a.write(w, http.StatusOK, text)
}
