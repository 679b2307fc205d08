package oauth

import (
	"net"
	"net/http"
	"net/netip"
)

// Metadata describes the authorization server (RFC 8414, section 2).
type Metadata struct {
	Issuer              string   `json:"issuer"`
	AuthorizeEndpoint   string   `json:"authorization_endpoint"`
	TokenEndpoint       string   `json:"token_endpoint"`
	DeviceEndpoint      string   `json:"device_authorization_endpoint"`
	RevocationEndpoint  string   `json:"revocation_endpoint"`
	RegisterEndpoint    string   `json:"registration_endpoint,omitempty"` // if clients may register themselves
	Scopes              []string `json:"scopes_supported"`
	GrantTypes          []string `json:"grant_types_supported"`
	ResponseTypes       []string `json:"response_types_supported"`
	ResponseModes       []string `json:"response_modes_supported"`
	ChallengeMethods    []string `json:"code_challenge_methods_supported"`
	TokenEndpointMethod []string `json:"token_endpoint_auth_methods_supported"`
	RevocationMethod    []string `json:"revocation_endpoint_auth_methods_supported"`
	IssuerInResponse    bool     `json:"authorization_response_iss_parameter_supported"` // RFC 9207
	ClientDocuments     bool     `json:"client_id_metadata_document_supported"`
}

// ResourceMetadata describes what an access token is for (RFC 9728, section 2).
type ResourceMetadata struct {
	Resource             string   `json:"resource"`
	AuthorizationServers []string `json:"authorization_servers"`
	Scopes               []string `json:"scopes_supported"`
	BearerMethods        []string `json:"bearer_methods_supported"`
	Name                 string   `json:"resource_name"`
}

// Address returns the address of the gateway for the documents and challenges that a client
// compares with the address that it dialled: public if it is configured. Otherwise it is
// fallback, or what the client dialled if that is this host itself under another name, which
// no other host can have.
func Address(r *http.Request, public, fallback string) string {
	if public != "" {
		return public
	}
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) {
		return fallback
	}
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}
