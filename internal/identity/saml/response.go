package saml

import (
	"context"
	"encoding/base64"
	"encoding/xml"
	"net/url"
	"slices"
	"strings"
	"time"

	crewjam "github.com/crewjam/saml"
)

// SignIn is a sign-in that the provider completed.
type SignIn struct {
	Person
	Subject  Subject
	Session  string    // the provider's name of its session; may be empty
	Ends     time.Time // latest end of the session here; zero if the provider names none
	SignedIn time.Time // when the person authenticated (AuthnInstant); the earliest of several
	Authn    []string  // how the person authenticated (AuthnContextClassRef)
	Asked    bool      // a flow asked for it
	Names    []string  // of all attributes
}

// Subject names a person at the provider.
type Subject struct {
	Name         string `json:"name"`
	Format       string `json:"format,omitempty"`
	Qualifier    string `json:"qualifier,omitempty"`
	OwnQualifier string `json:"sp_qualifier,omitempty"`
	Session      string `json:"session,omitempty"`
}

// maxEncoded is the longest base64 text of a document.
var maxEncoded = base64.StdEncoding.EncodedLen(maxDocument) + maxDocument/32

// decode returns the document in a field of a form.
func decode(text string) ([]byte, error) {
	if len(text) > maxEncoded {
		return nil, refuse("size", "the document has more than %d bytes", maxDocument)
	}
	out, err := base64.StdEncoding.DecodeString(text) // skips line breaks
	if err != nil {
		return nil, refuse("encoding", "the document is not encoded in base64")
	}
	return out, nil
}

// InResponseTo returns which request a response says that it answers, empty for none. Nothing
// of it is verified.
func InResponseTo(text string) string {
	raw, err := decode(text)
	if err != nil {
		return ""
	}
	o, err := scan(raw, responseName)
	if err != nil {
		return ""
	}
	return o.attrs["InResponseTo"]
}

var responseName = xml.Name{Space: protocolSpace, Local: "Response"}

// Respond verifies a response, the value of the form field SAMLResponse, to the request with
// this id; an empty one is for a response that no flow asked for. The error is a *Refusal.
func (p *Provider) Respond(ctx context.Context, text, id string, spend Spend) (*SignIn, error) {
	raw, err := decode(text)
	if err != nil {
		return nil, err
	}
	o, err := scan(raw, responseName)
	if err != nil {
		return nil, err
	}
	switch to, hasDestination := o.attrs["Destination"]; {
	case o.attrs["InResponseTo"] == "" && id == "" && !p.set.AllowUnasked:
		return nil, refuse("unasked", "no flow asked for the response; begin at the sign-in page here, or set allow_idp_initiated")
	case o.attrs["InResponseTo"] != id:
		return nil, refuse("in_response_to", "the response is to another request than the one that the browser made")
	case hasDestination && to != p.set.ACS, o.signed && !hasDestination:
		return nil, refuse("destination", "the response is for %.300q, not for %s", to, p.set.ACS)
	case o.assertion.count > 0 && !o.assertion.encrypted && !o.assertion.signed && !(o.signed && p.set.AllowSignedResponse):
		return nil, refuse("unsigned_assertion", "the assertion is not signed; sign it at the provider, or set allow_signed_response if the response is")
	}
	v := &verifier{certificates: p.set.Provider.certificates, now: p.now()}
	sp, err := p.service()
	if err != nil {
		return nil, err
	}
	sp.ReplayCache = replays{ctx, spend}
	sp.SignatureVerifier, sp.AllowIDPInitiated = v, id == "" && p.set.AllowUnasked
	acs, err := url.Parse(p.set.ACS)
	if err != nil {
		return nil, err
	}
	a, err := sp.ParseXMLResponse(raw, []string{id}, *acs)
	if err != nil {
		return nil, refusal(err)
	}
	if !slices.Contains(v.verified, "Assertion") && (o.assertion.encrypted || !p.set.AllowSignedResponse) {
		return nil, refuse("unsigned_assertion", "the assertion is not signed")
	}
	if err := p.checkTimes(a); err != nil {
		return nil, err
	}
	in, err := p.signIn(a)
	if err != nil {
		return nil, err
	}
	in.Asked = id != ""
	return in, nil
}

// checkTimes checks the times of an assertion: the library tolerates clocks that differ more.
func (p *Provider) checkTimes(a *crewjam.Assertion) error {
	now := p.now()
	past := func(end time.Time) bool { return !end.IsZero() && !now.Before(end.Add(skew)) }
	early := func(begin time.Time) bool { return begin.After(now.Add(skew)) }
	if early(a.IssueInstant) || early(a.Conditions.NotBefore) {
		return refuse("not_before", "the assertion is not valid yet; compare the clocks")
	}
	if past(a.Conditions.NotOnOrAfter) {
		return refuse("expired", "the assertion has expired; compare the clocks")
	}
	bearer := 0
	for _, c := range a.Subject.SubjectConfirmations {
		if c.SubjectConfirmationData == nil {
			continue
		}
		bearer++
		switch d := c.SubjectConfirmationData; {
		case d.Recipient != p.set.ACS:
			return refuse("recipient", "a confirmation is for %.300q", d.Recipient)
		case early(d.NotBefore):
			return refuse("not_before", "the assertion is not valid yet; compare the clocks")
		case past(d.NotOnOrAfter):
			return refuse("expired", "the assertion has expired; compare the clocks")
		}
	}
	if bearer != 1 {
		return refuse("confirmation", "the assertion has %d confirmations of its subject, not one", bearer)
	}
	for _, s := range a.AuthnStatements {
		if end := s.SessionNotOnOrAfter; end != nil && !now.Before(*end) {
			return refuse("session_expired", "the session at the provider has ended")
		}
	}
	return nil
}

// signIn returns what an assertion says.
func (p *Provider) signIn(a *crewjam.Assertion) (*SignIn, error) {
	id := a.Subject.NameID
	in := &SignIn{Subject: Subject{
		Name: strings.TrimSpace(id.Value), Format: id.Format, Qualifier: id.NameQualifier, OwnQualifier: id.SPNameQualifier,
	}}
	switch {
	case in.Subject.Name == "" || len(in.Subject.Name) > maxText:
		return nil, refuse("no_subject", "the assertion has no usable NameID")
	case id.Format == string(crewjam.TransientNameIDFormat):
		return nil, refuse("transient", "the NameID is another one at each sign-in (transient); let the provider send a persistent one")
	}
	for _, s := range a.AuthnStatements {
		if s.SessionIndex != "" {
			in.Session = cut(s.SessionIndex)
		}
		if end := s.SessionNotOnOrAfter; end != nil && (in.Ends.IsZero() || end.Before(in.Ends)) {
			in.Ends = *end
		}
		if at := s.AuthnInstant; in.SignedIn.IsZero() || at.Before(in.SignedIn) {
			in.SignedIn = at
		}
		if c := s.AuthnContext.AuthnContextClassRef; c != nil && c.Value != "" && len(in.Authn) < 20 {
			in.Authn = append(in.Authn, cut(c.Value))
		}
	}
	in.Subject.Session = in.Session
	attributes := attributesOf(a)
	in.Names = attributes.names()
	in.Person = p.person(attributes, in.Subject)
	return in, nil
}
