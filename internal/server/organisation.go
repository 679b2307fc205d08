package server

import (
	"context"
	"strings"
	"time"

	"modelgate/internal/base/secret"
	"modelgate/internal/identity/access"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/store"
)

// CreateOrganisation creates an organisation with a workspace named Default. It returns
// the organisation and the token of the claim link for its first owner, which cannot be
// shown again.
func CreateOrganisation(ctx context.Context, db *store.DB, name, slug string) (store.Organisation, secret.String, error) {
	now := time.Now()
	id := func() string { return reqlog.NewID(now).String() }
	o := store.Organisation{ID: id(), Slug: slug, Name: name, Status: store.Active, CreatedAt: now, UpdatedAt: now}
	w := store.Workspace{ID: id(), Slug: "default", Name: "Default", Status: store.Active, CreatedAt: now, UpdatedAt: now}
	folder := store.PromptCollection{ID: id(), Slug: "co-default-" + strings.ReplaceAll(o.ID, "-", "")[26:], CreatedAt: now}
	token := access.NewLinkToken()
	a := store.OperatorAudit(o.ID, "organisations create", map[string]any{"name": name, "slug": slug})
	a.ResourceType, a.ResourceID, a.Action = "organisation", o.ID, "create"
	err := db.Update(ctx, a, func(tx *store.Tx) error {
		if err := tx.CreateOrganisation(ctx, o, w, folder); err != nil {
			return err
		}
		return tx.ReplaceClaim(ctx, store.Claim{Organisation: o.ID}, access.HashKey(token.Reveal()).String(), now, now.Add(claimLife))
	})
	return o, token, err
}
