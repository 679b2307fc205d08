// Package signin signs people in at the identity providers of their organisation, and has
// the routes of identity providers and of domains.
//
// It guarantees that a provider speaks for its own organisation only, that a person is
// known by issuer and subject and never by an e-mail address alone, that an address links
// an account only if the provider vouches for it and the organisation proved that its
// domain is its own, that no provider makes an owner, and that each attempt is in the
// audit log with its reason. How the protocols work is in
// [modelgate/internal/identity/oidc]; sessions are begun by people.
package signin

import (
	"context"
	"net"
	"net/http"
	"time"

	"modelgate/internal/controlplane/people"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
)

const tag = "Sign-in"

// Routes are the routes of signing in at identity providers.
type Routes struct {
	Protocols

	// Lifetime returns how long a session may be. Nil means a week.
	Lifetime func() time.Duration

	// Count is called for every attempt with its outcome: ok or refused. Nil is not called.
	Count func(outcome string)

	// Assign gives a user the roles of the groups that a source names, and takes away those
	// that it gave before. Nil gives none.
	Assign func(ctx context.Context, tx *store.Tx, g people.Groups) error

	// LookupTXT returns the records of a name in the DNS. Nil asks the system's resolver.
	LookupTXT func(ctx context.Context, name string) ([]string, error)
}

// groupsOf returns the groups of a user at an identity provider.
func groupsOf(p store.IdentityProvider, user string, names []string, now time.Time) people.Groups {
	return people.Groups{Organisation: p.Organisation, User: user, Source: p.Type + ":" + p.ID, Names: names, Now: now}
}

// assign tells what a provider knows of a user's groups.
func (f *family) assign(ctx context.Context, tx *store.Tx, g people.Groups) error {
	if f.Assign == nil {
		return nil
	}
	return f.Assign(ctx, tx, g)
}

// family has the routes with what all families have.
type family struct {
	Routes
	api *route.API
}

// Paths of a provider's routes, relative to that of its own.
const (
	callbackPath = "/callback" // of OpenID Connect, as the next
	logoutPath   = "/logout"
	acsPath      = "/acs" // of SAML, as the next ones
	sloPath      = "/slo"
	metadataPath = "/metadata"
)

// ssoPath is where browsers sign in.
const ssoPath = "/auth/sso"

// Add adds the routes.
func (r Routes) Add(a *route.API) {
	if r.Lifetime == nil {
		r.Lifetime = func() time.Duration { return 7 * 24 * time.Hour }
	}
	if r.LookupTXT == nil {
		r.LookupTXT = net.DefaultResolver.LookupTXT
	}
	f := &family{r, a}
	f.addProviders(a)
	f.addDomains(a)
	route.Add(a, route.Route{Method: http.MethodGet, Path: "/auth/methods", Name: "list-sign-in-methods", Tag: tag, Open: true,
		Summary: "List the ways to sign in"}, f.methods)
	route.Add(a, route.Route{Method: http.MethodPost, Path: ssoPath + "/{identity_provider}/link", Name: "link-identity", Tag: tag,
		Resource: "session", Fresh: true, Summary: "Begin to link your account at an identity provider to yours"}, f.link)
	own := route.Route{Tag: tag, Path: "/auth/identities"}
	own.Method, own.Name, own.Summary = http.MethodGet, "list-own-identities", "List your accounts at identity providers"
	route.Add(a, own, listIdentities)
	own.Method, own.Name, own.Summary = http.MethodDelete, "delete-own-identity", "Remove one of your accounts at identity providers"
	own.Path, own.Resource, own.Fresh = own.Path+"/{identity}", "session", true
	route.Add(a, own, f.removeIdentity)

	one := ssoPath + "/{identity_provider}"
	browser := func(method, path, name, summary, resource string) route.Route {
		return route.Route{Method: method, Path: one + path, Name: name, Tag: tag, Summary: summary, Open: true, Resource: resource}
	}
	route.AddBrowser(a, browser(http.MethodGet, "", "begin-sso", "Sign in at an identity provider", ""), f.begin)
	route.AddBrowser(a, browser(http.MethodGet, callbackPath, "end-sso", "Return from an identity provider", "session"), f.callback)
	route.AddBrowser(a, browser(http.MethodPost, logoutPath, "backchannel-logout", "End sessions that a provider ended", "session"),
		f.logout)
	post := browser(http.MethodPost, acsPath, "end-saml", "Return from an identity provider with SAML", "session")
	post.MaxBody = maxForm
	route.AddBrowser(a, post, f.acs)
	route.AddBrowser(a, browser(http.MethodGet, metadataPath, "saml-metadata", "Describe the gateway to an identity provider", ""), f.metadata)
	const ends = "End sessions that a provider ended"
	route.AddBrowser(a, browser(http.MethodGet, sloPath, "redirect-single-logout", ends, "session"), f.singleLogout)
	post = browser(http.MethodPost, sloPath, "single-logout", ends, "session")
	post.MaxBody = maxForm
	route.AddBrowser(a, post, f.singleLogout)
}

func (f *family) count(outcome string) {
	if f.Count != nil {
		f.Count(outcome)
	}
}
