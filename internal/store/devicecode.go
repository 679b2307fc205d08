package store

import (
	"context"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
)

// DeviceCode is the sign-in of a command line that waits for a person to approve it.
type DeviceCode struct {
	Hash         string // of the code that the command line has
	UserCodeHash string // of the code that the person enters
	Client       string // what the command line says of itself; may be anything
	Address      string // of the command line
	Status       string // one of the Device constants
	Session      string // hash of the session that approved it; empty before
	Interval     int64  // least time between two requests of the command line, in seconds
	PolledAt     time.Time
	CreatedAt    time.Time
	EndsAt       time.Time
}

// States of a [DeviceCode].
const (
	DevicePending  = "pending"
	DeviceApproved = "approved"
	DeviceDenied   = "denied"
)

var deviceTable = table[DeviceCode]{
	name: "device_codes", row: "device code", fixed: "hash user_code_hash client address created_at ends_at",
	columns: func(d *DeviceCode) []column {
		return []column{
			{"hash", &d.Hash}, {"user_code_hash", &d.UserCodeHash}, {"client", &d.Client}, {"address", &d.Address}, {"status", &d.Status},
			{"session_hash", &d.Session}, {"poll_interval", &d.Interval}, {"polled_at", &d.PolledAt}, {"created_at", &d.CreatedAt},
			{"ends_at", &d.EndsAt},
		}
	},
}

// DeviceCode returns the device code with this hash, even if it has ended.
func (q Queries) DeviceCode(ctx context.Context, hash string) (DeviceCode, error) {
	return deviceTable.one(ctx, q.Reader, `
		WHERE hash = $1`, hash)
}

// PendingDeviceCode returns the device code that has this user code and waits at now.
func (q Queries) PendingDeviceCode(ctx context.Context, userCodeHash string, now time.Time) (DeviceCode, error) {
	return deviceTable.one(ctx, q.Reader, `
		WHERE user_code_hash = $1 AND status = 'pending' AND ends_at > $2`, userCodeHash, now.UnixMilli())
}

// AddDeviceCode stores a device code and deletes those that have ended. More than most is an
// error of kind RateLimited.
func (db *DB) AddDeviceCode(ctx context.Context, d DeviceCode, most int) error {
	const clean = `
		DELETE FROM device_codes
		WHERE ends_at <= $1`
	return db.attemptChange(ctx, func(tx *Tx) error {
		if err := tx.exec(ctx, journal.Unpublished, "device codes", clean, d.CreatedAt.UnixMilli()); err != nil {
			return err
		}
		n, err := sqlrow.Count(ctx, tx.Reader, `SELECT COUNT(*) FROM device_codes`)
		if err == nil && n >= most {
			err = apierr.New(apierr.RateLimited, "too many sign-ins wait for approval; try again later")
		}
		if err != nil {
			return err
		}
		return deviceTable.insert(ctx, tx, d)
	})
}

// PollDeviceCode records a request of a command line and reports whether it came too soon
// after the last one, on whatever node. Each that does makes the interval longer by five
// seconds (RFC 8628, section 3.5).
func (db *DB) PollDeviceCode(ctx context.Context, hash string, now time.Time) (d DeviceCode, early bool, err error) {
	const lock = `
		UPDATE device_codes
		SET hash = hash
		WHERE hash = $1`
	const most = 60 // seconds
	now = now.UTC().Truncate(time.Millisecond)
	err = db.attemptChange(ctx, func(tx *Tx) error {
		if err := tx.write(ctx, journal.Unpublished, "device code", lock, hash); err != nil {
			return err
		}
		if d, err = tx.DeviceCode(ctx, hash); err != nil {
			return err
		}
		early = !d.PolledAt.IsZero() && now.Sub(d.PolledAt) < time.Duration(d.Interval)*time.Second
		if d.PolledAt = now; early {
			d.Interval = min(d.Interval+5, most)
		}
		return deviceTable.update(ctx, tx, d)
	})
	return d, early, err
}

// DecideDeviceCode sets the state of a device code that waits. It is not found if it was
// decided before.
func (tx *Tx) DecideDeviceCode(ctx context.Context, hash, status, session string, now time.Time) error {
	const text = `
		UPDATE device_codes
		SET status = $2, session_hash = $3
		WHERE hash = $1 AND status = 'pending' AND ends_at > $4`
	return tx.write(ctx, journal.Unpublished, "device code", text, hash, status, session, now.UnixMilli())
}

// SpendDeviceCode deletes an approved device code. It is not found if another request did,
// so that only one session begins.
func (tx *Tx) SpendDeviceCode(ctx context.Context, hash string, now time.Time) error {
	const text = `
		DELETE FROM device_codes
		WHERE hash = $1 AND status = 'approved' AND ends_at > $2`
	return tx.write(ctx, journal.Unpublished, "device code", text, hash, now.UnixMilli())
}
