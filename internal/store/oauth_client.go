package store

import (
	"context"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
)

// OAuthClient is a client of the authorization server that has no document of its own.
type OAuthClient struct {
	ID           string
	Organisation string // that registered it; empty if it registered itself, for people of all
	Name         string
	RedirectURIs []string
	CreatedBy    string // empty if it registered itself
	CreatedAt    time.Time
	UsedAt       time.Time // when somebody consented last, zero for never
}

var oauthClientTable = table[OAuthClient]{
	name: "oauth_clients", row: "client", order: "id DESC", fixed: "id organisation_id created_by created_at",
	columns: func(c *OAuthClient) []column {
		return []column{
			{"id", &c.ID}, {"organisation_id", &c.Organisation}, {"name", &c.Name}, {"redirect_uris", array(&c.RedirectURIs)},
			{"created_by", &c.CreatedBy}, {"created_at", &c.CreatedAt}, {"used_at", &c.UsedAt},
		}
	},
}

// OAuthClients returns the clients that an organisation registered, newest first.
func (q Queries) OAuthClients(ctx context.Context, organisation string) ([]OAuthClient, error) {
	return oauthClientTable.list(ctx, q.Reader, `
		WHERE organisation_id = $1
		ORDER BY id DESC`, organisation)
}

// OAuthClient returns the client with this id that the people of an organisation may use.
func (q Queries) OAuthClient(ctx context.Context, organisation, id string) (OAuthClient, error) {
	return oauthClientTable.one(ctx, q.Reader, `
		WHERE id = $1 AND organisation_id IN ('', $2)`, id, organisation)
}

// AddOAuthClient stores a client of an organisation. More than most is an error of kind
// Conflict.
func (tx *Tx) AddOAuthClient(ctx context.Context, c OAuthClient, most int) error {
	n, err := sqlrow.Count(ctx, tx.Reader, `SELECT COUNT(*) FROM oauth_clients WHERE organisation_id = $1`, c.Organisation)
	if err == nil && n >= most {
		err = apierr.New(apierr.Conflict, "an organisation may have %d clients; delete one first", most)
	}
	if err != nil {
		return err
	}
	return oauthClientTable.insert(ctx, tx, c)
}

// DeleteOAuthClient deletes a client of an organisation.
func (tx *Tx) DeleteOAuthClient(ctx context.Context, organisation, id string) error {
	const text = `
		DELETE FROM oauth_clients
		WHERE organisation_id = $1 AND id = $2`
	return tx.write(ctx, journal.Unpublished, "client", text, organisation, id)
}

// RegisterOAuthClient stores a client that registers itself, and deletes those that nobody has
// used since a time. More than most is an error of kind RateLimited.
func (db *DB) RegisterOAuthClient(ctx context.Context, c OAuthClient, unused time.Time, most int) error {
	const clean = `
		DELETE FROM oauth_clients
		WHERE organisation_id = '' AND COALESCE(used_at, created_at) < $1`
	return db.attemptChange(ctx, func(tx *Tx) error {
		if err := tx.exec(ctx, journal.Unpublished, "clients", clean, unused.UnixMilli()); err != nil {
			return err
		}
		n, err := sqlrow.Count(ctx, tx.Reader, `SELECT COUNT(*) FROM oauth_clients WHERE organisation_id = ''`)
		if err == nil && n >= most {
			err = apierr.New(apierr.RateLimited, "too many clients have registered; try again later")
		}
		if err != nil {
			return err
		}
		return oauthClientTable.insert(ctx, tx, c)
	})
}

// TouchOAuthClient records that somebody consented to a client; one that is not stored is
// ignored.
func (tx *Tx) TouchOAuthClient(ctx context.Context, id string, now time.Time) error {
	const text = `
		UPDATE oauth_clients
		SET used_at = $2
		WHERE id = $1`
	return tx.exec(ctx, journal.Unpublished, "client", text, id, now.UnixMilli())
}
