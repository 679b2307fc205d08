package saml_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/beevik/etree"

	"modelgate/internal/identity/saml"
	"modelgate/internal/testing/samltest"
)

func TestRulesOfResponses(t *testing.T) {
	now := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	other := samltest.Request{ID: "id-2", ACS: acs, Issuer: entityID}
	for _, tt := range []struct {
		name, reason string
		response     samltest.Response
	}{
		{"right", "", samltest.Response{}},
		{"response signed too", "", samltest.Response{SignResponse: true}},
		{"another audience", "audience", samltest.Response{Audience: "https://gateway.example.com/v1/auth/sso/2/metadata"}},
		{"another issuer", "issuer", samltest.Response{Issuer: new("https://login.example.net")}},
		{"another recipient", "recipient", samltest.Response{Recipient: new(strings.Replace(acs, "/1/", "/2/", 1))}},
		{"another destination", "destination", samltest.Response{Destination: new(strings.Replace(acs, "/1/", "/2/", 1))}},
		{"no destination", "", samltest.Response{Destination: new("")}},
		{"signed without a destination", "destination", samltest.Response{Destination: new(""), SignResponse: true}},
		{"another request", "in_response_to", samltest.Response{Request: other}},
		{"the assertion is for another request", "in_response_to", samltest.Response{BeforeSign: func(a *etree.Element) {
			a.FindElement("//SubjectConfirmationData").CreateAttr("InResponseTo", "id-2")
		}}},
		{"no request", "in_response_to", samltest.Response{InResponseTo: new("")}},
		{"50 seconds early", "", samltest.Response{Now: now.Add(50 * time.Second)}},
		{"70 seconds early", "not_before", samltest.Response{Now: now.Add(70 * time.Second)}},
		{"old", "expired", samltest.Response{Now: now.Add(-2 * time.Minute)}},
		{"expired 50 seconds ago", "", samltest.Response{BeforeSign: expire(now.Add(-50 * time.Second))}},
		{"expired 70 seconds ago", "expired", samltest.Response{BeforeSign: expire(now.Add(-70 * time.Second))}},
		{"refused there", "provider", samltest.Response{Status: "Responder"}},
		{"an unknown condition", "unsupported", samltest.Response{Further: `<saml:Condition xmlns:x="urn:x"/>`}},
		{"session over", "session_expired", samltest.Response{SessionEnd: now.Add(-time.Second)}},
		{"transient", "transient", samltest.Response{Format: "urn:oasis:names:tc:SAML:2.0:nameid-format:transient"}},
		{"no name", "no_subject", samltest.Response{NameID: " "}},
		{"two confirmations", "confirmation", samltest.Response{BeforeSign: func(a *etree.Element) {
			c := a.FindElement("./Subject/SubjectConfirmation")
			a.FindElement("./Subject").AddChild(c.Copy())
		}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := samltest.New(t, "https://login.example.com")
			provider := saml.New(newSettings(t, p.Metadata()), at(now))
			r := tt.response
			if r.Request.ID == "" {
				r.Request = asked
			}
			if r.Now.IsZero() {
				r.Now = now
			}
			in, err := provider.Respond(t.Context(), p.Respond(r), asked.ID, store{}.spend)
			checkReason(t, err, tt.reason)
			if tt.reason == "" && (in == nil || in.Subject.Name != "subject-1" || !in.Asked) {
				t.Errorf("the sign-in is %+v", in)
			}
		})
	}
}

func expire(end time.Time) func(*etree.Element) {
	return func(a *etree.Element) {
		for _, path := range []string{"//SubjectConfirmationData", "./Conditions"} {
			a.FindElement(path).CreateAttr("NotOnOrAfter", end.Format(time.RFC3339))
		}
		a.FindElement("./Conditions").RemoveAttr("NotBefore")
	}
}

func checkReason(t *testing.T, err error, want string) {
	t.Helper()
	got := ""
	if err != nil {
		got = saml.ReasonOf(err)
	}
	if got != want {
		t.Errorf("the reason is %q (%v), want %q", got, err, want)
	}
}

func TestKeysOfTheProvider(t *testing.T) {
	p := samltest.New(t, "https://login.example.com")
	old := p.Metadata()
	before := p.Certificate
	respond := func(metadata string) error {
		t.Helper()
		_, err := saml.New(newSettings(t, metadata), nil).Respond(t.Context(), p.Respond(samltest.Response{Request: asked}), asked.ID, store{}.spend)
		return err
	}
	p.Rotate(t, time.Now().Add(time.Hour))
	checkReason(t, respond(old), "key")
	p.Further = [][]byte{before}
	checkReason(t, respond(p.Metadata()), "") // both, while keys change
	p.Further = nil
	p.Rotate(t, time.Now().Add(-time.Hour))
	checkReason(t, respond(p.Metadata()), "certificate")
	p.Rotate(t, time.Now().Add(time.Hour))
	p.ValidUntil = time.Now().Add(-time.Minute)
	checkReason(t, respond(p.Metadata()), "metadata")
}

func TestMessagesAreAcceptedOnce(t *testing.T) {
	p := samltest.New(t, "https://login.example.com")
	provider, seen := saml.New(newSettings(t, p.Metadata()), nil), store{}
	text := p.Respond(samltest.Response{Request: asked})
	for _, want := range []string{"", "replayed"} {
		_, err := provider.Respond(t.Context(), text, asked.ID, seen.spend)
		checkReason(t, err, want)
	}
	form := p.LogoutForm(samltest.Logout{To: slo, NameID: "subject-1"})
	for _, want := range []string{"", "replayed"} {
		_, err := provider.VerifyLogout(t.Context(), "", form, seen.spend)
		checkReason(t, err, want)
	}
}

func TestUnaskedResponsesNeedTheSetting(t *testing.T) {
	p := samltest.New(t, "https://login.example.com")
	set := newSettings(t, p.Metadata())
	text := p.Respond(samltest.Response{Request: asked, InResponseTo: new("")})
	_, err := saml.New(set, nil).Respond(t.Context(), text, "", store{}.spend)
	checkReason(t, err, "unasked")
	set.AllowUnasked = true
	provider, seen := saml.New(set, nil), store{}
	in, err := provider.Respond(t.Context(), text, "", seen.spend)
	if err != nil || in.Asked {
		t.Fatalf("an unasked response: %+v, %v", in, err)
	}
	_, err = provider.Respond(t.Context(), text, "", seen.spend)
	checkReason(t, err, "replayed")
	// One that a flow asked for must not be used without it.
	_, err = provider.Respond(t.Context(), p.Respond(samltest.Response{Request: asked}), "", store{}.spend)
	checkReason(t, err, "in_response_to")
}

func TestSignedResponseNeedsTheSetting(t *testing.T) {
	p := samltest.New(t, "https://login.example.com")
	set := newSettings(t, p.Metadata())
	set.AllowSignedResponse = true
	provider := saml.New(set, nil)
	unsigned := samltest.Signing{Omit: true}
	_, err := provider.Respond(t.Context(), p.Respond(samltest.Response{Request: asked, SignResponse: true, Assertion: unsigned}), asked.ID, store{}.spend)
	checkReason(t, err, "")
	_, err = provider.Respond(t.Context(), p.Respond(samltest.Response{Request: asked, Assertion: unsigned}), asked.ID, store{}.spend)
	checkReason(t, err, "unsigned_assertion")
}

func TestEncryptedAssertions(t *testing.T) {
	p := samltest.New(t, "https://login.example.com")
	set := newSettings(t, p.Metadata())
	own, foreign := set.Keys[0].Certificate, newSettings(t, p.Metadata()).Keys[0].Certificate
	for _, tt := range []struct {
		name, reason string
		signResponse bool
		change       func(*etree.Element)
	}{
		{"authenticated", "", false, samltest.Encrypt(own, false)},
		{"CBC in a signed response", "", true, samltest.Encrypt(own, true)},
		{"CBC in an unsigned response", "signature", false, samltest.Encrypt(own, true)},
		{"for another key", "decryption", false, samltest.Encrypt(foreign, false)},
		{"forged", "unsigned", false, samltest.ForgeInside(samltest.Encrypt(own, false))},
		{"forged in a signed response", "unsigned_assertion", true, samltest.ForgeInside(samltest.Encrypt(own, false))},
		{"with a comment", "comment", false, samltest.CommentInside(samltest.Encrypt(own, false))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			set := set
			set.AllowSignedResponse = true // does not matter for encrypted ones
			text := p.Respond(samltest.Response{Request: asked, SignResponse: tt.signResponse, AfterSign: tt.change})
			_, err := saml.New(set, nil).Respond(t.Context(), text, asked.ID, store{}.spend)
			checkReason(t, err, tt.reason)
		})
	}
	set.Keys = append(newSettings(t, p.Metadata()).Keys, set.Keys...) // while keys change
	text := p.Respond(samltest.Response{Request: asked, AfterSign: samltest.Encrypt(own, false)})
	_, err := saml.New(set, nil).Respond(t.Context(), text, asked.ID, store{}.spend)
	checkReason(t, err, "")
}

func TestPersonOfAttributes(t *testing.T) {
	const (
		soap  = "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/"
		entra = "http://schemas.microsoft.com/ws/2008/06/identity/claims/groups"
	)
	ada := saml.Person{Email: "ada@Example.com", Domain: "example.com", FirstName: "Ada", LastName: "Lovelace"}
	grouped := ada
	grouped.Groups, grouped.GroupsKnown = []string{"a", "b"}, true
	for _, tt := range []struct {
		name       string
		format     string
		names      saml.Names
		attributes map[string][]string
		want       saml.Person
	}{
		{"Okta and Google", "", saml.Names{}, map[string][]string{
			"email": {"ada@Example.com"}, "firstName": {"Ada"}, "lastName": {"Lovelace"}, "groups": {"a", "b"},
		}, grouped},
		{"Entra and AD FS", "", saml.Names{}, map[string][]string{
			soap + "emailaddress": {"ada@Example.com"}, soap + "givenname": {"Ada"}, soap + "surname": {"Lovelace"}, entra: {"a", "b"},
		}, grouped},
		{"too many groups for Entra", "", saml.Names{}, map[string][]string{
			soap + "emailaddress": {"ada@Example.com"}, soap + "givenname": {"Ada"}, soap + "surname": {"Lovelace"},
			"http://schemas.microsoft.com/claims/groups.link": {"https://graph.example.com"},
		}, ada},
		{"own names", "", saml.Names{Email: "E", FirstName: "F", LastName: "L", Groups: "G"}, map[string][]string{
			"E": {"ada@Example.com"}, "F": {"Ada"}, "L": {"Lovelace"}, "G": {"a", "b"}, "email": {"eve@example.com"}, "groups": {"admins"},
		}, grouped},
		{"two addresses", "", saml.Names{}, map[string][]string{"email": {"ada@example.com", "eve@example.com"}}, saml.Person{}},
		{"the address as name", "urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress", saml.Names{}, nil,
			saml.Person{Email: "ada@Example.com", Domain: "example.com"}},
		{"a name that looks like an address", samltest.Persistent, saml.Names{}, nil, saml.Person{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := samltest.New(t, "https://login.example.com")
			set := newSettings(t, p.Metadata())
			set.Names = tt.names
			text := p.Respond(samltest.Response{
				Request: asked, NameID: "ada@Example.com", Format: tt.format, Attributes: tt.attributes, Session: "s1", Class: "urn:mfa",
			})
			in, err := saml.New(set, nil).Respond(t.Context(), text, asked.ID, store{}.spend)
			if err != nil {
				t.Fatal(err)
			}
			if got := in.Person; got.Email != tt.want.Email || got.Domain != tt.want.Domain || got.FirstName != tt.want.FirstName ||
				got.LastName != tt.want.LastName || got.GroupsKnown != tt.want.GroupsKnown || !slices.Equal(got.Groups, tt.want.Groups) {
				t.Errorf("the person is %+v, want %+v", got, tt.want)
			}
			if in.Session != "s1" || !slices.Equal(in.Authn, []string{"urn:mfa"}) || len(in.Names) != len(tt.attributes) {
				t.Errorf("the sign-in is %+v", in)
			}
		})
	}
}
