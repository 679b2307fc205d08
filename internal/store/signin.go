package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
)

// AttemptLimit limits the sign-in attempts counted under one id. One attempt is
// forgotten per Forget, so that Free attempts are allowed at once and few more in the
// long run.
type AttemptLimit struct {
	ID      string        // at most 64 bytes; must not contain private data
	Free    int64         // attempts without a wait
	Wait    time.Duration // after Free attempts; doubles with each further attempt
	MaxWait time.Duration
	Forget  time.Duration
}

// attempts is the stored state of an [AttemptLimit].
type attempts struct {
	tries   int64
	counted time.Time // time at which tries was valid
	open    time.Time // no attempt is allowed before
}

// at returns a without the attempts forgotten by now.
func (a attempts) at(now time.Time, l AttemptLimit) attempts {
	gone := max(int64(now.Sub(a.counted)/l.Forget), 0)
	if gone >= a.tries {
		return attempts{counted: now, open: a.open}
	}
	a.tries -= gone
	a.counted = a.counted.Add(time.Duration(gone) * l.Forget)
	return a
}

// next returns a with one more attempt.
func (a attempts) next(now time.Time, l AttemptLimit) attempts {
	a = a.at(now, l)
	a.tries++
	if over := a.tries - l.Free; over >= 0 {
		a.open = now.Add(min(l.Wait<<min(over, 20), l.MaxWait))
	}
	return a
}

// ReserveAttempt counts an attempt under every limit before its outcome is known. If a
// limit does not allow it, nothing is counted and wait is the time until it does.
// Limits shared by several calls must be in the same order in each. Nodes with one
// database share the counts.
func (db *DB) ReserveAttempt(ctx context.Context, now time.Time, limits ...AttemptLimit) (wait time.Duration, err error) {
	now = now.UTC().Truncate(time.Millisecond)
	// Refusals are read without a lock, so that a flood of attempts writes nothing.
	if wait, err = db.attemptWait(ctx, now, limits); wait > 0 || err != nil {
		return wait, db.ClientError(err)
	}
	err = db.attemptChange(ctx, func(tx *Tx) error {
		wait = 0
		next := make([]attempts, len(limits))
		for i, l := range limits {
			a, err := lockAttempts(ctx, tx, l, now)
			if err != nil {
				return err
			}
			wait = max(wait, a.open.Sub(now))
			next[i] = a.next(now, l)
		}
		if wait > 0 {
			return errRefused
		}
		for i, l := range limits {
			if err := writeAttempts(ctx, tx, l, next[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, errRefused) {
		return wait, nil
	}
	return 0, err
}

// errRefused rolls back a reservation that a limit does not allow.
var errRefused = errors.New("refused")

// ReleaseAttempt uncounts a successful attempt.
func (db *DB) ReleaseAttempt(ctx context.Context, now time.Time, limits ...AttemptLimit) error {
	now = now.UTC().Truncate(time.Millisecond)
	return db.attemptChange(ctx, func(tx *Tx) error {
		for _, l := range limits {
			a, err := lockAttempts(ctx, tx, l, now)
			if err != nil {
				return err
			}
			a = a.at(now, l)
			if a.tries = max(a.tries-1, 0); a.tries < l.Free {
				a.open = now
			}
			if err := writeAttempts(ctx, tx, l, a); err != nil {
				return err
			}
		}
		return nil
	})
}

// ForgetAttempts deletes everything counted under an id.
func (db *DB) ForgetAttempts(ctx context.Context, id string) error {
	const text = `
		DELETE FROM sign_in_limits
		WHERE id = $1`
	return db.ClientError(db.exec(ctx, "sign-in limit", text, id))
}

// attemptChange runs f in a transaction without a revision, because gateways do not
// publish these rows.
func (db *DB) attemptChange(ctx context.Context, f func(*Tx) error) error {
	if !db.ready.Load() {
		return unavailableError(nil)
	}
	ctx, cancel := context.WithTimeout(ctx, changeTime)
	defer cancel()
	return db.ClientError(db.transact(ctx, f))
}

func (db *DB) attemptWait(ctx context.Context, now time.Time, limits []AttemptLimit) (wait time.Duration, err error) {
	const text = `
		SELECT open_at
		FROM sign_in_limits
		WHERE id = $1 AND open_at > $2`
	for _, l := range limits {
		var open time.Time
		err := db.Reader.QueryRowContext(ctx, text, l.ID, now.UnixMilli()).Scan(sqlrow.Time(&open))
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("reading a sign-in limit: %w", err)
		}
		wait = max(wait, open.Sub(now))
	}
	return wait, nil
}

// lockAttempts reads the state of a limit and locks it until the transaction ends.
func lockAttempts(ctx context.Context, tx *Tx, l AttemptLimit, now time.Time) (a attempts, err error) {
	const text = `
		INSERT INTO sign_in_limits (id, tries, counted_at, open_at, ends_at)
		VALUES ($1, 0, $2, $2, $2)
		ON CONFLICT (id) DO UPDATE
		SET id = excluded.id
		RETURNING tries, counted_at, open_at`
	err = tx.Reader.QueryRowContext(ctx, text, l.ID, now.UnixMilli()).Scan(&a.tries, sqlrow.Time(&a.counted), sqlrow.Time(&a.open))
	if err != nil {
		return a, fmt.Errorf("counting an attempt to sign in: %w", err)
	}
	return a, nil
}

func writeAttempts(ctx context.Context, tx *Tx, l AttemptLimit, a attempts) error {
	const text = `
		UPDATE sign_in_limits
		SET tries = $2, counted_at = $3, open_at = $4, ends_at = $5
		WHERE id = $1`
	ends := a.counted.Add(time.Duration(a.tries) * l.Forget)
	if ends.Before(a.open) {
		ends = a.open
	}
	return tx.write(ctx, journal.Unpublished, "sign-in limit", text, l.ID, a.tries, millis(a.counted), millis(a.open), millis(ends))
}

// TrimAttempts deletes the limits that have no effect at now and, above keep, those
// that would expire first. An attacker who creates many rows thereby deletes rows with
// few attempts, their own.
func (db *DB) TrimAttempts(ctx context.Context, now time.Time, keep int) error {
	const ended = `
		SELECT id, ends_at
		FROM sign_in_limits
		WHERE ends_at <= $1
		LIMIT 100000`
	const first = `
		SELECT id, ends_at
		FROM sign_in_limits
		ORDER BY ends_at
		LIMIT $1`
	if err := db.deleteAttempts(ctx, ended, now.UnixMilli()); err != nil {
		return err
	}
	n, err := db.CountAttempts(ctx)
	if err != nil || n <= keep {
		return db.ClientError(err)
	}
	return db.deleteAttempts(ctx, first, int64(n-keep))
}

// CountAttempts returns the number of stored limits.
func (q Queries) CountAttempts(ctx context.Context) (int, error) {
	return sqlrow.Count(ctx, q.Reader, `SELECT COUNT(*) FROM sign_in_limits`)
}

// deleteAttempts deletes the selected limits for which nothing was counted since. It
// deletes them one by one, because a statement that locks several could deadlock with a
// reservation.
func (db *DB) deleteAttempts(ctx context.Context, text string, arg any) error {
	type limit struct {
		id   string
		ends int64
	}
	list, err := sqlrow.List(ctx, db.Reader, "sign-in limits", text, func(r sqlrow.Scanner) (l limit, err error) {
		err = r.Scan(&l.id, &l.ends)
		return l, err
	}, arg)
	const remove = `
		DELETE FROM sign_in_limits
		WHERE id = $1 AND ends_at = $2`
	for _, l := range list {
		if err == nil {
			err = db.exec(ctx, "sign-in limits", remove, l.id, l.ends)
		}
	}
	return db.ClientError(err)
}

// Number of remembered addresses of a user, and how long they are remembered after
// their last use.
const (
	knownAddresses   = 20
	knownAddressDays = 90
)

// IsKnownAddress reports whether a user signed in from an address within the last 90
// days.
func (q Queries) IsKnownAddress(ctx context.Context, user, address string, now time.Time) (bool, error) {
	const text = `
		SELECT COUNT(*)
		FROM sign_in_addresses
		WHERE user_id = $1 AND address = $2 AND used_at > $3`
	n, err := sqlrow.Count(ctx, q.Reader, text, user, address, now.AddDate(0, 0, -knownAddressDays).UnixMilli())
	return n > 0, err
}

// RememberAddress records that a user signed in from an address.
func (tx *Tx) RememberAddress(ctx context.Context, user, address string, now time.Time) error {
	const add = `
		INSERT INTO sign_in_addresses (user_id, address, used_at)
		VALUES ($1, $2, $3)
		ON CONFLICT (user_id, address) DO UPDATE
		SET used_at = excluded.used_at`
	const trim = `
		DELETE FROM sign_in_addresses
		WHERE user_id = $1 AND address NOT IN (
			SELECT address
			FROM sign_in_addresses
			WHERE user_id = $1
			ORDER BY used_at DESC, address
			LIMIT $2)`
	if err := tx.exec(ctx, journal.Unpublished, "sign-in address", add, user, address, now.UnixMilli()); err != nil {
		return err
	}
	return tx.exec(ctx, journal.Unpublished, "sign-in address", trim, user, int64(knownAddresses))
}

// forgetAddresses deletes the remembered addresses of a user.
func (tx *Tx) forgetAddresses(ctx context.Context, user string) error {
	const text = `
		DELETE FROM sign_in_addresses
		WHERE user_id = $1`
	return tx.exec(ctx, journal.Unpublished, "sign-in addresses", text, user)
}
