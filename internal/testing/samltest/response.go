package samltest

import (
	"crypto/rand"
	"encoding/base64"
	"net/url"
	"strings"
	"time"

	"github.com/beevik/etree"
)

// Response is a response of the provider. Zero fields have the value that is right.
type Response struct {
	Request  Request // what it answers
	Audience string  // default is the issuer of the request
	Now      time.Time

	Issuer, Destination, Recipient, InResponseTo *string

	NameID     string // default is subject-1
	Format     string // default is Persistent
	Session    string
	SessionEnd time.Time
	Class      string // AuthnContextClassRef
	Attributes map[string][]string
	Further    string // XML in the assertion's conditions

	SignResponse bool
	Assertion    Signing
	Status       string // default is Success

	BeforeSign func(assertion *etree.Element) // before the assertion is signed
	AfterSign  func(response *etree.Element)  // before the response is signed
	Raw        func(text string) string       // at the end
}

func or(p *string, fallback string) string {
	if p != nil {
		return *p
	}
	return fallback
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

func (r *Response) attributes() string {
	if len(r.Attributes) == 0 {
		return ""
	}
	var out strings.Builder
	out.WriteString(`<saml:AttributeStatement>`)
	for name, values := range r.Attributes {
		out.WriteString(`<saml:Attribute Name="` + name + `">`)
		for _, v := range values {
			out.WriteString(`<saml:AttributeValue>` + v + `</saml:AttributeValue>`)
		}
		out.WriteString(`</saml:Attribute>`)
	}
	out.WriteString(`</saml:AttributeStatement>`)
	return out.String()
}

// assertion returns the assertion without a signature.
func (p *Provider) assertion(r *Response) *etree.Element {
	answers, end, sessionEnd := "", stamp(r.Now.Add(5*time.Minute)), ""
	if id := or(r.InResponseTo, r.Request.ID); id != "" {
		answers = ` InResponseTo="` + id + `"`
	}
	if !r.SessionEnd.IsZero() {
		sessionEnd = ` SessionNotOnOrAfter="` + stamp(r.SessionEnd) + `"`
	}
	format, name, class := r.Format, r.NameID, r.Class
	if format == "" {
		format = Persistent
	}
	if name == "" {
		name = "subject-1"
	}
	if class == "" {
		class = "urn:oasis:names:tc:SAML:2.0:ac:classes:PasswordProtectedTransport"
	}
	audience := r.Audience
	if audience == "" {
		audience = r.Request.Issuer
	}
	return parse(`<saml:Assertion xmlns:saml="` + assertionSpace + `" ID="a` + rand.Text() +
		`" Version="2.0" IssueInstant="` + stamp(r.Now) + `">` +
		`<saml:Issuer>` + or(r.Issuer, p.EntityID) + `</saml:Issuer>` +
		`<saml:Subject><saml:NameID Format="` + format + `">` + name + `</saml:NameID>` +
		`<saml:SubjectConfirmation Method="urn:oasis:names:tc:SAML:2.0:cm:bearer"><saml:SubjectConfirmationData NotOnOrAfter="` + end +
		`" Recipient="` + or(r.Recipient, r.Request.ACS) + `"` + answers + `/></saml:SubjectConfirmation></saml:Subject>` +
		`<saml:Conditions NotBefore="` + stamp(r.Now) + `" NotOnOrAfter="` + end + `"><saml:AudienceRestriction><saml:Audience>` + audience +
		`</saml:Audience></saml:AudienceRestriction>` + r.Further + `</saml:Conditions><saml:AuthnStatement AuthnInstant="` + stamp(r.Now) +
		`" SessionIndex="` + r.Session + `"` + sessionEnd + `><saml:AuthnContext><saml:AuthnContextClassRef>` + class +
		`</saml:AuthnContextClassRef></saml:AuthnContext></saml:AuthnStatement>` + r.attributes() + `</saml:Assertion>`)
}

// Respond returns a response as the field of a form.
func (p *Provider) Respond(r Response) string { return Encode(p.Document(r)) }

// Document returns a response as a document.
func (p *Provider) Document(r Response) string {
	if r.Now.IsZero() {
		r.Now = time.Now()
	}
	answers, destination, status := "", "", r.Status
	if id := or(r.InResponseTo, r.Request.ID); id != "" {
		answers = ` InResponseTo="` + id + `"`
	}
	if to := or(r.Destination, r.Request.ACS); to != "" {
		destination = ` Destination="` + to + `"`
	}
	if status == "" {
		status = "Success"
	}
	response := parse(`<samlp:Response xmlns:samlp="` + protocolSpace + `" ID="r` + rand.Text() +
		`" Version="2.0" IssueInstant="` + stamp(r.Now) + `"` + destination + answers +
		`><saml:Issuer xmlns:saml="` + assertionSpace + `">` + or(r.Issuer, p.EntityID) + `</saml:Issuer>` +
		`<samlp:Status><samlp:StatusCode Value="urn:oasis:names:tc:SAML:2.0:status:` + status + `"/></samlp:Status></samlp:Response>`)
	if status == "Success" {
		assertion := p.assertion(&r)
		if r.BeforeSign != nil {
			r.BeforeSign(assertion)
		}
		p.Sign(assertion, r.Assertion)
		response.AddChild(assertion)
	}
	if r.AfterSign != nil {
		r.AfterSign(response)
	}
	if r.SignResponse {
		p.Sign(response, Signing{})
	}
	text := textOf(response)
	if r.Raw != nil {
		text = r.Raw(text)
	}
	return text
}

// Logout is a logout request of the provider.
type Logout struct {
	To       string // address
	NameID   string
	Sessions []string
	Now      time.Time
	Signing  Signing
}

// LogoutForm returns a logout request as a form.
func (p *Provider) LogoutForm(l Logout) url.Values {
	if l.Now.IsZero() {
		l.Now = time.Now()
	}
	var text strings.Builder
	text.WriteString(`<samlp:LogoutRequest xmlns:samlp="` + protocolSpace + `" xmlns:saml="` + assertionSpace + `" ID="l` + rand.Text() +
		`" Version="2.0" IssueInstant="` + stamp(l.Now) + `" Destination="` + l.To +
		`"><saml:Issuer>` + p.EntityID + `</saml:Issuer><saml:NameID>` +
		l.NameID + `</saml:NameID>`)
	for _, s := range l.Sessions {
		text.WriteString(`<samlp:SessionIndex>` + s + `</samlp:SessionIndex>`)
	}
	el := parse(text.String() + `</samlp:LogoutRequest>`)
	p.Sign(el, l.Signing)
	return url.Values{"SAMLRequest": {Encode(textOf(el))}}
}

// RedirectForm returns a form as the signed query of a redirect.
func (p *Provider) RedirectForm(form url.Values, signed bool) string {
	raw, err := base64.StdEncoding.DecodeString(form.Get("SAMLRequest"))
	if err != nil {
		panic(err)
	}
	query := "SAMLRequest=" + url.QueryEscape(base64.StdEncoding.EncodeToString(Deflate(raw))) + "&RelayState=state"
	if !signed {
		return query
	}
	query += "&SigAlg=" + url.QueryEscape("http://www.w3.org/2001/04/xmldsig-more#rsa-sha256")
	return query + "&Signature=" + url.QueryEscape(p.signText(query))
}
