package snapshot

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/identity/access"
	"modelgate/internal/identity/jwt"
)

// clientKeys are the headers, in addition to the bearer token, in which official
// clients of the dialects send their key.
var clientKeys = [...]string{"X-Api-Key", "X-Goog-Api-Key"}

// Authenticate returns the owner of the gateway key or token in h. Own reports whether
// the key was in its own header. Otherwise it was a bearer token or in a header of an
// official client, so that standard clients need only a base URL and a key; it must
// then not be used as a provider credential.
//
// Access tokens of clients are refused; see [Snapshot.AuthenticateTools].
func (s *Snapshot) Authenticate(h http.Header, now time.Time) (id *access.Identity, own bool, err error) {
	return s.authenticate(h, func(key string) (*access.Identity, error) { return s.owner(key, now) })
}

// AuthenticateTools does what Authenticate does for a request to the address of a tool server or bundle, by
// its slug; empty is the address of all. Access tokens that are for this address are valid too.
func (s *Snapshot) AuthenticateTools(h http.Header, resource string, now time.Time) (id *access.Identity, own bool, err error) {
	return s.authenticate(h, func(key string) (*access.Identity, error) {
		if access.IsAccessToken(key) {
			return s.grantOwner(key, resource, now)
		}
		return s.owner(key, now)
	})
}

func (s *Snapshot) authenticate(h http.Header, owner func(key string) (*access.Identity, error)) (*access.Identity, bool, error) {
	if err := s.CheckOneKey(h); err != nil {
		return nil, false, err
	}
	key, own := s.Credential(h)
	if key == "" {
		return nil, false, refused("no gateway key; send one in the header x-gateway-api-key").WithCode("missing_api_key")
	}
	id, err := owner(key)
	if err != nil {
		return nil, false, err
	}
	return id, own, nil
}

// CheckOneKey returns an error if h has several gateway keys, in one header family or in
// several: a proxy may read another of them.
func (s *Snapshot) CheckOneKey(h http.Header) error {
	n := len(h[api.HeaderKey])
	for _, prefix := range s.HeaderPrefixes {
		n += len(h[prefix+strings.TrimPrefix(api.HeaderKey, api.HeaderPrefix)])
	}
	if n > 1 {
		return apierr.New(apierr.Invalid, "the header x-gateway-api-key was sent %d times, with those of other prefixes; send it once", n).
			WithParam(strings.ToLower(api.HeaderKey)).WithCode("duplicate_header")
	}
	return nil
}

// Credential returns the gateway key or token in h, empty for none, and own like
// [Snapshot.Authenticate].
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

// KeyOwner returns the identity of a gateway key by its hash. An error means that the key is
// not valid at now.
func (s *Snapshot) KeyOwner(hash access.Hash, now time.Time) (*access.Identity, error) {
	id, ok := s.identity(hash)
	if !ok || id.Disabled || id.Expired(now) {
		return nil, refused("the gateway key of this work has expired, or was disabled or deleted")
	}
	return id, nil
}

// TokenVerifier verifies the JSON Web Tokens of organisations' issuers; hash is the
// token's hash. An error is an *apierr.Error that does not contain the token.
type TokenVerifier interface {
	Verify(token string, hash access.Hash, now time.Time) (*access.Identity, error)
}

// owner returns the owner of a gateway key or token. A known key is never treated as a
// token.
func (s *Snapshot) owner(key string, now time.Time) (*access.Identity, error) {
	if access.IsWorkloadKey(key) {
		return s.workloadOwner(key, now)
	}
	if access.IsAccessToken(key) {
		return nil, refused("access tokens of clients are for tool servers only; send a gateway key").WithCode("wrong_audience")
	}
	hash := access.HashKey(key)
	id, ok := s.identity(hash)
	switch {
	case ok && id.Disabled:
		return nil, refused("the gateway key is disabled; ask an admin to enable it, or use another").WithCode("disabled_api_key")
	case ok && id.Expired(now):
		return nil, refused("the gateway key has expired; create another").WithCode("expired_api_key")
	case ok && len(key) < access.MinKeyBytes:
		return nil, refused(fmt.Sprintf("the gateway key has fewer than %d bytes and could be guessed; replace it",
			access.MinKeyBytes)).WithCode("short_api_key")
	case ok:
		return id, nil
	case s.tokens != nil && jwt.LooksLikeToken(key):
		return s.tokens.Verify(key, hash, now)
	}
	return nil, refused("the gateway key is unknown; check the header x-gateway-api-key")
}

// Token returns the identity that a token, or a short-lived key of a workload, proves. Text
// that does not look like one is an error of kind Unauthenticated.
func (s *Snapshot) Token(text string, now time.Time) (*access.Identity, error) {
	if access.IsWorkloadKey(text) {
		return s.workloadOwner(text, now)
	}
	if s.tokens == nil || !jwt.LooksLikeToken(text) {
		return nil, refused("this is not a token")
	}
	return s.tokens.Verify(text, access.HashKey(text), now)
}

// IsCredential reports whether text is a gateway key, even an expired one, or a token
// that is valid at now.
func (s *Snapshot) IsCredential(text string, now time.Time) bool {
	if _, ok := s.Identity(text); ok || access.IsWorkloadKey(text) || access.IsAccessToken(text) {
		return true
	}
	_, err := s.Token(text, now)
	return err == nil
}

func refused(message string) *apierr.Error {
	return apierr.New(apierr.Unauthenticated, "%s", message).WithParam("x-gateway-api-key")
}

// Bearer returns the token of the Authorization header, empty if there is none.
func Bearer(h http.Header) string {
	const scheme = "bearer "
	v := first(h, "Authorization")
	if len(v) > len(scheme) && strings.EqualFold(v[:len(scheme)], scheme) {
		return strings.TrimSpace(v[len(scheme):])
	}
	return ""
}

// first returns the value of a header that is set once. A duplicate header is ambiguous
// and counts as absent.
func first(h http.Header, name string) string {
	if v := h[name]; len(v) == 1 {
		return v[0]
	}
	return ""
}
