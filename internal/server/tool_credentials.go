package server

import (
	"context"
	"net/http"

	"modelgate/internal/dataplane/tools"
	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/identity/access"
	"modelgate/internal/provider/auth"
	"modelgate/internal/provider/toolserver"
)

// toolCredentials signs in to tool servers.
type toolCredentials struct{ signer *auth.Signer }

// Credential implements [tools.Credentials].
func (c toolCredentials) Credential(ctx context.Context, s *toolserver.Server, _ *access.Identity) (peer.Credential, error) {
	if s.Auth != toolserver.AuthClientCredentials || s.OAuth == nil || s.OAuth.TokenURL == "" {
		return peer.Credential{}, tools.ErrNoSignIn(s)
	}
	token, err := c.signer.ClientToken(ctx, auth.ClientCredentials{TokenURL: s.OAuth.TokenURL, Guarded: s.Guarded, ID: s.OAuth.ID,
		Secret: s.OAuth.Secret, Scopes: s.OAuth.Scopes, Resource: s.URL.String()})
	if err != nil {
		return peer.Credential{}, err
	}
	return peer.Credential{Header: http.Header{"Authorization": {"Bearer " + token.Reveal()}}}, nil
}
