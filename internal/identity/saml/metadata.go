package saml

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/xml"
	"net/url"
	"strings"
	"time"

	crewjam "github.com/crewjam/saml"
)

// Metadata is what a provider says of itself.
type Metadata struct {
	entity       *crewjam.EntityDescriptor
	certificates []*x509.Certificate
	text         string
}

// EntityID returns the provider's name.
func (m *Metadata) EntityID() string { return m.entity.EntityID }

// Certificates returns the certificates of the keys with which the provider signs.
func (m *Metadata) Certificates() []*x509.Certificate { return m.certificates }

// ValidUntil returns when the metadata ends, zero if it does not say.
func (m *Metadata) ValidUntil() time.Time { return m.entity.ValidUntil }

// Addresses returns the addresses to which browsers are sent.
func (m *Metadata) Addresses() []string {
	var list []string
	for _, d := range m.entity.IDPSSODescriptors {
		for _, e := range d.SingleSignOnServices {
			list = append(list, e.Location)
		}
		for _, e := range d.SingleLogoutServices {
			list = append(list, e.Location)
			if e.ResponseLocation != "" {
				list = append(list, e.ResponseLocation)
			}
		}
	}
	return list
}

// maxKept is the limit of what is kept of a provider's metadata, in bytes.
const maxKept = 32 << 10

// Text returns the metadata without what the gateway does not use.
func (m *Metadata) Text() string { return m.text }

// keep makes the text of m.
func (m *Metadata) keep() error {
	role := &m.entity.IDPSSODescriptors[0]
	short := crewjam.EntityDescriptor{EntityID: m.entity.EntityID, ValidUntil: m.entity.ValidUntil}
	short.IDPSSODescriptors = []crewjam.IDPSSODescriptor{{
		SSODescriptor: crewjam.SSODescriptor{
			RoleDescriptor: crewjam.RoleDescriptor{
				ProtocolSupportEnumeration: protocolSpace, KeyDescriptors: role.KeyDescriptors, ValidUntil: role.ValidUntil,
			},
			SingleLogoutServices: role.SingleLogoutServices,
		},
		SingleSignOnServices: role.SingleSignOnServices,
	}}
	text, err := xml.Marshal(&short)
	if err != nil || len(text) > maxKept {
		return refuse("metadata", "the metadata has too many keys or addresses")
	}
	m.text = string(text)
	return nil
}

// ParseMetadata reads a provider's metadata. The error is a *Refusal that says what is
// missing.
func ParseMetadata(text []byte) (*Metadata, error) {
	m := &Metadata{entity: new(crewjam.EntityDescriptor)}
	if _, err := scan(text, xml.Name{Space: metadataSpace, Local: "EntityDescriptor"}); err != nil {
		return nil, err
	}
	if err := xml.Unmarshal(text, m.entity); err != nil {
		return nil, refuse("metadata", "the metadata cannot be read: %s", short(err))
	}
	if id := m.entity.EntityID; id == "" || len(id) > 1024 {
		return nil, refuse("metadata", "the metadata has no usable entityID")
	}
	if n := len(m.entity.IDPSSODescriptors); n != 1 {
		return nil, refuse("metadata", "the metadata describes %d identity providers (IDPSSODescriptor), not one", n)
	}
	d := &m.entity.IDPSSODescriptors[0]
	for _, k := range d.KeyDescriptors {
		if k.Use != "" && k.Use != "signing" {
			continue
		}
		for _, c := range k.KeyInfo.X509Data.X509Certificates {
			der, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(c.Data), ""))
			if err != nil {
				return nil, refuse("metadata", "a certificate of the metadata cannot be read")
			}
			cert, err := x509.ParseCertificate(der)
			if err != nil {
				return nil, refuse("metadata", "a certificate of the metadata cannot be read: %s", short(err))
			}
			m.certificates = append(m.certificates, cert)
		}
	}
	if len(m.certificates) == 0 || len(m.certificates) > 10 {
		return nil, refuse("metadata", "the metadata has %d certificates for signing; it must have 1 to 10", len(m.certificates))
	}
	usable := false
	for _, e := range d.SingleSignOnServices {
		usable = usable || e.Binding == crewjam.HTTPRedirectBinding || e.Binding == crewjam.HTTPPostBinding
	}
	if !usable {
		return nil, refuse("metadata", "the metadata has no SingleSignOnService with the binding HTTP-Redirect or HTTP-POST")
	}
	for _, address := range m.Addresses() {
		if u, err := url.Parse(address); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
			return nil, refuse("metadata", "the metadata has the address %.300q, to which no browser can go", address)
		}
	}
	return m, m.keep()
}

// Describe returns the gateway's metadata for the provider.
func (p *Provider) Describe() ([]byte, error) {
	sp, err := p.service()
	if err != nil {
		return nil, err
	}
	out := sp.Metadata()
	role := &out.SPSSODescriptors[0]
	role.KeyDescriptors = nil
	for _, k := range p.set.Keys {
		// For signing only: a provider that finds a key for encryption uses it, many of them in a mode that is refused.
		role.KeyDescriptors = append(role.KeyDescriptors, crewjam.KeyDescriptor{Use: "signing", KeyInfo: crewjam.KeyInfo{
			X509Data: crewjam.X509Data{X509Certificates: []crewjam.X509Certificate{{Data: base64.StdEncoding.EncodeToString(k.Certificate.Raw)}}},
		}})
	}
	for i := range role.SingleLogoutServices {
		role.SingleLogoutServices[i].ResponseLocation = ""
	}
	role.NameIDFormats = []crewjam.NameIDFormat{crewjam.PersistentNameIDFormat, crewjam.EmailAddressNameIDFormat}
	return xml.MarshalIndent(out, "", "  ")
}
