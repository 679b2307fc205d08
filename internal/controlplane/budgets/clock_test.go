package budgets_test

import (
	"testing"
	"time"

	"modelgate/internal/testing/storetest"
)

// TestAClockThatJumpsResetsABudgetOnce sets the clocks of gateways forwards and back.
func TestAClockThatJumpsResetsABudgetOnce(t *testing.T) {
	storetest.Addresses(t, func(t *testing.T, dsn string) {
		a, b := newNode(t, dsn), newNode(t, dsn)
		setUp(t, a.DB, `{"type":"cost","credit_limit":10,"alert_threshold":5,"periodic_reset":"monthly","next_usage_reset_at":"2026-06-01T00:00:00Z"}`, `null`, `[]`, `[]`)
		at := func(when time.Time, resets, thresholds int, want float64) {
			t.Helper()
			for _, n := range []*node{a, b, a} {
				n.clock = when
				if err := n.Reset(t.Context(), when); err != nil {
					t.Fatal(err)
				}
				if err := n.CheckAll(t.Context(), false); err != nil {
					t.Fatal(err)
				}
			}
			if got := usedSum(t, a.DB); got != want {
				t.Errorf("at %s used %g, want %g", when, got, want)
			}
			if got, warned := audits(t, a.DB, "budget_reset"), audits(t, a.DB, "budget_threshold"); got != resets || warned != thresholds {
				t.Errorf("at %s %d resets and %d warnings, want %d and %d", when, got, warned, resets, thresholds)
			}
		}
		june := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
		a.spend(t, 6)
		at(june.Add(-time.Millisecond), 0, 1, 6)
		at(june, 1, 1, 0)
		a.spend(t, 2)
		at(june.Add(-time.Hour), 1, 1, 2)       // set back over the reset
		at(midnight.AddDate(-1, 0, 0), 1, 1, 2) // by a year
		at(june.Add(time.Hour), 1, 1, 2)        // corrected
		at(june.AddDate(0, 5, 3), 2, 1, 0)      // forwards by five months: one reset
		at(june.AddDate(0, 0, 1), 2, 1, 0)      // back again: none until that time has come
		b.spend(t, 7)                           // warns once in the new period
		at(june.AddDate(0, 0, 2), 2, 2, 7)
		if list, err := a.DB.ClaimAlerts(t.Context(), june.AddDate(1, 0, 0), time.Minute, 100); err != nil || len(list) != 2 {
			t.Errorf("%d alerts, %v; want one for each period with a warning", len(list), err)
		}
	})
}
