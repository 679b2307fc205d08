package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
)

// ends are the tables, other than of keys and providers, whose rows expire: the condition and the
// statement applied to them. $1 is now.
var ends = []struct {
	rows                   journal.Rows
	what, table, where, do string
}{
	{journal.Unpublished, "invites", "invites", `status = 'pending' AND expires_at <= $1`, `UPDATE invites SET status = 'expired'`},
	{journal.Unpublished, "sessions", "sessions", `expires_at <= $1`, `DELETE FROM sessions`},
	{journal.Unpublished, "claims", "claims", `expires_at <= $1`, `DELETE FROM claims`},
	{journal.Unpublished, "links", "password_links", `expires_at <= $1`, `DELETE FROM password_links`},
}

// MarkEnded marks expired invites, and deletes expired sessions,
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

// ended is the condition of keys and providers that have expired and are not marked.
// $1 is now.
const ended = `status IN ('active', 'exhausted') AND expires_at <= $1`

// MarkExpired marks expired keys with the audit event that note returns for each,
// deletes previous secrets whose transition is over, and returns the number of marked
// keys. Without any it makes no revision; requests check the times themselves. If
// several processes share a database, each key is marked by one of them.
func (db *DB) MarkExpired(ctx context.Context, now time.Time, note func(Key) *Audit) (marked int64, err error) {
	const (
		due = `
		SELECT COUNT(*)
		FROM gateway_keys
		WHERE ` + ended + ` OR transition_ends_at <= $1`
		mark = `
		UPDATE gateway_keys
		SET status = 'expired'
		WHERE id = $1`
		forget = `
		UPDATE gateway_keys
		SET previous_hash = NULL, transition_ends_at = NULL
		WHERE transition_ends_at <= $1`
	)
	for {
		if n, err := sqlrow.Count(ctx, db.Reader, due, now.UnixMilli()); n == 0 || err != nil {
			return marked, err
		}
		err := db.Update(ctx, nil, func(tx *Tx) error {
			list, err := keyTable.list(ctx, tx.Reader, `
		WHERE `+ended+` ORDER BY id LIMIT $2`, now.UnixMilli(), toldAtOnce)
			if err != nil {
				return err
			}
			for _, k := range list {
				if err := tx.exec(ctx, journal.Keys.Row(k.ID), "API keys", mark, k.ID); err != nil {
					return err
				}
				if err := tx.Note(ctx, note(k)); err != nil {
					return err
				}
			}
			marked += int64(len(list))
			return tx.exec(ctx, journal.Keys, "API keys", forget, now.UnixMilli())
		})
		if err != nil {
			return marked, fmt.Errorf("marking expired API keys: %w", err)
		}
	}
}

// MarkProvidersExpired marks expired managed providers with the audit event that note
// returns for each. Otherwise it is like [DB.MarkExpired].
func (db *DB) MarkProvidersExpired(ctx context.Context, now time.Time, note func(Provider) *Audit) error {
	const mark = `
		UPDATE providers
		SET status = 'expired'
		WHERE id = $1`
	for {
		if n, err := sqlrow.Count(ctx, db.Reader, `SELECT COUNT(*) FROM providers WHERE `+ended, now.UnixMilli()); n == 0 || err != nil {
			return err
		}
		err := db.Update(ctx, nil, func(tx *Tx) error {
			list, err := providerTable.list(ctx, tx.Reader, `
		WHERE `+ended+` ORDER BY id LIMIT $2`, now.UnixMilli(), toldAtOnce)
			if err != nil {
				return err
			}
			for _, p := range list {
				if err := tx.exec(ctx, journal.Providers, "providers", mark, p.ID); err != nil {
					return err
				}
				if err := tx.Note(ctx, note(p)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("marking expired providers: %w", err)
		}
	}
}

// NoteExpiring adds the audit event that note returns for each key that expires until a
// time. Each expiry is reported once: the id of the event's alert is [ExpiryAlert].
func (db *DB) NoteExpiring(ctx context.Context, now, until time.Time, note func(Key) *Audit) error {
	const where = `
		WHERE status IN ('active', 'exhausted') AND expires_at > $1 AND expires_at <= $2
			AND NOT EXISTS (SELECT 1 FROM alerts a WHERE a.id = 'expiry-' || gateway_keys.id || '-' || CAST(expires_at AS TEXT))`
	for {
		if n, err := sqlrow.Count(ctx, db.Reader, `SELECT COUNT(*) FROM gateway_keys`+where, now.UnixMilli(), until.UnixMilli()); n == 0 ||
			err != nil {
			return err
		}
		err := db.Update(ctx, nil, func(tx *Tx) error {
			list, err := keyTable.list(ctx, tx.Reader, where+` ORDER BY id LIMIT $3`, now.UnixMilli(), until.UnixMilli(), toldAtOnce)
			if err == nil && len(list) == 0 {
				return errNothing
			}
			for _, k := range list {
				if err := tx.Note(ctx, note(k)); err != nil {
					return err
				}
			}
			return err
		})
		if err != nil && !errors.Is(err, errNothing) {
			return fmt.Errorf("reporting API keys that expire: %w", err)
		}
	}
}

// ExpiryAlert returns the id of the alert about the expiry of k.
func ExpiryAlert(k Key) string { return fmt.Sprintf("expiry-%s-%d", k.ID, k.ExpiresAt.UnixMilli()) }

// toldAtOnce is the limit of rows that are reported in one transaction.
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
