package limits_test

import (
	"testing"
	"time"
	_ "time/tzdata" // machines without a database of time zones

	"modelgate/internal/limits/policy"
)

// TestResetsDoNotDependOnTheTimeZone asks at the changes to and from daylight saving
// time and at ends of months, by clocks of several time zones.
func TestResetsDoNotDependOnTheTimeZone(t *testing.T) {
	utc := func(year int, month time.Month, d, hour, minute int) time.Time {
		return time.Date(year, month, d, hour, minute, 0, 0, time.UTC)
	}
	for _, tt := range []struct {
		at                    time.Time
		monthly, weekly, days time.Time // of budgets; days is every 7 days from the day of at
		policyWeek            time.Time
	}{
		// New York changes at 07:00 UTC on 8 March and at 06:00 UTC on 1 November, both Sundays.
		{utc(2026, 3, 8, 6, 59), utc(2026, 4, 1, 0, 0), utc(2026, 3, 15, 0, 0), utc(2026, 3, 15, 0, 0), utc(2026, 3, 9, 0, 0)},
		{utc(2026, 3, 8, 7, 0), utc(2026, 4, 1, 0, 0), utc(2026, 3, 15, 0, 0), utc(2026, 3, 15, 0, 0), utc(2026, 3, 9, 0, 0)},
		{utc(2026, 11, 1, 5, 59), utc(2026, 12, 1, 0, 0), utc(2026, 11, 8, 0, 0), utc(2026, 11, 8, 0, 0), utc(2026, 11, 2, 0, 0)},
		{utc(2026, 11, 1, 6, 30), utc(2026, 12, 1, 0, 0), utc(2026, 11, 8, 0, 0), utc(2026, 11, 8, 0, 0), utc(2026, 11, 2, 0, 0)},
		// Berlin changes at 01:00 UTC on 29 March.
		{utc(2026, 3, 29, 0, 59), utc(2026, 4, 1, 0, 0), utc(2026, 4, 5, 0, 0), utc(2026, 4, 5, 0, 0), utc(2026, 3, 30, 0, 0)},
		{utc(2026, 3, 29, 1, 0), utc(2026, 4, 1, 0, 0), utc(2026, 4, 5, 0, 0), utc(2026, 4, 5, 0, 0), utc(2026, 3, 30, 0, 0)},
		// Ends of months, where other time zones have another day, month or year.
		{utc(2026, 1, 31, 23, 59), utc(2026, 2, 1, 0, 0), utc(2026, 2, 1, 0, 0), utc(2026, 2, 7, 0, 0), utc(2026, 2, 2, 0, 0)},
		{utc(2026, 2, 1, 0, 0), utc(2026, 3, 1, 0, 0), utc(2026, 2, 8, 0, 0), utc(2026, 2, 8, 0, 0), utc(2026, 2, 2, 0, 0)},
		{utc(2028, 2, 29, 12, 0), utc(2028, 3, 1, 0, 0), utc(2028, 3, 5, 0, 0), utc(2028, 3, 7, 0, 0), utc(2028, 3, 6, 0, 0)},
		{utc(2026, 12, 31, 23, 30), utc(2027, 1, 1, 0, 0), utc(2027, 1, 3, 0, 0), utc(2027, 1, 7, 0, 0), utc(2027, 1, 4, 0, 0)},
	} {
		for _, name := range []string{"UTC", "America/New_York", "Europe/Berlin", "Pacific/Kiritimati", "Pacific/Pago_Pago", "Asia/Kolkata"} {
			zone, err := time.LoadLocation(name)
			if err != nil {
				t.Fatal(err)
			}
			at := tt.at.In(zone)
			for period, want := range map[string]time.Time{`"periodic_reset":"monthly"`: tt.monthly, `"periodic_reset":"weekly"`: tt.weekly, `"periodic_reset_days":7`: tt.days} {
				u := mustApply(t, `{"credit_limit":1,`+period+`}`, nil, at)
				if !u.NextResetAt.Equal(want) {
					t.Errorf("%s at %s: first reset %s, want %s", period, at, u.NextResetAt, want)
				}
				if u.Due(want.Add(-time.Millisecond).In(zone)) || !u.Due(want.In(zone)) {
					t.Errorf("%s at %s: the reset is not due at %s exactly", period, at, want)
				}
				u.Reset(want.In(zone))
				if !u.NextResetAt.After(want) || !u.NextResetAt.Equal(u.NextResetAt.UTC().Truncate(24*time.Hour)) {
					t.Errorf("%s at %s: second reset %s, which is not a later midnight", period, at, u.NextResetAt)
				}
			}
			if _, end := (policy.Period{Every: policy.Monthly}).At(at); !end.Equal(tt.monthly) {
				t.Errorf("a monthly policy at %s ends %s, want %s", at, end, tt.monthly)
			}
			if _, end := (policy.Period{Every: policy.Weekly}).At(at); !end.Equal(tt.policyWeek) {
				t.Errorf("a weekly policy at %s ends %s, want %s", at, end, tt.policyWeek)
			}
			if _, end := (policy.Period{Days: 7, Since: at}).At(at); !end.Equal(tt.days) {
				t.Errorf("a policy of 7 days at %s ends %s, want %s", at, end, tt.days)
			}
		}
	}
}
