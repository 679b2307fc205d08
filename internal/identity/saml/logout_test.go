package saml_test

import (
	"encoding/base64"
	"encoding/xml"
	"net/url"
	"strings"
	"testing"
	"time"

	"modelgate/internal/identity/saml"
	"modelgate/internal/testing/samltest"
)

func TestLogoutRequestsMustBeSigned(t *testing.T) {
	p, other := samltest.New(t, "https://login.example.com"), samltest.New(t, "https://login.example.com")
	provider := saml.New(newSettings(t, p.Metadata()), nil)
	request := samltest.Logout{To: slo, NameID: "subject-1", Sessions: []string{"a", "b"}}
	unsigned, sha1, elsewhere, old := request, request, request, request
	unsigned.Signing.Omit, sha1.Signing.SHA1, elsewhere.To, old.Now = true, true, acs, time.Now().Add(-time.Hour)
	for _, tt := range []struct {
		name, reason string
		query        string
		form         url.Values
	}{
		{"form", "", "", p.LogoutForm(request)},
		{"redirect", "", p.RedirectForm(p.LogoutForm(unsigned), true), nil},
		{"unsigned form", "unsigned", "", p.LogoutForm(unsigned)},
		{"unsigned redirect", "unsigned", p.RedirectForm(p.LogoutForm(unsigned), false), nil},
		{"form by another key", "key", "", other.LogoutForm(request)},
		{"redirect by another key", "signature", other.RedirectForm(other.LogoutForm(unsigned), true), nil},
		{"SHA-1", "algorithm", "", p.LogoutForm(sha1)},
		{"another address", "recipient", "", p.LogoutForm(elsewhere)},
		{"old", "expired", "", p.LogoutForm(old)},
		{"redirect and form", "request", p.RedirectForm(p.LogoutForm(unsigned), true), p.LogoutForm(request)},
		{"a response", "request", "", url.Values{"SAMLResponse": {"x"}}},
		{"a sign-in", "structure", "", url.Values{"SAMLRequest": {p.Respond(samltest.Response{Request: asked})}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := provider.VerifyLogout(t.Context(), tt.query, tt.form, store{}.spend)
			checkReason(t, err, tt.reason)
			if tt.reason == "" && (got == nil || got.Subject != "subject-1" || strings.Join(got.Sessions, " ") != "a b") {
				t.Errorf("the request is %+v", got)
			}
		})
	}
}

func TestLogoutMessagesOfTheGateway(t *testing.T) {
	p := samltest.New(t, "https://login.example.com")
	provider := saml.New(newSettings(t, p.Metadata()), nil)
	m, err := provider.EndURL(saml.Subject{Name: "subject-1", Format: samltest.Persistent, Session: "s1"})
	if err != nil || !strings.HasPrefix(m.Address, p.URL+"/SingleLogoutService?") || !strings.Contains(m.Address, "&Signature=") {
		t.Fatalf("the message is %+v, %v", m, err)
	}
	if r := samltest.Read(t, m.Address); r.Subject != "subject-1" || r.Session != "s1" || r.Issuer != entityID {
		t.Errorf("the request is %+v", r)
	}
	if m, err = provider.Ended("id-9", "state"); err != nil {
		t.Fatal(err)
	}
	if r := samltest.Read(t, m.Address); r.Answers != "id-9" || r.State != "state" {
		t.Errorf("the response is %+v", r)
	}
	p.PostOnly = true
	provider = saml.New(newSettings(t, p.Metadata()), nil)
	for field, make := range map[string]func() (*saml.Message, error){
		"SAMLRequest":  func() (*saml.Message, error) { return provider.EndURL(saml.Subject{Name: "subject-1"}) },
		"SAMLResponse": func() (*saml.Message, error) { return provider.Ended("id-9", "state") },
	} {
		m, err := make()
		if err != nil {
			t.Fatal(err)
		}
		text, err := base64.StdEncoding.DecodeString(m.Fields[field])
		if err != nil || m.Address != p.URL+"/SingleLogoutService" || !strings.Contains(string(text), "SignatureValue>") {
			t.Errorf("the message is %+v, %v", m, err)
		}
	}
	if m, err = provider.Start("state", "id-1", true); err != nil || m.Fields["RelayState"] != "state" || m.Address != p.URL+"/SingleSignOnService" {
		t.Errorf("the request is %+v, %v", m, err)
	}
}

func TestStartAsksForAResponseHere(t *testing.T) {
	p := samltest.New(t, "https://login.example.com")
	m, err := saml.New(newSettings(t, p.Metadata()), nil).Start("state", "id-1", false)
	if err != nil {
		t.Fatal(err)
	}
	if r := samltest.Read(t, m.Address); r.ID != "id-1" || r.ACS != acs || r.Issuer != entityID || r.State != "state" {
		t.Errorf("the request is %+v", r)
	}
}

func TestMetadataOfTheGateway(t *testing.T) {
	p := samltest.New(t, "https://login.example.com")
	set := newSettings(t, p.Metadata())
	set.Keys = append(set.Keys, newSettings(t, p.Metadata()).Keys...)
	text, err := saml.New(set, nil).Describe()
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		XMLName  xml.Name `xml:"urn:oasis:names:tc:SAML:2.0:metadata EntityDescriptor"`
		EntityID string   `xml:"entityID,attr"`
		Role     struct {
			Keys []struct {
				Use         string `xml:"use,attr"`
				Certificate string `xml:"KeyInfo>X509Data>X509Certificate"`
			} `xml:"KeyDescriptor"`
			Logout []struct {
				Location string `xml:",attr"`
			} `xml:"SingleLogoutService"`
			ACS []struct {
				Binding  string `xml:",attr"`
				Location string `xml:",attr"`
			} `xml:"AssertionConsumerService"`
		} `xml:"SPSSODescriptor"`
	}
	if err := xml.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	r := got.Role
	if got.EntityID != entityID || len(r.Keys) != 2 || r.Keys[0].Use != "signing" || r.Keys[0].Certificate == r.Keys[1].Certificate ||
		len(r.ACS) != 1 || r.ACS[0].Location != acs || !strings.HasSuffix(r.ACS[0].Binding, "HTTP-POST") || len(r.Logout) != 2 || r.Logout[0].Location != slo {
		t.Errorf("the metadata is\n%s", text)
	}
}

func TestMetadataOfProvidersIsChecked(t *testing.T) {
	good := samltest.New(t, "https://login.example.com").Metadata()
	for name, text := range map[string]string{
		"nothing":           "",
		"a page":            "<html></html>",
		"no name":           strings.Replace(good, `entityID="https://login.example.com"`, `entityID=""`, 1),
		"no certificate":    strings.ReplaceAll(good, `use="signing"`, `use="encryption"`),
		"a bad certificate": strings.Replace(good, "<X509Certificate>M", "<X509Certificate>A", 1),
		"no address":        strings.ReplaceAll(good, "SingleSignOnService", "NameIDMappingService"),
		"a script":          strings.ReplaceAll(good, `Location="https:`, `Location="javascript:`),
		"a document type":   "<!DOCTYPE x>" + good,
		"two providers":     strings.Replace(good, "</EntityDescriptor>", good[strings.Index(good, "<IDPSSO"):], 1),
		"large":             strings.Replace(good, "<KeyDescriptor", strings.Repeat(" ", 300<<10)+"<KeyDescriptor", 1),
	} {
		if _, err := saml.ParseMetadata([]byte(text)); err == nil {
			t.Errorf("%s: the metadata was accepted", name)
		}
	}
	if _, err := saml.ParseMetadata([]byte("<?xml version=\"1.0\"?>\n<!-- of the provider -->\n" + good)); err != nil {
		t.Error(err)
	}
}
