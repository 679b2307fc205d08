package store

import (
	"context"
	"strconv"

	"modelgate/internal/storage/journal"
)

// EndedConnection is a connection whose tokens were deleted, as it was before, with the server and
// the integration, which may be deleted too. Their authorization server may still accept them.
type EndedConnection struct {
	ToolConnection
	Tool        *ToolServer
	Integration *ToolIntegration
}

// OnEnded sets what is called with the connections that a change has deleted or revoked, after it
// was committed. It must not wait. Call it before changes begin.
func (db *DB) OnEnded(f func([]EndedConnection)) { db.onEnded = f }

// maxEnded limits the connections of a change that are reported. Others are deleted all the same.
const maxEnded = 10_000

// deleteConnections deletes the connections that a condition selects.
func (tx *Tx) deleteConnections(ctx context.Context, where string, args ...any) error {
	if err := tx.noteEnded(ctx, where, args...); err != nil {
		return err
	}
	return tx.exec(ctx, journal.Unpublished, "connections", `
		DELETE FROM mcp_connections`+where, args...)
}

// noteEnded remembers the connections with tokens that a condition selects.
func (tx *Tx) noteEnded(ctx context.Context, where string, args ...any) error {
	rows, err := toolConnectionTable.list(ctx, tx.Reader, where+` AND sealed <> ''
		ORDER BY server_id, user_id
		LIMIT `+strconv.Itoa(maxEnded-len(tx.ended)), args...)
	if err != nil {
		return err
	}
	var last EndedConnection
	for _, row := range rows {
		if last.Tool == nil || last.Tool.ID != row.Server {
			s, err := tx.ToolServerByID(ctx, row.Server)
			if err != nil {
				return err
			}
			i, err := tx.ToolIntegration(ctx, s.Organisation, s.Integration)
			if err != nil {
				return err
			}
			last.Tool, last.Integration = &s, &i
		}
		last.ToolConnection = row
		tx.ended = append(tx.ended, last)
	}
	return nil
}
