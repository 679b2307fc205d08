// Package oauth is our OAuth 2.0 authorization server: its metadata, its token endpoint and
// the device flow by which command lines sign in.
//
// It guarantees that a device code is stored as a hash, waits ten minutes and begins one
// session at most, on whatever node; that only a person with a session of their own
// browser approves it; that user codes cannot be guessed; and that what was approved ends
// with the session that approved it until it is used. Messages are in
// [modelgate/internal/identity/oauth]; other grants are given by their packages.
package oauth

import (
	"context"
	_ "embed"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/oauth"
)

const tag = "Sign-in"

// Paths of the authorization server, relative to the gateway's address.
const (
	metadataPath = "/.well-known/oauth-authorization-server"
	devicePath   = "/oauth/device_authorization"
	tokenPath    = "/oauth/token"

	// PagePath is the page on which people approve the sign-in of a command line.
	PagePath = "/device"
)

// commandLine is the client id of the command line, the only client.
const commandLine = "modelgate-cli"

// Grant answers a request for a token. Its error is an *oauth.Error, or an *apierr.Error.
type Grant func(ctx context.Context, c *route.Caller, form map[string]string) (*oauth.Token, error)

// Routes are the routes of the authorization server.
type Routes struct {
	// Grants are further grants by their type.
	Grants map[string]Grant

	// Lifetime returns how long a session may be. Nil means a week.
	Lifetime func() time.Duration
}

type family struct {
	Routes
	api *route.API
}

// protocol is OAuth, all of whose routes are open.
var protocol = &route.Protocol{Private: true, WriteError: writeError}

func writeError(w http.ResponseWriter, err *apierr.Error) { convert(err).Write(w) }

// Add adds the routes.
func (r Routes) Add(a *route.API) {
	if r.Lifetime == nil {
		r.Lifetime = func() time.Duration { return 7 * 24 * time.Hour }
	}
	f := &family{r, a}
	f.Grants = maps.Clone(r.Grants)
	if f.Grants == nil {
		f.Grants = make(map[string]Grant)
	}
	f.Grants[oauth.DeviceGrant] = f.deviceGrant
	open := func(method, path, summary, resource string) route.Route {
		return route.Route{
			Method: method, Path: path, Also: []string{path}, Name: "oauth " + method + " " + path, Tag: tag, Summary: summary, Open: true,
			Resource: resource, UncheckedBody: true,
		}
	}
	protocol.Add(a, open(http.MethodGet, metadataPath, "Describe the authorization server (RFC 8414)", ""), f.metadata)
	protocol.Add(a, open(http.MethodPost, devicePath, "Begin the sign-in of a command line (RFC 8628)", ""), f.authorizeDevice)
	protocol.Add(a, open(http.MethodPost, tokenPath, "Get a token: after a device was approved, or for another token (RFC 8693)", "session"),
		f.token)

	own := route.Route{Tag: tag, Path: "/auth/device"}
	own.Method, own.Name, own.Summary = http.MethodGet, "get-device-sign-in", "Read which command line wants to sign in as you"
	route.Add(a, own, f.show)
	own.Method, own.Name, own.Resource = http.MethodPost, "decide-device-sign-in", "session"
	own.Summary = "Approve or deny the sign-in of a command line"
	route.Add(a, own, f.decide)
}

//go:embed page.html
var page []byte

// ServePage serves the page at PagePath.
func ServePage(w http.ResponseWriter, r *http.Request) { route.Page(w, r, page) }

// convert returns an error of the control plane as one of OAuth.
func convert(err *apierr.Error) *oauth.Error {
	out := &oauth.Error{Description: err.Message, Status: err.Status(), RetryAfter: err.RetryAfter}
	switch err.Kind {
	case apierr.RateLimited, apierr.Unavailable:
		out.Code = oauth.Unavailable
	case apierr.Forbidden:
		out.Code = oauth.AccessDenied
	default:
		if out.Code = oauth.InvalidRequest; out.Status >= http.StatusInternalServerError {
			out.Code = oauth.ServerError
		}
	}
	return out
}

// reply writes a response, or the error of OAuth if there is one.
func reply(w http.ResponseWriter, out any, err error) error {
	if e, ok := errors.AsType[*oauth.Error](err); ok {
		e.Write(w)
		return nil
	}
	if err != nil {
		return err
	}
	return oauth.Write(w, http.StatusOK, out)
}

func (f *family) metadata(_ context.Context, c *route.Caller, w http.ResponseWriter, _ *http.Request) error {
	return oauth.Write(w, http.StatusOK, oauth.Metadata{
		Issuer: c.AbsoluteLink(""), TokenEndpoint: c.AbsoluteLink(tokenPath), DeviceEndpoint: c.AbsoluteLink(devicePath),
		GrantTypes: slices.Sorted(maps.Keys(f.Grants)), ResponseTypes: []string{}, TokenEndpointMethod: []string{"none"},
	})
}

// form returns the parameters of a request.
func form(c *route.Caller, r *http.Request) (map[string]string, error) {
	form, err := oauth.ParseForm(r.Header.Get("Content-Type"), c.Body())
	if err != nil {
		return nil, oauth.NewError(oauth.InvalidRequest, err.Error())
	}
	return form, nil
}

func (f *family) token(ctx context.Context, c *route.Caller, w http.ResponseWriter, r *http.Request) error {
	out, err := f.grant(ctx, c, r)
	return reply(w, out, err)
}

func (f *family) grant(ctx context.Context, c *route.Caller, r *http.Request) (*oauth.Token, error) {
	form, err := form(c, r)
	if err != nil {
		return nil, err
	}
	grant := f.Grants[form["grant_type"]]
	switch {
	case form["grant_type"] == "":
		return nil, oauth.NewError(oauth.InvalidRequest, "grant_type is required")
	case grant == nil:
		return nil, oauth.NewError(oauth.UnsupportedGrant, "the metadata of this server has the supported values of grant_type")
	}
	return grant(ctx, c, form)
}
