package toolservers

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/credentials"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/store"
)

// Configuration are the settings of an integration in requests and responses, in which secrets
// are masks.
type Configuration struct {
	CustomHeaders map[string]string `json:"custom_headers,omitempty" maxProperties:"32" doc:"Headers that are sent with each request; values are secret"`
	PassHeaders   []string          `json:"passthrough_headers,omitempty" maxItems:"32" maxLength:"128" doc:"Names of headers of clients that are forwarded"`
	PassHeader    string            `json:"passthrough_header,omitempty" maxLength:"128" doc:"One such name"`

	ClientID     string   `json:"client_id,omitempty" maxLength:"512" doc:"Of the gateway as an OAuth client. Without it, the gateway registers itself for oauth_auto"`
	ClientSecret string   `json:"client_secret,omitempty" maxLength:"4096"`
	Scopes       []string `json:"scopes,omitempty" maxItems:"64" maxLength:"255"`
	TokenURL     string   `json:"token_url,omitempty" maxLength:"2048" doc:"Where tokens are fetched. Without it, metadata of the server say so"`
	AuthorizeURL string   `json:"authorization_url,omitempty" maxLength:"2048" doc:"Where users sign in"`

	CallTimeout int64 `json:"call_timeout,omitempty" minimum:"1" maximum:"3600" doc:"Seconds that a call may take. Default 600"`
	IdleTimeout int64 `json:"idle_timeout,omitempty" minimum:"1" maximum:"3600" doc:"Seconds that a server may be silent during a call. Default 60"`

	Document    string `json:"document,omitempty" maxLength:"3145728" doc:"Of openapi: the OpenAPI document, as JSON or YAML"`
	DocumentURL string `json:"document_url,omitempty" maxLength:"2048" doc:"Of openapi: where the document is fetched, once, if document is absent"`

	SearchAbove int `json:"search_above,omitempty" minimum:"1" maximum:"5000" doc:"Replaces the lists of its servers by tools for searching if they have more tools"`

	Trust bool `json:"trust_annotations,omitempty" doc:"Rules read the annotations of tools; otherwise every tool counts as one that writes and destroys"`
	Rules
}

// Rules decide about tools by what they do. Those of an integration bind its servers. It is
// exported because the OpenAPI generator does not see embedded unexported fields.
type Rules struct {
	Writes      string `json:"writes,omitempty" enum:"allow,ask,deny" doc:"Tools that are not read-only"`
	Destroys    string `json:"destroys,omitempty" enum:"allow,ask,deny" doc:"Tools that may destroy something"`
	HoldChanged bool   `json:"hold_changed,omitempty" doc:"Hides what is new or has changed until its definition is approved"`
}

// settingsOf returns the settings of an integration in a response.
func settingsOf(s *store.ToolSettings) Configuration {
	out := Configuration{
		CustomHeaders: s.HeaderMasks, PassHeaders: s.PassHeaders, CallTimeout: s.CallTimeout, IdleTimeout: s.IdleTimeout, Trust: s.Trust,
		Document: s.Document, DocumentURL: s.DocumentURL, SearchAbove: s.SearchAbove, Rules: Rules(s.ToolRules),
	}
	if o := s.OAuth; o != nil {
		out.ClientID, out.ClientSecret, out.Scopes = o.ClientID, o.SecretMask, o.Scopes
		out.TokenURL, out.AuthorizeURL = o.TokenURL, o.AuthorizeURL
	}
	return out
}

// check returns an error if the address, the transport and the way to sign in of an
// integration do not go together or are not allowed. It must not run in a transaction: the
// names of hosts may be looked up.
func (f *family) check(ctx context.Context, c *route.Caller, i *store.ToolIntegration) error {
	if toolserver.Transport(i.Transport) == toolserver.A2A {
		if err := checkAgent(i); err != nil {
			return err
		}
	}
	if toolserver.Transport(i.Transport) == toolserver.Stdio {
		return f.checkCommand(ctx, c, i)
	}
	if i.Command != "" {
		return route.Invalid("command", "belongs to the transport stdio; leave it out")
	}
	if err := f.useDocument(ctx, i); err != nil {
		return err
	}
	u, err := f.checkAddress(i.Organisation, "url", i.URL)
	if err != nil {
		return err
	}
	i.URL = u.String()
	if o := i.Settings.OAuth; o != nil {
		for field, address := range map[string]string{"token_url": o.TokenURL, "authorization_url": o.AuthorizeURL} {
			if address == "" {
				continue
			}
			if _, err := f.checkAddress(i.Organisation, "configurations."+field, address); err != nil {
				return err
			}
		}
	}
	return f.checkAuth(i)
}

// checkAddress checks an address that the gateway will send requests to.
func (f *family) checkAddress(organisation, field, address string) (*url.URL, error) {
	if address == "" {
		return nil, route.Invalid(field, "is required")
	}
	u, err := f.api.CheckHost(address)
	if err != nil {
		return nil, route.Invalid(field, "is not allowed: %s", err.Error())
	}
	if err := f.api.CheckEgress(organisation, u); err != nil {
		return nil, route.Invalid(field, "is not allowed: %s", apierr.From(err).Message)
	}
	return u, nil
}

// checkCommand checks an integration whose servers are processes of this node.
func (f *family) checkCommand(ctx context.Context, c *route.Caller, i *store.ToolIntegration) error {
	var names []string
	if f.Commands != nil {
		names = f.Commands()
	}
	if len(names) == 0 {
		return route.Invalid("transport", "cannot be stdio: the settings of this node name no command to run")
	}
	admin, err := c.Administers(ctx)
	switch {
	case err != nil:
		return err
	case !admin || i.Workspace != "":
		return apierr.New(apierr.Forbidden, "only the owner and admins of an organisation can run a command, in an integration of the organisation").
			WithParam("transport").WithCode("AB03")
	case !slices.Contains(names, i.Command):
		return route.Invalid("command", "must be a command in the settings of this node, not %.60q", i.Command)
	case i.URL != "":
		return route.Invalid("url", "has no meaning for the transport stdio; leave it out")
	case i.Settings.Document != "" || i.Settings.DocumentURL != "":
		return errNoDocument
	case i.Auth != string(toolserver.AuthNone) || len(i.Settings.HeaderMasks) > 0 || len(i.Settings.PassHeaders) > 0 ||
		i.Settings.OAuth != nil:
		return route.Invalid("auth_type", "must be none for the transport stdio, without headers; the settings of the node give a command its environment")
	}
	return nil
}

// checkAuth checks that an integration has what its way to sign in needs, and nothing else.
func (f *family) checkAuth(i *store.ToolIntegration) error {
	o, how := i.Settings.OAuth, toolserver.Auth(i.Auth)
	uses := how == toolserver.AuthClientCredentials || how == toolserver.AuthUser
	_, authorization := i.Settings.HeaderMasks["Authorization"]
	switch {
	case o != nil && !uses:
		return route.Invalid("configurations", "has settings of an OAuth client, which auth_type %q does not use", i.Auth)
	case how == toolserver.AuthClientCredentials && (o == nil || o.ClientID == "" || o.SecretMask == ""):
		return route.Invalid("configurations", "must have client_id and client_secret with auth_type %q", i.Auth)
	case how == toolserver.AuthUser && f.SignIn == nil:
		return route.Invalid("auth_type", "cannot be %q: this gateway does not sign users in to servers; use headers or oauth_client_credentials", i.Auth)
	case how == toolserver.AuthUser && o != nil && (o.TokenURL == "") != (o.AuthorizeURL == ""):
		return route.Invalid("configurations.token_url", "and authorization_url go together; leave both out to read them from the metadata of the server")
	case how == toolserver.AuthUser && o != nil && o.ClientID == "" && (o.TokenURL != "" || o.SecretMask != ""):
		return route.Invalid("configurations.client_id", "is required with token_url or client_secret")
	case how == toolserver.AuthHeaders && len(i.Settings.HeaderMasks) == 0:
		return route.Invalid("configurations.custom_headers", "must not be empty with auth_type headers")
	case uses && authorization:
		return route.Invalid("configurations.custom_headers", "must not contain Authorization with auth_type %q, which sets it", i.Auth)
	}
	return nil
}

// credentialHeaders are the headers with which clients authenticate to the gateway. They are
// never forwarded.
var credentialHeaders = []string{"Authorization", "Proxy-Authorization", "Api-Key", "X-Api-Key", "X-Goog-Api-Key", "Cookie"}

// checkHeader checks the name and the value of a header for a server. Path is the field that
// has it.
func checkHeader(path, name, value string) error {
	if err := credentials.CheckHeader(path, name, value); err != nil {
		return err
	}
	key := http.CanonicalHeaderKey(name)
	if strings.HasPrefix(key, "Mcp-") || key == "Accept" || key == "Last-Event-Id" || key == "Origin" {
		return route.Invalid(path, "must not contain the header %q, which is part of the protocol", name)
	}
	return nil
}

// passHeaders checks the names of headers that are forwarded, and returns them in their
// canonical form.
func passHeaders(in *Configuration) ([]string, error) {
	const path = "configurations.passthrough_headers"
	given := in.PassHeaders
	if in.PassHeader != "" {
		given = append(slices.Clone(given), in.PassHeader)
	}
	var names []string
	for _, name := range given {
		if err := checkHeader(path, name, ""); err != nil {
			return nil, err
		}
		name = http.CanonicalHeaderKey(name)
		if slices.Contains(credentialHeaders, name) {
			return nil, route.Invalid(path, "must not contain %q, with which clients authenticate to the gateway", name)
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// configure replaces the settings of an integration, except its address. Masks stand for the
// secrets that it has; kept is the field of such a one, empty for none.
func (f *family) configure(ctx context.Context, i *store.ToolIntegration, in *Configuration) (kept string, err error) {
	before, err := f.open(ctx, i)
	if err != nil {
		return "", err
	}
	next := store.ToolSettings{CallTimeout: in.CallTimeout, IdleTimeout: in.IdleTimeout, Trust: in.Trust, Document: in.Document,
		DocumentURL: in.DocumentURL, SearchAbove: in.SearchAbove, ToolRules: store.ToolRules(in.Rules)}
	if next.PassHeaders, err = passHeaders(in); err != nil {
		return "", err
	}
	secrets := store.Secrets{Headers: make(map[string]secret.String), Options: make(map[string]secret.String)}
	const path = "configurations.custom_headers"
	for _, name := range slices.Sorted(maps.Keys(in.CustomHeaders)) {
		key, value := http.CanonicalHeaderKey(name), in.CustomHeaders[name]
		if err := checkHeader(path, name, value); err != nil {
			return "", err
		}
		if _, twice := secrets.Headers[key]; twice {
			return "", route.Invalid(path, "contains the header %q more than once", name)
		}
		if secrets.Headers[key], err = replace(path+"."+name, value, before.Headers[key], &kept); err != nil {
			return "", err
		}
	}
	next.HeaderMasks = masks(secrets.Headers)
	if in.ClientID != "" || in.ClientSecret != "" || len(in.Scopes) > 0 || in.TokenURL != "" || in.AuthorizeURL != "" {
		next.OAuth = &store.ToolOAuth{ClientID: in.ClientID, Scopes: in.Scopes, TokenURL: in.TokenURL, AuthorizeURL: in.AuthorizeURL}
		if err := checkScopes(in.Scopes); err != nil {
			return "", err
		}
		if in.ClientSecret != "" {
			s, err := replace("configurations.client_secret", in.ClientSecret, before.Options[store.ClientSecret], &kept)
			if err != nil {
				return "", err
			}
			secrets.Options[store.ClientSecret], next.OAuth.SecretMask = s, store.Mask(s)
		}
	}
	i.Settings = next
	i.Sealed, err = f.seal(ctx, i.Organisation, secrets)
	return kept, err
}

// checkScopes checks scopes of OAuth, which are separated by spaces in requests.
// https://www.rfc-editor.org/rfc/rfc6749#section-3.3
func checkScopes(list []string) error {
	for _, s := range list {
		if s == "" || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }) {
			return route.Invalid("configurations.scopes", "must contain single scopes of ASCII characters without spaces")
		}
	}
	return nil
}

// replace returns the secret that a request sets, or the stored one if the request has its
// mask; kept is then the field.
func replace(field, given string, stored secret.String, kept *string) (secret.String, error) {
	mask := ""
	if !stored.Empty() {
		mask = store.Mask(stored)
	}
	keeps, err := store.KeepsSecret(given, mask)
	if err != nil {
		return secret.String{}, route.Invalid(field, "%v", err)
	}
	if keeps {
		*kept = field
		return stored, nil
	}
	if given == "" {
		return secret.String{}, route.Invalid(field, "must not be empty")
	}
	return secret.New(given), nil
}

func masks(secrets map[string]secret.String) map[string]string {
	if len(secrets) == 0 {
		return nil
	}
	out := make(map[string]string, len(secrets))
	for name, s := range secrets {
		out[name] = store.Mask(s)
	}
	return out
}

// open returns the secrets of an integration.
func (f *family) open(ctx context.Context, i *store.ToolIntegration) (store.Secrets, error) {
	return open(ctx, f.api.Secrets, i)
}

// open returns the secrets of an integration.
func open(ctx context.Context, secrets route.Sealer, i *store.ToolIntegration) (store.Secrets, error) {
	if i.Sealed == "" {
		return store.Secrets{}, nil
	}
	if secrets == nil {
		return store.Secrets{}, errNoMasterKey
	}
	opened, err := secrets.Open(ctx, i.Organisation, i.Sealed)
	if err != nil {
		return store.Secrets{}, fmt.Errorf("opening the secrets of MCP integration %s: %w", i.ID, err)
	}
	return store.ParseSecrets(opened)
}

var errNoMasterKey = apierr.New(apierr.Unavailable, "secrets cannot be stored or changed because the gateway was started without a master key").
	WithCode("no_master_key")

func (f *family) seal(ctx context.Context, organisation string, s store.Secrets) (string, error) {
	if s.Empty() {
		return "", nil
	}
	if f.api.Secrets == nil {
		return "", errNoMasterKey
	}
	return f.api.Secrets.Seal(ctx, organisation, s.Text())
}

// destinations returns where the secrets of an integration are sent: its own host and that of
// its tokens.
func destinations(i *store.ToolIntegration) string {
	out := []string{i.Transport, origin(i.URL)}
	if o := i.Settings.OAuth; o != nil {
		out = append(out, origin(o.TokenURL))
	} else {
		out = append(out, "")
	}
	return strings.Join(out, " ")
}

func origin(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + strings.ToLower(u.Host)
}
