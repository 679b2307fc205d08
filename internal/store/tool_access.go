package store

import (
	"context"
	"time"

	"modelgate/internal/storage/journal"
)

// ToolUserAccess gives a user access to a tool server, or denies it.
type ToolUserAccess struct {
	Server  string // id
	User    string // id
	Enabled bool
}

var toolUserAccessTable = table[ToolUserAccess]{
	name: "mcp_user_access", row: "access of a user", order: "user_id", fixed: "server_id user_id",
	columns: func(a *ToolUserAccess) []column {
		return []column{{"server_id", &a.Server}, {"user_id", &a.User}, {"enabled", &a.Enabled}}
	},
}

// ToolUserAccess returns the access of users to a tool server.
func (q Queries) ToolUserAccess(ctx context.Context, server string) ([]ToolUserAccess, error) {
	return toolUserAccessTable.list(ctx, q.Reader, `
		WHERE server_id = $1
		ORDER BY user_id`, server)
}

// AllToolUserAccess returns the access of users to all tool servers.
func (q Queries) AllToolUserAccess(ctx context.Context) ([]ToolUserAccess, error) {
	return toolUserAccessTable.list(ctx, q.Reader, `
		ORDER BY server_id, user_id`)
}

// ReplaceToolUserAccess stores the access of users to a tool server, instead of all that is
// stored.
func (tx *Tx) ReplaceToolUserAccess(ctx context.Context, server string, list []ToolUserAccess) error {
	const clean = `
		DELETE FROM mcp_user_access
		WHERE server_id = $1`
	if err := tx.exec(ctx, journal.ToolUserAccess, "access of users", clean, server); err != nil {
		return err
	}
	for _, a := range list {
		a.Server = server
		if err := toolUserAccessTable.insert(ctx, tx, a); err != nil {
			return err
		}
	}
	return nil
}

// ToolConnection is the credential of a user for a tool server that each user signs in to.
type ToolConnection struct {
	Server    string // id
	User      string // id
	Issuer    string // of the tokens
	Sealed    string // the tokens, sealed for the organisation
	State     string // active, needs_reauth or revoked
	ExpiresAt time.Time
	CreatedAt time.Time
	UpdatedAt time.Time
}

var toolConnectionTable = table[ToolConnection]{
	name: "mcp_connections", row: "connection", order: "user_id", fixed: "server_id user_id created_at",
	columns: func(c *ToolConnection) []column {
		return []column{
			{"server_id", &c.Server}, {"user_id", &c.User}, {"issuer", &c.Issuer}, {"sealed", &c.Sealed}, {"state", &c.State},
			{"expires_at", &c.ExpiresAt}, {"created_at", &c.CreatedAt}, {"updated_at", &c.UpdatedAt},
		}
	},
}

// ToolConnections returns a page of the connections of users to a tool server, and the number
// of all. An empty user selects all.
func (q Queries) ToolConnections(ctx context.Context, server, user string, p Page) (list []ToolConnection, total int, err error) {
	return toolConnectionTable.page(ctx, q.Reader, p, `
		WHERE server_id = $1 AND ($2 = '' OR user_id = $2)`, server, user)
}

// PutToolConnection stores c, replacing the previous row.
func (tx *Tx) PutToolConnection(ctx context.Context, c ToolConnection) error {
	return toolConnectionTable.put(ctx, tx, c)
}

// RevokeToolConnection deletes the tokens of a user for a tool server.
func (tx *Tx) RevokeToolConnection(ctx context.Context, server, user string, now time.Time) error {
	const text = `
		UPDATE mcp_connections
		SET state = 'revoked', sealed = '', updated_at = $3
		WHERE server_id = $1 AND user_id = $2 AND state <> 'revoked'`
	return tx.write(ctx, journal.Unpublished, "connection", text, server, user, millis(now))
}

// deleteUserTools deletes the access of a user to the tool servers of an organisation, and
// their credentials for these.
func (tx *Tx) deleteUserTools(ctx context.Context, organisation, user string) error {
	const access = `
		DELETE FROM mcp_user_access
		WHERE user_id = $2 AND server_id IN (SELECT id FROM mcp_servers WHERE organisation_id = $1)`
	const connections = `
		DELETE FROM mcp_connections
		WHERE user_id = $2 AND server_id IN (SELECT id FROM mcp_servers WHERE organisation_id = $1)`
	if err := tx.exec(ctx, journal.ToolUserAccess, "access of users", access, organisation, user); err != nil {
		return err
	}
	return tx.exec(ctx, journal.Unpublished, "connections", connections, organisation, user)
}
