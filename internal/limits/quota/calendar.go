package quota

import "time"

// Zone returns the time zone in which a budget or policy is reset: UTC for an empty name
// and for one that is not in the IANA database, which is refused when it is stored.
func Zone(name string) *time.Location {
	if name == "" {
		return time.UTC
	}
	at, err := time.LoadLocation(name)
	if err != nil {
		return time.UTC
	}
	return at
}

// Midnight returns the first moment of a day in a time zone. In some zones the clock is
// changed at midnight, so that the day begins at 01:00 or has 00:00 twice. The day may be
// out of the bounds of its month, as in [time.Date].
func Midnight(year int, month time.Month, day int, at *time.Location) time.Time {
	noon := time.Date(year, month, day, 12, 0, 0, 0, at)
	first := noon.Add(-12 * time.Hour)
	changed, _ := noon.ZoneBounds()
	if changed.IsZero() || changed.Before(first) {
		return first
	}
	last := changed.Add(-time.Nanosecond) // by the clock before the change
	if last.Day() != noon.Day() {
		return changed
	}
	hour, minute, second := last.Clock()
	return last.Add(-time.Duration(hour)*time.Hour - time.Duration(minute)*time.Minute -
		time.Duration(second)*time.Second - time.Duration(last.Nanosecond()))
}

// AddDays returns the time n days after t in the time zone of t, at the same time of day.
// The beginning of a day leads to the beginning of another.
func AddDays(t time.Time, n int) time.Time {
	year, month, day := t.Date()
	if t.Equal(Midnight(year, month, day, t.Location())) {
		return Midnight(year, month, day+n, t.Location())
	}
	return t.AddDate(0, 0, n)
}
