package signin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/people"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/oidc"
	"modelgate/internal/store"
)

// flowTime is how long a browser has for a sign-in.
const flowTime = 10 * time.Minute

// What a flow is for. Empty is to sign in.
const (
	toTest = "test" // shows its steps and begins no session
	toLink = "link" // adds an identity to the user who began it
)

// flow is what the browser that began a sign-in keeps of it, sealed, in a cookie.
type flow struct {
	oidc.Flow
	Provider string    `json:"provider"`
	Next     string    `json:"next"` // where the browser goes at the end
	Purpose  string    `json:"purpose,omitempty"`
	UserID   string    `json:"user_id,omitempty"` // who links
	Session  string    `json:"session,omitempty"` // hash of the session that links
	Began    time.Time `json:"began"`
	Confirm  bool      `json:"confirm,omitempty"` // the person must authenticate again
}

// cookieName returns the name of the cookie of a flow, each of which has one of its own,
// so that two tabs can sign in at a time.
func cookieName(c *route.Caller, state string) string {
	sum := sha256.Sum256([]byte(state))
	name := "mg_flow_" + hex.EncodeToString(sum[:8])
	if c.IsSecure() { // then browsers accept it from this host alone
		name = "__Host-" + name
	}
	return name
}

// refusal is why a browser is not signed in.
type refusal struct {
	reason string // in the audit log
	said   string // on the page: says nothing about accounts
	err    error  // the cause, for tests of a provider; may be nil
}

func (r *refusal) Error() string { return r.said }

// said is the text for everybody whose sign-in was refused, whatever the reason.
const said = "The sign-in failed. Try again, and if it fails again, ask an administrator of your organisation: the audit log has the reason."

// provider returns the identity provider of a request that a browser may use, of one of the
// types.
func (f *family) provider(ctx context.Context, c *route.Caller, id string, types ...string) (store.IdentityProvider, *refusal) {
	p, err := c.DB().AnyIdentityProvider(ctx, id)
	if err != nil || !f.hasProtocol(p) || !slices.Contains(types, p.Type) {
		return p, &refusal{"unknown_provider", "This address is of no identity provider. Ask an administrator of your organisation for the right one.", err}
	}
	return p, nil
}

// begin sends a browser to the identity provider.
func (f *family) begin(ctx context.Context, c *route.Caller, req *http.Request) *route.Answer {
	p, refused := f.provider(ctx, c, req.PathValue("identity_provider"), store.OIDC, store.SAML)
	if refused != nil {
		return page(http.StatusNotFound, refused.said)
	}
	next := req.URL.Query().Get("next")
	if next == "" {
		next = c.Link(people.SignInPath)
	} else if !people.IsLocalPath(next) {
		return page(http.StatusBadRequest, "The address to return to must be a path of this gateway.")
	}
	if state := req.URL.Query().Get(flowParam); state != "" {
		return f.carryStart(ctx, c, p, state)
	}
	m, err := f.start(ctx, c, p, flow{Next: next, Confirm: req.URL.Query().Get("confirm") == "true"})
	if err != nil {
		f.api.Logger.Warn("a sign-in could not begin", "provider", p.Slug, "err", err.Error())
		return page(http.StatusBadGateway,
			"The identity provider "+p.Name+" cannot be used"+since(err)+". Try again later, or sign in another way.")
	}
	return answer(m)
}

// since says since when a provider has been away, or that it is away at the moment.
func since(err error) string {
	r, ok := errors.AsType[*oidc.Refusal](err)
	if !ok || r.Since.IsZero() {
		return " at the moment"
	}
	return " since " + r.Since.UTC().Format("2006-01-02 15:04 UTC")
}

// carryStart sends the form of a flow that has begun.
func (f *family) carryStart(ctx context.Context, c *route.Caller, p store.IdentityProvider, state string) *route.Answer {
	w, refused := f.open(ctx, c, p, state)
	if refused != nil {
		return f.refuse(c, p, refused)
	}
	provider, err := f.use(ctx, c, p)
	var m *route.Form
	if err == nil {
		m, err = provider.begin(w)
	}
	if err != nil {
		return f.refuse(c, p, &refusal{reasonOf(err), said, err})
	}
	return answer(m)
}

// start begins a flow and returns what the browser carries to the provider.
func (f *family) start(ctx context.Context, c *route.Caller, p store.IdentityProvider, w flow) (*route.Form, error) {
	provider, err := f.use(ctx, c, p)
	if err != nil {
		return nil, err
	}
	w.Flow, w.Provider, w.Began = oidc.NewFlow(), p.ID, c.Now
	text, err := json.Marshal(w)
	if err != nil {
		return nil, err
	}
	if f.api.Secrets == nil {
		return nil, apierr.New(apierr.Unavailable, "signing in at identity providers needs a master key")
	}
	sealed, err := f.api.Secrets.Seal(ctx, p.Organisation, secret.New(string(text)))
	if err != nil {
		return nil, err
	}
	c.SetCookie(flowCookie(c, p, w.State, sealed, flowTime))
	m, err := provider.begin(w)
	if err == nil && w.Purpose != "" && len(m.Fields) > 0 { // an address is needed, so a page of the gateway sends the form
		m = &route.Form{Address: c.Link(pathOf(p.ID) + "?" + url.Values{flowParam: {w.State}}.Encode())}
	}
	return m, err
}

// flowParam is a query parameter with the state of a flow that has begun.
const flowParam = "flow"

// flowCookie returns the cookie of a flow. A provider with SAML comes back with a form of
// another site, with which browsers send only cookies that are marked for it, over HTTPS.
func flowCookie(c *route.Caller, p store.IdentityProvider, state, value string, age time.Duration) *http.Cookie {
	k := &http.Cookie{Name: cookieName(c, state), Value: value, Path: "/", MaxAge: int(age.Seconds()), SameSite: http.SameSiteLaxMode}
	if value == "" {
		k.MaxAge = -1
	}
	if p.Type == store.SAML && c.IsSecure() {
		k.SameSite = http.SameSiteNoneMode
	}
	return k
}

// resume returns the flow that the browser of a callback began, and forgets it.
func (f *family) resume(ctx context.Context, c *route.Caller, p store.IdentityProvider, state string) (flow, *refusal) {
	w, refused := f.open(ctx, c, p, state)
	if c.Cookie(cookieName(c, state)) != "" {
		c.SetCookie(flowCookie(c, p, state, "", 0))
	}
	return w, refused
}

// open returns the flow that the browser of a request began.
func (f *family) open(ctx context.Context, c *route.Caller, p store.IdentityProvider, state string) (flow, *refusal) {
	var w flow
	sealed := c.Cookie(cookieName(c, state))
	if state == "" || sealed == "" {
		return w, &refusal{"state", said, errorText("the browser did not begin this sign-in, began it more than 10 minutes ago, or returned twice; if it did begin it here, compare the address at which it began with the redirect address")}
	}
	if f.api.Secrets == nil {
		return w, &refusal{"state", said, errorText("there is no master key")}
	}
	text, err := f.api.Secrets.Open(ctx, p.Organisation, sealed)
	if err == nil {
		err = json.Unmarshal([]byte(text.Reveal()), &w)
	}
	switch {
	case err != nil:
		return w, &refusal{"state", said, errorText("the browser's part of the sign-in cannot be read")}
	case w.Provider != p.ID || w.State != state:
		return flow{}, &refusal{"state", said, errorText("the browser began another sign-in")}
	case c.Now.Sub(w.Began) > flowTime || w.Began.After(c.Now.Add(time.Minute)):
		return w, &refusal{"expired_flow", said, errorText("the sign-in took more than 10 minutes")}
	}
	return w, nil
}

type errorText string

func (e errorText) Error() string { return string(e) }

// callback signs a person in who returns from the identity provider.
func (f *family) callback(ctx context.Context, c *route.Caller, req *http.Request) *route.Answer {
	p, refused := f.provider(ctx, c, req.PathValue("identity_provider"), store.OIDC)
	if refused != nil {
		return page(http.StatusNotFound, refused.said)
	}
	f.describeSignIn(c, p)
	w, refused := f.resume(ctx, c, p, req.URL.Query().Get("state"))
	if refused != nil {
		return f.stop(c, p, w, refused)
	}
	return f.conclude(ctx, c, p, w, req.URL.Query())
}

// describeSignIn describes an attempt in the audit log.
func (f *family) describeSignIn(c *route.Caller, p store.IdentityProvider) {
	c.SetAuditOrganisation(p.Organisation)
	c.SetAuditAction("sign_in", "")
	c.SetAuditDetails(map[string]string{"method": p.Type, "provider": p.Slug})
}

// conclude completes the protocol of a flow, and signs the person in, or shows a test.
func (f *family) conclude(ctx context.Context, c *route.Caller, p store.IdentityProvider, w flow, values url.Values) *route.Answer {
	in, err := f.finish(ctx, c, p, w, values)
	if err != nil {
		return f.stop(c, p, w, &refusal{reasonOf(err), said, err})
	}
	if w.Purpose == toTest {
		c.SetAuditAction("sign_in_test", "")
		return testPage(in, nil, f.foresee(ctx, c, p, in))
	}
	var refused *refusal
	if w.Confirm && in.SignedIn.Before(w.Began.Add(-time.Minute)) {
		refused = &refusal{"auth_time", said, errorText("the provider did not say that the person authenticated again (auth_time)")}
	}
	var s *people.NewSession
	if refused == nil {
		s, refused = f.admit(ctx, c, p, w, in)
	}
	if refused != nil {
		return f.refuse(c, p, refused)
	}
	f.count("ok")
	if s != nil && s.Pending != "" { // the page asks for the second factor, and leads on
		w.Next = c.Link(people.SignInPath) + "?" + url.Values{"next": {w.Next}}.Encode()
	}
	return &route.Answer{Location: w.Next, Status: http.StatusSeeOther}
}

// stop ends a flow that was refused before anybody was known.
func (f *family) stop(c *route.Caller, p store.IdentityProvider, w flow, r *refusal) *route.Answer {
	if w.Purpose == toTest {
		c.SetAuditAction("sign_in_test", "")
		return testPage(nil, r, step{})
	}
	return f.refuse(c, p, r)
}

// finish completes the protocol of a flow.
func (f *family) finish(ctx context.Context, c *route.Caller, p store.IdentityProvider, w flow, values url.Values) (*person, error) {
	provider, err := f.use(ctx, c, p)
	if err != nil {
		return nil, err
	}
	return provider.finish(ctx, w, values)
}

// refuse records why a sign-in was refused, and tells the browser that it was.
func (f *family) refuse(c *route.Caller, p store.IdentityProvider, r *refusal) *route.Answer {
	f.count("refused")
	details := map[string]string{"method": p.Type, "provider": p.Slug, "reason": r.reason}
	if r.err != nil {
		details["error"] = r.err.Error()
	}
	c.SetAuditDetails(details)
	f.api.Logger.Info("a sign-in was refused", "provider", p.Slug, "reason", r.reason, "request", c.RequestID)
	out := shownPage{Title: "Sign in", Said: r.said}
	if r.reason == "unasked" {
		out.Link = c.Link(pathOf(p.ID))
	}
	return show(http.StatusForbidden, out)
}

// admit begins a session for a person, or links their identity.
func (f *family) admit(
	ctx context.Context, c *route.Caller, p store.IdentityProvider, w flow, in *person,
) (*people.NewSession, *refusal) {
	token, err := f.api.Secrets.Seal(ctx, p.Organisation, in.Token)
	if err != nil {
		return nil, &refusal{"internal", said, err}
	}
	var s *people.NewSession
	var refused *refusal
	err = c.Change(ctx, func(tx *store.Tx) error {
		a := admission{tx: tx, c: c, provider: p, person: *in, flow: w}
		var user store.User
		if user, refused = a.user(ctx); refused != nil {
			return refused
		}
		if in.GroupsKnown { // unknown groups take nothing away
			err = f.assign(ctx, tx, groupsOf(p, user.ID, in.Groups, c.Now))
			if err != nil {
				return err
			}
		}
		if w.Purpose == toLink {
			c.SetAuditAction("identity_link", user.ID)
			c.SetAuditActor(user.ID)
			return nil
		}
		ends := c.Now.Add(f.Lifetime())
		if ttl := time.Duration(p.Settings.SessionTTL) * time.Second; ttl > 0 && c.Now.Add(ttl).Before(ends) {
			ends = c.Now.Add(ttl)
		}
		if !in.Ends.IsZero() && in.Ends.Before(ends) {
			ends = in.Ends
		}
		s, err = people.Begin(ctx, c, tx, people.Start{
			UserID: user.ID, Organisation: p.Organisation, Ends: ends, Method: store.MethodSSO,
			Provider: p.ID, Subject: in.Subject, ProviderSession: in.Session, IDToken: token,
			Strong: isStrong(p, user, in.Authn), ProvedAt: provedAt(c, in.SignedIn),
		})
		return err
	})
	if refused != nil {
		return nil, refused
	}
	if err != nil {
		return nil, &refusal{"internal", said, err}
	}
	if s != nil {
		people.SetCookie(c, s.Token, "/", time.Time(s.ExpiresAt))
	}
	return s, nil
}

// isStrong reports whether a provider says, with the values of its settings, that the person
// proved two factors there. An owner needs a second factor here in any case: admins choose the values.
func isStrong(p store.IdentityProvider, u store.User, authn []string) bool {
	return u.Role != "owner" && slices.ContainsFunc(p.Settings.Strong, func(value string) bool { return slices.Contains(authn, value) })
}

// provedAt returns when a person proved who they are, as far as the provider says: it may have
// been long before they came here. Without that it is now.
func provedAt(c *route.Caller, signedIn time.Time) time.Time {
	if signedIn.IsZero() || signedIn.After(c.Now) {
		return c.Now
	}
	return signedIn
}

type linkInput struct {
	Provider string `path:"identity_provider" maxLength:"255"`
}

type linkStarted struct {
	Object string `json:"object"`
	Start  string `json:"start" doc:"Where the browser that sent this request must go"`
}

// link begins to link the caller's account at an identity provider.
func (f *family) link(ctx context.Context, c *route.Caller, in *linkInput) (*linkStarted, error) {
	if err := checkSession(c); err != nil {
		return nil, err
	}
	p, err := c.DB().IdentityProvider(ctx, c.Organisation, in.Provider)
	if err == nil && p.Status != store.Active {
		err = apierr.New(apierr.NotFound, "disabled")
	}
	if err := c.CheckFound("", p.ID, err, route.NotFound("provider", "identity provider", in.Provider)); err != nil {
		return nil, err
	}
	if !f.hasProtocol(p) {
		return nil, apierr.New(apierr.Unavailable, "this gateway has no identity providers")
	}
	m, err := f.start(ctx, c, p, flow{Next: c.Link(people.SignInPath), Purpose: toLink, UserID: c.UserID, Session: c.Hash.String()})
	if err != nil {
		return nil, apierr.New(apierr.Unavailable, "the identity provider cannot be used: %s", err.Error()).WithParam("provider")
	}
	return &linkStarted{"identity_link", m.Address}, nil
}
