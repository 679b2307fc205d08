package store

import (
	"context"

	"modelgate/internal/identity/access"
	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
)

// LimitSetter identifies who set a limit. The zero value is no one.
type LimitSetter struct {
	Rank access.Rank
	By   string // id of a user or key
}

// LimitSetters returns the setters of an object's limits by field name. Limits that are
// not included may be set freely.
func (q Queries) LimitSetters(ctx context.Context, of BudgetRef) (map[string]LimitSetter, error) {
	const text = `
		SELECT field, rank, set_by
		FROM limit_setters
		WHERE kind = $1 AND id = $2`
	out := make(map[string]LimitSetter)
	_, err := sqlrow.List(ctx, q.Reader, "who set limits", text, func(r sqlrow.Scanner) (none struct{}, err error) {
		var field string
		var s LimitSetter
		err = r.Scan(&field, &s.Rank, &s.By)
		out[field] = s
		return none, err
	}, of.Kind, of.ID)
	return out, err
}

// PutLimitSetter stores the setter of a limit, replacing the previous one. The zero
// value deletes it.
func (tx *Tx) PutLimitSetter(ctx context.Context, of BudgetRef, field string, s LimitSetter) error {
	const (
		put = `
		INSERT INTO limit_setters (kind, id, field, rank, set_by)
		VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (kind, id, field) DO UPDATE
		SET rank = excluded.rank, set_by = excluded.set_by`
		forget = `
		DELETE FROM limit_setters
		WHERE kind = $1 AND id = $2 AND field = $3`
	)
	if s == (LimitSetter{}) {
		return tx.exec(ctx, journal.Unpublished, "who set limits", forget, of.Kind, of.ID, field)
	}
	return tx.write(ctx, journal.Unpublished, "limit setter", put, of.Kind, of.ID, field, int(s.Rank), s.By)
}
