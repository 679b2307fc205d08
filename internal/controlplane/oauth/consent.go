package oauth

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/identity/oauth"
	"modelgate/internal/store"
)

// grantResource is the name of grants in the audit log.
const grantResource = "oauth_grant"

// codeTime is how long a code waits for its client.
const codeTime = time.Minute

// maxGrants limits the grants that are published to all nodes.
var maxGrants = store.GrantLimits{User: 50, Organisation: 20_000, Code: codeTime}

// maxWorkspaces limits the workspaces that a person may choose from.
const maxWorkspaces = 1000

//go:embed authorize.html
var authorizePage []byte

// ServeAuthorize serves the page at AuthorizePath. It is the same for every request: only a
// person who signed in learns anything of a client, and only on their behalf it is looked up.
func ServeAuthorize(w http.ResponseWriter, r *http.Request) { route.Page(w, r, authorizePage) }

func (f *family) addConsent(a *route.API) {
	r := route.Route{Tag: tag, Path: "/auth/consent"}
	r.Method, r.Name, r.Summary = http.MethodGet, "get-consent", "Read what a client wants you to consent to"
	route.Add(a, r, f.readConsent)
	r.Method, r.Name, r.Resource = http.MethodPost, "decide-consent", grantResource
	r.Summary = "Consent to what a client wants, or refuse it"
	route.Add(a, r, f.decideConsent)
}

type consentInput struct {
	Request string `query:"request" required:"true" minLength:"1" maxLength:"8192" doc:"The query with which the client sent the browser to /oauth/authorize"`
}

// consentRequest is what a person is asked.
type consentRequest struct {
	Object      string      `json:"object"`
	Client      *clientInfo `json:"client"`
	Redirect    string      `json:"redirect_uri" doc:"Where the browser goes afterwards"`
	Resource    string      `json:"resource,omitempty" doc:"Address of the tool servers that the client may then use"`
	Scopes      []string    `json:"scopes"`
	Workspaces  []choice    `json:"workspaces" doc:"Those that you may choose from"`
	Token       string      `json:"consent_token,omitempty" doc:"Sent back with the decision about this request; it is of no use to other sessions"`
	Error       string      `json:"error,omitempty" doc:"Why the request cannot be granted"`
	ErrorTarget string      `json:"error_redirect_uri,omitempty" doc:"Where the client learns of the error"`
}

type clientInfo struct {
	ID       string `json:"id"`
	Name     string `json:"name" doc:"What the client says of itself; anybody can say anything"`
	Source   string `json:"source" enum:"document,organisation,registration" doc:"Where the client is known from: the document at its id, an administrator of your organisation, or its own registration"`
	Host     string `json:"host" doc:"Host of its document, which vouches for the name; empty without a document"`
	Loopback bool   `json:"loopback_only" doc:"Whether any program on your computer could be this client"`
}

type choice struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

func (f *family) readConsent(ctx context.Context, c *route.Caller, in *consentInput) (*consentRequest, error) {
	if _, err := f.checkBrowser(ctx, c); err != nil {
		return nil, err
	}
	a, err := f.readAuthorization(ctx, c, in.Request)
	refusal, isRefusal := errors.AsType[*oauth.Error](err)
	if err != nil {
		f.recordRefusal(ctx, c, in.Request, err)
		if !isRefusal {
			return nil, err
		}
	}
	out := &consentRequest{
		Object: "consent_request", Redirect: a.redirect, Scopes: offered, Workspaces: []choice{},
		Client: &clientInfo{ID: a.client.ID, Name: a.client.Name, Source: a.source, Loopback: a.client.HasOnlyLoopback()},
	}
	if u, err := url.Parse(a.client.ID); err == nil && a.source == "document" {
		out.Client.Host = u.Hostname()
	}
	if isRefusal {
		out.Error, out.ErrorTarget = refusal.Description, a.refuse(c, refusal)
		return out, nil
	}
	out.Resource, out.Token = resourceAddress(c, a.resource), consentToken(c, in.Request)
	list, err := f.workspacesOf(ctx, c)
	for _, w := range list {
		out.Workspaces = append(out.Workspaces, choice{w.ID, w.Name})
	}
	return out, err
}

// checkBrowser returns the caller's session, which must be of a person in a browser.
func (f *family) checkBrowser(ctx context.Context, c *route.Caller) (store.Session, error) {
	if err := checkPerson(c); err != nil {
		return store.Session{}, err
	}
	s, err := c.DB().Session(ctx, c.Hash.String())
	if err == nil && s.Method == store.MethodDevice {
		err = apierr.New(apierr.Forbidden, "a command line cannot approve another; sign in with a browser").WithCode("AB03")
	}
	return s, err
}

// workspacesOf returns the workspaces in which the caller has a role.
func (f *family) workspacesOf(ctx context.Context, c *route.Caller) ([]store.Workspace, error) {
	m, err := c.DB().Membership(ctx, c.Organisation, c.UserID)
	if err != nil {
		return nil, err
	}
	q := store.WorkspaceQuery{Organisation: c.Organisation, Statuses: []string{store.Active}}
	if m.Role != "owner" && m.Role != "admin" {
		q.Member = c.UserID
	}
	list, _, err := c.DB().Workspaces(ctx, q, store.Page{Size: maxWorkspaces})
	return list, err
}

// consentToken returns what proves that a decision is about a request that the same session was
// shown. Other sites can neither read nor guess it.
func consentToken(c *route.Caller, request string) string {
	h := hmac.New(sha256.New, []byte(c.Hash.String()))
	h.Write([]byte("consent\x00" + request))
	return hex.EncodeToString(h.Sum(nil))
}

type decideConsentInput struct {
	Body struct {
		Request   string `json:"request" minLength:"1" maxLength:"8192" doc:"As for GET"`
		Token     string `json:"consent_token" minLength:"1" maxLength:"100"`
		Decision  string `json:"decision" enum:"allow,deny"`
		Workspace string `json:"workspace_id,omitempty" maxLength:"255" doc:"Id or slug; required if you have several and allow"`
	}
}

type decided struct {
	Object   string `json:"object"`
	Redirect string `json:"redirect_uri" doc:"Where the browser goes: to the client, with its code or the refusal"`
}

func (f *family) decideConsent(ctx context.Context, c *route.Caller, in *decideConsentInput) (*decided, error) {
	b := &in.Body
	details := make(map[string]string)
	c.SetAuditAction("oauth_"+b.Decision, "")
	c.SetAuditDetails(details) // without the request
	session, err := f.checkBrowser(ctx, c)
	if err != nil {
		return nil, err
	}
	if !hmac.Equal([]byte(b.Token), []byte(consentToken(c, b.Request))) {
		return nil, apierr.New(apierr.Forbidden, "the decision is not about a request that you were shown; begin again at the client").
			WithParam("consent_token").WithCode("consent_token_invalid")
	}
	if b.Decision == "allow" {
		if err := c.CheckFresh(); err != nil { // a grant outlasts the session, so a stolen one must not begin it
			return nil, err
		}
	}
	a, err := f.readAuthorization(ctx, c, b.Request)
	details["client_id"], details["client_name"], details["redirect_uri"] = a.client.ID, a.client.Name, a.redirect
	details["resource"] = cmp.Or(a.resource, "*")
	if e, ok := errors.AsType[*oauth.Error](err); ok {
		return &decided{"consent", a.refuse(c, e)}, nil
	}
	if err != nil {
		return nil, err
	}
	if b.Decision == "deny" {
		return &decided{"consent", a.refuse(c, oauth.NewError(oauth.AccessDenied, "the person refused"))}, nil
	}
	w, err := f.chooseWorkspace(ctx, c, b.Workspace)
	if err != nil {
		return nil, err
	}
	details["workspace_id"] = w.ID
	code, err := f.addGrant(ctx, c, &a, w, session)
	if err != nil {
		return nil, err
	}
	return &decided{"consent", a.answer(c, url.Values{"code": {code}})}, nil
}

// chooseWorkspace returns the workspace of the caller with an id or slug, the only one if ref is
// empty.
func (f *family) chooseWorkspace(ctx context.Context, c *route.Caller, ref string) (w store.Workspace, err error) {
	list, err := f.workspacesOf(ctx, c)
	if err != nil {
		return w, err
	}
	for _, w := range list {
		if w.ID == ref || w.Slug == ref || ref == "" && len(list) == 1 {
			return w, nil
		}
	}
	switch {
	case len(list) == 0:
		return w, apierr.New(apierr.Forbidden, "you belong to no workspace; ask an admin to add you to one").WithCode("AB03")
	case ref == "":
		return w, route.Invalid("workspace_id", "is required: you have several workspaces")
	}
	return w, route.Missing("workspace_id", "workspace", ref)
}

var errNoMasterKey = apierr.New(apierr.Unavailable,
	"signing in clients needs a master key; ask the operator of the gateway to set MODELGATE_MASTER_KEY")

// addGrant stores what the caller, who signed in with a session, allows, and returns the code of
// the client.
func (f *family) addGrant(ctx context.Context, c *route.Caller, a *authorization, w store.Workspace, by store.Session) (string, error) {
	if f.api.Secrets == nil {
		return "", errNoMasterKey
	}
	sealed, err := f.api.Secrets.Seal(ctx, c.Organisation, access.NewSigningSecret())
	if err != nil {
		return "", err
	}
	secret := access.NewCode()
	g := store.OAuthGrant{
		ID: c.NewID(), Organisation: c.Organisation, UserID: c.UserID, Workspace: w.ID, Client: a.client.ID, ClientName: a.client.Name,
		RedirectURI: a.redirect, Scopes: scopes(), Resource: a.resource, Sealed: sealed, CreatedAt: c.Now,
	}
	p := store.OAuthProof{Grant: g.ID, CodeHash: access.HashKey(secret.Reveal()).String(), Challenge: a.challenge}
	c.SetAuditAction("oauth_allow", g.ID)
	err = c.Change(ctx, func(tx *store.Tx) error {
		now, err := tx.Session(ctx, by.Hash) // may have ended in the meantime
		if apierr.IsNotFound(err) {
			err = apierr.New(apierr.Unauthenticated, "the session has ended; sign in again")
		}
		if err != nil {
			return err
		}
		m, err := tx.Membership(ctx, c.Organisation, c.UserID)
		if err == nil && m.RoleIn(w.ID) == "" {
			err = route.Missing("workspace_id", "workspace", w.ID)
		}
		if err != nil {
			return err
		}
		if p.EndsAt, err = f.grantEnd(ctx, c, tx, now); err != nil {
			return err
		}
		if err := tx.TouchOAuthClient(ctx, a.client.ID, c.Now); err != nil {
			return err
		}
		return tx.AddOAuthGrant(ctx, g, p, maxGrants)
	})
	return secret.Reveal(), err
}

// grantEnd returns when what is begun in a session ends: after the longest time of sessions, or
// that of the identity provider at which the person signed in.
func (f *family) grantEnd(ctx context.Context, c *route.Caller, tx *store.Tx, by store.Session) (time.Time, error) {
	ends := c.Now.Add(f.Lifetime())
	if by.Provider == "" {
		return ends, nil
	}
	p, err := tx.AnyIdentityProvider(ctx, by.Provider)
	if err != nil {
		return ends, err
	}
	if ttl := time.Duration(p.Settings.SessionTTL) * time.Second; ttl > 0 && c.Now.Add(ttl).Before(ends) {
		ends = c.Now.Add(ttl)
	}
	if by.ExpiresAt.Before(ends) { // the provider may have said when it ends
		ends = by.ExpiresAt
	}
	return ends, nil
}

// recordRefusal records a client that was refused to a person.
func (f *family) recordRefusal(ctx context.Context, c *route.Caller, request string, refusal error) {
	client := ""
	if p, err := url.ParseQuery(request); err == nil {
		client = p.Get("client_id")
	}
	text, _ := json.Marshal(map[string]string{"client_id": cutText(client), "error": cutText(refusal.Error())})
	c.RecordEvent(ctx, &store.Audit{
		ID: c.NewID(), RequestID: c.RequestID, Time: c.Now, Organisation: c.Organisation, UserID: c.UserID, UserType: "user",
		Method: http.MethodGet, URI: AuthorizePath, ResourceType: grantResource, Action: "oauth_client_refused", ClientIP: c.ClientIP(),
		QueryParams: "{}", RequestHeaders: "{}", RequestBody: string(text), Status: http.StatusBadRequest,
	})
}

// cutText returns the first characters of text.
func cutText(text string) string {
	if r := []rune(text); len(r) > 300 {
		return string(r[:300])
	}
	return text
}
