package store

import (
	"context"
	"maps"
	"slices"

	"modelgate/internal/identity/access"
	"modelgate/internal/records/reqlog"
	"modelgate/internal/storage/sqlrow"
)

// KeyOrigin identifies the creator of a key. The zero value is the operator.
type KeyOrigin struct {
	Rank access.Rank `json:"rank,omitempty"`
	By   string      `json:"by,omitempty"` // id of a user or key

	// Lineage are the ids of the keys that the key descends from, nearest first. Its
	// spend counts for them too, and it is revoked with them.
	Lineage []string `json:"lineage,omitempty"`
}

// ReleaseKeys removes a key from the lineages of the keys that descend from it.
func (tx *Tx) ReleaseKeys(ctx context.Context, maker string) error {
	list, err := keyTable.list(ctx, tx.Reader, `
		WHERE origin LIKE '%"' || $1 || '"%'`, maker)
	for _, k := range list {
		if !slices.Contains(k.Origin.Lineage, maker) {
			continue
		}
		k.Origin.Lineage = slices.DeleteFunc(k.Origin.Lineage, func(id string) bool { return id == maker })
		if err := tx.UpdateKey(ctx, k); err != nil {
			return err
		}
	}
	return err
}

// lineages returns the lineages of the keys that spent, by key id. Keys without one are
// not included.
func (q Queries) lineages(ctx context.Context, spent map[reqlog.SpendOwner]*reqlog.Spend) (map[string][]string, error) {
	const text = `
		SELECT id, origin
		FROM gateway_keys
		WHERE origin LIKE '%"lineage"%' AND id IN `
	ids := make(map[string]bool, len(spent))
	for o := range spent {
		ids[o.KeyID] = true
	}
	out := make(map[string][]string)
	for part := range slices.Chunk(slices.Collect(maps.Keys(ids)), spentAtOnce) {
		_, err := sqlrow.List(ctx, q.Reader, "origins of API keys", text+placeholders(0, len(part)),
			func(r sqlrow.Scanner) (none struct{}, err error) {
				var id string
				var o KeyOrigin
				err = r.Scan(&id, sqlrow.JSON(&o))
				out[id] = o.Lineage
				return none, err
			}, toArgs(part)...)
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
