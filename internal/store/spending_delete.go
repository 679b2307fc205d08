package store

import (
	"context"
	"fmt"

	"modelgate/internal/sqlrow"
)

// deletedOwners are the kinds of spend with a query of the ids whose owner was deleted
// and cannot come back. A user who still belongs to an organisation can rejoin another.
var deletedOwners = []struct{ kind, ids string }{
	{KeyBudget, `
		SELECT s.id
		FROM gateway_keys o
		JOIN spending s ON s.kind = 'key' AND s.id = o.id
		WHERE o.status = 'revoked'`},
	{ProviderBudget, `
		SELECT s.id
		FROM providers o
		JOIN spending s ON s.kind = 'provider' AND s.id = o.id
		WHERE o.status = 'archived'`},
	{GrantBudget, `
		SELECT DISTINCT s.id
		FROM providers o
		JOIN integrations i ON i.id = o.integration_id
		JOIN workspaces w ON w.id = o.workspace_id
		JOIN spending s ON s.kind = 'grant' AND s.id = o.integration_id || '/' || o.workspace_id
		WHERE i.status = 'archived' OR w.status = 'archived'`},
	{UserBudget, `
		SELECT s.id
		FROM spending s
		JOIN users o ON o.id = SUBSTR(s.id, LENGTH(s.id) - 35)
		WHERE s.kind = 'user' AND o.status = 'removed'`},
	{PolicySpend, `
		SELECT s.id
		FROM policies o
		JOIN spending s ON s.kind = 'policy' AND SUBSTR(s.id, 1, 36) = o.id
		WHERE o.status = 'archived'`},
}

// DeleteSpendingOfDeleted deletes at most most rows of total spend whose owner was
// deleted, and reports whether more may be left. It makes no revision. The ledger keeps
// what was spent. Requests that end after the deletion are counted all the same: a later
// call deletes those rows.
func (db *DB) DeleteSpendingOfDeleted(ctx context.Context, most int) (more bool, err error) {
	const remove = `
		DELETE FROM spending
		WHERE kind = $1 AND id = $2`
	for _, k := range deletedOwners {
		ids, err := sqlrow.List(ctx, db.Reader, "what deleted owners spent", k.ids+`
		LIMIT $1`, scanID, most)
		if err != nil {
			return false, fmt.Errorf("finding the spend of deleted owners: %w", err)
		}
		// One by one, so that counting never waits long and never deadlocks with it.
		for _, id := range ids {
			if err := db.exec(ctx, "what was spent", remove, k.kind, id); err != nil {
				return false, err
			}
		}
		if most -= len(ids); most == 0 {
			return true, nil
		}
	}
	return false, nil
}
