package saml

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/base64"
	"encoding/xml"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/beevik/etree"
	crewjam "github.com/crewjam/saml"
)

// Logout is a verified request of the provider to end sessions.
type Logout struct {
	ID       string
	Subject  string
	Sessions []string // the provider's names of its sessions; empty ends all of the subject's
}

var logoutRequest = xml.Name{Space: protocolSpace, Local: "LogoutRequest"}

// readRequest checks the form of a logout request, which is in the query (compressed) or in the
// body.
func readRequest(query, body url.Values) error {
	const field = "SAMLRequest"
	list, compressed := slices.Concat(query[field], body[field]), query.Has(field)
	if len(list) != 1 { // another reader would take the other
		return refuse("request", "the request has no %s, or several", field)
	}
	raw, err := decode(list[0])
	if err == nil && compressed {
		raw, err = io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(raw)), maxDocument+1))
		if err != nil {
			err = refuse("encoding", "the message is not compressed as it should be")
		}
	}
	if err == nil {
		_, err = scan(raw, logoutRequest)
	}
	return err
}

// VerifyLogout verifies a request of the provider to end sessions. Unsigned ones are refused.
// The error is a *Refusal.
func (p *Provider) VerifyLogout(ctx context.Context, query string, body url.Values, spend Spend) (*Logout, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, refuse("request", "the query cannot be read")
	}
	if err := readRequest(values, body); err != nil {
		return nil, err
	}
	if body.Has("SigAlg") || body.Has("Signature") {
		return nil, refuse("unsupported", "the message is signed for the binding HTTP-POST-SimpleSign")
	}
	sp, err := p.service()
	if err != nil {
		return nil, err
	}
	sp.SignatureVerifier = &verifier{certificates: p.set.Provider.certificates, now: p.now()}
	sp.ReplayCache = replays{ctx, spend}
	got, err := sp.ValidateLogoutRequest(&http.Request{
		Method: http.MethodPost, URL: &url.URL{RawQuery: query}, PostForm: body, Form: body,
	})
	if err != nil {
		return nil, refusal(err)
	}
	if got.NotOnOrAfter != nil && !p.now().Before(got.NotOnOrAfter.Add(skew)) {
		return nil, refuse("expired", "the logout request has expired; compare the clocks")
	}
	if got.NameID == nil || strings.TrimSpace(got.NameID.Value) == "" {
		return nil, refuse("no_subject", "the logout request has no NameID")
	}
	out := &Logout{ID: got.ID, Subject: strings.TrimSpace(got.NameID.Value)}
	for _, s := range got.AllSessionIndexes() {
		if name := cut(strings.TrimSpace(s.Value)); name != "" {
			out.Sessions = append(out.Sessions, name)
		}
	}
	return out, nil
}

// EndURL returns the message with which a browser ends the session at the provider, nil if the
// provider has no place for it.
func (p *Provider) EndURL(s Subject) (*Message, error) {
	sp, err := p.service()
	if err != nil {
		return nil, err
	}
	address, redirect := p.logoutAddress(false)
	if address == "" {
		return nil, nil
	}
	request, err := sp.MakeLogoutRequest(address, s.Name)
	if err != nil {
		return nil, err
	}
	request.NameID = &crewjam.NameID{Format: s.Format, Value: s.Name, NameQualifier: s.Qualifier, SPNameQualifier: s.OwnQualifier}
	if s.Session != "" {
		request.SessionIndex = &crewjam.SessionIndex{Value: s.Session}
	}
	request.Signature = nil
	if redirect {
		to, err := sp.RedirectLogoutRequestURL(request, "")
		if err != nil {
			return nil, err
		}
		return &Message{Address: to.String()}, nil
	}
	if err := sp.SignLogoutRequest(request); err != nil {
		return nil, err
	}
	return form(address, "SAMLRequest", request.Element(), "")
}

// Ended returns the response to a request of the provider to end sessions, nil if the provider
// has no place for it.
func (p *Provider) Ended(id, state string) (*Message, error) {
	sp, err := p.service()
	if err != nil {
		return nil, err
	}
	address, redirect := p.logoutAddress(true)
	if address == "" {
		return nil, nil
	}
	response, err := sp.MakeLogoutResponse(address, id)
	if err != nil {
		return nil, err
	}
	if !redirect {
		return form(address, "SAMLResponse", response.Element(), state)
	}
	entity := *sp.IDPMetadata // the library sends responses to the address of requests
	entity.IDPSSODescriptors = slices.Clone(entity.IDPSSODescriptors)
	entity.IDPSSODescriptors[0].SingleLogoutServices = []crewjam.Endpoint{{Binding: crewjam.HTTPRedirectBinding, Location: address}}
	sp.IDPMetadata = &entity
	to, err := sp.MakeRedirectLogoutResponse(id, state)
	if err != nil {
		return nil, err
	}
	return &Message{Address: to.String()}, nil
}

// logoutAddress returns where the provider takes logout messages, and whether by redirect.
func (p *Provider) logoutAddress(response bool) (address string, redirect bool) {
	for _, e := range p.set.Provider.entity.IDPSSODescriptors[0].SingleLogoutServices {
		redirect = e.Binding == crewjam.HTTPRedirectBinding
		if !redirect && e.Binding != crewjam.HTTPPostBinding {
			continue
		}
		if address = e.Location; response && e.ResponseLocation != "" {
			address = e.ResponseLocation
		}
		if redirect {
			return address, true
		}
	}
	return address, false
}

// form returns a message that a form carries.
func form(address, field string, el *etree.Element, state string) (*Message, error) {
	text, err := textOf(el)
	if err != nil {
		return nil, err
	}
	m := &Message{Address: address, Fields: map[string]string{field: base64.StdEncoding.EncodeToString(text)}}
	if state != "" {
		m.Fields["RelayState"] = state
	}
	return m, nil
}
