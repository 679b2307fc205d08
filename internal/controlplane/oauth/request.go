package oauth

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/people"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/identity/oauth"
	"modelgate/internal/store"
)

// authorization is what a client asks for at the authorization endpoint.
type authorization struct {
	client    oauth.Client
	source    string // where the client is from: document, organisation or registration
	redirect  string // one of the client's redirect URIs
	state     string // empty for none
	resource  string // slug
	challenge string
}

// maxState is the limit of the state of a client, in bytes.
const maxState = 2000

// documentLimit limits the documents that the gateway fetches for a person.
var documentLimit = store.AttemptLimit{Free: 120, Wait: 10 * time.Second, MaxWait: 10 * time.Minute, Forget: 10 * time.Second}

// readAuthorization reads the query of the authorization endpoint (RFC 6749, section 4.1.1). An error that is
// an *oauth.Error is for the client, whose redirect URI is in what was read; others are for the
// person only, because nobody else may learn of them.
func (f *family) readAuthorization(ctx context.Context, c *route.Caller, query string) (a authorization, err error) {
	p, err := oauth.ParseForm("application/x-www-form-urlencoded", []byte(query))
	if err != nil {
		return a, route.Invalid("request", "is not a request of a client: %s", err)
	}
	if a.client, a.source, err = f.findClient(ctx, c, p["client_id"]); err != nil {
		return a, err
	}
	uri := p["redirect_uri"]
	if !oauth.MatchesRedirect(a.client.RedirectURIs, uri) {
		return a, route.Invalid("redirect_uri", "%.200q is not one of those of the client, byte for byte; only the port of an address on 127.0.0.1, [::1] or localhost may differ", uri)
	}
	a.redirect, a.state = uri, p["state"]
	if len(a.state) > maxState {
		a.state = ""
		return a, oauth.NewError(oauth.InvalidRequest, "state must have at most 2000 bytes")
	}
	return a, f.readParameters(c, &a, p)
}

// readParameters reads what is not the client and its redirect URI.
func (f *family) readParameters(c *route.Caller, a *authorization, p map[string]string) error {
	for name, code := range map[string]string{"request": "request_not_supported", "request_uri": "request_uri_not_supported"} {
		if p[name] != "" {
			return oauth.NewError(code, name+" is not supported")
		}
	}
	switch {
	case p["response_type"] != "code":
		return oauth.NewError(oauth.UnsupportedResponse, "response_type must be code")
	case p["response_mode"] != "" && p["response_mode"] != "query":
		return oauth.NewError(oauth.InvalidRequest, "response_mode must be query or absent")
	case slices.Contains(strings.Fields(p["prompt"]), "none"):
		return oauth.NewError("interaction_required", "a person is always asked; leave out prompt=none")
	case p["code_challenge_method"] != "S256" || !oauth.IsChallenge(p["code_challenge"]):
		return oauth.NewError(oauth.InvalidRequest, "code_challenge is required, with code_challenge_method=S256 (RFC 7636)")
	}
	for word := range strings.FieldsSeq(p["scope"]) {
		// Clients ask for offline_access in order to get a refresh token, which all get.
		if word != "offline_access" && !slices.Contains(offered, word) {
			return oauth.NewError(oauth.InvalidScope, "scope must be "+strings.Join(offered, " ")+", or absent")
		}
	}
	var ok bool
	if a.resource, ok = parseResource(c, p["resource"]); !ok {
		return oauth.NewError(oauth.InvalidTarget, "resource must be an address of tool servers of this gateway, such as "+c.DialledLink("/mcp"))
	}
	a.challenge = p["code_challenge"]
	return nil
}

// findClient returns a client that the people of the caller's organisation may use.
func (f *family) findClient(ctx context.Context, c *route.Caller, id string) (client oauth.Client, source string, err error) {
	unknown := apierr.New(apierr.NotFound, "the client %.200q is unknown; register it, or use the address of its document as client_id", id).
		WithParam("client_id")
	switch {
	case id == "":
		return client, "", route.Invalid("client_id", "is required")
	case oauth.IsDocument(id) && f.Documents != nil:
		limit := documentLimit
		limit.ID = people.LimitID("client document", c.UserID)
		if err := people.Reserve(ctx, c, f.api.DB, "you asked about too many clients", limit); err != nil {
			return client, "", err
		}
		client, err = f.Documents.Find(ctx, id, c.Now, func(u *url.URL) error { return f.api.CheckEgress(c.Organisation, u) })
		if err != nil {
			err = apierr.New(apierr.Invalid, "%.500s", err.Error()).WithParam("client_id")
		}
		return client, "document", err
	case len(id) > 100:
		return client, "", unknown
	}
	row, err := c.DB().OAuthClient(ctx, c.Organisation, id)
	if apierr.IsNotFound(err) {
		return client, "", unknown
	}
	if source = "organisation"; row.Organisation == "" {
		source = "registration"
	}
	return oauth.Client{ID: row.ID, Name: row.Name, RedirectURIs: row.RedirectURIs}, source, err
}

// answer returns the address to which the browser takes the response to a, with its issuer (RFC
// 9207).
func (a *authorization) answer(c *route.Caller, parameters url.Values) string {
	if a.state != "" {
		parameters.Set("state", a.state)
	}
	parameters.Set("iss", c.DialledLink(""))
	return oauth.RedirectTo(a.redirect, parameters)
}

// refuse returns the address with an error.
func (a *authorization) refuse(c *route.Caller, e *oauth.Error) string {
	return a.answer(c, url.Values{"error": {e.Code}, "error_description": {e.Description}})
}

// scopes returns the scopes of a grant.
func scopes() []access.Scope { return []access.Scope{access.ScopeTools} }
