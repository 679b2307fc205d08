package sessions

import (
	"context"
	"errors"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
)

type changeInput struct {
	Body struct {
		Current  string `json:"current_password" minLength:"1" maxLength:"512"`
		Password string `json:"password" minLength:"12" maxLength:"512" doc:"At least 12 characters"`
	}
}

// change replaces the caller's password and ends their other sessions. It requires the
// current password and limits attempts as a sign-in does, so that a stolen session does
// not give control of the account.
func (f *family) change(ctx context.Context, c *route.Caller, in *changeInput) (*route.Empty, error) {
	if err := checkSession(c); err != nil {
		return nil, err
	}
	c.SetAuditAction("password_change", c.UserID)
	b := &in.Body
	if b.Password == b.Current {
		return nil, route.Invalid("password", "must differ from current_password")
	}
	u, err := c.DB().User(ctx, c.Organisation, c.UserID)
	if err != nil {
		return nil, err
	}
	err = f.prove(ctx, c, &account{email: u.Email, user: u, organisation: c.Organisation}, b.Current)
	if errors.Is(err, errWrong) {
		return nil, route.Invalid("current_password", "is wrong")
	}
	if err != nil {
		return nil, err
	}
	hash, err := f.hash(ctx, c, b.Password, func() error { return nil })
	if err != nil {
		return nil, err
	}
	err = c.Change(ctx, func(tx *store.Tx) error {
		err := tx.ReplacePassword(ctx, store.PasswordChange{User: u.ID, Before: u.PasswordHash, After: hash,
			Keep: c.Hash.String(), Now: c.NextUpdateTime(u.UpdatedAt)})
		if apierr.IsNotFound(err) {
			err = apierr.New(apierr.Conflict, "the password was changed by another request; sign in again")
		}
		if err != nil {
			return err
		}
		return tx.RememberAddress(ctx, u.ID, group(c.ClientIP()), c.Now)
	})
	return &route.Empty{}, err
}
