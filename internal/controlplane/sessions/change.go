package sessions

import (
	"context"
	"errors"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/people"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
)

type changeInput struct {
	Body Passwords
}

// change replaces the caller's password and ends their other sessions. It requires the
// current password and limits attempts as a sign-in does, so that a stolen session does
// not give control of the account.
func (f *family) change(ctx context.Context, c *route.Caller, in *changeInput) (*route.Empty, error) {
	if err := checkSession(c); err != nil {
		return nil, err
	}
	return &route.Empty{}, f.changePassword(ctx, c, in.Body)
}

// Passwords are the password that a user has, and the one that they want.
type Passwords struct {
	Current  string `json:"current_password" minLength:"1" maxLength:"512"`
	Password string `json:"password" minLength:"12" maxLength:"512" doc:"At least 12 characters"`
}

func (f *family) changePassword(ctx context.Context, c *route.Caller, b Passwords) error {
	c.SetAuditAction("password_change", c.UserID)
	if err := c.CheckFresh(); err != nil {
		return err
	}
	if err := checkPasswords(ctx, c, c.Organisation); err != nil {
		return err
	}
	if b.Password == b.Current {
		return route.Invalid("password", "must differ from current_password")
	}
	u, err := c.DB().User(ctx, c.Organisation, c.UserID)
	if err != nil {
		return err
	}
	err = f.prove(ctx, c, &account{email: u.Email, user: u, organisation: c.Organisation}, b.Current)
	if errors.Is(err, errWrong) {
		return route.Invalid("current_password", "is wrong")
	}
	if err != nil {
		return err
	}
	hash, err := f.hash(ctx, c, b.Password, func() error { return nil })
	if err != nil {
		return err
	}
	return c.Change(ctx, func(tx *store.Tx) error {
		err := tx.ReplacePassword(ctx, store.PasswordChange{User: u.ID, Before: u.PasswordHash, After: hash,
			Keep: c.Hash.String(), Now: c.NextUpdateTime(u.UpdatedAt)})
		if apierr.IsNotFound(err) {
			err = apierr.New(apierr.Conflict, "the password was changed by another request; sign in again")
		}
		if err != nil {
			return err
		}
		return tx.RememberAddress(ctx, u.ID, people.AddressGroup(c.ClientIP()), c.Now)
	})
}

type profileInput struct {
	Body struct {
		FirstName route.Optional[string] `json:"first_name,omitempty" maxLength:"255"`
		LastName  route.Optional[string] `json:"last_name,omitempty" maxLength:"255"`
		Password  *struct {
			Current string `json:"current" minLength:"1" maxLength:"512"`
			New     string `json:"new" minLength:"12" maxLength:"512" doc:"At least 12 characters"`
		} `json:"password,omitempty" doc:"Ends your other sessions"`
	}
}

// changeProfile changes the caller's name, and their password if the request has one.
func (f *family) changeProfile(ctx context.Context, c *route.Caller, in *profileInput) (*route.Empty, error) {
	if err := checkSession(c); err != nil {
		return nil, err
	}
	b := &in.Body
	if b.Password != nil {
		err := f.changePassword(ctx, c, Passwords{b.Password.Current, b.Password.New})
		if e, ok := errors.AsType[*apierr.Error](err); ok && e.Param == "current_password" {
			err = route.Invalid("password.current", "is wrong")
		}
		if err != nil {
			return nil, err
		}
	}
	if !b.FirstName.Set && !b.LastName.Set {
		return &route.Empty{}, nil
	}
	c.SetAuditAction("profile_change", c.UserID)
	err := c.Change(ctx, func(tx *store.Tx) error {
		u, err := tx.User(ctx, c.Organisation, c.UserID)
		if err != nil {
			return err
		}
		u.FirstName, u.LastName = b.FirstName.Or(u.FirstName), b.LastName.Or(u.LastName)
		u.UpdatedAt = c.NextUpdateTime(u.UpdatedAt)
		return tx.SetProfile(ctx, u)
	})
	return &route.Empty{}, err
}
