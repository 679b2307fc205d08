package server

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/directory"
	"modelgate/internal/controlplane/oauth"
	"modelgate/internal/controlplane/sessions"
	"modelgate/internal/controlplane/signin"
	"modelgate/internal/identity/access"
	wire "modelgate/internal/identity/oauth"
	"modelgate/internal/identity/oidc"
	"modelgate/internal/identity/saml"
	"modelgate/internal/limits/inbound"
	"modelgate/internal/snapshot"
	"modelgate/internal/store"
)

// authenticate returns the identity of a control-plane request: of a gateway key, a
// token or a session.
func (s *Server) authenticate(r *http.Request) (*access.Identity, error) {
	for _, name := range []string{api.HeaderKey, "Authorization"} {
		if n := len(r.Header[name]); n > 1 { // others may read another one
			return nil, apierr.New(apierr.Invalid, "the header %s was sent %d times; send it once", strings.ToLower(name), n).
				WithParam(strings.ToLower(name)).WithCode("duplicate_header")
		}
	}
	if err := s.holder.Load().CheckOneKey(r.Header); err != nil {
		return nil, err
	}
	token := r.Header.Get(api.HeaderKey)
	if token == "" {
		token = snapshot.Bearer(r.Header)
	}
	var id *access.Identity
	var err error
	if key, _ := s.holder.Load().Credential(r.Header); key == "" {
		if token, err = cookieToken(r); err != nil {
			return nil, err
		}
	}
	switch token = strings.TrimSpace(token); {
	case access.IsDirectoryToken(token):
		id, err = directory.Identify(r.Context(), s.store, directory.Use{Token: token, Now: time.Now(), Logger: s.Logger})
	case access.IsSessionToken(token):
		id, err = sessions.Identify(r.Context(), s.store, sessions.Use{
			Token: token, Address: clientHost(r), Now: time.Now(), Lifetimes: s.sessionLifetimes(), Logger: s.Logger,
		})
	default:
		id, _, err = s.holder.Load().Authenticate(r.Header, time.Now())
	}
	if err == nil {
		err = id.CheckAddress(r.RemoteAddr)
	}
	if err != nil {
		s.countKeyless(err)
		return nil, err
	}
	inbound.MarkAuthenticated(r.Context())
	return id, nil
}

// crossOrigin rejects requests that another site made a browser send.
var crossOrigin = http.NewCrossOriginProtection()

// cookieToken returns the session's token in the cookie of a browser, empty if there is
// none. It is accepted only from pages of the gateway's own origin, also for reading.
func cookieToken(r *http.Request) (string, error) {
	cookies := r.CookiesNamed(access.SessionCookie)
	if len(cookies) == 0 || !access.IsSessionToken(cookies[0].Value) {
		return "", nil
	}
	// One of several may be set by another host of the domain.
	if slices.ContainsFunc(cookies, func(k *http.Cookie) bool { return k.Value != cookies[0].Value }) {
		return "", apierr.New(apierr.Unauthenticated, "the request has several sessions; delete the cookies and sign in again")
	}
	site := r.Header.Get("Sec-Fetch-Site")
	if crossOrigin.Check(r) != nil || site != "" && site != "same-origin" && site != "none" {
		return "", apierr.New(apierr.Forbidden, "sessions in cookies can be used only by pages of the gateway itself; send a key")
	}
	return cookies[0].Value, nil
}

// clientHost returns the client's address without its port.
func clientHost(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// sessionLifetimes returns the lifetimes of sessions in the current settings.
func (s *Server) sessionLifetimes() sessions.Lifetimes {
	if l := s.lifetimes.Load(); l != nil {
		return *l
	}
	return sessions.Lifetimes{}
}

// signIn returns the routes of signing in at identity providers.
func (s *Server) signIn() signin.Routes {
	providers := oidc.NewCache(s.engine.Client, nil)
	providers.Scopes = s.OIDCScopes
	return signin.Routes{
		Protocols: signin.Protocols{OIDC: providers, SAML: saml.NewCache(s.engine.Client, nil)}, Count: s.metrics.signIn,
		Lifetime: s.sessionAbsolute,
	}
}

// oauth returns the routes of the authorization server.
func (s *Server) oauth() oauth.Routes {
	return oauth.Routes{
		Lifetime: s.sessionAbsolute, Documents: wire.NewDocuments(s.engine.Client),
		Settings: func() oauth.Settings {
			set := s.current().settings.OAuth
			return oauth.Settings{Registration: set.Registration, AccessToken: set.AccessToken.Or(0)}
		},
	}
}

// sessionAbsolute returns how long a session may be.
func (s *Server) sessionAbsolute() time.Duration { return s.sessionLifetimes().OrDefaults().Absolute }

// token returns the identity that a token of an organisation's issuer proves.
func (s *Server) token(text string) (*access.Identity, error) {
	return s.holder.Load().Token(text, time.Now())
}

// claimLife is how long a claim link is valid.
const claimLife = 24 * time.Hour

// ensureClaim creates a claim link if the installation has no owner. Each start
// replaces the previous link.
func (s *Server) ensureClaim(ctx context.Context) error {
	if !s.store.Ready() || !s.BootstrapKey.Empty() {
		return nil
	}
	o, err := s.store.Organisation(ctx, store.DefaultOrganisation)
	if err != nil || o.OwnerID != "" {
		return err
	}
	token, now := access.NewLinkToken(), time.Now()
	err = s.store.Update(ctx, nil, func(tx *store.Tx) error {
		return tx.ReplaceClaim(ctx, store.Claim{Organisation: o.ID}, access.HashKey(token.Reveal()).String(), now, now.Add(claimLife))
	})
	s.claim = token
	return err
}

// Claim returns the token of the claim link, empty if the installation has an owner. It
// cannot be shown again.
func (s *Server) Claim() secret.String { return s.claim }
