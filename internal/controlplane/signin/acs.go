package signin

import (
	"context"
	"net/http"
	"net/url"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/people"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/saml"
	"modelgate/internal/store"
)

// maxForm is the limit of a form with a message, in bytes.
const maxForm = 512 << 10

// again is in a form that the gateway's own page sends.
const again = "again"

// acs signs a person in whom a provider sends with a response.
func (f *family) acs(ctx context.Context, c *route.Caller, req *http.Request) *route.Answer {
	p, refused := f.provider(ctx, c, req.PathValue("identity_provider"), store.SAML)
	if refused != nil {
		return page(http.StatusNotFound, refused.said)
	}
	f.describeSignIn(c, p)
	form, err := url.ParseQuery(string(c.Body()))
	if err != nil || len(form["SAMLResponse"]) != 1 || len(form["RelayState"]) > 1 {
		return f.refuse(c, p, &refusal{"request", said, errorText("the form has no SAMLResponse, or several")})
	}
	state := form.Get("RelayState")
	if saml.InResponseTo(form.Get("SAMLResponse")) == "" { // or it cannot be read: finish says why
		w := flow{Next: c.Link(people.SignInPath)}
		if people.IsLocalPath(state) {
			w.Next = state
		}
		return f.conclude(ctx, c, p, w, form)
	}
	if c.Cookie(cookieName(c, state)) == "" && !form.Has(again) {
		// Browsers send some cookies only with what this site's own pages send.
		return &route.Answer{Form: &route.Form{Address: c.Link(pathOf(p.ID) + acsPath), Fields: map[string]string{
			"SAMLResponse": form.Get("SAMLResponse"), "RelayState": state, again: "1",
		}}}
	}
	w, refused := f.resume(ctx, c, p, state)
	if refused != nil {
		return f.refuse(c, p, refused)
	}
	return f.conclude(ctx, c, p, w, form)
}

// metadata shows what the gateway is for a provider.
func (f *family) metadata(ctx context.Context, c *route.Caller, req *http.Request) *route.Answer {
	p, refused := f.provider(ctx, c, req.PathValue("identity_provider"), store.SAML)
	if refused != nil {
		return page(http.StatusNotFound, refused.said)
	}
	provider, err := f.use(ctx, c, p)
	var text []byte
	if s, ok := provider.(*samlProvider); ok && err == nil {
		text, err = s.Describe()
	}
	if err != nil {
		f.api.Logger.Warn("the metadata for an identity provider could not be made", "provider", p.Slug, "err", err.Error())
		return page(http.StatusServiceUnavailable, "The metadata cannot be made at the moment. Try again later.")
	}
	return &route.Answer{Type: "application/samlmetadata+xml", Body: text}
}

// singleLogout takes the messages of single logout: the provider's requests to end sessions,
// browsers that return with its response to one of the gateway's, and browsers that carry such a
// request by a form.
func (f *family) singleLogout(ctx context.Context, c *route.Caller, req *http.Request) *route.Answer {
	p, refused := f.provider(ctx, c, req.PathValue("identity_provider"), store.SAML)
	if refused != nil {
		return page(http.StatusNotFound, refused.said)
	}
	f.describeSignIn(c, p)
	c.SetAuditAction("sign_out", "")
	provider, err := f.use(ctx, c, p)
	s, ok := provider.(*samlProvider)
	if err != nil || !ok {
		return f.refuseLogout(c, p, err)
	}
	query, body := req.URL.Query(), url.Values{}
	if req.Method == http.MethodPost {
		if body, err = url.ParseQuery(string(c.Body())); err != nil {
			return f.refuseLogout(c, p, &saml.Refusal{Reason: "request", Err: errorText("the form cannot be read")})
		}
	}
	switch {
	case query.Has(endParam):
		return f.carryEnd(ctx, c, s, query.Get(endParam))
	case query.Has("SAMLResponse"), body.Has("SAMLResponse"):
		// The session here ended before it was sent, so nothing depends on what it says.
		return &route.Answer{Location: c.Link(people.SignInPath), Status: http.StatusSeeOther}
	}
	return f.endSessions(ctx, c, s, req.URL.RawQuery, body)
}

// endSessions ends the sessions that a request of the provider names.
func (f *family) endSessions(ctx context.Context, c *route.Caller, s *samlProvider, query string, body url.Values) *route.Answer {
	l, err := s.VerifyLogout(ctx, query, body, s.spend)
	if err != nil {
		return f.refuseLogout(c, s.row, err)
	}
	sessions := l.Sessions
	if len(sessions) == 0 {
		sessions = []string{""} // all
	}
	err = c.Change(ctx, func(tx *store.Tx) error {
		for _, name := range sessions {
			if err := tx.EndProviderSessions(ctx, store.ProviderSessions{Provider: s.row.ID, Subject: l.Subject, Session: name}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return f.refuseLogout(c, s.row, err)
	}
	state := body.Get("RelayState")
	if values, err := url.ParseQuery(query); err == nil && state == "" {
		state = values.Get("RelayState")
	}
	m, err := s.Ended(l.ID, state)
	if err != nil || m == nil {
		return page(http.StatusOK, "You are signed out.")
	}
	return answer(&route.Form{Address: m.Address, Fields: m.Fields})
}

func (f *family) refuseLogout(c *route.Caller, p store.IdentityProvider, err error) *route.Answer {
	if err == nil {
		err = apierr.New(apierr.Unavailable, "the provider cannot be used")
	}
	c.SetAuditDetails(map[string]string{"method": p.Type, "provider": p.Slug, "reason": reasonOf(err), "error": err.Error()})
	f.api.Logger.Info("a logout message was refused", "provider", p.Slug, "reason", reasonOf(err), "request", c.RequestID)
	return page(http.StatusBadRequest, "The message of the identity provider was refused. Sign out here if you want to end your session.")
}

// endParam is a query parameter with the sealed token of a session, which the browser of a
// provider without redirects opens to carry the request by a form.
const endParam = "end"

func (f *family) carryEnd(ctx context.Context, c *route.Caller, s *samlProvider, sealed string) *route.Answer {
	token, err := f.api.Secrets.Open(ctx, s.row.Organisation, sealed)
	var m *route.Form
	if err == nil {
		m, err = s.end(token, "")
	}
	if err != nil || m == nil {
		return f.refuseLogout(c, s.row, err)
	}
	return answer(m)
}

// endAddress returns where a browser begins to carry a message to the provider.
func endAddress(c *route.Caller, p store.IdentityProvider, m *route.Form, sealed string) string {
	if m == nil {
		return ""
	}
	if len(m.Fields) == 0 {
		return m.Address
	}
	return c.AbsoluteLink(pathOf(p.ID) + sloPath + "?" + url.Values{endParam: {sealed}}.Encode())
}

type rotateInput struct {
	Provider string `path:"identity_provider" maxLength:"255" doc:"Id or slug"`
	Body     struct {
		Finish bool `json:"finish,omitempty" doc:"Removes the old key; the new one signs from then on"`
	}
}

// rotate makes a second key, or removes the first.
func (f *family) rotate(ctx context.Context, c *route.Caller, in *rotateInput) (*Item, error) {
	if err := checkRank(c); err != nil {
		return nil, err
	}
	p, err := find(ctx, c, in.Provider)
	if err != nil {
		return nil, err
	}
	finish := in.Body.Finish
	switch {
	case p.Type != store.SAML:
		return nil, route.Invalid("identity_provider", "has no key of the gateway; only providers of type saml have")
	case finish && !p.Settings.RotatingKey:
		return nil, route.Invalid("finish", "has no second key to finish with; begin without finish, and enter the new metadata at the provider")
	case !finish && p.Settings.RotatingKey:
		return nil, route.Invalid("finish", "is required: there is a second key already, which signs once you send true")
	case f.api.Secrets == nil:
		return nil, apierr.New(apierr.Unavailable, "secrets cannot be stored without a master key")
	}
	old, err := f.api.Secrets.Open(ctx, p.Organisation, p.Sealed)
	if err != nil {
		return nil, err
	}
	text, err := saml.Rotate(old, finish, c.Now)
	if err != nil {
		return nil, err
	}
	if p.Sealed, err = f.api.Secrets.Seal(ctx, p.Organisation, secret.New(text.Reveal())); err != nil {
		return nil, err
	}
	p.Settings.RotatingKey = !finish
	read := p.UpdatedAt
	p.UpdatedAt = c.NextUpdateTime(read)
	c.SetAuditAction("rotate", p.ID)
	err = change(ctx, c, p.ID, read, func(tx *store.Tx) error { return tx.UpdateIdentityProvider(ctx, p) })
	return route.ItemOf(p, err, toResponse(c))
}
