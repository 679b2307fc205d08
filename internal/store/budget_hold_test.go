package store_test

import (
	"maps"
	"math"
	"testing"

	"modelgate/internal/store"
	"modelgate/internal/testing/storetest"
)

// TestHoldsOfBudgetsEndWithTheirObject sums up holds of objects, changes and deletes them.
func TestHoldsOfBudgetsEndWithTheirObject(t *testing.T) {
	storetest.Run(t, func(t *testing.T, open func() *store.DB) {
		db := open()
		a := store.Object{ID: "a", Kind: store.ObjectBatch, Workspace: "w"}
		addObject(t, db, a)
		addObject(t, db, store.Object{ID: "b", Kind: store.ObjectBatch, Workspace: "w"})
		for _, step := range []struct {
			name   string
			change func(tx *store.Tx) error
			want   map[string]int64
		}{
			{"nothing", func(*store.Tx) error { return nil }, map[string]int64{}},
			{"one", func(tx *store.Tx) error {
				return tx.SetBudgetHolds(t.Context(), "a", []store.BudgetHold{{Counter: "x", Amount: math.MaxInt64 / 4}, {Counter: "y", Amount: 0}})
			}, map[string]int64{"x": math.MaxInt64 / 4}},
			{"another", func(tx *store.Tx) error {
				return tx.SetBudgetHolds(t.Context(), "b", []store.BudgetHold{{Counter: "x", Amount: 5}, {Counter: "y", Amount: 7}})
			}, map[string]int64{"x": math.MaxInt64/4 + 5, "y": 7}},
			{"less", func(tx *store.Tx) error {
				return tx.SetBudgetHolds(t.Context(), "a", []store.BudgetHold{{Counter: "x", Amount: 1}})
			}, map[string]int64{"x": 6, "y": 7}},
			{"a deleted object", func(tx *store.Tx) error { return tx.DeleteObject(t.Context(), &a) }, map[string]int64{"x": 5, "y": 7}},
			{"an end", func(tx *store.Tx) error { return tx.SetBudgetHolds(t.Context(), "b", nil) }, map[string]int64{}},
		} {
			if err := db.Transact(t.Context(), step.change); err != nil {
				t.Fatal(step.name, err)
			}
			if got, err := db.BudgetHolds(t.Context()); err != nil || !maps.Equal(got, step.want) {
				t.Errorf("%s: %v, want %v: %v", step.name, got, step.want, err)
			}
		}
	})
}
