package auth

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"modelgate/internal/base/apierr"
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

func (c *ClientCredentials) key() key {
	return keyOf("client", c.TokenURL, c.ID, c.Secret.Reveal(), strings.Join(c.Scopes, " "), c.Resource)
}

// ClientToken returns an access token, which is fetched once for all callers and renewed
// before it expires. A failure that may pass is retried once. Errors are *apierr.Error, except
// for those of a context that ended.
func (s *Signer) ClientToken(ctx context.Context, c ClientCredentials) (secret.String, error) {
	return s.tokens.get(ctx, c.key(), func(ctx context.Context) (secret.String, time.Time, error) {
		token, end, err := s.fetchClientToken(ctx, &c)
		e, _ := errors.AsType[*apierr.Error](err)
		if e != nil && (e.Kind == apierr.UpstreamFailed || e.Kind == apierr.UpstreamTimeout) && ctx.Err() == nil {
			token, end, err = s.fetchClientToken(ctx, &c)
		}
		return token, end, err
	})
}

// ForgetClientToken makes the next ClientToken fetch another token, if the cached one is this
// one, which its server refused.
func (s *Signer) ForgetClientToken(c ClientCredentials, token secret.String) {
	s.tokens.forget(c.key(), func(held secret.String) bool { return held == token })
}

func (s *Signer) fetchClientToken(ctx context.Context, c *ClientCredentials) (secret.String, time.Time, error) {
	values := url.Values{"grant_type": {"client_credentials"}}
	if len(c.Scopes) > 0 {
		values.Set("scope", strings.Join(c.Scopes, " "))
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
}
