// Package samltest is an identity provider with SAML 2.0 for tests. It signs whatever a test
// asks it to, well-formed or not, and has the attacks of which a service provider must
// refuse each.
package samltest

import (
	"bytes"
	"compress/flate"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"io"
	"math/big"
	"net/url"
	"testing"
	"time"

	"github.com/beevik/etree"
	dsig "github.com/russellhaering/goxmldsig"
)

// Namespaces of elements.
const (
	assertionSpace = "urn:oasis:names:tc:SAML:2.0:assertion"
	protocolSpace  = "urn:oasis:names:tc:SAML:2.0:protocol"
	signatureSpace = "http://www.w3.org/2000/09/xmldsig#"
)

// Persistent is the format of names that stay the same.
const Persistent = "urn:oasis:names:tc:SAML:2.0:nameid-format:persistent"

// Provider is the identity provider. Its fields may be changed between messages.
type Provider struct {
	EntityID    string
	URL         string // beginning of its addresses
	Key         *rsa.PrivateKey
	Certificate []byte   // DER
	Further     [][]byte // certificates in the metadata in addition
	ValidUntil  time.Time
	PostOnly    bool // no address takes redirects
}

// New returns a provider with a new key.
func New(t testing.TB, entityID string) *Provider {
	t.Helper()
	p := &Provider{EntityID: entityID, URL: entityID}
	p.Rotate(t, time.Now().Add(100*24*time.Hour))
	return p
}

// Rotate replaces the provider's key. The certificate is valid until end.
func (p *Provider) Rotate(t testing.TB, end time.Time) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "provider"},
		NotBefore: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: end,
	}
	p.Key = key
	if p.Certificate, err = x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key); err != nil {
		t.Fatal(err)
	}
}

// Metadata returns the provider's metadata.
func (p *Provider) Metadata() string {
	until, keys, services := "", "", ""
	if !p.ValidUntil.IsZero() {
		until = ` validUntil="` + p.ValidUntil.UTC().Format(time.RFC3339) + `"`
	}
	for _, c := range append([][]byte{p.Certificate}, p.Further...) {
		keys += `<KeyDescriptor use="signing"><KeyInfo xmlns="` + signatureSpace + `"><X509Data><X509Certificate>` +
			base64.StdEncoding.EncodeToString(c) + `</X509Certificate></X509Data></KeyInfo></KeyDescriptor>`
	}
	for _, binding := range []string{"HTTP-Redirect", "HTTP-POST"} {
		if p.PostOnly && binding == "HTTP-Redirect" {
			continue
		}
		for _, name := range []string{"SingleLogoutService", "SingleSignOnService"} {
			services += fmt.Sprintf(`<%s Binding="urn:oasis:names:tc:SAML:2.0:bindings:%s" Location="%s/%s"/>`, name, binding, p.URL, name)
		}
	}
	return `<EntityDescriptor xmlns="urn:oasis:names:tc:SAML:2.0:metadata" entityID="` + p.EntityID + `"` + until +
		`><IDPSSODescriptor protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol">` + keys + services + `</IDPSSODescriptor></EntityDescriptor>`
}

// Request is what a service provider asks for.
type Request struct {
	ID      string `xml:",attr"`
	ACS     string `xml:"AssertionConsumerServiceURL,attr"`
	Issuer  string `xml:"Issuer"`
	Subject string `xml:"NameID"`       // of a logout request
	Session string `xml:"SessionIndex"` // of a logout request
	Answers string `xml:"InResponseTo,attr"`
	State   string `xml:"-"` // RelayState
}

// Read returns the message in the address to which a service provider sent a browser.
func Read(t testing.TB, address string) Request {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	raw, err := base64.StdEncoding.DecodeString(q.Get("SAMLRequest") + q.Get("SAMLResponse"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(flate.NewReader(bytes.NewReader(raw)))
	if err != nil {
		t.Fatalf("%s has no message: %v", address, err)
	}
	return read(t, text, q.Get("RelayState"))
}

// ReadForm returns the request in a form.
func ReadForm(t testing.TB, form url.Values) Request {
	t.Helper()
	text, err := base64.StdEncoding.DecodeString(form.Get("SAMLRequest"))
	if err != nil {
		t.Fatal(err)
	}
	return read(t, text, form.Get("RelayState"))
}

func read(t testing.TB, text []byte, state string) Request {
	t.Helper()
	r := Request{State: state}
	if err := xml.Unmarshal(text, &r); err != nil || r.ID == "" {
		t.Fatalf("%q is not a message: %v", text, err)
	}
	return r
}

// Signing is how an element is signed.
type Signing struct {
	SHA1 bool
	Edit func(signedInfo *etree.Element) // before the signature
	Omit bool                            // no signature
}

// Sign adds a signature to an element, behind its issuer.
func (p *Provider) Sign(el *etree.Element, s Signing) {
	if s.Omit {
		return
	}
	method, digest, hash := "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256", "http://www.w3.org/2001/04/xmlenc#sha256", crypto.SHA256
	if s.SHA1 {
		method, digest, hash = signatureSpace+"rsa-sha1", signatureSpace+"sha1", crypto.SHA1
	}
	info := parse(`<ds:SignedInfo xmlns:ds="` + signatureSpace + `"><ds:CanonicalizationMethod Algorithm="http://www.w3.org/2001/10/xml-exc-c14n#"/>` +
		`<ds:SignatureMethod Algorithm="` + method + `"/><ds:Reference URI="#` + el.SelectAttrValue("ID", "") + `"><ds:Transforms>` +
		`<ds:Transform Algorithm="` + signatureSpace + `enveloped-signature"/><ds:Transform Algorithm="http://www.w3.org/2001/10/xml-exc-c14n#"/>` +
		`</ds:Transforms><ds:DigestMethod Algorithm="` + digest + `"/><ds:DigestValue>` + sum(canonical(el), hash) +
		`</ds:DigestValue></ds:Reference></ds:SignedInfo>`)
	if s.Edit != nil {
		s.Edit(info)
	}
	text := canonical(info)
	var hashed []byte
	if s.SHA1 {
		h := sha1.Sum(text)
		hashed = h[:]
	} else {
		h := sha256.Sum256(text)
		hashed = h[:]
	}
	value, err := rsa.SignPKCS1v15(rand.Reader, p.Key, hash, hashed)
	if err != nil {
		panic(err)
	}
	signature := parse(`<ds:Signature xmlns:ds="` + signatureSpace + `"><ds:SignatureValue>` + base64.StdEncoding.EncodeToString(value) +
		`</ds:SignatureValue><ds:KeyInfo><ds:X509Data><ds:X509Certificate>` + base64.StdEncoding.EncodeToString(p.Certificate) +
		`</ds:X509Certificate></ds:X509Data></ds:KeyInfo></ds:Signature>`)
	signature.InsertChildAt(0, info)
	el.InsertChildAt(1, signature)
}

func parse(text string) *etree.Element {
	doc := etree.NewDocument()
	if err := doc.ReadFromString(text); err != nil {
		panic(err)
	}
	return doc.Root()
}

func canonical(el *etree.Element) []byte {
	out, err := dsig.MakeC14N10ExclusiveCanonicalizerWithPrefixList("").Canonicalize(el.Copy())
	if err != nil {
		panic(err)
	}
	return out
}

func sum(text []byte, hash crypto.Hash) string {
	if hash == crypto.SHA1 {
		h := sha1.Sum(text)
		return base64.StdEncoding.EncodeToString(h[:])
	}
	h := sha256.Sum256(text)
	return base64.StdEncoding.EncodeToString(h[:])
}

// textOf returns an element as a document.
func textOf(el *etree.Element) string {
	doc := etree.NewDocument()
	doc.SetRoot(el.Copy())
	text, err := doc.WriteToString()
	if err != nil {
		panic(err)
	}
	return text
}

// Encode returns a document as the field of a form.
func Encode(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

func (p *Provider) signText(text string) string {
	h := sha256.Sum256([]byte(text))
	value, err := rsa.SignPKCS1v15(rand.Reader, p.Key, crypto.SHA256, h[:])
	if err != nil {
		panic(err)
	}
	return base64.StdEncoding.EncodeToString(value)
}

// Deflate returns a text compressed, as redirects have it.
func Deflate(text []byte) []byte {
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, flate.BestCompression)
	if err == nil {
		_, err = w.Write(text)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err)
	}
	return out.Bytes()
}
