package server

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/egress"
	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/toolservers"
	"modelgate/internal/dataplane/tools"
	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/identity/access"
	"modelgate/internal/provider/auth"
	"modelgate/internal/provider/toolauth"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/server/connections"
	"modelgate/internal/store"
)

// toolCredentials signs in to tool servers.
type toolCredentials struct {
	signer *auth.Signer
	client *toolauth.Client
	users  *connections.Service
	egress func(organisation, workspace string) *egress.Policies

	mu    sync.Mutex
	wider map[widerKey][]string // scopes that servers asked for; guarded by mu
}

// widerKey is a server as its integration is now.
type widerKey struct {
	server   string // id
	revision int64
}

// newToolCredentials returns what signs in to tool servers.
func (s *Server) newToolCredentials() *toolCredentials {
	c := &toolCredentials{signer: auth.New(auth.Options{Client: s.engine.Client}), client: toolauth.New(s.engine.Client, nil),
		egress: s.egressPolicies, wider: make(map[widerKey][]string)}
	o := connections.Options{DB: s.store, Links: toolauth.Links{Box: s.box, Address: s.URL}, Client: c.client, Egress: s.egressPolicies,
		Logger: s.Logger}
	if s.ring != nil && s.box != nil {
		o.Secrets = s.ring
	}
	c.users = connections.New(o)
	s.store.OnEnded(c.users.Revoke)
	return c
}

// signIn returns how the control plane signs users in to tool servers.
func (c *toolCredentials) signIn() *toolservers.SignIn {
	return &toolservers.SignIn{Client: c.client, Links: c.users.Links, Forget: c.users.Forget}
}

// Credential implements [tools.Credentials].
func (c *toolCredentials) Credential(ctx context.Context, s *toolserver.Server, id *access.Identity) (peer.Credential, error) {
	switch {
	case s.URL == nil:
		return peer.Credential{}, tools.ErrNoSignIn(s)
	case s.Auth == toolserver.AuthUser:
		return c.users.Credential(ctx, s, id)
	case s.OAuth == nil:
		return peer.Credential{}, tools.ErrNoSignIn(s)
	}
	token, err := c.clientToken(ctx, s)
	if err != nil {
		return peer.Credential{}, err
	}
	return peer.Credential{
		Header: http.Header{"Authorization": {"Bearer " + token.Reveal()}},
		Renew: func(ctx context.Context, sent string, f *peer.Failure, tried int) (string, error) {
			return c.renew(ctx, s, refusal{sent, f, tried})
		},
	}, nil
}

// clientCredentials returns what the gateway itself signs in with.
func (c *toolCredentials) clientCredentials(ctx context.Context, s *toolserver.Server) (auth.ClientCredentials, error) {
	out := auth.ClientCredentials{Guarded: s.Guarded, ID: s.OAuth.ID, Secret: s.OAuth.Secret, Scopes: s.OAuth.Scopes}
	m, err := c.client.Discover(ctx, s, func(u *url.URL) error {
		return c.egress(s.Organisation, s.Workspace).Check(egress.Request{Managed: true, Host: u})
	})
	if err != nil {
		return out, err
	}
	if err := m.CheckToken(); err != nil { // policies may have changed since
		return out, apierr.From(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if more := c.wider[widerKey{s.ID, s.Revision}]; len(more) > 0 {
		out.Scopes = toolauth.Union(out.Scopes, more)
	}
	out.TokenURL, out.Resource = m.Token, m.Resource
	return out, nil
}

func (c *toolCredentials) clientToken(ctx context.Context, s *toolserver.Server) (secret.String, error) {
	credentials, err := c.clientCredentials(ctx, s)
	if err != nil {
		return secret.String{}, err
	}
	return c.signer.ClientToken(ctx, credentials)
}

// refusal is a request that a server refused.
type refusal struct {
	sent    string // Authorization
	failure *peer.Failure
	tried   int
}

// maxWider limits the servers whose further scopes are remembered.
const maxWider = 1000

// renew returns another token of the gateway after a server refused one: it is fetched again once,
// and with more scopes if the server names some that were not asked for yet.
func (c *toolCredentials) renew(ctx context.Context, s *toolserver.Server, r refusal) (string, error) {
	if r.tried > 0 {
		return "", nil
	}
	credentials, err := c.clientCredentials(ctx, s)
	if err != nil {
		return "", err
	}
	if r.failure.Status != http.StatusUnauthorized && !c.widen(s, credentials.Scopes, r.failure.Challenge) {
		return "", nil
	}
	c.signer.ForgetClientToken(credentials, secret.New(strings.TrimPrefix(r.sent, "Bearer ")))
	token, err := c.clientToken(ctx, s)
	if err != nil {
		c.mu.Lock()
		delete(c.wider, widerKey{s.ID, s.Revision}) // they may be why
		c.mu.Unlock()
		return "", err
	}
	return "Bearer " + token.Reveal(), nil
}

// widen remembers the scopes in a challenge, and reports whether one of them is new. Scopes that
// the organisation set are all that it gives.
func (c *toolCredentials) widen(s *toolserver.Server, asked []string, text string) bool {
	if len(s.OAuth.Scopes) > 0 {
		return false
	}
	challenge := toolauth.Challenge(text)
	all := toolauth.Union(asked, strings.Fields(challenge["scope"]))
	if challenge["error"] != "insufficient_scope" || len(all) <= len(asked) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.wider) >= maxWider {
		clear(c.wider)
	}
	c.wider[widerKey{s.ID, s.Revision}] = all
	return true
}

// storedItems returns what a tool server offered when it was last read.
func (s *Server) storedItems(ctx context.Context, server string) ([]toolserver.FoundItem, error) {
	rows, _, err := s.store.ToolCapabilities(ctx, server, "", store.Page{})
	var out []toolserver.FoundItem
	for _, row := range rows {
		if !row.Gone && row.Definition != "" {
			out = append(out, toolserver.FoundItem{Item: row.Item(), Definition: []byte(row.Definition)})
		}
	}
	return out, err
}
