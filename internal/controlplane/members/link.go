package members

import (
	"context"

	"modelgate/internal/access"
	"modelgate/internal/apierr"
	"modelgate/internal/controlplane/route"
	"modelgate/internal/store"
)

// passwordPath is where a first password is set, below the gateway's own address.
const passwordPath = "/set-password?token="

type linked struct {
	Link      string     `json:"link" doc:"Below the gateway's address; shown this once, and the one before counts no more"`
	ExpiresAt route.Time `json:"expires_at"`
}

// link lets somebody in whom a file made one of the organisation. It counts once,
// and as long as an invite. The owner comes by the claim link, which is not for
// admins to have.
func link(ctx context.Context, c *route.Caller, in *oneInput) (*linked, error) {
	u, err := find(ctx, c, in.User)
	if err != nil {
		return nil, err
	}
	token := access.NewLinkToken()
	l := store.PasswordLink{
		UserID: u.ID, Hash: access.HashKey(token.Reveal()).String(), Organisation: c.Organisation, CreatedAt: c.Now, ExpiresAt: c.Now.Add(inviteLife),
	}
	err = c.Change(ctx, func(tx *store.Tx) error {
		now, err := tx.User(ctx, c.Organisation, u.ID)
		switch {
		case err != nil:
			return err
		case now.Role == "owner":
			return apierr.New(apierr.Forbidden, "the owner claims the installation by the link that its start prints").WithParam("user").WithCode("AB03")
		case now.PasswordHash != "":
			return apierr.New(apierr.Conflict, "%s has a password already", now.Email).WithParam("user")
		case now.Status != store.Active:
			return apierr.New(apierr.Conflict, "%s is disabled", now.Email).WithParam("user")
		}
		return tx.ReplacePasswordLink(ctx, l)
	})
	if err != nil {
		return nil, err
	}
	return &linked{passwordPath + token.Reveal(), route.Time(l.ExpiresAt)}, nil
}
