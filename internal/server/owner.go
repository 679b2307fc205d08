package server

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
	"modelgate/internal/controlplane/people"
	"modelgate/internal/identity/access"
	"modelgate/internal/store"
)

// ownerLife is how long a link with which an owner signs in is valid.
const ownerLife = time.Hour

// ClaimOwner creates a link with which an owner of an organisation signs in without a password,
// and returns its path, which cannot be shown again. For an organisation without an owner it is
// the link with which the first one claims it; email must be empty then.
func ClaimOwner(ctx context.Context, db *store.DB, organisation, email string) (secret.String, error) {
	now, token := time.Now(), access.NewLinkToken()
	var path string
	audit := store.OperatorAudit("", "claim", nil)
	audit.ResourceType, audit.Action = "user", "owner_link"
	err := db.Update(ctx, audit, func(tx *store.Tx) error {
		o, err := tx.Organisation(ctx, organisation)
		if apierr.IsNotFound(err) {
			return fmt.Errorf("organisation %q not found", organisation)
		}
		if err != nil {
			return err
		}
		audit.Organisation = o.ID
		of, life := store.Claim{Organisation: o.ID}, claimLife
		path = "/claim?token="
		switch {
		case o.OwnerID == "" && email != "":
			return fmt.Errorf("the organisation %s has no owner yet; leave out --email", o.Slug)
		case o.OwnerID != "":
			u, err := operatedUser(ctx, tx, o.ID, email)
			if err != nil {
				return err
			}
			if u.Role != "owner" {
				return fmt.Errorf("%s is not an owner of the organisation %s; nothing was changed", u.Email, o.Slug)
			}
			path, of.User, life, audit.ResourceID = people.SignInPath+"?owner=", u.ID, ownerLife, u.ID
		}
		return tx.ReplaceClaim(ctx, of, access.HashKey(token.Reveal()).String(), now, now.Add(life))
	})
	return secret.New(path + token.Reveal()), err
}

// operatedUser returns the active user of an organisation that an operator names.
func operatedUser(ctx context.Context, tx *store.Tx, organisation, email string) (store.User, error) {
	address, err := access.ParseEmail(email)
	if err != nil {
		return store.User{}, fmt.Errorf("--email %w", err)
	}
	u, err := tx.User(ctx, organisation, address)
	switch {
	case apierr.IsNotFound(err):
		return u, fmt.Errorf("user %q not found", email)
	case err == nil && u.Status != store.Active:
		return u, fmt.Errorf("%s is disabled; nothing was changed", u.Email)
	}
	return u, err
}

// ResetFactors removes all second factors of a user of an organisation and ends their sessions
// there. It is for an operator, and also works for owners.
func ResetFactors(ctx context.Context, db *store.DB, organisation, email string) error {
	audit := store.OperatorAudit("", "users reset-factors", nil)
	audit.ResourceType, audit.Action = "second_factor", "second_factor_reset"
	return db.Update(ctx, audit, func(tx *store.Tx) error {
		o, err := tx.Organisation(ctx, organisation)
		if apierr.IsNotFound(err) {
			return fmt.Errorf("organisation %q not found", organisation)
		}
		if err != nil {
			return err
		}
		u, err := operatedUser(ctx, tx, o.ID, email)
		if err != nil {
			return err
		}
		audit.Organisation, audit.ResourceID = o.ID, u.ID
		n, err := tx.DeleteFactors(ctx, o.ID, u.ID)
		if err == nil && n == 0 {
			err = fmt.Errorf("%s has no second factor in the organisation %s", u.Email, o.Slug)
		}
		if err != nil {
			return err
		}
		return tx.EndSessions(ctx, o.ID, u.ID, "")
	})
}

// warnPasskeys logs how many passkeys cannot be used because they were made for another host
// than the public address has.
func (s *Server) warnPasskeys(ctx context.Context) {
	u, err := url.Parse(s.publicURL())
	if err != nil || u.Hostname() == "" || !s.store.Ready() {
		return
	}
	if n, err := s.store.ForeignPasskeys(ctx, u.Hostname()); err == nil && n > 0 {
		s.Logger.Warn("passkeys were made for another host than that of public_url and cannot be used; their users sign in with another factor, or have theirs reset",
			"passkeys", n, "host", u.Hostname())
	}
}
