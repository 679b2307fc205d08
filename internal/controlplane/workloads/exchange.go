package workloads

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/people"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/identity/oauth"
	"modelgate/internal/identity/workload"
	"modelgate/internal/store"
)

// addressLimit limits the refused exchanges of an address.
var addressLimit = store.AttemptLimit{Free: 60, Wait: 10 * time.Second, MaxWait: 5 * time.Minute, Forget: 10 * time.Second}

// Exchange returns the grant that exchanges a token of an issuer for a short-lived key
// (RFC 8693).
func (r Routes) Exchange(a *route.API) func(context.Context, *route.Caller, map[string]string) (*oauth.Token, error) {
	f := &family{r, a}
	return f.exchange
}

func (f *family) exchange(ctx context.Context, c *route.Caller, form map[string]string) (*oauth.Token, error) {
	if err := checkForm(form); err != nil {
		return nil, err
	}
	if f.Verifier == nil || f.Issue == nil {
		return nil, &oauth.Error{Code: oauth.Unavailable, Description: "this gateway exchanges no tokens", Status: http.StatusServiceUnavailable}
	}
	limit := addressLimit
	limit.ID = people.LimitID("exchange", people.AddressGroup(c.ClientIP()))
	if err := people.Reserve(ctx, c, f.api.DB, "too many tokens from this address were refused", limit); err != nil {
		return nil, err
	}
	out, err := f.grant(ctx, c, form)
	if err == nil {
		err = f.api.DB.ReleaseAttempt(ctx, c.Now, limit)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// checkForm checks the parameters of a request (RFC 8693, section 2.1).
func checkForm(form map[string]string) error {
	for _, name := range []string{"subject_token", "subject_token_type", "client_id"} {
		if form[name] == "" {
			return oauth.NewError(oauth.InvalidRequest, name+" is required")
		}
	}
	if !slices.Contains([]string{oauth.TypeJWT, oauth.TypeIDToken, oauth.TypeAccessToken}, form["subject_token_type"]) {
		return oauth.NewError(oauth.InvalidRequest, "subject_token_type must be the type jwt, id_token or access_token, as urn:ietf:params:oauth:token-type:jwt")
	}
	if t := form["requested_token_type"]; t != "" && t != oauth.TypeAccessToken {
		return oauth.NewError(oauth.InvalidRequest, "requested_token_type must be "+oauth.TypeAccessToken+" or absent")
	}
	for _, name := range []string{"actor_token", "actor_token_type"} {
		if form[name] != "" {
			return oauth.NewError(oauth.InvalidRequest, name+" is not supported")
		}
	}
	for _, name := range []string{"client_secret", "client_assertion"} {
		if form[name] != "" {
			return &oauth.Error{
				Code: oauth.InvalidClient, Description: "the subject token is the only proof; leave out " + name, Status: http.StatusUnauthorized,
			}
		}
	}
	if len(form["scope"]) > maxScope {
		return oauth.NewError(oauth.InvalidScope, fmt.Sprintf("scope must have at most %d characters", maxScope))
	}
	for _, s := range scopes(form["scope"]) {
		if err := s.Check(); err != nil {
			return oauth.NewError(oauth.InvalidScope, err.Error())
		}
	}
	return nil
}

// maxScope is the limit of the parameter scope: all scopes that there are fit.
const maxScope = 8 << 10

// grant verifies the token of a request and returns the key.
func (f *family) grant(ctx context.Context, c *route.Caller, form map[string]string) (*oauth.Token, error) {
	refused := oauth.NewError(oauth.InvalidRequest, said)
	w, err := c.DB().AnyWorkloadIdentity(ctx, form["client_id"])
	if apierr.IsNotFound(err) {
		return nil, refused
	}
	if err != nil {
		return nil, err
	}
	details := map[string]string{"method": w.Trust.Type, "workload_identity": w.Slug}
	c.SetAuditOrganisation(w.Organisation)
	c.SetAuditAction("exchange", w.ID)
	c.SetAuditDetails(details)
	var subject string
	if w.Status != store.Active {
		err = &workload.Refusal{Reason: "disabled", Err: errorText("the workload identity is disabled")}
	} else {
		subject, err = f.Verifier.Verify(ctx, workload.Request{
			Trust: &w.Trust, Token: form["subject_token"], Now: c.Now,
			Allow: func(u *url.URL) error { return f.api.CheckEgress(w.Organisation, u) },
		})
	}
	if err != nil {
		details["reason"], details["error"] = workload.ReasonOf(err), err.Error()
		return nil, refused
	}
	details["subject"] = subject
	if err := checkTarget(c, form); err != nil {
		details["reason"] = "target"
		return nil, err
	}
	key, id, err := f.Issue(access.WorkloadGrant{
		Workload: w.ID, Subject: subject, Expires: c.Now.Add(time.Duration(w.TTL) * time.Second).Unix(), Scopes: scopes(form["scope"]),
	}, c.Now)
	if err != nil {
		details["reason"], details["error"] = "service_key", err.Error()
		return nil, err
	}
	c.Identify(id)
	c.SetAuditAction("exchange", w.ID)
	for _, s := range scopes(form["scope"]) {
		if !slices.Contains(id.Scopes, s) {
			details["reason"] = "scope"
			return nil, oauth.NewError(oauth.InvalidScope, "the service key of the workload identity does not have every scope that was requested")
		}
	}
	details["expires_at"] = id.ExpiresAt.UTC().Format(time.RFC3339)
	return &oauth.Token{
		AccessToken: key.Reveal(), IssuedType: oauth.TypeAccessToken, Type: "Bearer",
		ExpiresIn: max(int64(id.ExpiresAt.Sub(c.Now).Seconds()), 0), Scope: words(id.Scopes),
	}, nil
}

type errorText string

func (e errorText) Error() string { return string(e) }

// checkTarget returns an error for a key that is asked for another server.
func checkTarget(c *route.Caller, form map[string]string) error {
	if t := cmp.Or(form["audience"], form["resource"]); t != "" && strings.TrimSuffix(t, "/") != c.AbsoluteLink("") {
		return oauth.NewError(oauth.InvalidTarget, "audience and resource must be the address of this gateway, or absent")
	}
	return nil
}

// scopes returns the scopes of a parameter, nil for none.
func scopes(parameter string) []access.Scope {
	var list []access.Scope
	for word := range strings.FieldsSeq(parameter) {
		if s := access.Scope(word); !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	return list
}
