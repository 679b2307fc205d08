package members

import (
	"context"
	"maps"
	"slices"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/controlplane/people"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

// passwordPath is the path at which a password is set, relative to the gateway's
// address.
const passwordPath = "/set-password?token="

type linked struct {
	Link      string     `json:"link" doc:"Absolute if public_url is set, otherwise relative to the gateway's address; shown only once, and the previous link is no longer valid"`
	ExpiresAt route.Time `json:"expires_at"`
}

// resetLife is how long a password-reset link is valid.
const resetLife = 24 * time.Hour

// link creates the link with which a user created by a file sets their first password.
// It can be used once and is valid as long as an invite. The owner uses the claim link
// instead, which admins must not obtain.
func link(ctx context.Context, c *route.Caller, in *oneInput) (*linked, error) {
	return makeLink(ctx, c, in.User, store.PasswordLink{ExpiresAt: c.Now.Add(inviteLife)}, func(u store.User) error {
		switch {
		case u.Role == "owner":
			return apierr.New(apierr.Forbidden,
				"the owner claims the installation with the link printed at startup").WithParam("user").WithCode("AB03")
		case u.PasswordHash != "":
			return apierr.New(apierr.Conflict, "%s already has a password", u.Email).WithParam("user")
		}
		return nil
	})
}

// reset creates the link with which a user replaces a password that is forgotten or
// exposed. The password stays valid until the link is used. It is refused for an owner,
// because the caller could take over the organisation.
func reset(ctx context.Context, c *route.Caller, in *oneInput) (*linked, error) {
	return makeLink(ctx, c, in.User, store.PasswordLink{Resets: true, ExpiresAt: c.Now.Add(resetLife)}, func(u store.User) error {
		switch {
		case u.Role == "owner":
			return apierr.New(apierr.Forbidden, "the owner's password can be reset only on the gateway's host, with `modelgate users reset-password`").WithParam("user").WithCode("AB03")
		case u.PasswordHash == "":
			return apierr.New(apierr.Conflict, "%s has no password yet; create a link to set the first one", u.Email).WithParam("user")
		}
		return nil
	})
}

// makeLink stores a link for an active user unless check returns an error. For a user who
// belongs to another organisation too it returns one that is not stored and opens nothing:
// the caller could act as that user there, and an error would reveal it.
func makeLink(ctx context.Context, c *route.Caller, ref string, l store.PasswordLink, check func(store.User) error) (*linked, error) {
	u, err := find(ctx, c, ref)
	if err != nil {
		return nil, err
	}
	m, err := c.DB().Membership(ctx, c.Organisation, u.ID)
	if err != nil {
		return nil, err
	}
	if err := c.CheckRole(m.Role, slices.Collect(maps.Values(m.Workspaces))...); err != nil {
		return nil, err
	}
	o, err := c.DB().Organisation(ctx, c.Organisation)
	if err == nil {
		err = people.CheckPasswords(&o)
	}
	if err != nil {
		return nil, err
	}
	token := access.NewLinkToken()
	l.UserID, l.Hash, l.Organisation, l.CreatedAt = u.ID, access.HashKey(token.Reveal()).String(), c.Organisation, c.Now
	err = c.Change(ctx, func(tx *store.Tx) error {
		now, err := tx.User(ctx, c.Organisation, u.ID)
		if err == nil {
			err = check(now)
		}
		if err == nil && now.Status != store.Active {
			err = apierr.New(apierr.Conflict, "%s is disabled", now.Email).WithParam("user")
		}
		if err != nil {
			return err
		}
		if shared, err := tx.Shared(ctx, c.Organisation, u.ID); err != nil || shared {
			return err
		}
		return tx.ReplacePasswordLink(ctx, l)
	})
	if err != nil {
		return nil, err
	}
	return &linked{c.Link(passwordPath + token.Reveal()), route.Time(l.ExpiresAt)}, nil
}
