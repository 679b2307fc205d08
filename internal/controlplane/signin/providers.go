package signin

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/people"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/identity/oidc"
	"modelgate/internal/store"
	"modelgate/internal/upstream"
)

// maxProviders is the limit of identity providers of an organisation.
const maxProviders = 20

func (f *family) addProviders(a *route.API) {
	p := route.Family{
		Path: "/identity-providers", Tag: tag, Scopes: []string{"identity_providers"}, Resource: "identity_provider", Versioned: true,
	}
	const one = "/{identity_provider}"
	route.Add(a, route.Fresh(p.Route(http.MethodPost, "", "create-identity-provider", "create", "Add an identity provider")), f.create)
	route.Add(a, p.Route(http.MethodGet, "", "list-identity-providers", "list", "List identity providers"), f.list)
	route.Add(a, p.Route(http.MethodGet, one, "get-identity-provider", "read", "Read an identity provider"), f.get)
	route.Add(a, route.Fresh(p.Route(http.MethodPut, one, "update-identity-provider", "update", "Change an identity provider")), f.update)
	route.Add(a, route.Fresh(p.Route(http.MethodDelete, one, "delete-identity-provider", "delete",
		"Remove an identity provider, its identities and the sessions that began there")), f.remove)
	route.Add(a, p.Route(http.MethodPost, one+"/test", "test-identity-provider", "update",
		"Test an identity provider step by step, and begin a sign-in that is only a test"), f.test)
	route.Add(a, route.Fresh(p.Route(http.MethodPost, one+"/rotate-key", "rotate-identity-provider-key", "update",
		"Replace the key of the gateway for an identity provider with SAML, in two steps")), f.rotate)
}

// Fields are the fields of an identity provider that requests and responses have in
// common.
type Fields struct {
	Issuer      string   `json:"issuer,omitempty" maxLength:"2048" doc:"Exactly as the provider spells it, with or without a slash at its end; with SAML, its entity id, which the metadata names"`
	ClientID    string   `json:"client_id,omitempty" maxLength:"512"`
	AuthMethod  string   `json:"token_endpoint_auth_method,omitempty" enum:"client_secret_basic,client_secret_post,private_key_jwt,none" doc:"Default client_secret_basic"`
	Scopes      []string `json:"scopes,omitempty" maxItems:"50" doc:"In addition to openid, profile, email and offline_access"`
	GroupsClaim string   `json:"groups_claim,omitempty" maxLength:"255" doc:"Claim with the person's groups; dots separate nested names"`
	Domains     []string `json:"domains,omitempty" maxItems:"100" doc:"Domains whose people may become members, or take over existing accounts, at their first sign-in; each must be verified"`
	NoProvision bool     `json:"disable_auto_provision_user,omitempty" doc:"Lets only members and invited people sign in"`
	SessionTTL  int64    `json:"max_session_ttl,omitempty" minimum:"60" maximum:"7776000" doc:"Longest time of a session, in seconds"`
	Role        string   `json:"role,omitempty" enum:"admin,member" doc:"Of new members; default member"`
	Strong      []string `json:"strong_authentication,omitempty" maxItems:"20" maxLength:"255" doc:"Values of amr or acr, or of AuthnContextClassRef, with which the provider says that a person proved two factors; such sessions need no second factor here"`

	Metadata            string                `json:"metadata,omitempty" maxLength:"262144" doc:"XML of a provider with SAML; this or metadata_url is required. What the gateway does not use is left out"`
	MetadataURL         string                `json:"metadata_url,omitempty" maxLength:"2048" doc:"Where a provider with SAML publishes its metadata, which is then read every day"`
	Attributes          *store.AttributeNames `json:"attributes,omitempty" doc:"Names of the attributes of SAML, if they are not the usual ones"`
	AllowSignedResponse bool                  `json:"allow_signed_response,omitempty" doc:"Accepts assertions without a signature of their own in a signed response"`
	AllowIDPInitiated   bool                  `json:"allow_idp_initiated,omitempty" doc:"Accepts sign-ins that begin at the provider"`
}

// Entry is an identity provider as a request that creates one or a file describes it.
type Entry struct {
	Name   string `json:"name" minLength:"1" maxLength:"255"`
	Slug   string `json:"slug,omitempty" minLength:"1" maxLength:"64" pattern:"^[a-zA-Z0-9_-]+$"`
	Type   string `json:"type,omitempty" enum:"oidc,saml" default:"oidc"`
	Status string `json:"status,omitempty" enum:"active,disabled" default:"active"`
	Secret string `json:"client_secret,omitempty" maxLength:"16384" doc:"For private_key_jwt, the private key as JWK or PEM"`
	Fields
}

type createInput struct{ Body Entry }

// checkRank refuses a caller who could gain scopes with an identity provider, which can
// make admins: they must have every scope that they could have.
func checkRank(c *route.Caller) error {
	for _, s := range access.Scopes(access.Session) {
		if !c.Allows(s) && (c.Type == access.Session || s.CheckHolder(c.Type) == nil) {
			return apierr.New(apierr.Forbidden, "whoever signs in can become an admin with the scope %q, which you do not have and cannot give", string(s)).WithCode("AB03")
		}
	}
	return nil
}

func (f *family) create(ctx context.Context, c *route.Caller, in *createInput) (*Item, error) {
	if err := checkRank(c); err != nil {
		return nil, err
	}
	p := store.IdentityProvider{Organisation: c.Organisation, Slug: in.Body.Slug, Type: store.OIDC, Status: store.Active}
	if p.Slug == "" {
		p.Slug = route.NewSlug("idp", in.Body.Name)
	}
	if in.Body.Type != "" {
		p.Type = in.Body.Type
	}
	if err := f.Fill(ctx, f.api, &p, in.Body); err != nil {
		return nil, err
	}
	err := insert(ctx, c, &p)
	return route.ItemOf(p, err, toResponse(c))
}

// insert stores a new identity provider, and sets what a new one has.
func insert(ctx context.Context, c *route.Caller, p *store.IdentityProvider) error {
	p.ID, p.CreatedBy, p.CreatedAt, p.UpdatedAt = c.NewID(), c.Actor(), c.Now, c.Now
	c.SetAuditSubject("", p.ID)
	err := c.Change(ctx, func(tx *store.Tx) error {
		_, n, err := tx.IdentityProviders(ctx, c.Organisation, store.Page{Size: 1})
		if err == nil && n >= maxProviders {
			err = apierr.New(apierr.Invalid, "an organisation can have %d identity providers; remove one first", maxProviders)
		}
		if err != nil {
			return err
		}
		return tx.CreateIdentityProvider(ctx, *p)
	})
	return conflict(err, "slug", "identity provider %q already exists; choose another slug", p.Slug)
}

// Fill sets in p what e says, for routes and files. An empty status or secret stays.
func (r Routes) Fill(ctx context.Context, a *route.API, p *store.IdentityProvider, e Entry) error {
	f, before := family{r, a}, p.Settings
	if err := route.CheckLength("name", e.Name, 1, 255); err != nil {
		return err
	}
	p.Name, p.Status = e.Name, cmp.Or(e.Status, p.Status)
	if err := f.set(ctx, p, e.Fields); err != nil {
		return err
	}
	// A secret goes only where whoever entered it sent it.
	now := p.Settings
	moved := p.Type == store.OIDC && (now.Issuer != before.Issuer || now.ClientID != before.ClientID || now.AuthMethod != before.AuthMethod)
	if e.Secret == "" && p.Sealed != "" && moved && now.AuthMethod != oidc.NoSecret {
		return route.Invalid("client_secret", "must be sent again with another issuer, client_id or token_endpoint_auth_method")
	}
	return f.seal(ctx, p, e.Secret)
}

// conflict replaces the error of a row that exists.
func conflict(err error, field, format string, args ...any) error {
	if e, ok := errors.AsType[*apierr.Error](err); ok && e.Kind == apierr.Conflict && e.Param == "" {
		return apierr.New(apierr.Conflict, format, args...).WithParam(field)
	}
	return err
}

// set checks fields and stores them in p.
func (f *family) set(ctx context.Context, p *store.IdentityProvider, in Fields) error {
	if err := in.checkType(p.Type); err != nil {
		return err
	}
	if p.Type == store.SAML {
		return f.setSAML(ctx, p, in)
	}
	check := f.api.CheckHost
	if check == nil {
		check = upstream.New(upstream.Options{}).CheckHost
	}
	u, err := url.Parse(in.Issuer)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return route.Invalid("issuer", "must be the address of an issuer, such as https://login.example.com")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.HasSuffix(in.Issuer, "#") || strings.HasSuffix(in.Issuer, "?"):
		return route.Invalid("issuer", "must not have a user, a query or a fragment")
	case u.Host == "login.microsoftonline.com" && manyTenants(u.Path):
		return route.Invalid("issuer", "is of all tenants; use the issuer of yours: https://login.microsoftonline.com/{tenant id}/v2.0")
	case in.ClientID == "":
		return route.Invalid("client_id", "is required")
	}
	if _, err := check(in.Issuer); err != nil {
		return route.Invalid("issuer", "is not allowed: %s", err.Error())
	}
	if err := f.api.CheckEgress(p.Organisation, u); err != nil {
		return route.Invalid("issuer", "is not allowed: %s", apierr.From(err).Message)
	}
	domains, err := domainNames(in.Domains)
	if err != nil {
		return err
	}
	for _, s := range in.Scopes {
		if s == "" || len(s) > 255 || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == '"' || r == '\\' || r > '~' }) {
			return route.Invalid("scopes", "contains %.60q, which is not a scope", s)
		}
	}
	p.Settings = store.IdentitySettings{
		Issuer: in.Issuer, ClientID: in.ClientID, AuthMethod: in.AuthMethod, Scopes: slices.Clone(in.Scopes), GroupsClaim: in.GroupsClaim,
		Domains: domains, NoProvisioning: in.NoProvision, SessionTTL: in.SessionTTL, Role: in.Role, Strong: slices.Clone(in.Strong),
	}
	return nil
}

// manyTenants reports whether the path of an issuer of Microsoft Entra is of several
// tenants, in which anybody can be whoever they say.
func manyTenants(path string) bool {
	tenant, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return slices.Contains([]string{"", "common", "organizations", "consumers"}, strings.ToLower(tenant))
}

// seal stores the client secret of p, sealed. An empty one keeps what is stored.
func (f *family) seal(ctx context.Context, p *store.IdentityProvider, text string) error {
	if p.Type == store.SAML {
		return f.sealKey(ctx, p, text)
	}
	method := p.Settings.AuthMethod
	switch {
	case method == oidc.NoSecret && text != "":
		return route.Invalid("client_secret", "is not used with token_endpoint_auth_method none; leave it out")
	case method == oidc.NoSecret:
		p.Sealed = ""
		return nil
	case text == "" && p.Sealed == "":
		return route.Invalid("client_secret", "is required unless token_endpoint_auth_method is none")
	case text == "":
		return nil
	case method == oidc.PrivateKey:
		if err := oidc.CheckKey(text); err != nil {
			return route.Invalid("client_secret", "%s", err.Error())
		}
	}
	if f.api.Secrets == nil {
		return apierr.New(apierr.Unavailable, "secrets cannot be stored without a master key").WithParam("client_secret")
	}
	sealed, err := f.api.Secrets.Seal(ctx, p.Organisation, secret.New(text))
	p.Sealed = sealed
	return err
}

type listInput struct{ route.NamedPaging }

func (f *family) list(ctx context.Context, c *route.Caller, in *listInput) (*route.List[Item], error) {
	found, total, err := c.DB().IdentityProviders(ctx, c.Organisation, in.Rows())
	return route.Listing(found, total, err, toResponse(c))
}

type oneInput struct {
	Provider string `path:"identity_provider" maxLength:"255" doc:"Id or slug"`
}

func find(ctx context.Context, c *route.Caller, ref string) (store.IdentityProvider, error) {
	p, err := c.DB().IdentityProvider(ctx, c.Organisation, ref)
	return p, c.CheckFound("", p.ID, err, route.NotFound("provider", "identity provider", ref))
}

func (f *family) get(ctx context.Context, c *route.Caller, in *oneInput) (*Item, error) {
	p, err := find(ctx, c, in.Provider)
	return route.ItemOf(p, err, toResponse(c))
}

type updateInput struct {
	Provider string `path:"identity_provider" maxLength:"255" doc:"Id or slug"`
	Body     struct {
		Name        route.Optional[string]   `json:"name,omitempty"`
		Status      string                   `json:"status,omitempty" enum:"active,disabled"`
		Secret      string                   `json:"client_secret,omitempty" maxLength:"16384" doc:"Stays if it is left out"`
		Issuer      route.Optional[string]   `json:"issuer,omitempty" maxLength:"2048"`
		ClientID    route.Optional[string]   `json:"client_id,omitempty" maxLength:"512"`
		AuthMethod  route.Optional[string]   `json:"token_endpoint_auth_method,omitempty" enum:"client_secret_basic,client_secret_post,private_key_jwt,none"`
		Scopes      route.Optional[[]string] `json:"scopes,omitempty" maxItems:"50"`
		GroupsClaim route.Optional[string]   `json:"groups_claim,omitempty" maxLength:"255"`
		Domains     route.Optional[[]string] `json:"domains,omitempty" maxItems:"100"`
		NoProvision route.Optional[bool]     `json:"disable_auto_provision_user,omitempty"`
		SessionTTL  route.Optional[int64]    `json:"max_session_ttl,omitempty" minimum:"60" maximum:"7776000"`
		Role        route.Optional[string]   `json:"role,omitempty" enum:"admin,member"`
		Strong      route.Optional[[]string] `json:"strong_authentication,omitempty" maxItems:"20" maxLength:"255"`

		Metadata            string                               `json:"metadata,omitempty" maxLength:"262144" doc:"Replaces metadata_url"`
		MetadataURL         route.Optional[string]               `json:"metadata_url,omitempty" maxLength:"2048"`
		Attributes          route.Optional[store.AttributeNames] `json:"attributes,omitempty"`
		AllowSignedResponse route.Optional[bool]                 `json:"allow_signed_response,omitempty"`
		AllowIDPInitiated   route.Optional[bool]                 `json:"allow_idp_initiated,omitempty"`
	}
}

func (f *family) update(ctx context.Context, c *route.Caller, in *updateInput) (*route.Empty, error) {
	if err := checkRank(c); err != nil {
		return nil, err
	}
	p, err := find(ctx, c, in.Provider)
	if err != nil {
		return nil, err
	}
	b, s := &in.Body, p.Settings
	before, address, names := p, s.MetadataURL, b.Attributes.Or(s.Attributes)
	if b.Metadata != "" {
		address = ""
	}
	err = f.Fill(ctx, f.api, &p, Entry{Name: b.Name.Or(p.Name), Status: b.Status, Secret: b.Secret, Fields: Fields{
		Issuer: b.Issuer.Or(s.Issuer), ClientID: b.ClientID.Or(s.ClientID), AuthMethod: b.AuthMethod.Or(s.AuthMethod),
		Scopes: b.Scopes.Or(s.Scopes), GroupsClaim: b.GroupsClaim.Or(s.GroupsClaim), Domains: b.Domains.Or(s.Domains),
		NoProvision: b.NoProvision.Or(s.NoProvisioning), SessionTTL: b.SessionTTL.Or(s.SessionTTL), Role: b.Role.Or(s.Role),
		Strong:   b.Strong.Or(s.Strong),
		Metadata: b.Metadata, MetadataURL: b.MetadataURL.Or(address), Attributes: &names,
		AllowSignedResponse: b.AllowSignedResponse.Or(s.AllowSignedResponse), AllowIDPInitiated: b.AllowIDPInitiated.Or(s.AllowIDPInitiated),
	}})
	if err != nil {
		return nil, err
	}
	return &route.Empty{}, Put(ctx, c, &before, p)
}

// Put stores p, which a request or a file describes, instead of before; nil is a new
// identity provider.
func Put(ctx context.Context, c *route.Caller, before *store.IdentityProvider, p store.IdentityProvider) error {
	if before == nil {
		return insert(ctx, c, &p)
	}
	p.UpdatedAt = c.NextUpdateTime(before.UpdatedAt)
	return change(ctx, c, p.ID, before.UpdatedAt, func(tx *store.Tx) error {
		now, had := p.Settings, before.Settings
		if now.Metadata != had.Metadata || now.MetadataURL != had.MetadataURL {
			// Whoever enters keys of SAML can sign as anybody, and must not become an owner.
			if err := tx.DeleteOwnerIdentities(ctx, p.Organisation, p.ID); err != nil {
				return err
			}
		}
		if p.Status != store.Active || now.Issuer != had.Issuer {
			if err := tx.EndProviderSessions(ctx, store.ProviderSessions{Provider: p.ID}); err != nil {
				return err
			}
		}
		if err := tx.UpdateIdentityProvider(ctx, p); err != nil {
			return err
		}
		return people.CheckWayIn(ctx, tx, p.Organisation)
	})
}

// change runs f unless the provider was changed after the request read it.
func change(ctx context.Context, c *route.Caller, id string, read time.Time, f func(*store.Tx) error) error {
	return c.Change(ctx, func(tx *store.Tx) error {
		now, err := tx.IdentityProvider(ctx, c.Organisation, id)
		if err := c.CheckIfMatch(read, now.UpdatedAt, err); err != nil {
			return err
		}
		return f(tx)
	})
}

func (f *family) remove(ctx context.Context, c *route.Caller, in *oneInput) (*route.Empty, error) {
	if err := checkRank(c); err != nil {
		return nil, err
	}
	p, err := find(ctx, c, in.Provider)
	if err != nil {
		return nil, err
	}
	return &route.Empty{}, change(ctx, c, p.ID, p.UpdatedAt, func(tx *store.Tx) error {
		users, err := tx.UsersOfProvider(ctx, p.ID)
		if err != nil {
			return err
		}
		for _, user := range users { // without the roles that the provider gave
			if err := f.assign(ctx, tx, groupsOf(p, user, nil, c.Now)); err != nil {
				return err
			}
		}
		if err := tx.DeleteIdentityProvider(ctx, p.ID); err != nil {
			return err
		}
		return people.CheckWayIn(ctx, tx, p.Organisation)
	})
}
