package signin

import (
	"modelgate/api"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
)

// Item is an identity provider in a response.
type Item struct {
	ID        string         `json:"id"`
	Object    string         `json:"object"`
	Slug      string         `json:"slug"`
	Name      string         `json:"name"`
	Type      string         `json:"type"`
	Status    string         `json:"status"`
	HasSecret bool           `json:"has_client_secret"`
	Redirect  string         `json:"redirect_uri" doc:"To be entered at the provider"`
	Logout    string         `json:"backchannel_logout_uri,omitempty" doc:"To be entered at the provider, so that ending a session there ends it here"`
	EntityID  string         `json:"entity_id,omitempty" doc:"Of the gateway, with SAML: to be entered at the provider, and the address of the metadata that describes the gateway"`
	SLO       string         `json:"single_logout_uri,omitempty" doc:"To be entered at a provider with SAML, so that ending a session there ends it here"`
	Rotating  bool           `json:"rotating_key,omitempty" doc:"The gateway's metadata has a second key, which does not sign yet"`
	Certs     []certificate  `json:"certificates,omitempty" doc:"With which a provider with SAML signs"`
	Last      *lastAssertion `json:"last_assertion,omitempty" doc:"The last verified assertion of SAML"`
	Start     string         `json:"start" doc:"Where browsers begin to sign in"`
	CreatedBy string         `json:"created_by"`
	CreatedAt route.Time     `json:"created_at"`
	UpdatedAt route.Time     `json:"last_updated_at"`
	Fields
}

type lastAssertion struct {
	ReceivedAt route.Time `json:"received_at"`
	Names      []string   `json:"attribute_names" doc:"Names of its attributes, without their values"`
}

func pathOf(id string) string { return api.BasePath + ssoPath + "/" + id }

func toResponse(c *route.Caller) func(store.IdentityProvider) Item {
	return func(p store.IdentityProvider) Item {
		s := p.Settings
		base := c.AbsoluteLink(pathOf(p.ID))
		out := Item{
			ID: p.ID, Object: "identity_provider", Slug: p.Slug, Name: p.Name, Type: p.Type, Status: p.Status, Start: c.Link(pathOf(p.ID)),
			CreatedBy: p.CreatedBy, CreatedAt: route.Time(p.CreatedAt), UpdatedAt: route.Time(p.UpdatedAt),
			Fields: Fields{
				s.Issuer, s.ClientID, s.AuthMethod, append([]string{}, s.Scopes...), s.GroupsClaim, append([]string{}, s.Domains...),
				s.NoProvisioning, s.SessionTTL, s.Role, append([]string{}, s.Strong...),
				s.Metadata, s.MetadataURL, nil, s.AllowSignedResponse, s.AllowIDPInitiated,
			},
		}
		if p.Type != store.SAML {
			out.HasSecret, out.Redirect, out.Logout = p.Sealed != "", base+callbackPath, base+logoutPath
			return out
		}
		out.Redirect, out.SLO, out.EntityID = base+acsPath, base+sloPath, base+metadataPath
		out.Attributes, out.Rotating, out.Certs = &s.Attributes, s.RotatingKey, certificates(c, s.Metadata)
		if l := s.LastAssertion; l != nil {
			out.Last = &lastAssertion{route.Time(l.ReceivedAt), l.Names}
		}
		return out
	}
}
