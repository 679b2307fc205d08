package store

import (
	"context"
	"time"

	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
)

// IdempotentRequest is a request with an Idempotency-Key that changed something.
type IdempotentRequest struct {
	ID        string // hash of the key and of the caller's credential
	Request   string // hash of what the request asks for
	Response  string // sealed; empty until the request has ended
	CreatedAt time.Time
}

// IdempotentRequest returns the request with an id. It returns an error of kind NotFound
// if there is none.
func (q Queries) IdempotentRequest(ctx context.Context, id string) (IdempotentRequest, error) {
	const text = `
		SELECT id, request, response, created_at
		FROM idempotency_keys
		WHERE id = $1`
	return sqlrow.One(ctx, q.Reader, "idempotency key", text, func(r sqlrow.Scanner) (i IdempotentRequest, err error) {
		err = r.Scan(&i.ID, &i.Request, &i.Response, sqlrow.Time(&i.CreatedAt))
		return i, err
	}, id)
}

// AddIdempotentRequest stores a request in the transaction of its change, replacing
// an earlier one with the same id made at since or before. A later one is a conflict.
func (tx *Tx) AddIdempotentRequest(ctx context.Context, i IdempotentRequest, since time.Time) error {
	const old = `
		DELETE FROM idempotency_keys
		WHERE id = $1 AND created_at <= $2`
	const add = `
		INSERT INTO idempotency_keys (id, request, response, created_at)
		VALUES ($1, $2, '', $3)`
	if err := tx.exec(ctx, journal.Unpublished, "idempotency keys", old, i.ID, millis(since)); err != nil {
		return err
	}
	return tx.exec(ctx, journal.Unpublished, "idempotency key", add, i.ID, i.Request, millis(i.CreatedAt))
}

// SetIdempotentResponse stores the sealed response of a request, and removes requests that
// were made at since or before.
func (db *DB) SetIdempotentResponse(ctx context.Context, id, response string, since time.Time) error {
	const set = `
		UPDATE idempotency_keys
		SET response = $2
		WHERE id = $1`
	const trim = `
		DELETE FROM idempotency_keys
		WHERE created_at <= $1`
	return db.ClientError(db.transact(ctx, func(tx *Tx) error {
		if err := tx.exec(ctx, journal.Unpublished, "idempotency key", set, id, response); err != nil {
			return err
		}
		return tx.exec(ctx, journal.Unpublished, "idempotency keys", trim, millis(since))
	}))
}

// PruneIdempotentRequests removes the requests that were made at since or before.
func (db *DB) PruneIdempotentRequests(ctx context.Context, since time.Time) error {
	const count = `
		SELECT COUNT(*)
		FROM idempotency_keys
		WHERE created_at <= $1`
	const trim = `
		DELETE FROM idempotency_keys
		WHERE created_at <= $1`
	n, err := sqlrow.Count(ctx, db.Reader, count, millis(since))
	if err != nil || n == 0 {
		return db.ClientError(err)
	}
	return db.ClientError(db.transact(ctx, func(tx *Tx) error {
		return tx.exec(ctx, journal.Unpublished, "idempotency keys", trim, millis(since))
	}))
}
