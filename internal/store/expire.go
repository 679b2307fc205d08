package store

import (
	"context"
	"fmt"
	"time"

	"modelgate/internal/journal"
	"modelgate/internal/sqlrow"
)

// ends are the tables, other than of keys, whose rows expire: the condition and the
// statement applied to them. $1 is now.
var ends = []struct {
	rows                   journal.Rows
	what, table, where, do string
}{
	{journal.Providers, "provider entries", "providers", `status IN ('active', 'exhausted') AND expires_at <= $1`, `UPDATE providers SET status = 'expired'`},
	{journal.Unpublished, "invites", "invites", `status = 'pending' AND expires_at <= $1`, `UPDATE invites SET status = 'expired'`},
	{journal.Unpublished, "sessions", "sessions", `expires_at <= $1`, `DELETE FROM sessions`},
	{journal.Unpublished, "claims", "claims", `expires_at <= $1`, `DELETE FROM claims`},
	{journal.Unpublished, "links", "password_links", `expires_at <= $1`, `DELETE FROM password_links`},
}

// MarkEnded marks expired provider entries and invites, and deletes expired sessions,
// claims and links. Without any it makes no revision; all users of these rows check the
// times themselves.
func (db *DB) MarkEnded(ctx context.Context, now time.Time) error {
	for _, e := range ends {
		n, err := sqlrow.Count(ctx, db.Reader, `SELECT COUNT(*) FROM `+e.table+` WHERE `+e.where, now.UnixMilli())
		if err == nil && n > 0 {
			err = db.Update(ctx, nil, func(tx *Tx) error { return tx.exec(ctx, e.rows, e.what, e.do+` WHERE `+e.where, now.UnixMilli()) })
		}
		if err != nil {
			return fmt.Errorf("marking %s that have ended: %w", e.what, err)
		}
	}
	return nil
}

// MarkExpired marks expired keys, deletes previous secrets whose transition is over,
// and returns the number of marked keys. Without any it makes no revision; requests
// check the times themselves.
func (db *DB) MarkExpired(ctx context.Context, now time.Time) (marked int64, err error) {
	const (
		due = `
		SELECT COUNT(*)
		FROM gateway_keys
		WHERE status IN ('active', 'exhausted') AND expires_at <= $1 OR transition_ends_at <= $1`
		mark = `
		UPDATE gateway_keys
		SET status = 'expired'
		WHERE status IN ('active', 'exhausted') AND expires_at <= $1`
		forget = `
		UPDATE gateway_keys
		SET previous_hash = NULL, transition_ends_at = NULL
		WHERE transition_ends_at <= $1`
	)
	if n, err := sqlrow.Count(ctx, db.Reader, due, now.UnixMilli()); n == 0 || err != nil {
		return 0, err
	}
	err = db.Update(ctx, nil, func(tx *Tx) error {
		marked, err = tx.change.Exec(ctx, journal.Keys, mark, now.UnixMilli())
		if err == nil {
			_, err = tx.change.Exec(ctx, journal.Keys, forget, now.UnixMilli())
		}
		if err != nil {
			return fmt.Errorf("marking expired API keys: %w", err)
		}
		return nil
	})
	return marked, err
}

// toldAtOnce is the limit of keys in one call of MarkRotationsDue.
const toldAtOnce = 100

// MarkRotationsDue returns at most 100 keys whose rotation is due at now and was not
// reported yet, and adds the audit event that note returns for each. If several
// processes share a database, each key is returned to one of them.
func (db *DB) MarkRotationsDue(ctx context.Context, now time.Time, note func(Key) *Audit) (due []Key, err error) {
	const (
		where = `
		WHERE status IN ('active', 'exhausted') AND rotation_due_at <= $1
			AND (rotation_told_at IS NULL OR rotation_told_at < rotation_due_at)`
		mark = `
		UPDATE gateway_keys
		SET rotation_told_at = $2
		WHERE id = $1`
	)
	if n, err := sqlrow.Count(ctx, db.Reader, `SELECT COUNT(*) FROM gateway_keys`+where, now.UnixMilli()); n == 0 || err != nil {
		return nil, err
	}
	err = db.Update(ctx, nil, func(tx *Tx) error {
		due, err = keyTable.list(ctx, tx.Reader, where+` ORDER BY id LIMIT $2`, now.UnixMilli(), toldAtOnce)
		if err != nil {
			return err
		}
		for _, k := range due {
			if err := tx.exec(ctx, journal.Keys.Row(k.ID), "API keys", mark, k.ID, now.UnixMilli()); err != nil {
				return err
			}
			if err := tx.Note(ctx, note(k)); err != nil {
				return err
			}
		}
		return nil
	})
	return due, err
}
