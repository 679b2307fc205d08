package store

import (
	"context"
	"time"

	"modelgate/internal/cache/respcache"
	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
)

// CacheInvalidations returns the invalidations of cached responses of all workspaces.
func (q Queries) CacheInvalidations(ctx context.Context) ([]respcache.Mark, error) {
	const text = `
		SELECT organisation_id, workspace_id, generation, namespace, config_id, key_id
		FROM cache_invalidations
		ORDER BY workspace_id, generation`
	return sqlrow.List(ctx, q.Reader, "cache invalidations", text, func(r sqlrow.Scanner) (m respcache.Mark, err error) {
		err = r.Scan(&m.Owner.Organisation, &m.Owner.Workspace, &m.Generation, &m.Selector.Namespace, &m.Selector.Config, &m.Selector.KeyID)
		return m, err
	})
}

// InvalidateCache stores an invalidation. If the workspace has too many, they become
// one of everything. Generations follow the clock, so that those after a restored
// backup are higher than those that the backup does not have.
func (tx *Tx) InvalidateCache(ctx context.Context, owner respcache.Tenant, sel respcache.Selector, now time.Time) (respcache.Mark, error) {
	const latest = `
		SELECT COUNT(*), COALESCE(MAX(generation), 0)
		FROM cache_invalidations
		WHERE workspace_id = $1`
	const clear = `
		DELETE FROM cache_invalidations
		WHERE workspace_id = $1`
	const add = `
		INSERT INTO cache_invalidations (organisation_id, workspace_id, generation, namespace, config_id, key_id)
		VALUES ($1, $2, $3, $4, $5, $6)`
	var count int
	var last int64
	if err := tx.Reader.QueryRowContext(ctx, latest, owner.Workspace).Scan(&count, &last); err != nil {
		return respcache.Mark{}, err
	}
	if count >= respcache.MaxMarks {
		if err := tx.exec(ctx, journal.CacheInvalidations, "cache invalidations", clear, owner.Workspace); err != nil {
			return respcache.Mark{}, err
		}
		sel = respcache.Selector{}
	}
	m := respcache.Mark{Owner: owner, Selector: sel, Generation: max(last+1, now.UnixMicro())}
	return m, tx.exec(ctx, journal.CacheInvalidations, "cache invalidation", add, owner.Organisation, owner.Workspace, m.Generation,
		sel.Namespace, sel.Config, sel.KeyID)
}
