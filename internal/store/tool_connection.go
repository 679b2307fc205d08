package store

import (
	"context"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
)

// ToolConnection is the credential of a user for a tool server that each user signs in to.
type ToolConnection struct {
	Server    string // id
	User      string // id
	Issuer    string // of the tokens
	Sealed    string // the tokens, sealed for the organisation; empty if there are none
	State     string // one of the Connection constants
	Version   int64  // grows with each change
	Lease     int64  // Unix time in milliseconds, until which one node refreshes the tokens
	ExpiresAt time.Time
	CreatedAt time.Time
	UpdatedAt time.Time
}

// States of a [ToolConnection].
const (
	ConnectionActive      = "active"
	ConnectionNeedsReauth = "needs_reauth" // the user must sign in again
	ConnectionRevoked     = "revoked"
)

var toolConnectionTable = table[ToolConnection]{
	name: "mcp_connections", row: "connection", order: "user_id", fixed: "server_id user_id",
	columns: func(c *ToolConnection) []column {
		return []column{
			{"server_id", &c.Server}, {"user_id", &c.User}, {"issuer", &c.Issuer}, {"sealed", &c.Sealed}, {"state", &c.State},
			{"version", &c.Version}, {"lease_until", &c.Lease}, {"expires_at", &c.ExpiresAt}, {"created_at", &c.CreatedAt},
			{"updated_at", &c.UpdatedAt},
		}
	},
}

// ToolConnection returns the connection of a user to a tool server.
func (q Queries) ToolConnection(ctx context.Context, server, user string) (ToolConnection, error) {
	return toolConnectionTable.one(ctx, q.Reader, `
		WHERE server_id = $1 AND user_id = $2`, server, user)
}

// ToolConnections returns a page of the connections of users to a tool server, and the number
// of all. An empty user selects all.
func (q Queries) ToolConnections(ctx context.Context, server, user string, p Page) (list []ToolConnection, total int, err error) {
	return toolConnectionTable.page(ctx, q.Reader, p, `
		WHERE server_id = $1 AND ($2 = '' OR user_id = $2)`, server, user)
}

// UserConnections returns the connections of a user to the tool servers of an organisation.
func (q Queries) UserConnections(ctx context.Context, organisation, user string) ([]ToolConnection, error) {
	return toolConnectionTable.list(ctx, q.Reader, `
		WHERE user_id = $2 AND server_id IN (SELECT id FROM mcp_servers WHERE organisation_id = $1)
		ORDER BY server_id`, organisation, user)
}

// PutToolConnection stores c, whose version it sets, instead of the previous row, of which the time of
// creation stays.
func (tx *Tx) PutToolConnection(ctx context.Context, c ToolConnection) error {
	before, err := tx.ToolConnection(ctx, c.Server, c.User)
	if err != nil && !apierr.IsNotFound(err) {
		return err
	}
	if c.Version, c.Lease = before.Version+1, 0; !before.CreatedAt.IsZero() {
		c.CreatedAt = before.CreatedAt
	}
	return toolConnectionTable.put(ctx, tx, c)
}

// RevokeToolConnection deletes the tokens of a user for a tool server.
func (tx *Tx) RevokeToolConnection(ctx context.Context, server, user string, now time.Time) error {
	const text = `
		UPDATE mcp_connections
		SET state = 'revoked', sealed = '', version = version + 1, lease_until = 0, updated_at = $3
		WHERE server_id = $1 AND user_id = $2 AND state <> 'revoked'`
	const where = `
		WHERE server_id = $1 AND user_id = $2`
	if err := tx.noteEnded(ctx, where, server, user); err != nil {
		return err
	}
	return tx.write(ctx, journal.Unpublished, "connection", text, server, user, millis(now))
}

// LeaseConnection reports whether the caller may refresh the tokens of a connection until a
// time: it is as it was read, and no other node refreshes them.
func (db *DB) LeaseConnection(ctx context.Context, c ToolConnection, now, until time.Time) (leased bool, err error) {
	const text = `
		UPDATE mcp_connections
		SET lease_until = $5
		WHERE server_id = $1 AND user_id = $2 AND version = $3 AND state = 'active' AND lease_until < $4`
	return db.changeConnection(ctx, text, c.Server, c.User, c.Version, now.UnixMilli(), until.UnixMilli())
}

// ReleaseConnection lets other nodes refresh the tokens of a connection, which has not changed.
func (db *DB) ReleaseConnection(ctx context.Context, c ToolConnection) error {
	const text = `
		UPDATE mcp_connections
		SET lease_until = 0
		WHERE server_id = $1 AND user_id = $2 AND version = $3`
	_, err := db.changeConnection(ctx, text, c.Server, c.User, c.Version)
	return err
}

// ReplaceConnection stores tokens, their expiry and the state of c, if the row still has its version, and
// reports whether it did.
func (db *DB) ReplaceConnection(ctx context.Context, c ToolConnection) (done bool, err error) {
	const text = `
		UPDATE mcp_connections
		SET sealed = $4, state = $5, expires_at = $6, updated_at = $7, version = version + 1, lease_until = 0
		WHERE server_id = $1 AND user_id = $2 AND version = $3`
	return db.changeConnection(ctx, text, c.Server, c.User, c.Version, c.Sealed, c.State, millis(c.ExpiresAt), millis(c.UpdatedAt))
}

func (db *DB) changeConnection(ctx context.Context, text string, args ...any) (done bool, err error) {
	err = db.attemptChange(ctx, func(tx *Tx) error {
		n, err := tx.change.Exec(ctx, journal.Unpublished, text, args...)
		done = n > 0
		return err
	})
	return done, err
}

// ToolClient is the gateway as a client that registered itself at the authorization server of a
// tool server.
type ToolClient struct {
	Server    string // id
	Issuer    string
	Redirect  string
	Sealed    string // sealed for the organisation
	CreatedAt time.Time
}

var toolClientTable = table[ToolClient]{
	name: "mcp_clients", row: "client", fixed: "server_id issuer redirect_uri",
	columns: func(c *ToolClient) []column {
		return []column{
			{"server_id", &c.Server}, {"issuer", &c.Issuer}, {"redirect_uri", &c.Redirect}, {"sealed", &c.Sealed}, {"created_at", &c.CreatedAt},
		}
	},
}

// ToolClient returns the registration of the gateway at an issuer.
func (q Queries) ToolClient(ctx context.Context, server, issuer, redirect string) (ToolClient, error) {
	return toolClientTable.one(ctx, q.Reader, `
		WHERE server_id = $1 AND issuer = $2 AND redirect_uri = $3`, server, issuer, redirect)
}

// PutToolClient stores a registration instead of all others of its server: it has one
// authorization server at a time.
func (db *DB) PutToolClient(ctx context.Context, c ToolClient) error {
	const text = `
		DELETE FROM mcp_clients
		WHERE server_id = $1`
	return db.attemptChange(ctx, func(tx *Tx) error {
		if err := tx.exec(ctx, journal.Unpublished, "clients", text, c.Server); err != nil {
			return err
		}
		return toolClientTable.insert(ctx, tx, c)
	})
}

// DeleteToolClient deletes a registration that an issuer does not accept, unless it is newer than
// a time.
func (db *DB) DeleteToolClient(ctx context.Context, server, issuer string, until time.Time) error {
	const text = `
		DELETE FROM mcp_clients
		WHERE server_id = $1 AND issuer = $2 AND created_at <= $3`
	_, err := db.changeConnection(ctx, text, server, issuer, until.UnixMilli())
	return err
}

// ToolSignIn is a user who is on the way to sign in at a tool server.
type ToolSignIn struct {
	ID      string // hash of the link
	Server  string // id
	User    string // id
	Session string // hash of the session of the browser
	State   string // hash of the state that the authorization server returns
	Sealed  string // sealed for the organisation; empty once the user came back
	EndsAt  time.Time
}

var toolSignInTable = table[ToolSignIn]{
	name: "mcp_sign_ins", row: "sign-in", fixed: "id server_id user_id session_hash state_hash ends_at",
	columns: func(s *ToolSignIn) []column {
		return []column{
			{"id", &s.ID}, {"server_id", &s.Server}, {"user_id", &s.User}, {"session_hash", &s.Session}, {"state_hash", &s.State},
			{"sealed", &s.Sealed}, {"ends_at", &s.EndsAt},
		}
	},
}

// AddToolSignIn stores a sign-in and deletes those that have ended. A link that was used before
// is an error of kind Conflict, and more than most of a user one of kind RateLimited.
func (db *DB) AddToolSignIn(ctx context.Context, s ToolSignIn, now time.Time, most int) error {
	const clean = `
		DELETE FROM mcp_sign_ins
		WHERE ends_at <= $1`
	return db.attemptChange(ctx, func(tx *Tx) error {
		if err := tx.exec(ctx, journal.Unpublished, "sign-ins", clean, now.UnixMilli()); err != nil {
			return err
		}
		n, err := sqlrow.Count(ctx, tx.Reader, `SELECT COUNT(*) FROM mcp_sign_ins WHERE id = $1`, s.ID)
		if err == nil && n > 0 {
			err = apierr.New(apierr.Conflict, "this link was used before")
		}
		if err != nil {
			return err
		}
		if n, err = sqlrow.Count(ctx, tx.Reader, `SELECT COUNT(*) FROM mcp_sign_ins WHERE user_id = $1 AND sealed <> ''`, s.User); err != nil {
			return err
		}
		if n >= most {
			return apierr.New(apierr.RateLimited, "you began to sign in too often; try again in some minutes")
		}
		return toolSignInTable.insert(ctx, tx, s)
	})
}

// SpendToolSignIn returns the sign-in with a state that one session of a user began, once: of
// several requests, one gets it. Otherwise it is not found.
func (db *DB) SpendToolSignIn(ctx context.Context, state, session, user string, now time.Time) (s ToolSignIn, err error) {
	const text = `
		UPDATE mcp_sign_ins
		SET sealed = ''
		WHERE state_hash = $1 AND sealed <> ''`
	err = db.attemptChange(ctx, func(tx *Tx) (err error) {
		s, err = toolSignInTable.one(ctx, tx.Reader, `
			WHERE state_hash = $1 AND session_hash = $2 AND user_id = $3 AND sealed <> '' AND ends_at > $4`,
			state, session, user, now.UnixMilli())
		if err != nil {
			return err
		}
		return tx.write(ctx, journal.Unpublished, "sign-in", text, state)
	})
	return s, err
}
