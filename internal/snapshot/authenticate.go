package snapshot

import (
	"net/http"
	"strings"
	"time"

	"modelgate/api"
	"modelgate/internal/access"
	"modelgate/internal/apierr"
	"modelgate/internal/jwt"
)

// clientKeys are the headers, besides the bearer token, in which the official
// clients of the dialects send the one key they have.
var clientKeys = [...]string{"X-Api-Key", "X-Goog-Api-Key"}

// Authenticate finds the owner of the gateway key or token in h. own is true when the
// key was in its own header; otherwise a bearer token or the key header of
// an official client was taken, so that a standard client needs no more than a
// base URL and a key, and must then not be taken for a provider's credential.
func (s *Snapshot) Authenticate(h http.Header, now time.Time) (id *access.Identity, own bool, err error) {
	key, own := s.Credential(h)
	if key == "" {
		return nil, false, refused("no gateway key; send one in the header x-gateway-api-key").WithCode("missing_api_key")
	}
	if id, err = s.owner(key, now); err != nil {
		return nil, false, err
	}
	return id, own, nil
}

// Credential returns the text of the gateway key or token in h, empty for none,
// with own as [Snapshot.Authenticate] returns it.
func (s *Snapshot) Credential(h http.Header) (key string, own bool) {
	key = first(h, api.HeaderKey)
	for i := 0; key == "" && i < len(s.HeaderPrefixes); i++ {
		key = first(h, s.HeaderPrefixes[i]+strings.TrimPrefix(api.HeaderKey, api.HeaderPrefix))
	}
	if own = key != ""; !own {
		key = Bearer(h)
	}
	for i := 0; key == "" && i < len(clientKeys); i++ {
		key = first(h, clientKeys[i])
	}
	return key, own
}

// TokenVerifier checks the JSON Web Tokens of organisations' own issuers; hash is the
// token's. An error is an *apierr.Error that does not quote it.
type TokenVerifier interface {
	Verify(token string, hash access.Hash, now time.Time) (*access.Identity, error)
}

// owner returns who a gateway key or a token stands for. What is known as a key
// is no token, whatever it looks like.
func (s *Snapshot) owner(key string, now time.Time) (*access.Identity, error) {
	hash := access.HashKey(key)
	id, ok := s.identity(hash)
	switch {
	case ok && id.Expired(now):
		return nil, refused("the gateway key has expired; create another").WithCode("expired_api_key")
	case ok:
		return id, nil
	case s.tokens != nil && jwt.LooksLikeToken(key):
		return s.tokens.Verify(key, hash, now)
	}
	return nil, refused("the gateway key is not known; check the header x-gateway-api-key")
}

// Token returns what a token proves, and an error of kind Unauthenticated for
// what has not the form of one.
func (s *Snapshot) Token(text string, now time.Time) (*access.Identity, error) {
	if s.tokens == nil || !jwt.LooksLikeToken(text) {
		return nil, refused("this is no token")
	}
	return s.tokens.Verify(text, access.HashKey(text), now)
}

// IsCredential reports whether text is a gateway key, an ended one too, or a token that
// counts at now.
func (s *Snapshot) IsCredential(text string, now time.Time) bool {
	if _, ok := s.Identity(text); ok {
		return true
	}
	_, err := s.Token(text, now)
	return err == nil
}

func refused(message string) *apierr.Error {
	return apierr.New(apierr.Unauthenticated, "%s", message).WithParam("x-gateway-api-key")
}

// Bearer returns the token of the Authorization header, empty when there is none.
func Bearer(h http.Header) string {
	const scheme = "bearer "
	v := first(h, "Authorization")
	if len(v) > len(scheme) && strings.EqualFold(v[:len(scheme)], scheme) {
		return strings.TrimSpace(v[len(scheme):])
	}
	return ""
}

// first returns a header that stands once. One that stands twice is ambiguous
// and counts as absent.
func first(h http.Header, name string) string {
	if v := h[name]; len(v) == 1 {
		return v[0]
	}
	return ""
}
