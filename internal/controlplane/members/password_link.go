package members

import (
	"context"
	"maps"
	"slices"
	"time"

	"modelgate/internal/access"
	"modelgate/internal/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
)

// passwordPath is where a password is set, below the gateway's own address.
const passwordPath = "/set-password?token="

type linked struct {
	Link      string     `json:"link" doc:"Below public_url, or the path below the gateway's address; shown this once, and the previous one is no longer valid"`
	ExpiresAt route.Time `json:"expires_at"`
}

// resetLife is how long a link is valid by which a password is replaced.
const resetLife = 24 * time.Hour

// link lets somebody in whom a file made one of the organisation. It counts once,
// and as long as an invite. The owner comes by the claim link, which is not for
// admins to have.
func link(ctx context.Context, c *route.Caller, in *oneInput) (*linked, error) {
	return makeLink(ctx, c, in.User, store.PasswordLink{ExpiresAt: c.Now.Add(inviteLife)}, func(_ *store.Tx, u store.User) error {
		switch {
		case u.Role == "owner":
			return apierr.New(apierr.Forbidden, "the owner claims the installation by the link that its start prints").WithParam("user").WithCode("AB03")
		case u.PasswordHash != "":
			return apierr.New(apierr.Conflict, "%s already has a password", u.Email).WithParam("user")
		}
		return nil
	})
}

// reset makes a link by which somebody replaces a password that they forgot or
// that somebody else knows. The password is valid until the link is used. Who can
// reset the password of an owner would be the owner, and of a person who belongs
// to another organisation too would be that person there.
func reset(ctx context.Context, c *route.Caller, in *oneInput) (*linked, error) {
	return makeLink(ctx, c, in.User, store.PasswordLink{Resets: true, ExpiresAt: c.Now.Add(resetLife)}, func(tx *store.Tx, u store.User) error {
		switch {
		case u.Role == "owner":
			return apierr.New(apierr.Forbidden, "the owner's password is reset on the gateway's machine by `modelgate users reset-password`").WithParam("user").WithCode("AB03")
		case u.PasswordHash == "":
			return apierr.New(apierr.Conflict, "%s has no password yet; make a link to set the first one", u.Email).WithParam("user")
		}
		shared, err := tx.Shared(ctx, c.Organisation, u.ID)
		if err == nil && shared {
			err = apierr.New(apierr.Conflict, "%s belongs to another organisation too; the password is reset on the gateway's machine by `modelgate users reset-password`", u.Email).WithParam("user")
		}
		return err
	})
}

// makeLink stores a link for an active user whom check does not refuse.
func makeLink(ctx context.Context, c *route.Caller, ref string, l store.PasswordLink, check func(*store.Tx, store.User) error) (*linked, error) {
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
	token := access.NewLinkToken()
	l.UserID, l.Hash, l.Organisation, l.CreatedAt = u.ID, access.HashKey(token.Reveal()).String(), c.Organisation, c.Now
	err = c.Change(ctx, func(tx *store.Tx) error {
		now, err := tx.User(ctx, c.Organisation, u.ID)
		if err == nil {
			err = check(tx, now)
		}
		if err == nil && now.Status != store.Active {
			err = apierr.New(apierr.Conflict, "%s is disabled", now.Email).WithParam("user")
		}
		if err != nil {
			return err
		}
		return tx.ReplacePasswordLink(ctx, l)
	})
	if err != nil {
		return nil, err
	}
	return &linked{c.Link(passwordPath + token.Reveal()), route.Time(l.ExpiresAt)}, nil
}
