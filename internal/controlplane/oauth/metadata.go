package oauth

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/identity/oauth"
	"modelgate/internal/provider/toolserver"
)

// Well-known paths. A client inserts the path of an issuer or a resource behind them.
const (
	resourcePath = "/.well-known/oauth-protected-resource" // RFC 9728
	serverPath   = "/.well-known/oauth-authorization-server"
	openIDPath   = "/.well-known/openid-configuration" // where some clients look for the same
)

// offered are the scopes that clients may get.
var offered = []string{string(access.ScopeTools)}

// addMetadata adds the documents that clients find the authorization server by. They are the only
// ones that pages of other origins may read.
func (f *family) addMetadata(a *route.API) {
	for _, d := range []struct {
		path, summary string
		read          func(c *route.Caller, rest string) (any, error)
	}{
		{resourcePath, "Describe what tokens for tool servers are for (RFC 9728)", f.resourceMetadata},
		{serverPath, "Describe the authorization server (RFC 8414)", f.serverMetadata},
		{openIDPath, "Describe the authorization server where clients of OpenID Connect look", f.serverMetadata},
	} {
		for _, path := range []string{d.path, d.path + "/{rest...}"} {
			protocol.Add(a, open(http.MethodGet, path, d.summary, ""),
				func(_ context.Context, c *route.Caller, w http.ResponseWriter, r *http.Request) error {
					out, err := d.read(c, r.PathValue("rest"))
					w.Header().Set("Access-Control-Allow-Origin", "*")
					return reply(w, out, err)
				})
			protocol.Add(a, open(http.MethodOptions, path, "Let pages of other origins read the document", ""),
				func(_ context.Context, _ *route.Caller, w http.ResponseWriter, _ *http.Request) error {
					h := w.Header()
					h.Set("Access-Control-Allow-Origin", "*")
					h.Set("Access-Control-Allow-Methods", "GET")
					h.Set("Access-Control-Allow-Headers", "*")
					w.WriteHeader(http.StatusNoContent)
					return nil
				})
		}
	}
}

var errNoDocument = apierr.New(apierr.NotFound, "no document at this path; it ends with the path of a tool server, such as /mcp, or of the gateway's public address")

// serverMetadata describes the authorization server. Rest is the path of its issuer, without the
// first slash.
func (f *family) serverMetadata(c *route.Caller, rest string) (any, error) {
	issuer := c.DialledLink("")
	if rest != "" && rest != pathOf(issuer) {
		return nil, errNoDocument
	}
	m := oauth.Metadata{
		Issuer: issuer, AuthorizeEndpoint: issuer + AuthorizePath, TokenEndpoint: issuer + tokenPath, DeviceEndpoint: issuer + devicePath,
		RevocationEndpoint: issuer + revokePath, Scopes: offered, GrantTypes: slices.Sorted(maps.Keys(f.Grants)),
		ResponseTypes: []string{"code"}, ResponseModes: []string{"query"}, ChallengeMethods: []string{"S256"},
		TokenEndpointMethod: []string{"none"}, RevocationMethod: []string{"none"}, IssuerInResponse: true, ClientDocuments: f.Documents != nil,
	}
	if f.Settings().Registration {
		m.RegisterEndpoint = issuer + registerPath
	}
	return m, nil
}

// resourceMetadata describes the address of all tool servers, or the one whose path is rest. It
// is the same whether there is such a server.
func (f *family) resourceMetadata(c *route.Caller, rest string) (any, error) {
	issuer := c.DialledLink("")
	if own := pathOf(issuer); own != "" {
		rest = strings.TrimPrefix(rest, own+"/")
	}
	if rest == "" {
		rest = "mcp"
	}
	if slug, ok := toolserver.SlugOf("/" + rest); !ok || slug != "" && !isSlug(slug) {
		return nil, errNoDocument
	}
	return oauth.ResourceMetadata{
		Resource: issuer + "/" + rest, AuthorizationServers: []string{issuer}, Scopes: offered, BearerMethods: []string{"header"},
		Name: "Tool servers of modelgate",
	}, nil
}

// pathOf returns the path of an address without its first slash.
func pathOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return strings.Trim(u.Path, "/")
}

// isSlug reports whether text can be the slug of a tool server.
func isSlug(text string) bool {
	return len(text) <= 100 && !strings.ContainsFunc(text, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_' || r == '.')
	})
}

// parseResource returns the slug of an address of tool servers of this gateway (RFC 8707), in
// any of the ways to write it. An empty address is that of all.
func parseResource(c *route.Caller, address string) (slug string, ok bool) {
	if address == "" {
		return "", true
	}
	path, ok := strings.CutPrefix(strings.TrimSuffix(address, "/"), c.DialledLink(""))
	if !ok || !strings.HasPrefix(path, "/") {
		return "", false
	}
	slug, ok = toolserver.SlugOf(path)
	return slug, ok && (slug == "" || isSlug(slug))
}

// resourceAddress returns the address of a slug.
func resourceAddress(c *route.Caller, slug string) string {
	if slug == "" {
		return c.DialledLink("/mcp")
	}
	return c.DialledLink("/mcp/" + slug)
}
