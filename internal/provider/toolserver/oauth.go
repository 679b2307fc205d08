package toolserver

import "modelgate/internal/base/secret"

// OAuthClient are the settings of the gateway as an OAuth client of a server.
type OAuthClient struct {
	ID     string        // empty if the gateway registers itself
	Secret secret.String // empty for none
	Scopes []string

	// TokenURL and AuthorizeURL are addresses of the authorization server. If empty, metadata
	// of the server name them.
	TokenURL, AuthorizeURL string
}
