// Package sessions implements signing in: claiming an installation, accepting invites,
// sessions, and token introspection.
//
// It guarantees that passwords are stored as argon2id hashes and tokens only as hashes,
// that a link can be used once, and that password guessing is slowed down without
// revealing whether an address is known. It does not decide what a session may do,
// which follows from its user's role.
package sessions

import (
	"context"
	"net/http"
	"strings"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/people"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

const tag = "Sessions"

// Routes are the routes of sessions.
type Routes struct {
	// Lifetimes returns the lifetimes of sessions. Nil means the defaults.
	Lifetimes func() Lifetimes

	// Verify returns the identity that a JSON Web Token of an organisation's issuer, or a
	// short-lived key of a workload, proves. An error is an *apierr.Error. Nil accepts none.
	Verify func(token string) (*access.Identity, error)

	// Count is called for every sign-in attempt with its outcome: ok, wrong, limited or
	// busy. Nil is not called.
	Count func(outcome string)

	// EndURL returns where a browser ends the session of an identity provider at which a
	// session began; empty is nowhere. Nil returns none.
	EndURL func(ctx context.Context, c *route.Caller, s store.Session) string

	// Prove checks a second factor of the caller. Nil proves none.
	Prove func(ctx context.Context, c *route.Caller, p people.Proof) (people.Proved, error)
}

// Add adds the routes.
func (r Routes) Add(a *route.API) {
	f := &family{deps: r, hasher: newHasher(), failures: new(failures), db: a.DB}
	open := func(path, name, summary string) route.Route {
		return route.Route{Method: http.MethodPost, Path: path, Name: name, Tag: tag, Summary: summary, Open: true, Resource: "session"}
	}
	own := func(method, path, name, summary string) route.Route {
		r := route.Route{Method: method, Path: path, Name: name, Tag: tag, Summary: summary}
		if method != http.MethodGet {
			r.Resource = "session"
		}
		return r
	}
	logins := func(r route.Route) route.Route { // the console's name of sessions
		r.Also = []string{strings.Replace(r.Path, "sessions", "logins", 1)}
		return r
	}
	waits := func(r route.Route) route.Route { // also while it waits for a second factor
		r.Pending = []string{store.PendingFactor, store.PendingEnrolment}
		return r
	}
	f.addMembers(a)
	route.Add(a, open("/auth/claim", "claim", "Claim an installation with its one-time link"), f.claim)
	route.Add(a, open("/auth/login", "login", "Sign in"), f.login)
	route.Add(a, open("/auth/invites/accept", "accept-invite", "Accept an invite with its link"), f.accept)
	route.Add(a, open("/auth/password", "set-password", "Set a password with a link"), f.set)
	route.Add(a, open("/auth/owner", "sign-in-owner", "Sign in as an owner with a link of `modelgate claim`"), f.signInOwner)
	confirm := own(http.MethodPost, "/auth/confirm", "confirm-session",
		"Prove again who you are, for routes that need a sign-in of the last 10 minutes")
	confirm.Private = true
	route.Add(a, confirm, f.confirm)
	route.Add(a, route.Fresh(own(http.MethodPut, "/auth/password", "change-password", "Change your password; ends your other sessions")),
		f.change)
	route.Add(a, waits(own(http.MethodPost, "/auth/logout", "logout", "End the session")), f.logout)
	route.Add(a, logins(own(http.MethodGet, "/auth/sessions", "list-own-sessions", "List your sessions")), f.listOwnSessions)
	route.Add(a, own(http.MethodDelete, "/auth/sessions", "end-own-sessions", "End all your sessions"), endOwnSessions)
	route.Add(a, logins(own(http.MethodDelete, "/auth/sessions/{session}", "end-own-session", "End one of your sessions")), endOwnSession)
	route.Add(a, waits(own(http.MethodGet, "/auth/me", "who-am-i", "Return the caller of this key or session")), me)
	route.Add(a, own(http.MethodPut, "/auth/me", "change-own-profile", "Change your name, and your password"), f.changeProfile)
	route.Add(a, route.Route{Method: http.MethodPost, Path: "/oauth/introspect", Name: "introspect", Tag: tag,
		Summary: "Introspect a token (RFC 7662)", Form: true}, f.introspect)
	a.EachMinute(func(ctx context.Context, now time.Time, last bool) error {
		for _, row := range f.failures.sums(now, last) {
			a.RecordEvent(ctx, row)
		}
		return a.DB.TrimAttempts(ctx, now, keptLimits)
	})
}

// family is the receiver of the route handlers. Its state does not outlive the process.
type family struct {
	deps     Routes
	hasher   *hasher
	failures *failures
	db       *store.DB // counts attempts, outside of changes
}

// begin stores a session of a user who proved who they are with a password or a link.
func (f *family) begin(ctx context.Context, c *route.Caller, tx *store.Tx, user, organisation string) (*people.NewSession, error) {
	return people.Begin(ctx, c, tx, people.Start{
		UserID: user, Organisation: organisation, Ends: c.Now.Add(f.deps.lifetimes().Absolute), Method: store.MethodPassword,
	})
}

// Profile is the name and password of a new user.
type Profile struct {
	FirstName string `json:"first_name,omitempty" maxLength:"255"`
	LastName  string `json:"last_name,omitempty" maxLength:"255"`
	Password  string `json:"password" minLength:"12" maxLength:"512" doc:"At least 12 characters"`
}

type claimInput struct {
	Body struct {
		Profile
		Token  string         `json:"token" minLength:"1" maxLength:"255" doc:"Token of the claim link"`
		Email  string         `json:"email" minLength:"3" maxLength:"320"`
		Cookie *people.Cookie `json:"cookie,omitempty" doc:"Returns the token as a cookie instead of in the body"`
	}
}

const claimSpent = "this claim link is unknown, used or expired; the gateway prints a new one when it starts without an owner"

// hash returns the stored form of a password that is set through a link. The link is
// looked up first, so that callers without a valid link cause no hashing.
func (f *family) hash(ctx context.Context, c *route.Caller, password string, lookUp func() error) (string, error) {
	if err := lookUp(); err != nil {
		return "", err
	}
	leave, err := f.hasher.enter(people.AddressGroup(c.ClientIP()), true)
	if err != nil {
		return "", err
	}
	defer leave()
	return f.hasher.hash(ctx, password)
}

func (f *family) claim(ctx context.Context, c *route.Caller, in *claimInput) (*people.NewSession, error) {
	b := &in.Body
	address, err := address(b.Email)
	if err != nil {
		return nil, err
	}
	link := access.HashKey(b.Token).String()
	hash, err := f.hash(ctx, c, b.Password, func() error {
		claim, err := c.DB().Claim(ctx, link, c.Now)
		if err == nil && claim.User != "" {
			err = apierr.New(apierr.NotFound, "the link is of an owner")
		}
		return linkInvalidError(err, claimSpent)
	})
	if err != nil {
		return nil, err
	}
	var out *people.NewSession
	err = c.Change(ctx, func(tx *store.Tx) error {
		claim, err := tx.ConsumeClaim(ctx, link, c.Now)
		if err != nil {
			return linkInvalidError(err, claimSpent)
		}
		o, err := tx.Organisation(ctx, claim.Organisation)
		if err != nil {
			return err
		}
		c.SetAuditOrganisation(o.ID)
		if err := people.CheckPasswords(&o); err != nil {
			return err
		}
		u, adopted, err := addToOrganisation(ctx, tx, o.ID, b.user(c, address, hash, "owner"))
		if err == nil && adopted {
			err = tx.SetUserRole(ctx, o.ID, u.ID, "owner", c.Now)
		}
		if err != nil {
			return err
		}
		o.OwnerID, o.UpdatedAt = u.ID, c.Now
		if err := tx.UpdateOrganisation(ctx, o); err != nil {
			return err
		}
		out, err = f.begin(ctx, c, tx, u.ID, o.ID)
		return err
	})
	return showSession(c, out, b.Cookie, linkConflict(err, address))
}

func (p *Profile) user(c *route.Caller, email, hash, role string) store.User {
	return store.User{
		ID: c.NewID(), Email: email, FirstName: p.FirstName, LastName: p.LastName, PasswordHash: hash,
		Status: store.Active, Role: role, CreatedAt: c.Now, UpdatedAt: c.Now,
	}
}

// linkInvalidError replaces the error of an unknown link by message.
func linkInvalidError(err error, message string) error {
	if apierr.IsNotFound(err) {
		return apierr.New(apierr.NotFound, "%s", message).WithParam("token")
	}
	return err
}

func address(text string) (string, error) {
	address, err := access.ParseEmail(text)
	if err != nil {
		return "", route.Invalid("email", "%v", err)
	}
	return address, nil
}

type acceptInput struct {
	Body struct {
		Profile
		Token  string         `json:"token" minLength:"1" maxLength:"255" doc:"Token of the invite link"`
		Cookie *people.Cookie `json:"cookie,omitempty" doc:"Returns the token as a cookie instead of in the body"`
	}
}

// pending returns the invite that a link accepts.
func pending(ctx context.Context, c *route.Caller, q store.Queries, token string) (store.Invite, error) {
	i, err := q.InviteByToken(ctx, access.HashKey(token).String())
	if err == nil && i.StatusAt(c.Now) != store.InvitePending {
		err = apierr.New(apierr.NotFound, "the invite is %s", i.StatusAt(c.Now))
	}
	return i, linkInvalidError(err, "this invite is unknown, used, cancelled or expired; ask for another")
}

func (f *family) accept(ctx context.Context, c *route.Caller, in *acceptInput) (*people.NewSession, error) {
	b := &in.Body
	hash, err := f.hash(ctx, c, b.Password, func() error {
		i, err := pending(ctx, c, c.DB(), b.Token)
		if err == nil {
			err = checkPasswords(ctx, c, i.Organisation)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	var out *people.NewSession
	var i store.Invite
	err = c.Change(ctx, func(tx *store.Tx) (err error) {
		if i, err = pending(ctx, c, tx.Queries, b.Token); err != nil {
			return err
		}
		c.SetAuditOrganisation(i.Organisation)
		u := b.user(c, i.Email, hash, i.Role)
		if u, err = join(ctx, tx, c, &i, u); err != nil {
			return err
		}
		out, err = f.begin(ctx, c, tx, u.ID, i.Organisation)
		return err
	})
	return showSession(c, out, b.Cookie, linkConflict(err, i.Email))
}

// showSession returns the response with a new session, whose token is in a cookie if the request
// asked for that. After an error there is no session.
func showSession(c *route.Caller, s *people.NewSession, cookie *people.Cookie, err error) (*people.NewSession, error) {
	if err != nil {
		return nil, err
	}
	people.InCookie(c, s, cookie)
	return s, nil
}
