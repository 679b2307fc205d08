// Package sessions is the control plane's family of signing in: claiming an
// installation, accepting an invite, sessions, and what a token stands for.
//
// It promises that passwords are kept as argon2id hashes and tokens as hashes
// alone, that a link counts once, and that who tries passwords is slowed down and
// never told whether an address is known. What a session may do is left to the
// scopes of its person's role.
package sessions

import (
	"context"
	"errors"
	"net/http"
	"net/mail"
	"strings"
	"time"

	"modelgate/internal/access"
	"modelgate/internal/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
)

const tag = "Sessions"

// life is how long a session counts.
const life = 12 * time.Hour

// Add adds the routes of the family.
func Add(a *route.API) {
	f := &family{guesses: newGuesses(), hashing: make(chan struct{}, 2)}
	open := func(path, name, summary string) route.Route {
		return route.Route{Method: http.MethodPost, Path: path, Name: name, Tag: tag, Summary: summary, Open: true, Resource: "session"}
	}
	route.Add(a, open("/auth/claim", "claim", "Become the owner of an installation by its one-time link"), f.claim)
	route.Add(a, open("/auth/login", "login", "Sign in"), f.login)
	route.Add(a, open("/auth/invites/accept", "accept-invite", "Accept an invite by its link"), f.accept)
	route.Add(a, open("/auth/password", "set-password", "Set the first password by its link"), f.set)
	route.Add(a, route.Route{Method: http.MethodPost, Path: "/auth/logout", Name: "logout", Tag: tag, Summary: "End the session", Resource: "session"}, logout)
	route.Add(a, route.Route{Method: http.MethodGet, Path: "/auth/me", Name: "who-am-i", Tag: tag, Summary: "Tell what the key or session stands for"}, me)
	route.Add(a, route.Route{Method: http.MethodPost, Path: "/oauth/introspect", Name: "introspect", Tag: tag,
		Summary: "Tell what a token stands for (RFC 7662)"}, introspect)
}

// family is what the routes share: nothing that outlives the process.
type family struct {
	guesses *guesses
	hashing chan struct{} // hashing a password takes 19 MB, so few are hashed at a time
}

// Opened is a session that began. Its token is shown this once.
type Opened struct {
	Token     string     `json:"token" doc:"Sent as x-gateway-api-key or as a bearer token; shown this once"`
	ExpiresAt route.Time `json:"expires_at"`
	UserID    string     `json:"user_id"`
	Object    string     `json:"object"`
}

// begin stores a session for a person.
func begin(ctx context.Context, c *route.Caller, tx *store.Tx, user, organisation string) (*Opened, error) {
	token := access.NewSessionToken()
	s := store.Session{Hash: access.HashKey(token.Reveal()).String(), UserID: user, Organisation: organisation, CreatedAt: c.Now, ExpiresAt: c.Now.Add(life)}
	if err := tx.CreateSession(ctx, s); err != nil {
		return nil, err
	}
	return &Opened{token.Reveal(), route.Time(s.ExpiresAt), user, "session"}, nil
}

// Person is how somebody introduces themselves.
type Person struct {
	FirstName string `json:"first_name,omitempty" maxLength:"255"`
	LastName  string `json:"last_name,omitempty" maxLength:"255"`
	Password  string `json:"password" minLength:"12" maxLength:"512" doc:"At least 12 characters"`
}

type claimInput struct {
	Body struct {
		Person
		Token string `json:"token" minLength:"1" maxLength:"255" doc:"Of the claim link"`
		Email string `json:"email" minLength:"3" maxLength:"320"`
	}
}

func (f *family) claim(ctx context.Context, c *route.Caller, in *claimInput) (*Opened, error) {
	b := &in.Body
	address, err := address(b.Email)
	if err != nil {
		return nil, err
	}
	hash, err := f.hash(ctx, b.Password)
	if err != nil {
		return nil, err
	}
	var out *Opened
	err = c.Change(ctx, func(tx *store.Tx) error {
		organisation, err := tx.TakeClaim(ctx, access.HashKey(b.Token).String(), c.Now)
		if err != nil {
			return spent(err, "this claim link is not known, was used or has ended; a start without an owner prints another")
		}
		o, err := tx.Organisation(ctx, organisation)
		if err != nil {
			return err
		}
		c.Within(o.ID)
		u, adopted, err := enter(ctx, tx, o.ID, b.user(c, address, hash, "owner"))
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
		out, err = begin(ctx, c, tx, u.ID, o.ID)
		return err
	})
	return out, err
}

func (p *Person) user(c *route.Caller, email, hash, role string) store.User {
	return store.User{
		ID: c.NewID(), Email: email, FirstName: p.FirstName, LastName: p.LastName, PasswordHash: hash,
		Status: store.Active, Role: role, CreatedAt: c.Now, UpdatedAt: c.Now,
	}
}

// spent says of a link that is not there what it may be.
func spent(err error, message string) error {
	if e, ok := errors.AsType[*apierr.Error](err); ok && e.Kind == apierr.NotFound {
		return apierr.New(apierr.NotFound, "%s", message).WithParam("token")
	}
	return err
}

func address(text string) (string, error) {
	a, err := mail.ParseAddress(text)
	if err != nil || a.Name != "" || a.Address != text {
		return "", route.Invalid("email", "must be an e-mail address")
	}
	return strings.ToLower(a.Address), nil
}

type acceptInput struct {
	Body struct {
		Person
		Token string `json:"token" minLength:"1" maxLength:"255" doc:"Of the invite's link"`
	}
}

func (f *family) accept(ctx context.Context, c *route.Caller, in *acceptInput) (*Opened, error) {
	b := &in.Body
	hash, err := f.hash(ctx, b.Password)
	if err != nil {
		return nil, err
	}
	var out *Opened
	err = c.Change(ctx, func(tx *store.Tx) error {
		i, err := tx.InviteByToken(ctx, access.HashKey(b.Token).String())
		if err == nil && i.StatusAt(c.Now) != store.InvitePending {
			err = apierr.New(apierr.NotFound, "the invite is %s", i.StatusAt(c.Now))
		}
		if err != nil {
			return spent(err, "this invite is not known, was used, cancelled or has ended; ask for another")
		}
		c.Within(i.Organisation)
		u := b.user(c, i.Email, hash, i.Role)
		if u, err = join(ctx, tx, c, &i, u); err != nil {
			return err
		}
		out, err = begin(ctx, c, tx, u.ID, i.Organisation)
		return err
	})
	return out, err
}

// dummy is hashed against when an address is not known, so that both cases take
// the same time.
const dummy = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

type loginInput struct {
	Body struct {
		Email    string `json:"email" minLength:"3" maxLength:"320"`
		Password string `json:"password" minLength:"1" maxLength:"512"`
	}
}

func (f *family) login(ctx context.Context, c *route.Caller, in *loginInput) (*Opened, error) {
	email := strings.ToLower(in.Body.Email)
	if wait := f.guesses.wait(email, c.Now); wait > 0 {
		e := apierr.New(apierr.RateLimited, "too many wrong passwords for this address; wait a while")
		e.RetryAfter = wait
		return nil, e
	}
	u, organisation, err := c.DB().UserByEmail(ctx, email)
	known := err == nil && u.Status == store.Active && u.PasswordHash != ""
	if e, ok := errors.AsType[*apierr.Error](err); err != nil && !(ok && e.Kind == apierr.NotFound) {
		return nil, err
	}
	stored := dummy
	if known {
		stored = u.PasswordHash
	}
	right, err := f.verify(ctx, in.Body.Password, stored)
	if err != nil {
		return nil, err
	}
	if !known || !right {
		f.guesses.wrong(email, c.Now)
		return nil, apierr.New(apierr.Unauthenticated, "address or password are wrong")
	}
	f.guesses.right(email)
	c.Within(organisation)
	var out *Opened
	err = c.Change(ctx, func(tx *store.Tx) error {
		out, err = begin(ctx, c, tx, u.ID, organisation)
		return err
	})
	return out, err
}

func logout(ctx context.Context, c *route.Caller, _ *struct{}) (*route.Empty, error) {
	if c.Type != access.Session {
		return nil, apierr.New(apierr.Invalid, "a key is no session; revoke it instead")
	}
	err := c.Change(ctx, func(tx *store.Tx) error { return tx.DeleteSession(ctx, c.Hash.String()) })
	return &route.Empty{}, err
}
