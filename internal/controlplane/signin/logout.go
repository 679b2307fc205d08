package signin

import (
	"context"
	"net/http"
	"net/url"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/people"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/identity/oidc"
	"modelgate/internal/store"
)

// logout ends the sessions that an identity provider says have ended.
// https://openid.net/specs/openid-connect-backchannel-1_0.html#BCRequest
func (f *family) logout(ctx context.Context, c *route.Caller, req *http.Request) *route.Answer {
	p, refused := f.provider(ctx, c, req.PathValue("identity_provider"), store.OIDC)
	if refused != nil {
		return reply(http.StatusNotFound, `{"error":"invalid_request"}`)
	}
	c.SetAuditOrganisation(p.Organisation)
	c.SetAuditAction("sign_out", "")
	t, err := f.logoutToken(ctx, c, p, req)
	if err == nil {
		err = c.Change(ctx, func(tx *store.Tx) error {
			id := access.HashKey(p.ID + " logout " + t.ID).String()
			if err := tx.Spend(ctx, id, c.Now, t.Ends); err != nil {
				return err
			}
			c.SetAuditDetails(map[string]string{"method": p.Type, "provider": p.Slug})
			return tx.EndProviderSessions(ctx, store.ProviderSessions{Provider: p.ID, Subject: t.Subject, Session: t.Session})
		})
		if e := apierr.From(err); err != nil && e.Kind == apierr.Conflict {
			err = &oidc.Refusal{Reason: "replayed", Err: errorText("the logout token was used before")}
		}
	}
	if err != nil {
		c.SetAuditDetails(map[string]string{"method": p.Type, "provider": p.Slug, "reason": oidc.ReasonOf(err), "error": err.Error()})
		return reply(http.StatusBadRequest, `{"error":"invalid_request","error_description":"the logout token was refused"}`)
	}
	return reply(http.StatusOK, "")
}

// logoutToken returns the verified token of a request.
func (f *family) logoutToken(ctx context.Context, c *route.Caller, p store.IdentityProvider, req *http.Request) (*oidc.Logout, error) {
	form, err := url.ParseQuery(string(c.Body()))
	if err != nil || len(form["logout_token"]) != 1 {
		return nil, &oidc.Refusal{Reason: "request", Err: errorText("the request has no logout_token")}
	}
	provider, err := f.use(ctx, c, p)
	o, ok := provider.(oidcProvider)
	if err != nil || !ok {
		return nil, err
	}
	return o.VerifyLogout(ctx, form.Get("logout_token"))
}

// EndURL returns a function that returns where a browser ends the session at the identity
// provider of a session here, empty if there is no such place.
// https://openid.net/specs/openid-connect-rpinitiated-1_0.html
func (r Routes) EndURL(a *route.API) func(context.Context, *route.Caller, store.Session) string {
	f := &family{r, a}
	return func(ctx context.Context, c *route.Caller, s store.Session) string {
		if s.Provider == "" || a.Secrets == nil {
			return ""
		}
		p, err := c.DB().AnyIdentityProvider(ctx, s.Provider)
		if err != nil || !f.hasProtocol(p) {
			return ""
		}
		token, err := a.Secrets.Open(ctx, s.Organisation, s.IDToken)
		if err != nil {
			return ""
		}
		provider, err := f.use(ctx, c, p)
		if err != nil {
			return ""
		}
		m, err := provider.end(token, c.AbsoluteLink(people.SignInPath))
		if err != nil {
			return ""
		}
		return endAddress(c, p, m, s.IDToken)
	}
}

func reply(status int, body string) *route.Answer {
	return &route.Answer{Status: status, Type: "application/json", Body: []byte(body)}
}
