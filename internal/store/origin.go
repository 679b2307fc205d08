package store

import (
	"context"
	"maps"
	"slices"

	"modelgate/internal/access"
	"modelgate/internal/reqlog"
	"modelgate/internal/sqlrow"
)

// KeyOrigin says who made a key. The zero value is the operator.
type KeyOrigin struct {
	Rank access.Rank `json:"rank,omitempty"`
	By   string      `json:"by,omitempty"` // id of a user or key

	// Lineage are the ids of the keys that made it, the nearest first. What it
	// spends counts for them too, and it ends with them.
	Lineage []string `json:"lineage,omitempty"`
}

// ReleaseKeys takes a key out of the lineages of those that it made.
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

// lineages returns the makers of the keys that spent, by the id of the key. Keys
// that nobody's key made are not in it.
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
		args := make([]any, len(part))
		for i, id := range part {
			args[i] = id
		}
		_, err := sqlrow.List(ctx, q.Reader, "origins of API keys", text+placeholders(0, len(part)), func(r sqlrow.Scanner) (none struct{}, err error) {
			var id string
			var o KeyOrigin
			err = r.Scan(&id, sqlrow.JSON(&o))
			out[id] = o.Lineage
			return none, err
		}, args...)
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
