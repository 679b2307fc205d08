package dataplane

import (
	"net/http"
	"strings"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/identity/access"
	"modelgate/internal/identity/oauth"
	"modelgate/internal/snapshot"
)

// findIdentity returns the owner of the credential of a request.
func (a *admission) findIdentity(s *snapshot.Snapshot, now time.Time) (id *access.Identity, own bool, err error) {
	if slug, ok := toolSlug(a.entry.Path); ok && a.route.tools && !a.route.op.IsAgents() {
		if id, isToken, err := a.serverTokenOwner(s, slug, now); isToken {
			return id, false, err
		}
		return s.AuthenticateTools(a.request.Received.Header, slug, now)
	}
	return s.Authenticate(a.request.Received.Header, now)
}

// setErrorHeaders adds the headers that explain an error.
func setErrorHeaders(a *admission, h http.Header, r *http.Request, e *apierr.Error) {
	switch e.Kind {
	case apierr.MethodNotAllowed:
		if h.Get("Allow") == "" {
			h.Set("Allow", allowedMethods(a))
		}
	case apierr.Unauthenticated:
		switch {
		case a.route.op.IsAgents(): // tokens of our OAuth server are for tool servers
			h.Set("Www-Authenticate", "Bearer")
		case a.route.tools:
			setChallenge(a, h, r)
		}
	}
}

// allowedMethods returns the methods of the route.
func allowedMethods(a *admission) string {
	if a.route.tools {
		return "DELETE, GET, POST"
	}
	return "DELETE, GET, POST, PUT"
}

// setChallenge adds to the response to a request for tool servers without a valid credential where
// a client signs in (RFC 9728, section 5.1). A caller with a valid one gets none, whatever it may
// not do: clients would take that as a reason to sign in again.
func setChallenge(a *admission, h http.Header, r *http.Request) {
	text := "Bearer "
	if key, _ := a.snap.Credential(a.request.Received.Header); key != "" {
		text += `error="invalid_token", `
	}
	public := ""
	if a.plane.PublicURL != nil {
		public = a.plane.PublicURL()
	}
	address := oauth.Address(r, public, strings.TrimSuffix(a.plane.ownAddress(r), "/"))
	h.Set("Www-Authenticate", text+`resource_metadata="`+address+"/.well-known/oauth-protected-resource"+a.entry.Path+
		`", scope="`+string(access.ScopeTools)+`"`)
}
