package store

import (
	"context"

	"modelgate/internal/storage/sqlrow"
)

// KeyOwners returns the users of all user keys of a workspace, including revoked ones, by the
// id of the key. An empty workspace means all of the organisation.
func (q Queries) KeyOwners(ctx context.Context, organisation, workspace string) (map[string]string, error) {
	const text = `
		SELECT id, user_id
		FROM gateway_keys
		WHERE organisation_id = $1 AND ($2 = '' OR workspace_id = $2) AND user_id <> ''`
	type pair struct{ id, user string }
	list, err := sqlrow.List(ctx, q.Reader, "API keys", text, func(row sqlrow.Scanner) (p pair, err error) {
		return p, row.Scan(&p.id, &p.user)
	}, organisation, workspace)
	owners := make(map[string]string, len(list))
	for _, p := range list {
		owners[p.id] = p.user
	}
	return owners, err
}
