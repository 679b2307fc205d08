package exports

import (
	"testing"
	"time"
)

// TestPeriodsMeetInEveryZone follows periods over changes of clocks, leap days and years: each
// begins where the one before ends, and contains the times in it.
func TestPeriodsMeetInEveryZone(t *testing.T) {
	for _, name := range []string{"UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe",
		"America/Santiago", "Africa/Cairo", "America/Havana"} { // clocks of the last three change at midnight
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		for every, longest := range map[string]time.Duration{"hour": time.Hour, "day": 25 * time.Hour, "week": 169 * time.Hour, "month": 31*24*time.Hour + time.Hour} {
			from := periodOf(every, time.Date(2027, 12, 30, 5, 17, 3, 0, zone))
			for range 24 * 100 {
				to := periodAfter(every, from.UTC().In(zone))
				middle := from.Add(to.Sub(from) / 2)
				if !from.Before(to) || to.Sub(from) > longest || !periodOf(every, middle).Equal(from) || !periodOf(every, from).Equal(from) {
					t.Fatalf("%s in %s: from %s to %s, but %s is of %s", every, name, from, to, middle, periodOf(every, middle))
				}
				if year, month, day := from.Date(); every != "hour" && from.Add(-time.Nanosecond).Day() == day {
					t.Fatalf("a %s in %s begins at %s, which is after the beginning of %d-%d-%d", every, name, from, year, month, day)
				}
				if every == "week" && from.Weekday() != time.Monday || every == "month" && from.Day() != 1 {
					t.Fatalf("a %s begins at %s", every, from)
				}
				from = to
			}
		}
	}
}
