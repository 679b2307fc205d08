package settings

// IdentityProvider is where people sign in. A client secret that the file leaves out keeps
// its stored value.
type IdentityProvider struct {
	Slug   string `json:"slug" pattern:"^[a-zA-Z0-9_-]+$" maxLength:"64"`
	Name   string `json:"name,omitempty" maxLength:"255" doc:"Display name. Defaults to the slug."`
	Type   string `json:"type,omitempty" enum:"oidc,saml" doc:"Defaults to oidc"`
	Status string `json:"status,omitempty" enum:"active,disabled" doc:"Defaults to active"`
	Secret string `json:"client_secret,omitempty" doc:"${NAME} for an environment variable, or a sealed value"`

	// The following are the fields of the API with the same names, which checks them.

	Issuer      string   `json:"issuer,omitempty" maxLength:"2048" doc:"Exactly as the provider spells it"`
	ClientID    string   `json:"client_id,omitempty" maxLength:"512"`
	AuthMethod  string   `json:"token_endpoint_auth_method,omitempty" enum:"client_secret_basic,client_secret_post,private_key_jwt,none"`
	Scopes      []string `json:"scopes,omitempty" maxItems:"50"`
	GroupsClaim string   `json:"groups_claim,omitempty" maxLength:"255"`
	Domains     []string `json:"domains,omitempty" maxItems:"100" doc:"Each counts once it is verified"`
	NoProvision bool     `json:"disable_auto_provision_user,omitempty"`
	SessionTTL  int64    `json:"max_session_ttl,omitempty" minimum:"60" maximum:"7776000" doc:"In seconds"`
	Role        string   `json:"role,omitempty" enum:"admin,member" doc:"Of new members; defaults to member"`

	Metadata            string          `json:"metadata,omitempty" maxLength:"262144" doc:"XML of a provider with SAML; this, or metadata_url with issuer, is required"`
	MetadataURL         string          `json:"metadata_url,omitempty" maxLength:"2048"`
	Attributes          *AttributeNames `json:"attributes,omitempty" doc:"Names of the attributes of SAML, if they are not the usual ones"`
	AllowSignedResponse bool            `json:"allow_signed_response,omitempty"`
	AllowIDPInitiated   bool            `json:"allow_idp_initiated,omitempty"`
}

// AttributeNames are the names of the attributes with what is known of a person. Empty ones
// are the usual ones.
type AttributeNames struct {
	Email     string `json:"email,omitempty" maxLength:"255"`
	FirstName string `json:"first_name,omitempty" maxLength:"255"`
	LastName  string `json:"last_name,omitempty" maxLength:"255"`
	Groups    string `json:"groups,omitempty" maxLength:"255"`
}

// Domain is a domain of e-mail addresses. A file does not verify it.
type Domain struct {
	Name string `json:"name" minLength:"3" maxLength:"253"`
}

// DirectoryMapping gives the members of a group of the directory a role.
type DirectoryMapping struct {
	Group     string `json:"scim_group" minLength:"1" maxLength:"255" doc:"Name of the group, which the directory may send later"`
	Workspace string `json:"workspace" minLength:"1" maxLength:"255" doc:"Slug"`
	Role      string `json:"role" enum:"admin,manager,member"`
}

// WorkloadIdentity lets workloads exchange tokens of their issuer for short-lived keys.
type WorkloadIdentity struct {
	Slug   string `json:"slug" pattern:"^[a-zA-Z0-9_-]+$" maxLength:"64"`
	Name   string `json:"name,omitempty" maxLength:"255" doc:"Display name. Defaults to the slug."`
	Type   string `json:"type" enum:"oidc,github-actions,kubernetes,gcp,aws,entra,spiffe"`
	Status string `json:"status,omitempty" enum:"active,disabled" doc:"Defaults to active"`
	Key    string `json:"key_sha256" pattern:"^[0-9A-Fa-f]{64}$" doc:"sha256 of the service key"`

	// The following are the fields of the API with the same names, which checks them.

	Issuer      string              `json:"issuer,omitempty" maxLength:"2048"`
	KeysURL     string              `json:"jwks_url,omitempty" maxLength:"2048"`
	KeySet      string              `json:"jwks,omitempty" maxLength:"262144"`
	TrustDomain string              `json:"trust_domain,omitempty" maxLength:"255"`
	Audience    string              `json:"audience" minLength:"1" maxLength:"512"`
	Claims      map[string][]string `json:"claims" maxProperties:"20"`
	TTL         int64               `json:"ttl,omitempty" minimum:"60" maximum:"3600" doc:"In seconds; defaults to 900"`
}
