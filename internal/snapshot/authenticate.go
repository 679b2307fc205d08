package snapshot

import (
	"net/http"
	"strings"
	"time"

	"modelgate/api"
	"modelgate/internal/access"
	"modelgate/internal/apierr"
)

// clientKeys are the headers, besides the bearer token, in which the official
// clients of the dialects send the one key they have.
var clientKeys = [...]string{"X-Api-Key", "X-Goog-Api-Key"}

// Authenticate finds the owner of the gateway key in h. own is true when the
// key stood in its own header; otherwise a bearer token or the key header of
// an official client was taken, so that a standard client needs no more than a
// base URL and a key, and must then not be taken for a provider's credential.
func (s *Snapshot) Authenticate(h http.Header, now time.Time) (id *access.Identity, own bool, err error) {
	key := first(h, api.HeaderKey)
	for i := 0; key == "" && i < len(s.HeaderPrefixes); i++ {
		key = first(h, s.HeaderPrefixes[i]+strings.TrimPrefix(api.HeaderKey, api.HeaderPrefix))
	}
	if own = key != ""; !own {
		key = Bearer(h)
	}
	for i := 0; key == "" && i < len(clientKeys); i++ {
		key = first(h, clientKeys[i])
	}
	if key == "" {
		return nil, false, refused("no gateway key; send one in the header x-gateway-api-key").WithCode("missing_api_key")
	}
	id, ok := s.Identity(key)
	if !ok {
		return nil, false, refused("the gateway key is not known; check the header x-gateway-api-key")
	}
	if id.Expired(now) {
		return nil, false, refused("the gateway key has expired; create another").WithCode("expired_api_key")
	}
	return id, own, nil
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
