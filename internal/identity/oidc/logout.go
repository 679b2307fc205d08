package oidc

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
)

// Logout is a verified token of back-channel logout. Session or Subject is set.
type Logout struct {
	Subject string
	Session string // the provider's id of the session; empty ends all of the subject's
	ID      string // of the token, which must be accepted once only
	Ends    time.Time
}

// maxLogoutAge is how old a token of back-channel logout may be.
const maxLogoutAge = 10 * time.Minute

// VerifyLogout verifies a token of back-channel logout. The error is a *Refusal.
// https://openid.net/specs/openid-connect-backchannel-1_0.html#Validation
func (p *Provider) VerifyLogout(ctx context.Context, raw string) (*Logout, error) {
	now := p.now()
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, p.doc.client), requestTime)
	defer cancel()
	if strings.EqualFold(typeOf(raw), "JWT") || typeOf(raw) == "" || strings.EqualFold(typeOf(raw), "logout+jwt") {
		token, err := p.doc.provider.Verifier(&oidc.Config{
			ClientID: p.set.ClientID, SupportedSigningAlgs: algorithms, SkipExpiryCheck: true,
		}).VerifyLogout(ctx, raw)
		if err != nil {
			return nil, refusedToken(err)
		}
		switch {
		case !slices.Contains(token.Audience, p.set.ClientID):
			return nil, refuse("audience", "the logout token is for another client")
		case !now.Before(token.Expiry.Add(skew)), now.Sub(token.IssuedAt) > maxLogoutAge:
			return nil, refuse("expired", "the logout token is too old")
		case token.IssuedAt.IsZero() || token.IssuedAt.After(now.Add(skew)):
			return nil, refuse("issued_at", "the logout token has no usable iat")
		}
		return &Logout{token.Subject, token.SessionID, token.TokenID, token.Expiry.Add(skew)}, nil
	}
	return nil, refuse("type", "the token is not a logout token")
}

// typeOf returns the type that the header of a token names.
func typeOf(raw string) string {
	head, _, _ := strings.Cut(raw, ".")
	text, err := base64.RawURLEncoding.DecodeString(head)
	var h struct {
		Type string `json:"typ"`
	}
	if err != nil || json.Unmarshal(text, &h) != nil {
		return ""
	}
	return h.Type
}
