package store

import (
	"context"
	"fmt"

	"modelgate/internal/storage/journal"
	"modelgate/internal/storage/sqlrow"
)

// BudgetHold is a part of a budget that is kept for an object.
type BudgetHold struct {
	Counter string `json:"counter"` // of the budget
	Amount  int64  `json:"amount"`  // nano-dollars, tokens or requests; positive
}

// SetBudgetHolds replaces what budgets keep for an object; nil is nothing. Holds are
// deleted with their object.
func (tx *Tx) SetBudgetHolds(ctx context.Context, object string, holds []BudgetHold) error {
	const (
		remove = `
		DELETE FROM budget_holds
		WHERE object_id = $1`
		insert = `
		INSERT INTO budget_holds (object_id, counter, amount)
		VALUES ($1, $2, $3)`
	)
	if err := tx.exec(ctx, journal.Unpublished, "holds of budgets", remove, object); err != nil {
		return err
	}
	for _, h := range holds {
		if h.Amount <= 0 {
			continue
		}
		if err := tx.write(ctx, journal.Unpublished, "hold of a budget", insert, object, h.Counter, h.Amount); err != nil {
			return err
		}
	}
	return nil
}

// BudgetHolds returns what is kept of budgets for all objects, by counter. Counters of which
// nothing is kept are not included.
func (db *DB) BudgetHolds(ctx context.Context) (map[string]int64, error) {
	const text = `
		SELECT counter, CAST(SUM(amount) AS BIGINT)
		FROM budget_holds
		GROUP BY counter`
	if !db.ready.Load() {
		return nil, unavailableError(nil)
	}
	list, err := sqlrow.List(ctx, db.read, "holds of budgets", text, func(r sqlrow.Scanner) (h BudgetHold, err error) {
		err = r.Scan(&h.Counter, &h.Amount)
		return h, err
	})
	if err != nil {
		return nil, db.ClientError(fmt.Errorf("reading holds of budgets: %w", err))
	}
	held := make(map[string]int64, len(list))
	for _, h := range list {
		held[h.Counter] = h.Amount
	}
	return held, nil
}
