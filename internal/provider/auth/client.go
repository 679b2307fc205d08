package auth

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"modelgate/internal/base/secret"
)

// ClientCredentials are those of the gateway as an OAuth client, for a token that is the same
// for all callers (RFC 6749, section 4.4).
type ClientCredentials struct {
	TokenURL string
	Guarded  bool // a tenant chose the address
	ID       string
	Secret   secret.String
	Scopes   []string
	Resource string // address that the token is for (RFC 8707); empty for none
}

// ClientToken returns an access token, which is fetched once for all callers and renewed
// before it expires. Errors are *apierr.Error, except for those of a context that ended.
func (s *Signer) ClientToken(ctx context.Context, c ClientCredentials) (secret.String, error) {
	scope := strings.Join(c.Scopes, " ")
	k := keyOf("client", c.TokenURL, c.ID, c.Secret.Reveal(), scope, c.Resource)
	return s.tokens.get(ctx, k, func(ctx context.Context) (secret.String, time.Time, error) {
		values := url.Values{"grant_type": {"client_credentials"}}
		if scope != "" {
			values.Set("scope", scope)
		}
		if c.Resource != "" {
			values.Set("resource", c.Resource)
		}
		q := form(c.TokenURL, values)
		q.guarded = c.Guarded
		q.sign = func(r *http.Request) error { // RFC 6749, section 2.3.1
			r.SetBasicAuth(url.QueryEscape(c.ID), url.QueryEscape(c.Secret.Reveal()))
			return nil
		}
		return s.token(ctx, q)
	})
}
