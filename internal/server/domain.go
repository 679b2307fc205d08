package server

import (
	"context"
	"crypto/rand"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/store"
)

// VerifyDomain records that a domain of e-mail addresses belongs to an organisation, by id
// or slug, without a record in the DNS. It is for an operator, and takes the domain from
// nobody: that of another organisation is a conflict.
func VerifyDomain(ctx context.Context, db *store.DB, organisation, name string) error {
	now := time.Now()
	audit := store.OperatorAudit("", "domains verify", map[string]any{"name": name})
	audit.ResourceType, audit.Action = "domain", "verify"
	err := db.Update(ctx, audit, func(tx *store.Tx) error {
		o, err := tx.Organisation(ctx, organisation)
		if err != nil {
			return err
		}
		d, err := tx.Domain(ctx, o.ID, name)
		if apierr.IsNotFound(err) {
			d = store.Domain{ID: audit.ID, Organisation: o.ID, Name: name, Challenge: rand.Text(), CreatedAt: now, UpdatedAt: now}
			err = tx.CreateDomain(ctx, d)
		}
		if err != nil {
			return err
		}
		audit.Organisation, audit.ResourceID = o.ID, d.ID
		return tx.VerifyDomain(ctx, d, now)
	})
	return db.ClientError(err)
}
