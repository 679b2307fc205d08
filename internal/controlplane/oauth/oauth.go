// Package oauth is our OAuth 2.0 authorization server: its metadata, its token endpoint, the
// device flow by which command lines sign in, and the code flow by which clients of tool
// servers get tokens.
//
// It guarantees that a device code is stored as a hash, waits ten minutes and begins one
// session at most, on whatever node; that only a person with a session of their own
// browser approves a command line or a client; that user codes cannot be guessed; that what was
// approved for a command line ends with the session that approved it until it is used; and that a
// client gets tokens only for the address, workspace and scopes that a person saw, at a
// redirect URI that they saw. Messages are in [modelgate/internal/identity/oauth]; other
// grants are given by their packages.
package oauth

import (
	"context"
	_ "embed"
	"errors"
	"maps"
	"net/http"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/oauth"
)

const tag = "Sign-in"

// Paths of the authorization server, relative to the gateway's address.
const (
	devicePath   = "/oauth/device_authorization"
	tokenPath    = "/oauth/token"
	revokePath   = "/oauth/revoke"
	registerPath = "/oauth/register"

	// PagePath is the page on which people approve the sign-in of a command line, and
	// AuthorizePath the one on which they consent to a client.
	PagePath      = "/device"
	AuthorizePath = "/oauth/authorize"
)

// commandLine is the client id of the command line, the only client of the device flow.
const commandLine = "modelgate-cli"

// Grant answers a request for a token. Its error is an *oauth.Error, or an *apierr.Error.
type Grant func(ctx context.Context, c *route.Caller, form map[string]string) (*oauth.Token, error)

// Routes are the routes of the authorization server.
type Routes struct {
	// Grants are further grants by their type.
	Grants map[string]Grant

	// Lifetime returns how long a session, or what a client was granted, may be. Nil means a
	// week.
	Lifetime func() time.Duration

	// Documents are the clients that describe themselves. Nil has none.
	Documents *oauth.Documents

	// Settings returns the settings of the code flow. Nil is the zero value.
	Settings func() Settings
}

// Settings are those of the code flow.
type Settings struct {
	Registration bool          // clients may register themselves (RFC 7591)
	AccessToken  time.Duration // life of access tokens; zero is an hour
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
	if r.Settings == nil {
		r.Settings = func() Settings { return Settings{} }
	}
	f := &family{r, a}
	f.Grants = maps.Clone(r.Grants)
	if f.Grants == nil {
		f.Grants = make(map[string]Grant)
	}
	f.Grants[oauth.DeviceGrant], f.Grants[oauth.CodeGrant], f.Grants[oauth.RefreshGrant] = f.deviceGrant, f.codeGrant, f.refreshGrant
	f.addMetadata(a)
	protocol.Add(a, open(http.MethodPost, devicePath, "Begin the sign-in of a command line (RFC 8628)", ""), f.authorizeDevice)
	protocol.Add(a, open(http.MethodPost, tokenPath,
		"Get a token: for a code, after a device was approved, or for another token (RFC 8693)", "session"), f.token)
	protocol.Add(a, open(http.MethodPost, revokePath, "End what a client was granted, by one of its tokens (RFC 7009)", grantResource),
		f.revoke)
	protocol.Add(a, open(http.MethodPost, registerPath, "Register a client, if the settings allow it (RFC 7591)", ""), f.register)

	own := route.Route{Tag: tag, Path: "/auth/device"}
	own.Method, own.Name, own.Summary = http.MethodGet, "get-device-sign-in", "Read which command line wants to sign in as you"
	route.Add(a, own, f.show)
	own.Method, own.Name, own.Resource = http.MethodPost, "decide-device-sign-in", "session"
	own.Summary = "Approve or deny the sign-in of a command line"
	route.Add(a, own, f.decide)
	f.addConsent(a)
	f.addGrants(a)
	f.addClients(a)
}

// open returns an open route. Resource is empty if it changes nothing that an organisation has.
func open(method, path, summary, resource string) route.Route {
	return route.Route{
		Method: method, Path: path, Also: []string{path}, Name: "oauth " + method + " " + path, Tag: tag, Summary: summary, Open: true,
		Resource: resource, UncheckedBody: true,
	}
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
