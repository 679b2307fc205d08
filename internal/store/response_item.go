package store

import (
	"context"
	"time"

	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
)

// PutResponseItem stores that a response that the gateway keeps has an item. Storing it again
// changes nothing.
func (tx *Tx) PutResponseItem(ctx context.Context, o *Object, item string) error {
	const stmt = `
		INSERT INTO response_items (response_id, item_id, workspace_id)
		VALUES ($1, $2, $3)
		ON CONFLICT DO NOTHING`
	return tx.exec(ctx, journal.Unpublished, "items of a response", stmt, o.ID, item, o.Workspace)
}

// ResponseWithItem returns the latest response of a workspace that has an item. If there is
// none, it is not found.
func (q Queries) ResponseWithItem(ctx context.Context, workspace, item string, now time.Time) (id string, err error) {
	const text = `
		SELECT o.id
		FROM response_items i
		JOIN objects o ON o.id = i.response_id
		WHERE i.workspace_id = $1 AND i.item_id = $2 AND (o.expires_at IS NULL OR o.expires_at > $3)
		ORDER BY o.id DESC
		LIMIT 1`
	return sqlrow.One(ctx, q.Reader, "item", text, func(r sqlrow.Scanner) (id string, err error) {
		err = r.Scan(&id)
		return id, err
	}, workspace, item, now.UnixMilli())
}
