package signin

import (
	"context"
	"slices"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/saml"
	"modelgate/internal/store"
	"modelgate/internal/upstream"
)

// checkType refuses fields that providers of another type have.
func (in *Fields) checkType(name string) error {
	for _, e := range []struct {
		field string
		isSet bool
		of    string
	}{
		{"client_id", in.ClientID != "", store.OIDC},
		{"token_endpoint_auth_method", in.AuthMethod != "", store.OIDC},
		{"scopes", len(in.Scopes) > 0, store.OIDC},
		{"groups_claim", in.GroupsClaim != "", store.OIDC},
		{"metadata", in.Metadata != "", store.SAML},
		{"metadata_url", in.MetadataURL != "", store.SAML},
		{"attributes", in.Attributes != nil && *in.Attributes != store.AttributeNames{}, store.SAML},
		{"allow_signed_response", in.AllowSignedResponse, store.SAML},
		{"allow_idp_initiated", in.AllowIDPInitiated, store.SAML},
	} {
		if e.isSet && e.of != name {
			return route.Invalid(e.field, "is only of providers of type %s; leave it out", e.of)
		}
	}
	return nil
}

// setSAML checks the fields of a provider with SAML and stores them in p. Without metadata in
// the request, what is stored stays.
func (f *family) setSAML(ctx context.Context, p *store.IdentityProvider, in Fields) error {
	if f.SAML == nil {
		return apierr.New(apierr.Unavailable, "this gateway has no identity providers with SAML").WithParam("type")
	}
	old := p.Settings
	domains, err := domainNames(in.Domains)
	if err != nil {
		return err
	}
	text, field := in.Metadata, "metadata"
	switch {
	case in.Metadata != "" && in.MetadataURL != "":
		return route.Invalid("metadata", "is read from metadata_url; leave one of the two out")
	case in.MetadataURL != "" && (in.MetadataURL != old.MetadataURL || old.Metadata == ""):
		field = "metadata_url"
		if text, err = f.fetch(ctx, in.MetadataURL); err != nil {
			return err
		}
	case text == "":
		text = old.Metadata
	}
	if text == "" {
		return route.Invalid("metadata", "is required, or metadata_url; download it at the provider")
	}
	m, err := saml.ParseMetadata([]byte(text))
	if err != nil {
		return route.Invalid(field, "%s", err.Error())
	}
	if in.Issuer != "" && in.Issuer != m.EntityID() {
		return route.Invalid(field, "is of %.300q, not of %.300q; add another identity provider for it", m.EntityID(), in.Issuer)
	}
	p.Settings = store.IdentitySettings{
		Issuer: m.EntityID(), Domains: domains, NoProvisioning: in.NoProvision, SessionTTL: in.SessionTTL, Role: in.Role,
		Metadata: m.Text(), MetadataURL: in.MetadataURL, AllowSignedResponse: in.AllowSignedResponse, AllowIDPInitiated: in.AllowIDPInitiated,
		RotatingKey: old.RotatingKey, LastAssertion: old.LastAssertion,
	}
	if in.Attributes != nil {
		p.Settings.Attributes = *in.Attributes
	}
	return nil
}

// fetch reads metadata at an address that an administrator entered.
func (f *family) fetch(ctx context.Context, address string) (string, error) {
	check := f.api.CheckHost
	if check == nil {
		check = upstream.New(upstream.Options{}).CheckHost
	}
	if _, err := check(address); err != nil {
		return "", route.Invalid("metadata_url", "is not allowed: %s", err.Error())
	}
	text, _, err := f.SAML.Read(ctx, address)
	if err != nil {
		return "", route.Invalid("metadata_url", "%s", err.Error())
	}
	return text, nil
}

// sealKey makes the gateway's key for p, unless it has one.
func (f *family) sealKey(ctx context.Context, p *store.IdentityProvider, text string) error {
	switch {
	case text != "":
		return route.Invalid("client_secret", "is only of providers of type oidc; leave it out")
	case p.Sealed != "":
		return nil
	case f.api.Secrets == nil:
		return apierr.New(apierr.Unavailable, "a provider with SAML needs a key, which cannot be stored without a master key").WithParam("type")
	}
	key, err := saml.NewKey(f.api.Now())
	if err != nil {
		return err
	}
	p.Sealed, err = f.api.Secrets.Seal(ctx, p.Organisation, key)
	return err
}

// certificate is one with which a provider signs.
type certificate struct {
	Subject   string     `json:"subject"`
	ExpiresAt route.Time `json:"expires_at"`
	Expires   string     `json:"state" enum:"valid,expires_soon,expired" doc:"expires_soon is within 30 days"`
}

// certificates describes the keys in a provider's metadata.
func certificates(c *route.Caller, text string) []certificate {
	m, err := saml.ParseMetadata([]byte(text))
	if err != nil {
		return nil
	}
	list := []certificate{}
	for _, e := range m.Certificates() {
		item := certificate{e.Subject.String(), route.Time(e.NotAfter), "valid"}
		switch {
		case !c.Now.Before(e.NotAfter):
			item.Expires = "expired"
		case c.Now.Add(soon).After(e.NotAfter):
			item.Expires = "expires_soon"
		}
		list = append(list, item)
	}
	return slices.Clip(list)
}
