package policy

import (
	"time"

	"modelgate/internal/limits/quota"
)

// Names of periods that are not a number of days.
const (
	Monthly = "monthly"
	Weekly  = "weekly"
)

// firstWeekday is the day on which weekly policies are reset. Budgets of other
// objects are reset on Sunday.
const firstWeekday = time.Monday

// Period says when the counters of a usage-limit policy start at zero: at 00:00 in its
// time zone. The zero value is never.
type Period struct {
	Every string // Monthly, Weekly or empty
	Days  int    // every N days; zero for none
	// Since is the day from which days are counted, unless First is set.
	Since time.Time
	// First is the time of the first reset. Zero means that the period decides.
	First time.Time
	// Zone is the IANA name of the time zone. Empty is UTC.
	Zone string
}

// noPeriod labels the period of policies that are never reset.
const noPeriod = "-"

// At returns the label of the period that contains now, which is its first day, with the
// time if it does not begin at 00:00 UTC, and its end. A zero end is never.
func (p Period) At(now time.Time) (label string, end time.Time) {
	start, end := p.bounds(now.In(quota.Zone(p.Zone)))
	return labelOf(start), end
}

// labelOf returns the label of the period that begins at start.
func labelOf(start time.Time) string {
	if start.IsZero() {
		return noPeriod
	}
	if !start.Equal(start.Truncate(24 * time.Hour)) {
		return start.Format(time.RFC3339Nano)
	}
	return start.Format(time.DateOnly)
}

// bounds returns the start of the period that contains now, in whose location it begins
// and ends, and its end, both in UTC. A zero start is the creation of the policy, and a
// zero end is never.
func (p Period) bounds(now time.Time) (start, end time.Time) {
	if !p.First.IsZero() && now.Before(p.First) {
		return time.Time{}, p.First.UTC()
	}
	at := now.Location()
	year, month, day := now.Date()
	switch {
	case p.Every == Monthly:
		start, end = quota.Midnight(year, month, 1, at), quota.Midnight(year, month+1, 1, at)
	case p.Every == Weekly:
		day -= (int(now.Weekday()-firstWeekday) + 7) % 7
		start, end = quota.Midnight(year, month, day, at), quota.Midnight(year, month, day+7, at)
	case p.Days > 0:
		since := p.Since.In(at)
		from := quota.Midnight(since.Year(), since.Month(), since.Day(), at)
		if !p.First.IsZero() {
			from = p.First.In(at)
		}
		days := daysBetween(from, now)
		if quota.AddDays(from, days).After(now) { // today's turn comes later
			days--
		}
		days = floorDiv(days, p.Days) * p.Days
		start, end = quota.AddDays(from, days), quota.AddDays(from, days+p.Days)
	}
	if start.Before(p.First) { // the first reset was in the middle of a period
		start = p.First
	}
	return start.UTC(), end.UTC()
}

// daysBetween returns the number of days from the date of a to that of b.
func daysBetween(a, b time.Time) int {
	date := func(t time.Time) time.Time { return time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC) }
	return int(date(b).Sub(date(a)) / (24 * time.Hour))
}

// floorDiv returns a divided by b, rounded down. b is positive.
func floorDiv(a, b int) int {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
