package store

import (
	"context"

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

// deleteUserTools deletes the access of a user to the tool servers of an organisation.
func (tx *Tx) deleteUserTools(ctx context.Context, organisation, user string) error {
	const access = `
		DELETE FROM mcp_user_access
		WHERE user_id = $2 AND server_id IN (SELECT id FROM mcp_servers WHERE organisation_id = $1)`
	return tx.exec(ctx, journal.ToolUserAccess, "access of users", access, organisation, user)
}
