package store

import (
	"context"
	"time"
)

// Session is a person who signed in. It is known by the hash of its token.
type Session struct {
	Hash         string
	UserID       string
	Organisation string
	CreatedAt    time.Time
	ExpiresAt    time.Time
}

// Session returns the session with this hash, whether it has ended or not.
func (q Queries) Session(ctx context.Context, hash string) (Session, error) {
	const text = `
		SELECT hash, user_id, organisation_id, created_at, expires_at
		FROM sessions
		WHERE hash = $1`
	return one(ctx, q.q, "session", text, func(r row) (s Session, err error) {
		err = r.Scan(&s.Hash, &s.UserID, &s.Organisation, stamp{&s.CreatedAt}, stamp{&s.ExpiresAt})
		return s, err
	}, hash)
}

// CreateSession stores a session, and takes away those that have ended.
func (q Queries) CreateSession(ctx context.Context, s Session) error {
	const clean = `
		DELETE FROM sessions
		WHERE expires_at <= $1`
	if _, err := q.q.ExecContext(ctx, clean, s.CreatedAt.UnixMilli()); err != nil {
		return err
	}
	const text = `
		INSERT INTO sessions (hash, user_id, organisation_id, created_at, expires_at)
		VALUES ($1, $2, $3, $4, $5)`
	return write(ctx, q.q, "session", text, s.Hash, s.UserID, s.Organisation, millis(s.CreatedAt), millis(s.ExpiresAt))
}

// DeleteSession ends a session.
func (q Queries) DeleteSession(ctx context.Context, hash string) error {
	const text = `
		DELETE FROM sessions
		WHERE hash = $1`
	return write(ctx, q.q, "session", text, hash)
}

// UserByEmail returns the person with this address and the organisation they
// belong to, the one they joined first where there are several.
func (q Queries) UserByEmail(ctx context.Context, email string) (u User, organisation string, err error) {
	const text = `
		SELECT u.id, u.email, u.first_name, u.last_name, u.password_hash, u.status, o.role, u.created_at, u.updated_at, o.organisation_id
		FROM users u
		JOIN organisation_members o ON o.user_id = u.id
		WHERE u.email = $1
		ORDER BY o.created_at
		LIMIT 1`
	u, err = one(ctx, q.q, "user", text, func(r row) (u User, err error) {
		err = r.Scan(&u.ID, &u.Email, &u.FirstName, &u.LastName, &u.PasswordHash, &u.Status, &u.Role, stamp{&u.CreatedAt}, stamp{&u.UpdatedAt}, &organisation)
		return u, err
	}, email)
	return u, organisation, err
}

// ReplaceClaim stores the hash of a link by which an organisation without an
// owner is claimed, in the place of any before.
func (q Queries) ReplaceClaim(ctx context.Context, organisation, hash string, now, ends time.Time) error {
	const clear = `
		DELETE FROM claims
		WHERE organisation_id = $1`
	if _, err := q.q.ExecContext(ctx, clear, organisation); err != nil {
		return err
	}
	const text = `
		INSERT INTO claims (hash, organisation_id, created_at, expires_at)
		VALUES ($1, $2, $3, $4)`
	return write(ctx, q.q, "claim", text, hash, organisation, millis(now), millis(ends))
}

// TakeClaim takes away the claim with this hash and returns the organisation it
// is for. One that has ended or was taken before is not there.
func (q Queries) TakeClaim(ctx context.Context, hash string, now time.Time) (organisation string, err error) {
	const text = `
		DELETE FROM claims
		WHERE hash = $1 AND expires_at > $2
		RETURNING organisation_id`
	return one(ctx, q.q, "claim", text, func(r row) (s string, err error) {
		err = r.Scan(&s)
		return s, err
	}, hash, now.UnixMilli())
}

// PasswordLink is a link by which a person sets their first password. It is known
// by the hash of its secret.
type PasswordLink struct {
	UserID       string
	Hash         string
	Organisation string
	CreatedAt    time.Time
	ExpiresAt    time.Time
}

// ReplacePasswordLink stores a person's link in the place of any before.
func (q Queries) ReplacePasswordLink(ctx context.Context, l PasswordLink) error {
	const text = `
		INSERT INTO password_links (user_id, hash, organisation_id, created_at, expires_at)
		VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (user_id) DO UPDATE
		SET hash = excluded.hash, organisation_id = excluded.organisation_id, created_at = excluded.created_at, expires_at = excluded.expires_at`
	return write(ctx, q.q, "link", text, l.UserID, l.Hash, l.Organisation, millis(l.CreatedAt), millis(l.ExpiresAt))
}

// TakePasswordLink takes away the link with this hash and returns whose it is.
// One that has ended or was taken before is not there.
func (q Queries) TakePasswordLink(ctx context.Context, hash string, now time.Time) (PasswordLink, error) {
	const text = `
		DELETE FROM password_links
		WHERE hash = $1 AND expires_at > $2
		RETURNING user_id, hash, organisation_id, created_at, expires_at`
	return one(ctx, q.q, "link", text, func(r row) (l PasswordLink, err error) {
		err = r.Scan(&l.UserID, &l.Hash, &l.Organisation, stamp{&l.CreatedAt}, stamp{&l.ExpiresAt})
		return l, err
	}, hash, now.UnixMilli())
}

// SetFirstPassword stores the password and the name of a person who has no
// password, is not disabled, and belongs to this organisation and no other.
// Anybody else is not there, so that no account is taken over.
func (q Queries) SetFirstPassword(ctx context.Context, organisation string, u User) error {
	const text = `
		UPDATE users
		SET password_hash = $2, first_name = $3, last_name = $4, updated_at = $5
		WHERE id = $1 AND password_hash = '' AND status = 'active'
			AND EXISTS (SELECT 1 FROM organisation_members o WHERE o.user_id = users.id AND o.organisation_id = $6)
			AND NOT EXISTS (SELECT 1 FROM organisation_members o WHERE o.user_id = users.id AND o.organisation_id <> $6)`
	return write(ctx, q.q, "user", text, u.ID, u.PasswordHash, u.FirstName, u.LastName, millis(u.UpdatedAt), organisation)
}

// KeyByHash returns the key with this hash, or with this hash before its last
// rotation.
func (q Queries) KeyByHash(ctx context.Context, hash string) (Key, error) {
	const text = `
		SELECT ` + keyColumns + `
		FROM gateway_keys
		WHERE hash = $1 OR previous_hash = $1`
	return one(ctx, q.q, "API key", text, scanKey, hash)
}
