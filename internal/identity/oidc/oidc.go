// Package oidc signs people in at an identity provider with OpenID Connect: it begins the
// authorization code flow with PKCE, exchanges the code, verifies the ID token, and verifies
// tokens of back-channel logout.
//
// It guarantees that an ID token is of this provider, for this client and this flow, signed
// with a key of the provider in an asymmetric algorithm, and that every address it names
// is requested through the guarded client. It does not decide who may sign in, remembers
// nothing between a flow's requests, and sends nobody anywhere: the caller does.
//
// https://openid.net/specs/openid-connect-core-1_0.html
package oidc

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"modelgate/internal/base/secret"
)

// Methods of client authentication at the token endpoint, as discovery documents name
// them.
const (
	SecretBasic = "client_secret_basic"
	SecretPost  = "client_secret_post"
	PrivateKey  = "private_key_jwt"
	NoSecret    = "none"
)

// Settings are how an organisation's identity provider is used.
type Settings struct {
	Issuer      string // exactly as the provider spells it
	ClientID    string
	Secret      secret.String // the client secret, or the private key (JWK or PEM) for PrivateKey
	Method      string        // one of these constants; empty is SecretBasic
	Scopes      []string      // in addition to baseScopes
	GroupsClaim string        // name of the claim with groups; dots separate nested names. Empty is none
	RedirectURL string        // where the provider sends the browser

	// Allow returns an error for an address that the organisation lets nothing be requested
	// from. Nil allows all.
	Allow func(*url.URL) error
}

// checkAllowed returns a *Refusal unless each address may be requested. An empty address is
// not requested.
func (s *Settings) checkAllowed(addresses ...string) error {
	if s.Allow == nil {
		return nil
	}
	for _, address := range addresses {
		if address == "" {
			continue
		}
		u, err := url.Parse(address)
		if err == nil {
			err = s.Allow(u)
		}
		if err != nil {
			return &Refusal{Reason: "egress", Err: err}
		}
	}
	return nil
}

// baseScopes are requested in every flow.
var baseScopes = []string{"openid", "profile", "email", offline}

// offline is left out where a provider lists its scopes without it: some refuse flows with
// a scope that they do not know.
const offline = "offline_access"

// scopes returns all scopes of a flow, each once.
func (p *Provider) scopes() []string {
	list := slices.Clone(baseScopes)
	if len(p.doc.Scopes) > 0 && !slices.Contains(p.doc.Scopes, offline) {
		list = slices.DeleteFunc(list, func(name string) bool { return name == offline })
	}
	for _, name := range p.set.Scopes {
		if name = strings.TrimSpace(name); name != "" && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}

// Doer sends requests without following redirects. A guarded request may go only where
// clients may send requests. upstream.Client implements it.
type Doer interface {
	Do(req *http.Request, guarded bool) (*http.Response, error)
}

// Refusal is why a sign-in or a logout token was refused.
type Refusal struct {
	Reason string    // a short constant for logs, such as audience
	Err    error     // says more to administrators; contains no token and no code
	Since  time.Time // when the provider was first found away; zero for other reasons
}

// Error implements error.
func (r *Refusal) Error() string { return r.Err.Error() }

// Unwrap returns the cause.
func (r *Refusal) Unwrap() error { return r.Err }

func refuse(reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Err: fmt.Errorf(format, args...)}
}

// ReasonOf returns the reason of a refusal, "error" for other errors.
func ReasonOf(err error) string {
	if r, ok := errors.AsType[*Refusal](err); ok {
		return r.Reason
	}
	return "error"
}

// fresh is the age from which a discovery document is read again. If that fails the
// old one is used on. Without an old one it is read again after a pause, so that people who
// try to sign in do not wait in a row for a provider that is away.
const fresh = time.Hour

// Cache has the discovery documents and keys of identity providers. It is safe for
// concurrent use.
type Cache struct {
	// Scopes are requested from every provider in addition to its own. They are set before
	// the cache is used.
	Scopes []string

	client Doer
	now    func() time.Time

	mu    sync.Mutex
	known map[[sha256.Size]byte]*entry // guarded by mu, like what is in it
}

type entry struct {
	mu   sync.Mutex // held while the document is read
	doc  *document
	err  error     // of the last attempt, if there is no document
	away time.Time // of the first attempt without a document
	read time.Time
}

// maxKnown is the limit of cached providers. Above it the cache begins again.
const maxKnown = 1000

// NewCache returns an empty cache. Now is the clock; nil is time.Now.
func NewCache(client Doer, now func() time.Time) *Cache {
	if now == nil {
		now = time.Now
	}
	return &Cache{client: client, now: now, known: make(map[[sha256.Size]byte]*entry)}
}

// Provider is an identity provider that can be used. It is safe for concurrent use.
type Provider struct {
	set Settings
	doc *document
	now func() time.Time
}

// Provider returns the identity provider with these settings. It reads the provider's
// discovery document unless a recent one is cached. The error is a *Refusal.
func (c *Cache) Provider(ctx context.Context, set Settings) (*Provider, error) {
	if err := set.checkAllowed(set.Issuer); err != nil {
		return nil, err
	}
	id := sha256.Sum256([]byte(set.Issuer))
	c.mu.Lock()
	if len(c.known) >= maxKnown {
		clear(c.known)
	}
	e := c.known[id]
	if e == nil {
		e = new(entry)
		c.known[id] = e
	}
	c.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	now := c.now()
	if e.doc == nil && now.Sub(e.read) > pause || now.Sub(e.read) > fresh {
		doc, err := c.discover(context.WithoutCancel(ctx), set.Issuer)
		if e.err = err; err == nil {
			e.doc = doc
		} else if e.away.IsZero() {
			e.away = now
		}
		e.read = now
	}
	if e.doc == nil {
		return nil, &Refusal{ReasonOf(e.err), e.err, e.away}
	}
	if err := set.checkAllowed(e.doc.Keys, e.doc.Token, e.doc.UserInfo); err != nil {
		return nil, err
	}
	set.Scopes = slices.Concat(set.Scopes, c.Scopes)
	return &Provider{set, e.doc, c.now}, nil
}

// Forget makes the next use of an issuer read its discovery document.
func (c *Cache) Forget(issuer string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, sha256.Sum256([]byte(issuer)))
}

// Flow is what a flow must remember between its two requests. All of it is secret
// from everybody but the browser that began it.
type Flow struct {
	State    string // names the flow in both requests
	Nonce    string // ties the ID token to the flow
	Verifier string // PKCE code verifier
}

// NewFlow returns a flow with random values.
func NewFlow() Flow {
	return Flow{State: oauth2.GenerateVerifier(), Nonce: oauth2.GenerateVerifier(), Verifier: oauth2.GenerateVerifier()}
}

// StartURL returns the address of the provider to which the browser must go. Fresh asks
// the provider to authenticate the person again.
func (p *Provider) StartURL(f Flow, fresh bool) string {
	options := []oauth2.AuthCodeOption{oidc.Nonce(f.Nonce), oauth2.S256ChallengeOption(f.Verifier)}
	if fresh {
		options = append(options, oauth2.SetAuthURLParam("max_age", "0"), oauth2.SetAuthURLParam("prompt", "login"))
	}
	return p.oauth().AuthCodeURL(f.State, options...)
}

// EndURL returns the address at which the browser ends the session at the provider, for
// the ID token of the sign-in, and from which it returns to back. It is empty if the
// provider has none that a browser may open: a page of the gateway sends it there.
// https://openid.net/specs/openid-connect-rpinitiated-1_0.html
func (p *Provider) EndURL(idToken, back string) string {
	u, err := url.Parse(p.doc.EndSession)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return ""
	}
	q := u.Query()
	q.Set("client_id", p.set.ClientID)
	q.Set("post_logout_redirect_uri", back)
	if idToken != "" {
		q.Set("id_token_hint", idToken)
	}
	u.RawQuery = q.Encode()
	return u.String()
}

func (p *Provider) oauth() *oauth2.Config {
	c := &oauth2.Config{
		ClientID: p.set.ClientID, Endpoint: p.doc.provider.Endpoint(), RedirectURL: p.set.RedirectURL, Scopes: p.scopes(),
	}
	c.Endpoint.AuthStyle = oauth2.AuthStyleInHeader
	switch p.set.Method {
	case "", SecretBasic:
		c.ClientSecret = p.set.Secret.Reveal()
	case SecretPost:
		c.ClientSecret, c.Endpoint.AuthStyle = p.set.Secret.Reveal(), oauth2.AuthStyleInParams
	default:
		c.Endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	return c
}
