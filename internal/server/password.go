package server

import (
	"context"
	"fmt"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

// resetLife is how long a password-reset link is valid.
const resetLife = 24 * time.Hour

// ResetPassword creates a link with which a user replaces their password, and returns
// its token, which cannot be shown again. It is for an operator, and also works for
// owners and for members of several organisations.
func ResetPassword(ctx context.Context, db *store.DB, email string) (secret.String, error) {
	now, token := time.Now(), access.NewLinkToken()
	address, err := access.ParseEmail(email)
	if err != nil {
		return token, fmt.Errorf("--email %w", err)
	}
	audit := store.OperatorAudit("", "users reset-password", nil)
	audit.ResourceType, audit.Action = "user", "password_reset_link"
	err = db.Update(ctx, audit, func(tx *store.Tx) error {
		u, organisation, err := tx.UserByEmail(ctx, address)
		switch {
		case err != nil:
			return err
		case u.Status != store.Active:
			return fmt.Errorf("%s is disabled; nothing was changed", u.Email)
		case u.PasswordHash == "":
			return fmt.Errorf("%s has no password yet; an admin can create a link to set the first one", u.Email)
		}
		o, err := tx.Organisation(ctx, organisation)
		if err != nil {
			return err
		}
		if o.Settings.NoPasswords {
			return fmt.Errorf("the organisation %s does not accept passwords; `modelgate claim` lets an owner in", o.Slug)
		}
		audit.Organisation, audit.ResourceID = organisation, u.ID
		return tx.ReplacePasswordLink(ctx, store.PasswordLink{
			UserID: u.ID, Hash: access.HashKey(token.Reveal()).String(), Organisation: organisation, Resets: true, ByOperator: true,
			CreatedAt: now, ExpiresAt: now.Add(resetLife),
		})
	})
	return token, err
}
