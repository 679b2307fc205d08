package quota_test

import (
	"testing"
	"time"
	_ "time/tzdata" // machines without a database of time zones

	"modelgate/internal/limits/quota"
)

func TestDaysBeginAtTheirFirstMoment(t *testing.T) {
	for _, tt := range []struct{ zone, day, want string }{
		{"", "2026-03-29", "2026-03-29T00:00:00Z"},
		{"Europe/Berlin", "2026-03-29", "2026-03-28T23:00:00Z"}, // the clock changes at 02:00
		{"Europe/Berlin", "2026-03-30", "2026-03-29T22:00:00Z"},
		{"Asia/Kolkata", "2026-03-29", "2026-03-28T18:30:00Z"},
		{"America/Havana", "2026-03-08", "2026-03-08T05:00:00Z"},   // 00:00 is skipped: the day begins at 01:00
		{"America/Havana", "2026-11-01", "2026-11-01T04:00:00Z"},   // 00:00 comes twice
		{"America/Santiago", "2026-09-06", "2026-09-06T04:00:00Z"}, // 00:00 is skipped
		{"America/Santiago", "2026-04-05", "2026-04-05T04:00:00Z"}, // the day before has 23:00 twice
		{"Asia/Beirut", "2026-03-29", "2026-03-28T22:00:00Z"},      // 00:00 is skipped
		{"Nowhere/Atall", "2026-03-29", "2026-03-29T00:00:00Z"},
	} {
		day, err := time.Parse(time.DateOnly, tt.day)
		if err != nil {
			t.Fatal(err)
		}
		at := quota.Zone(tt.zone)
		got := quota.Midnight(day.Year(), day.Month(), day.Day(), at)
		if s := got.UTC().Format(time.RFC3339Nano); s != tt.want {
			t.Errorf("%s in %s begins at %s, want %s", tt.day, tt.zone, s, tt.want)
		}
		if before := got.Add(-time.Nanosecond); before.Day() == got.Day() {
			t.Errorf("%s in %s: %s is of the same day", tt.day, tt.zone, before)
		}
		if next := quota.AddDays(got, 1); !next.Equal(quota.Midnight(day.Year(), day.Month(), day.Day()+1, at)) {
			t.Errorf("%s in %s: the next day begins at %s", tt.day, tt.zone, next)
		}
	}
}
