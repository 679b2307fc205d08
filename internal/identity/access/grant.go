package access

import (
	"encoding/base64"
	"strings"

	"modelgate/internal/base/secret"
)

// Prefixes of the tokens that clients get for a grant of a user: access tokens, and the
// codes and refresh tokens with which they get them.
const (
	accessPrefix  = KeyPrefix + "at_"
	refreshPrefix = "mgo-"
)

// ServerTokenPrefix begins the sealed credentials with which providers call tool servers for a
// request. They count as access tokens; see [IsAccessToken].
const ServerTokenPrefix = accessPrefix + "s_"

// AccessToken is what an access token of a client says. The token is not stored: it is
// authenticated with the signing secret of its grant.
type AccessToken struct {
	Grant   string `json:"g"` // id
	Expires int64  `json:"e"` // in Unix seconds
	Nonce   string `json:"n"`
}

// NewAccessToken returns a token that says t.
func NewAccessToken(signing secret.String, t AccessToken) (secret.String, error) {
	t.Nonce = newNonce()
	return newSigned(accessPrefix, signing, t)
}

// IsAccessToken reports whether text looks like an access token of a client.
func IsAccessToken(text string) bool { return strings.HasPrefix(text, accessPrefix) }

// ParseAccessToken returns what a token says, if signing returns the secret of its grant and
// the token is signed with it. It does not check when the token expires.
func ParseAccessToken(token string, signing func(grant string) (secret.String, bool)) (t AccessToken, ok bool) {
	ok = parseSigned(accessPrefix, token, &t, func() (secret.String, bool) { return signing(t.Grant) })
	return t, ok
}

// NewCode returns a new authorization code with 256 random bits.
func NewCode() secret.String { return fresh(refreshPrefix) }

// RefreshToken is a refresh token: a part that all tokens of a grant share, by which one that
// was replaced is recognised, and one of its own.
type RefreshToken struct{ Family, Own secret.String }

// NewRefreshToken returns the first refresh token of a grant.
func NewRefreshToken() RefreshToken { return RefreshToken{fresh(""), fresh("")} }

// Next returns the token that replaces t. It is the same whenever t is used, so that a client
// whose response was lost gets it again.
func (t RefreshToken) Next(signing secret.String) RefreshToken {
	own := base64.RawURLEncoding.EncodeToString(signature(refreshPrefix, signing, t.Own.Reveal()))
	return RefreshToken{t.Family, secret.New(own)}
}

// Text returns the token as clients send it.
func (t RefreshToken) Text() secret.String {
	return secret.New(refreshPrefix + t.Family.Reveal() + "." + t.Own.Reveal())
}

// ParseRefreshToken returns the parts of a refresh token, and false if text is none.
func ParseRefreshToken(text string) (t RefreshToken, ok bool) {
	rest, ok := strings.CutPrefix(text, refreshPrefix)
	family, own, isPair := strings.Cut(rest, ".")
	if !ok || !isPair || len(family) != tokenLength || len(own) != tokenLength {
		return t, false
	}
	return RefreshToken{secret.New(family), secret.New(own)}, true
}
