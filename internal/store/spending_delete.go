package store

import (
	"context"
	"fmt"

	"modelgate/internal/storage/sqlrow"
)

// deletedOwners are the kinds of spend with a query of the ids whose owner was deleted
// and cannot come back, or that is counted for nobody. A user who joins an organisation
// again begins without limits.
var deletedOwners = []struct{ kind, ids string }{
	{KeyBudget, `
		SELECT s.id
		FROM gateway_keys o
		JOIN spending s ON s.kind = 'key' AND s.id = o.id
		WHERE o.status = 'revoked'`},
	{KeyBudget, `
		SELECT id
		FROM spending
		WHERE kind = 'key' AND SUBSTR(id, 1, 4) = 'jwt:'`},
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
		LEFT JOIN organisation_members o
			ON o.organisation_id = SUBSTR(s.id, 1, CASE WHEN LENGTH(s.id) > 37 THEN LENGTH(s.id) - 37 ELSE 0 END) AND o.user_id = SUBSTR(s.id, LENGTH(s.id) - 35)
		WHERE s.kind = 'user' AND SUBSTR(s.id, LENGTH(s.id) - 36, 1) = '/' AND o.user_id IS NULL`},
	{PolicySpend, `
		SELECT s.id
		FROM policies o
		JOIN spending s ON s.kind = 'policy' AND SUBSTR(s.id, 1, 36) = o.id
		WHERE o.status = 'archived'`},
}

// DeleteSpendingOfDeleted deletes at most most rows of total spend whose owner was
// deleted, and reports whether more may be left. It makes no revision. The ledger keeps
// what was spent. Requests that end after the deletion are counted all the same: a later
// call deletes those rows. With the last rows it deletes the warnings about archived
// policies.
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
	return false, db.exec(ctx, "alerts of policies", `
		DELETE FROM policy_alerts
		WHERE policy_id IN (SELECT id FROM policies WHERE status = 'archived')`)
}
