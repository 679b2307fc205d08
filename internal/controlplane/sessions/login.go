package sessions

import (
	"context"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/people"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

type loginInput struct {
	Body struct {
		Email    string         `json:"email" minLength:"3" maxLength:"320"`
		Password string         `json:"password" minLength:"1" maxLength:"512"`
		Cookie   *people.Cookie `json:"cookie,omitempty" doc:"Returns the token as a cookie instead of in the body"`
	}
}

func (f *family) login(ctx context.Context, c *route.Caller, in *loginInput) (*people.NewSession, error) {
	a, err := find(ctx, c.DB(), in.Body.Email)
	if err != nil {
		return nil, err
	}
	if err := f.prove(ctx, c, &a, in.Body.Password); err != nil {
		return nil, err
	}
	c.SetAuditOrganisation(a.organisation)
	if err := checkPasswords(ctx, c, a.organisation); err != nil {
		return nil, err
	}
	var out *people.NewSession
	err = c.Change(ctx, func(tx *store.Tx) error {
		// The password was checked outside the transaction and may have changed.
		now, err := find(ctx, tx.Queries, a.email)
		if err == nil && (now.user.PasswordHash != a.user.PasswordHash || !now.signsIn()) {
			err = errWrong
		}
		if err != nil {
			return err
		}
		out, err = f.begin(ctx, c, tx, now.user.ID, now.organisation)
		return err
	})
	return showSession(c, out, in.Body.Cookie, err)
}

// checkPasswords returns an error if an organisation does not accept passwords. A sign-in calls
// it only after the password was right, so that others learn nothing.
func checkPasswords(ctx context.Context, c *route.Caller, organisation string) error {
	o, err := c.DB().Organisation(ctx, organisation)
	if err == nil {
		c.SetAuditOrganisation(o.ID)
		err = people.CheckPasswords(&o)
	}
	return err
}

type ownerInput struct {
	Body struct {
		Token  string         `json:"token" minLength:"1" maxLength:"255" doc:"Token of the link"`
		Cookie *people.Cookie `json:"cookie,omitempty" doc:"Returns the token as a cookie instead of in the body"`
	}
}

// signInOwner signs an owner in with a link that was made on the gateway's host. It replaces
// the password only: a second factor is asked for as always.
func (f *family) signInOwner(ctx context.Context, c *route.Caller, in *ownerInput) (*people.NewSession, error) {
	const invalid = "this link is unknown, used or expired; `modelgate claim` on the gateway's host prints another"
	c.AddAuditDetail("method", store.MethodOperator)
	link := access.HashKey(in.Body.Token).String()
	if _, err := c.DB().Claim(ctx, link, c.Now); err != nil {
		return nil, linkInvalidError(err, invalid)
	}
	var out *people.NewSession
	err := c.Change(ctx, func(tx *store.Tx) error {
		of, err := tx.ConsumeClaim(ctx, link, c.Now)
		if err != nil {
			return linkInvalidError(err, invalid)
		}
		c.SetAuditOrganisation(of.Organisation)
		u, err := tx.User(ctx, of.Organisation, of.User)
		if err == nil && (u.Status != store.Active || u.Role != "owner") {
			err = apierr.New(apierr.NotFound, "the user is no owner any more")
		}
		if err != nil {
			return linkInvalidError(err, invalid)
		}
		out, err = people.Begin(ctx, c, tx, people.Start{
			UserID: u.ID, Organisation: of.Organisation, Ends: c.Now.Add(f.deps.lifetimes().Absolute), Method: store.MethodOperator,
		})
		return err
	})
	return showSession(c, out, in.Body.Cookie, err)
}

type confirmInput struct {
	Body struct {
		people.Proof
		Password string         `json:"password,omitempty" minLength:"1" maxLength:"512" doc:"If you have no second factor"`
		Cookie   *people.Cookie `json:"cookie,omitempty" doc:"Returns the token as a cookie instead of in the body"`
	}
}

// confirm replaces the caller's session by one that is fresh. A member with a second factor
// proves that, since a password alone could not have signed them in.
func (f *family) confirm(ctx context.Context, c *route.Caller, in *confirmInput) (*people.NewSession, error) {
	if err := checkSession(c); err != nil {
		return nil, err
	}
	b := &in.Body
	c.SetAuditAction("session_confirm", c.UserID)
	c.AddAuditDetail("method", store.MethodPassword)
	has, err := people.FactorsOf(ctx, c.DB(), c.Organisation, c.UserID)
	if err != nil {
		return nil, err
	}
	proved := people.Proved{
		Spend:   func(context.Context, *store.Tx) error { return nil },
		Release: func(context.Context) error { return nil },
	}
	switch {
	case has.Count() > 0 && b.Password != "":
		err = route.Invalid("password", "is not enough: you have a second factor; send code, recovery_code or passkey")
	case has.Count() > 0 && f.deps.Prove != nil:
		proved, err = f.deps.Prove(ctx, c, b.Proof)
	default:
		err = f.confirmPassword(ctx, c, b.Password)
	}
	if err != nil {
		return nil, err
	}
	var out *people.NewSession
	err = c.Change(ctx, func(tx *store.Tx) error {
		if err := proved.Spend(ctx, tx); err != nil {
			return err
		}
		out, err = people.Raise(ctx, c, tx, proved.Method)
		return err
	})
	if err == nil {
		err = proved.Release(ctx)
	}
	return showSession(c, out, b.Cookie, err)
}

// confirmPassword checks the password of the caller.
func (f *family) confirmPassword(ctx context.Context, c *route.Caller, password string) error {
	u, err := c.DB().User(ctx, c.Organisation, c.UserID)
	if err != nil {
		return err
	}
	if u.PasswordHash == "" {
		return apierr.New(apierr.Conflict, "you have neither a password nor a second factor; sign in again at your identity provider, with ?confirm=true at the end of its address").
			WithCode("sign_in_again")
	}
	if err := checkPasswords(ctx, c, c.Organisation); err != nil {
		return err
	}
	if password == "" {
		return route.Invalid("password", "is required")
	}
	return f.prove(ctx, c, &account{email: u.Email, user: u, organisation: c.Organisation}, password)
}

type signedOut struct {
	EndURL string `json:"end_session_url,omitempty" doc:"Where the browser ends the session of the identity provider; absent if there is none"`
	Object string `json:"object"`
}

func (f *family) logout(ctx context.Context, c *route.Caller, _ *struct{}) (*signedOut, error) {
	if c.Type != access.Session && c.Type != access.PendingSession {
		return nil, apierr.New(apierr.Invalid, "a key has no session to end; delete the key instead")
	}
	s, err := c.DB().Session(ctx, c.Hash.String())
	if err != nil {
		return nil, err
	}
	out := &signedOut{Object: "session"}
	if f.deps.EndURL != nil {
		out.EndURL = f.deps.EndURL(ctx, c, s)
	}
	c.SetAuditAction("sign_out", s.ID)
	err = c.Change(ctx, func(tx *store.Tx) error { return tx.DeleteSession(ctx, s.Hash) })
	if err == nil && c.Cookie(access.SessionCookie) != "" {
		people.ClearCookie(c, "/")
	}
	return out, err
}
