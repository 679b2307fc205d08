package quota

import "time"

// Generation is the unit of time in which shared stores forget. A reservation
// lapses when the second generation after its own begins, which is after 10 to 20
// minutes, and so does a settlement of a budget, which the ledger has counted by
// then.
const Generation = 10 * time.Minute

// GenerationAt returns the number of the generation that contains now.
func GenerationAt(now time.Time) int64 { return floorDiv(now.UnixNano(), int64(Generation)) }

const (
	// windowGrace is how long a shared store keeps a counter after its window.
	windowGrace = time.Minute
	// BudgetLifetime is how long a shared store keeps the counter of a budget
	// without requests, if the budget is not reset before.
	BudgetLifetime = 35 * day
	// BatchLifetime is how long a shared store knows the number of the last batch of
	// corrections of a process.
	BatchLifetime = day
)

// lifetime returns how long after now a shared store keeps the counter of a window
// of l.
func (l *Limit) lifetime(window int64, now time.Time) time.Duration {
	switch {
	case l.Window > 0:
		return l.ResetOf(window).Sub(now) + windowGrace
	case l.Resets.After(now):
		return min(l.Resets.Sub(now)+3*Generation, BudgetLifetime)
	}
	return BudgetLifetime
}
