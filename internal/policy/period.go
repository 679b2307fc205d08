package policy

import "time"

// Names of periods that are not a number of days.
const (
	Monthly = "monthly"
	Weekly  = "weekly"
)

// firstWeekday is the day on which weekly policies are reset. Budgets of other
// objects are reset on Sunday.
const firstWeekday = time.Monday

// Period says when the counters of a usage-limit policy start at zero, always at
// 00:00 UTC. The zero value is never.
type Period struct {
	Every string // Monthly, Weekly or empty
	Days  int    // every N days; zero for none
	// Since is the day from which days are counted, unless First is set.
	Since time.Time
	// First is the time of the first reset. Zero means that the period decides.
	First time.Time
}

// noPeriod labels the period of policies that are never reset.
const noPeriod = "-"

// At returns the label of the period that contains now, which is its first day, with the
// time if it does not begin at midnight, and its end. A zero end is never.
func (p Period) At(now time.Time) (label string, end time.Time) {
	start, end := p.bounds(now)
	if start.IsZero() {
		return noPeriod, end
	}
	if !start.Equal(start.Truncate(24 * time.Hour)) {
		return start.Format(time.RFC3339Nano), end
	}
	return start.Format(time.DateOnly), end
}

// bounds returns the start of the period that contains now, and its end. A zero
// start is the creation of the policy, and a zero end is never.
func (p Period) bounds(now time.Time) (start, end time.Time) {
	now = now.UTC()
	if !p.First.IsZero() && now.Before(p.First) {
		return time.Time{}, p.First
	}
	today := now.Truncate(24 * time.Hour)
	switch {
	case p.Every == Monthly:
		start = time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
		end = start.AddDate(0, 1, 0)
	case p.Every == Weekly:
		start = today.AddDate(0, 0, -(int(today.Weekday()-firstWeekday)+7)%7)
		end = start.AddDate(0, 0, 7)
	case p.Days > 0:
		from := p.Since.UTC().Truncate(24 * time.Hour)
		if !p.First.IsZero() {
			from = p.First.UTC()
		}
		days := floorDiv(int(now.Sub(from)/(24*time.Hour)), p.Days) * p.Days
		start = from.AddDate(0, 0, days)
		end = start.AddDate(0, 0, p.Days)
	}
	if start.Before(p.First) { // the first reset was in the middle of a period
		start = p.First
	}
	return start, end
}

// floorDiv returns a divided by b, rounded down. b is positive.
func floorDiv(a, b int) int {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
