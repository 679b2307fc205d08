package signin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/identity/saml"
	"modelgate/internal/store"
)

// samlProvider is a provider with SAML 2.0.
type samlProvider struct {
	*saml.Provider
	f   *family
	row store.IdentityProvider
	set saml.Settings
}

// useSAML returns a provider with SAML, with the newest metadata.
func (f *family) useSAML(ctx context.Context, c *route.Caller, p store.IdentityProvider, sealed secret.String) (protocol, error) {
	keys, err := saml.ParseKeys(sealed)
	if err != nil {
		return nil, err
	}
	s, base := &p.Settings, c.AbsoluteLink(pathOf(p.ID))
	text := s.Metadata
	if s.MetadataURL != "" {
		if err := f.checkEgress(p.Organisation, s.MetadataURL); err != nil {
			return nil, err
		}
		text = f.SAML.Current(ctx, s.MetadataURL, text)
	}
	m, err := saml.ParseMetadata([]byte(text))
	if err == nil && m.EntityID() != s.Issuer {
		f.api.Logger.Warn("the metadata of an identity provider names another one, and is not used", "provider", p.Slug)
		m, err = saml.ParseMetadata([]byte(s.Metadata))
	}
	if err != nil {
		return nil, err
	}
	out := &samlProvider{f: f, row: p, set: saml.Settings{
		EntityID: base + metadataPath, ACS: base + acsPath, Logout: base + sloPath, Provider: m, Keys: keys,
		Names: saml.Names(s.Attributes), AllowSignedResponse: s.AllowSignedResponse, AllowUnasked: s.AllowIDPInitiated,
	}}
	out.Provider = saml.New(out.set, f.SAML.Now)
	return out, nil
}

// checkEgress returns a *saml.Refusal for an address that the organisation lets nothing be
// requested from.
func (f *family) checkEgress(organisation, address string) error {
	u, err := url.Parse(address)
	if err == nil {
		err = f.api.CheckEgress(organisation, u)
	}
	if err != nil {
		return &saml.Refusal{Reason: "egress", Err: err}
	}
	return nil
}

// spend records what was accepted for all nodes.
func (p *samlProvider) spend(ctx context.Context, id string, ends time.Time) error {
	hash := access.HashKey(p.row.ID + " saml " + id).String()
	err := p.f.api.DB.Transact(ctx, func(tx *store.Tx) error { return tx.Spend(ctx, hash, p.f.SAML.Now(), ends) })
	if err != nil && apierr.From(err).Kind == apierr.Conflict {
		return saml.ErrReplayed
	}
	return err
}

func (p *samlProvider) begin(w flow) (*route.Form, error) {
	m, err := p.Start(w.State, saml.FlowID(w.Nonce), w.Purpose != "" || w.Confirm)
	if err != nil {
		return nil, err
	}
	return &route.Form{Address: m.Address, Fields: m.Fields}, nil
}

// finish verifies a response. If it is by an unknown key, the provider may have a new one, so
// the metadata is read again.
func (p *samlProvider) finish(ctx context.Context, w flow, values url.Values) (*person, error) {
	id := ""
	if w.Nonce != "" {
		id = saml.FlowID(w.Nonce)
	}
	in, err := p.Respond(ctx, values.Get("SAMLResponse"), id, p.spend)
	if reasonOf(err) == "key" && p.row.Settings.MetadataURL != "" {
		if err := p.renew(ctx); err != nil {
			return nil, err
		}
		in, err = p.Respond(ctx, values.Get("SAMLResponse"), id, p.spend)
	}
	if err != nil {
		return nil, err
	}
	p.f.note(ctx, p, in.Names)
	token, err := json.Marshal(in.Subject)
	if err != nil {
		return nil, err
	}
	return &person{
		Issuer: p.row.Settings.Issuer, Subject: in.Subject.Name, Email: in.Email, Proved: in.Email != "", Domain: in.Domain,
		FirstName: in.FirstName, LastName: in.LastName, Groups: in.Groups, GroupsKnown: in.GroupsKnown,
		SignedIn: in.SignedIn, Session: in.Session, Ends: in.Ends, Token: secret.New(string(token)), Authn: in.Authn,
	}, nil
}

// renew reads the metadata at its address now.
func (p *samlProvider) renew(ctx context.Context) error {
	text, _, err := p.f.SAML.Read(ctx, p.row.Settings.MetadataURL)
	if err != nil {
		return err
	}
	m, err := saml.ParseMetadata([]byte(text))
	if err != nil {
		return err
	}
	if m.EntityID() != p.row.Settings.Issuer {
		return &saml.Refusal{Reason: "metadata", Err: errorText("the metadata at metadata_url names another provider")}
	}
	p.set.Provider = m
	p.Provider = saml.New(p.set, p.f.SAML.Now)
	return nil
}

// noteEvery is how often an assertion is noted whose attributes are those of the last one.
const noteEvery = time.Hour

// note stores which attributes a verified assertion has, and metadata that is new. A
// sign-in does not fail with it.
func (f *family) note(ctx context.Context, p *samlProvider, names []string) {
	now, text := f.SAML.Now(), p.set.Provider.Text()
	same := func(s *store.IdentitySettings) bool {
		l := s.LastAssertion
		return l != nil && slices.Equal(l.Names, names) && now.Sub(l.ReceivedAt) < noteEvery && (s.MetadataURL == "" || s.Metadata == text)
	}
	if same(&p.row.Settings) {
		return
	}
	err := f.api.DB.Transact(ctx, func(tx *store.Tx) error {
		row, err := tx.AnyIdentityProvider(ctx, p.row.ID)
		if err != nil || same(&row.Settings) {
			return err
		}
		row.Settings.LastAssertion = &store.LastAssertion{ReceivedAt: now.UTC().Truncate(time.Second), Names: names}
		if row.Settings.MetadataURL != "" && row.Settings.MetadataURL == p.row.Settings.MetadataURL {
			row.Settings.Metadata = text
		}
		return tx.UpdateIdentityProvider(ctx, row)
	})
	if err != nil {
		f.api.Logger.Warn("an assertion could not be noted", "provider", p.row.Slug, "err", err.Error())
	}
	if s := certificateStep(p.set.Provider, now); s.Outcome != stepOK {
		f.api.Logger.Warn("certificates of an identity provider expire", "provider", p.row.Slug, "detail", s.Detail)
	}
}

func (p *samlProvider) end(token secret.String, _ string) (*route.Form, error) {
	var s saml.Subject
	if err := json.Unmarshal([]byte(token.Reveal()), &s); err != nil {
		return nil, err
	}
	m, err := p.EndURL(s)
	if m == nil || err != nil {
		return nil, err
	}
	return &route.Form{Address: m.Address, Fields: m.Fields}, nil
}

// soon is how long before their end certificates are warned of.
const soon = 30 * 24 * time.Hour

// certificateStep tells how long the provider's certificates are valid.
func certificateStep(m *saml.Metadata, now time.Time) step {
	var last time.Time
	for _, c := range m.Certificates() {
		if c.NotAfter.After(last) {
			last = c.NotAfter
		}
	}
	day := last.UTC().Format(time.DateOnly)
	s := step{"certificate", stepOK, fmt.Sprintf("%d for signing, the last until %s", len(m.Certificates()), day)}
	switch {
	case !now.Before(last):
		s.Outcome, s.Detail = stepFailed, "the last one expired on "+day+"; enter the provider's new metadata"
	case now.Add(soon).After(last):
		s.Outcome = stepWarning
		s.Detail = "the last one expires on " + day + "; enter the provider's new metadata before, or set metadata_url"
	}
	return s
}

func (p *samlProvider) check(ctx context.Context) []step {
	now := p.f.SAML.Now()
	steps := []step{{"entity_id", stepOK, p.set.EntityID + " must be entered at the provider, as audience; its metadata is there too"}}
	steps = append(steps, p.checkMetadata(ctx)...)
	steps = append(steps, certificateStep(p.set.Provider, now))
	if m, err := p.Start("test", saml.FlowID("test"), false); err != nil {
		steps = append(steps, step{"authorization", stepFailed, err.Error()})
	} else if len(m.Fields) == 0 {
		steps = append(steps, p.checkStart(ctx, m.Address))
	}
	if m, err := p.EndURL(saml.Subject{Name: "test"}); m == nil || err != nil {
		steps = append(steps, step{"single_logout", stepWarning, "the metadata has no SingleLogoutService: signing out here does not end the session there"})
	}
	return steps
}

// checkMetadata reads the metadata at its address, and compares the clocks by the response.
func (p *samlProvider) checkMetadata(ctx context.Context) []step {
	if p.row.Settings.MetadataURL == "" {
		return []step{
			{"metadata", stepOK, "of " + p.row.Settings.Issuer + ", as entered"},
			{"clock", stepSkipped, "without metadata_url the provider's time is unknown; assertions may be off by a minute"},
		}
	}
	_, date, err := p.f.SAML.Read(ctx, p.row.Settings.MetadataURL)
	if err == nil {
		err = p.renew(ctx)
	}
	if err != nil {
		return []step{{"metadata", stepFailed, err.Error()}}
	}
	steps := []step{{"metadata", stepOK, "of " + p.row.Settings.Issuer + ", read now"}}
	at, err := http.ParseTime(date)
	if err != nil {
		return append(steps, step{"clock", stepWarning, "the provider's response does not show its time"})
	}
	if off := p.f.SAML.Now().Sub(at).Abs(); off > 2*time.Minute { // read within the last minute
		detail := "the provider's clock says " + at.UTC().Format(time.DateTime) + "; assertions may be off by a minute"
		return append(steps, step{"clock", stepFailed, detail})
	}
	return append(steps, step{"clock", stepOK, "the clocks agree"})
}

// checkStart asks for a sign-in. It may be that only browsers can reach
// the provider.
func (p *samlProvider) checkStart(ctx context.Context, address string) step {
	err := p.f.checkEgress(p.row.Organisation, address)
	status := 0
	if err == nil {
		status, err = p.f.SAML.Ask(ctx, address)
	}
	switch {
	case err != nil:
		return step{"authorization", stepWarning, "the gateway cannot reach the provider's page, which browsers must: " + err.Error()}
	case status >= http.StatusBadRequest:
		detail := fmt.Sprintf("the provider returned %d: enter %s and %s there", status, p.set.EntityID, p.set.ACS)
		return step{"authorization", stepFailed, detail}
	}
	return step{"authorization", stepOK, "the provider accepts the request"}
}
