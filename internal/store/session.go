package store

import (
	"context"
	"time"

	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
)

// Session is a sign-in of a user. Requests identify it by its token, whose hash is
// stored; the API names it by its id.
type Session struct {
	Hash         string
	ID           string
	UserID       string
	Organisation string
	Address      string // of the client that used it last
	UserAgent    string // of the client that signed in
	CreatedAt    time.Time
	LastUsedAt   time.Time // at most a minute before the last use
	ExpiresAt    time.Time

	Method string // how it began: one of the Method constants

	// Of a session that began at an identity provider: its id, who signed in there, the
	// provider's id of its own session, and the ID token, sealed.
	Provider, Subject, ProviderSession, IDToken string

	// Pending is what the session waits for: one of the Pending constants. Until then it can
	// be used for nothing else.
	Pending  string
	Factor   string    // the second factor that was proved; empty for none
	ProvedAt time.Time // when its user last proved who they are; zero is CreatedAt
}

// What a [Session] waits for. Empty is nothing.
const (
	PendingFactor    = "second_factor" // a second factor that its user has
	PendingEnrolment = "enrolment"     // a second factor that its user must add
)

// How a [Session] began.
const (
	MethodPassword = "password" // or a link that sets one
	MethodSSO      = "sso"
	MethodDevice   = "device"   // a command line that somebody with a session approved
	MethodPasskey  = "passkey"  // alone
	MethodOperator = "operator" // a link made on the gateway's host
)

var sessionTable = table[Session]{
	name: "sessions", row: "session",
	columns: func(s *Session) []column {
		return []column{
			{"hash", &s.Hash}, {"id", &s.ID}, {"user_id", &s.UserID}, {"organisation_id", &s.Organisation}, {"address", &s.Address},
			{"user_agent", &s.UserAgent}, {"created_at", &s.CreatedAt}, {"last_used_at", &s.LastUsedAt}, {"expires_at", &s.ExpiresAt},
			{"method", &s.Method}, {"provider_id", &s.Provider}, {"subject", &s.Subject}, {"provider_session", &s.ProviderSession},
			{"id_token", &s.IDToken}, {"pending", &s.Pending}, {"factor", &s.Factor}, {"proved_at", &s.ProvedAt},
		}
	},
}

// Session returns the session with this hash, even if it has expired. Sessions of
// users who are inactive, or deactivated in the organisation, are not found.
func (q Queries) Session(ctx context.Context, hash string) (Session, error) {
	return sessionTable.one(ctx, q.Reader, `
		WHERE hash = $1 AND EXISTS (SELECT 1 FROM users u WHERE u.id = sessions.user_id AND u.status = 'active')
			AND NOT EXISTS (SELECT 1 FROM organisation_members o
				WHERE o.organisation_id = sessions.organisation_id AND o.user_id = sessions.user_id AND o.status <> 'active')`, hash)
}

// Sessions returns the sessions of a user in an organisation, including expired ones,
// most recently used first.
func (q Queries) Sessions(ctx context.Context, organisation, user string) ([]Session, error) {
	return sessionTable.list(ctx, q.Reader, `
		WHERE organisation_id = $1 AND user_id = $2
		ORDER BY last_used_at DESC, id DESC`, organisation, user)
}

// Limits of a user's sessions in an organisation. Those that wait for a second factor count
// apart: whoever has only the password cannot end the others.
const (
	userSessions    = 100
	pendingSessions = 10
)

// CreateSession stores a session. It deletes expired sessions and, above a limit, the least
// recently used ones of the user.
func (tx *Tx) CreateSession(ctx context.Context, s Session) error {
	const clean = `
		DELETE FROM sessions
		WHERE expires_at <= $1`
	const oldest = `
		DELETE FROM sessions
		WHERE user_id = $1 AND organisation_id = $2 AND (pending = '') = ($4 = '') AND id NOT IN (
			SELECT id
			FROM sessions
			WHERE user_id = $1 AND organisation_id = $2 AND (pending = '') = ($4 = '')
			ORDER BY last_used_at DESC, id DESC
			LIMIT $3)`
	limit := int64(userSessions)
	if s.Pending != "" {
		limit = pendingSessions
	}
	if err := tx.exec(ctx, journal.Unpublished, "sessions", clean, s.CreatedAt.UnixMilli()); err != nil {
		return err
	}
	if err := tx.exec(ctx, journal.Unpublished, "sessions", oldest, s.UserID, s.Organisation, limit-1, s.Pending); err != nil {
		return err
	}
	s.LastUsedAt = s.CreatedAt
	return sessionTable.insert(ctx, tx, s)
}

// TouchSession records that a session was used at now from an address. It makes no
// revision.
func (db *DB) TouchSession(ctx context.Context, hash, address string, now time.Time) error {
	const text = `
		UPDATE sessions
		SET last_used_at = $2, address = $3
		WHERE hash = $1 AND last_used_at < $2`
	return db.exec(ctx, "session", text, hash, now.UnixMilli(), address)
}

// DeleteSession ends a session by its hash.
func (tx *Tx) DeleteSession(ctx context.Context, hash string) error {
	const text = `
		DELETE FROM sessions
		WHERE hash = $1`
	return tx.write(ctx, journal.Unpublished, "session", text, hash)
}

// EndSession ends a session of a user by its id.
func (tx *Tx) EndSession(ctx context.Context, organisation, user, id string) error {
	const text = `
		DELETE FROM sessions
		WHERE organisation_id = $1 AND user_id = $2 AND id = $3`
	return tx.write(ctx, journal.Unpublished, "session", text, organisation, user, id)
}

// EndSessions ends the sessions of a user except the one with the hash keep, which may
// be empty. An empty organisation ends the sessions of all organisations.
func (tx *Tx) EndSessions(ctx context.Context, organisation, user, keep string) error {
	const text = `
		DELETE FROM sessions
		WHERE ($1 = '' OR organisation_id = $1) AND user_id = $2 AND hash <> $3`
	return tx.exec(ctx, journal.Unpublished, "sessions", text, organisation, user, keep)
}

// UserByEmail returns the user with this address and their organisation, the one they
// joined first if there are several. Organisations whose directory deactivated the user come
// last, and make the user disabled.
func (q Queries) UserByEmail(ctx context.Context, email string) (u User, organisation string, err error) {
	const text = `
		SELECT u.id, u.email, u.first_name, u.last_name, u.password_hash, ` + memberStatus + `,
			o.role, u.created_at, u.updated_at, o.organisation_id
		FROM users u
		JOIN organisation_members o ON o.user_id = u.id
		WHERE u.email = $1
		ORDER BY CASE WHEN o.status = 'active' THEN 0 ELSE 1 END, o.created_at
		LIMIT 1`
	u, err = sqlrow.One(ctx, q.Reader, "user", text, func(r sqlrow.Scanner) (u User, err error) {
		err = r.Scan(&u.ID, &u.Email, &u.FirstName, &u.LastName, &u.PasswordHash, &u.Status, &u.Role, sqlrow.Time(&u.CreatedAt),
			sqlrow.Time(&u.UpdatedAt), &organisation)
		return u, err
	}, email)
	return u, organisation, err
}

// Claim is a link with which an organisation gets its first owner, or an owner signs in.
type Claim struct {
	Organisation string
	User         string // the owner who signs in; empty for the first owner
}

// ReplaceClaim stores the hash of a claim link, replacing the previous one of the organisation.
func (tx *Tx) ReplaceClaim(ctx context.Context, of Claim, hash string, now, ends time.Time) error {
	const clear = `
		DELETE FROM claims
		WHERE organisation_id = $1`
	if _, err := tx.change.Exec(ctx, journal.Unpublished, clear, of.Organisation); err != nil {
		return err
	}
	const text = `
		INSERT INTO claims (hash, organisation_id, user_id, created_at, expires_at)
		VALUES ($1, $2, $3, $4, $5)`
	return tx.write(ctx, journal.Unpublished, "claim", text, hash, of.Organisation, of.User, millis(now), millis(ends))
}

// Claim returns the claim with this hash, without using it up. An expired claim is not found.
func (q Queries) Claim(ctx context.Context, hash string, now time.Time) (Claim, error) {
	const text = `
		SELECT organisation_id, user_id
		FROM claims
		WHERE hash = $1 AND expires_at > $2`
	return sqlrow.One(ctx, q.Reader, "claim", text, scanClaim, hash, now.UnixMilli())
}

// ConsumeClaim deletes the claim with this hash and returns it. An expired or used claim is
// not found.
func (tx *Tx) ConsumeClaim(ctx context.Context, hash string, now time.Time) (Claim, error) {
	const text = `
		DELETE FROM claims
		WHERE hash = $1 AND expires_at > $2
		RETURNING organisation_id, user_id`
	return sqlrow.One(ctx, tx.Reader, "claim", text, scanClaim, hash, now.UnixMilli())
}

func scanClaim(r sqlrow.Scanner) (c Claim, err error) {
	err = r.Scan(&c.Organisation, &c.User)
	return c, err
}

// PasswordLink is a link with which a user sets a password. It is identified by the
// hash of its token.
type PasswordLink struct {
	UserID       string
	Hash         string
	Organisation string
	Resets       bool // for a user with a password; otherwise for one without
	ByOperator   bool // created on the gateway's host: also for users of several organisations
	CreatedAt    time.Time
	ExpiresAt    time.Time
}

var linkTable = table[PasswordLink]{
	name: "password_links", row: "link", fixed: "user_id",
	columns: func(l *PasswordLink) []column {
		return []column{
			{"user_id", &l.UserID}, {"hash", &l.Hash}, {"organisation_id", &l.Organisation}, {"resets", &l.Resets},
			{"by_operator", &l.ByOperator}, {"created_at", &l.CreatedAt}, {"expires_at", &l.ExpiresAt},
		}
	},
}

// ReplacePasswordLink stores a user's link, replacing any previous one.
func (tx *Tx) ReplacePasswordLink(ctx context.Context, l PasswordLink) error {
	return linkTable.put(ctx, tx, l)
}

// PasswordLink returns the link with this hash, without using it up. An expired link is
// not found.
func (q Queries) PasswordLink(ctx context.Context, hash string, now time.Time) (PasswordLink, error) {
	return linkTable.one(ctx, q.Reader, `
		WHERE hash = $1 AND expires_at > $2`, hash, now.UnixMilli())
}

// ConsumePasswordLink deletes the link with this hash and returns it. An expired or
// used link is not found.
func (tx *Tx) ConsumePasswordLink(ctx context.Context, hash string, now time.Time) (PasswordLink, error) {
	const text = `
		DELETE FROM password_links
		WHERE hash = $1 AND expires_at > $2
		RETURNING `
	return sqlrow.One(ctx, tx.Reader, linkTable.row, text+linkTable.names(), linkTable.scanner(), hash, now.UnixMilli())
}

// SetFirstPassword stores the password and name of a user without a password who is not
// disabled and belongs to this organisation only. Any other user is not found, so that
// no account can be taken over.
func (tx *Tx) SetFirstPassword(ctx context.Context, organisation string, u User) error {
	const text = `
		UPDATE users
		SET password_hash = $2, first_name = $3, last_name = $4, updated_at = $5
		WHERE id = $1 AND password_hash = '' AND status = 'active'
			AND EXISTS (SELECT 1 FROM organisation_members o WHERE o.user_id = users.id AND o.organisation_id = $6)
			AND NOT EXISTS (SELECT 1 FROM organisation_members o WHERE o.user_id = users.id AND o.organisation_id <> $6)`
	return tx.write(ctx, journal.Unpublished, "user", text, u.ID, u.PasswordHash, u.FirstName, u.LastName, millis(u.UpdatedAt), organisation)
}

// SetProfile stores the name and the address of a user. An address in use is a conflict.
func (tx *Tx) SetProfile(ctx context.Context, u User) error {
	const text = `
		UPDATE users
		SET email = $2, first_name = $3, last_name = $4, updated_at = $5
		WHERE id = $1`
	return tx.write(ctx, journal.Members, "user", text, u.ID, u.Email, u.FirstName, u.LastName, millis(u.UpdatedAt))
}

// PasswordChange replaces a user's password.
type PasswordChange struct {
	User          string
	Before, After string // hashes
	Keep          string // hash of the session to keep; empty for none
	Now           time.Time
}

// ReplacePassword stores the new password of an active user. It ends the user's
// sessions in all organisations and invalidates links and known addresses. If the hash
// is no longer c.Before, the user is not found.
func (tx *Tx) ReplacePassword(ctx context.Context, c PasswordChange) error {
	const text = `
		UPDATE users
		SET password_hash = $3, updated_at = $4
		WHERE id = $1 AND password_hash = $2 AND password_hash <> '' AND status = 'active'`
	const links = `
		DELETE FROM password_links
		WHERE user_id = $1`
	if err := tx.write(ctx, journal.Unpublished, "user", text, c.User, c.Before, c.After, millis(c.Now)); err != nil {
		return err
	}
	if err := tx.exec(ctx, journal.Unpublished, "links", links, c.User); err != nil {
		return err
	}
	if err := tx.forgetAddresses(ctx, c.User); err != nil {
		return err
	}
	return tx.EndSessions(ctx, "", c.User, c.Keep)
}

// Shared reports whether a user belongs to another organisation too.
func (q Queries) Shared(ctx context.Context, organisation, user string) (bool, error) {
	const text = `
		SELECT COUNT(*)
		FROM organisation_members
		WHERE user_id = $2 AND organisation_id <> $1`
	n, err := sqlrow.Count(ctx, q.Reader, text, organisation, user)
	return n > 0, err
}

// KeyByHash returns the key whose secret, or previous secret, has this hash.
func (q Queries) KeyByHash(ctx context.Context, hash string) (Key, error) {
	return keyTable.one(ctx, q.Reader, `
		WHERE hash = $1 OR previous_hash = $1`, hash)
}
