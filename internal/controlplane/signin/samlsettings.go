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
	old := p.Settings
	domains, err := domainNames(in.Domains)
	if err != nil {
		return err
	}
	p.Settings = store.IdentitySettings{
		Issuer: in.Issuer, Domains: domains, NoProvisioning: in.NoProvision, SessionTTL: in.SessionTTL, Role: in.Role,
		Strong:   slices.Clone(in.Strong),
		Metadata: old.Metadata, MetadataURL: in.MetadataURL, AllowSignedResponse: in.AllowSignedResponse, AllowIDPInitiated: in.AllowIDPInitiated,
		RotatingKey: old.RotatingKey, LastAssertion: old.LastAssertion,
	}
	if in.Attributes != nil {
		p.Settings.Attributes = *in.Attributes
	}
	text, field, err := f.metadataOf(ctx, p.Organisation, in, old)
	if err != nil || text == "" {
		return err
	}
	m, err := saml.ParseMetadata([]byte(text))
	if err != nil {
		return route.Invalid(field, "%s", err.Error())
	}
	for _, pinned := range []string{in.Issuer, old.Issuer} {
		if pinned != "" && pinned != m.EntityID() {
			return route.Invalid(field, "is of %.300q, not of %.300q; add another identity provider for it", m.EntityID(), pinned)
		}
	}
	p.Settings.Issuer, p.Settings.Metadata = m.EntityID(), m.Text()
	return nil
}

// metadataOf returns the metadata that a request or what is stored names, and the field that
// it is of. It is empty if it must be read at its first use: a file is applied without
// requests to providers, so it must name the issuer.
func (f *family) metadataOf(
	ctx context.Context, organisation string, in Fields, old store.IdentitySettings,
) (text, field string, err error) {
	switch {
	case in.Metadata != "" && in.MetadataURL != "":
		return "", "", route.Invalid("metadata", "is read from metadata_url; leave one of the two out")
	case in.Metadata != "":
		return in.Metadata, "metadata", nil
	case in.MetadataURL == "" && old.Metadata == "":
		return "", "", route.Invalid("metadata", "is required, or metadata_url; download it at the provider")
	case in.MetadataURL == "" || in.MetadataURL == old.MetadataURL:
		return old.Metadata, "metadata", nil
	}
	check := f.api.CheckHost
	if check == nil {
		check = upstream.New(upstream.Options{}).CheckHost
	}
	u, err := check(in.MetadataURL)
	if err != nil {
		return "", "", route.Invalid("metadata_url", "is not allowed: %s", err.Error())
	}
	if err := f.api.CheckEgress(organisation, u); err != nil {
		return "", "", route.Invalid("metadata_url", "is not allowed: %s", apierr.From(err).Message)
	}
	if f.SAML != nil {
		if text, _, err = f.SAML.Read(ctx, in.MetadataURL); err != nil {
			err = route.Invalid("metadata_url", "%s", err.Error())
		}
		return text, "metadata_url", err
	}
	if in.Issuer == "" || old.Issuer != "" && in.Issuer != old.Issuer {
		return "", "", route.Invalid("issuer", "must be the entity id that the metadata at metadata_url has")
	}
	return "", "", nil
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
