package limits_test

import (
	"testing"
	"time"

	"modelgate/internal/controlplane/limits"
)

func TestBudgetsAreResetAtMidnightOfTheirTimeZone(t *testing.T) {
	monthly, weekly, limit, seven := "monthly", "weekly", 5.0, 7
	for _, tt := range []struct {
		name, zone, now, want string
		reset                 *string
		days                  *int
	}{
		{"an hour before the month ends there", "Europe/Berlin", "2026-03-31T21:30:00Z", "2026-03-31T22:00:00Z", &monthly, nil},
		{"an hour after it began there", "Europe/Berlin", "2026-03-31T22:30:00Z", "2026-04-30T22:00:00Z", &monthly, nil},
		{"in winter", "Europe/Berlin", "2026-11-15T00:00:00Z", "2026-11-30T23:00:00Z", &monthly, nil},
		{"across the Pacific", "America/Los_Angeles", "2026-05-01T01:00:00Z", "2026-05-01T07:00:00Z", &monthly, nil},
		{"a week over the change of the clock", "Europe/Berlin", "2026-03-24T12:00:00Z", "2026-03-28T23:00:00Z", &weekly, nil},
		{"days over the change of the clock", "Europe/Berlin", "2026-03-25T12:00:00Z", "2026-03-31T22:00:00Z", nil, &seven},
		{"a Sunday that begins at 01:00", "America/Santiago", "2026-09-05T12:00:00Z", "2026-09-06T04:00:00Z", &weekly, nil},
		{"in the hour before that Sunday", "America/Santiago", "2026-09-06T03:30:00Z", "2026-09-06T04:00:00Z", &weekly, nil},
		{"without a zone", "", "2026-03-31T21:30:00Z", "2026-04-01T00:00:00Z", &monthly, nil},
	} {
		now, err := time.Parse(time.RFC3339, tt.now)
		if err != nil {
			t.Fatal(err)
		}
		in := limits.BudgetInput{CreditLimit: &limit, PeriodicReset: tt.reset, PeriodicResetDays: tt.days, TimeZone: tt.zone}
		b, err := in.Apply("usage_limits", nil, now)
		if err != nil {
			t.Fatal(err)
		}
		if got := b.NextResetAt.Format(time.RFC3339); got != tt.want {
			t.Errorf("%s: reset at %s, want %s", tt.name, got, tt.want)
		}
		b.Reset(b.NextResetAt)
		if local := b.NextResetAt.In(mustZone(t, tt.zone)); local.Day() == local.Add(-time.Second).Day() || local.Minute() != 0 {
			t.Errorf("%s: the reset after that is at %s", tt.name, local)
		}
	}
	for _, zone := range []string{"Nowhere/Atall", "Local", "../etc/passwd", "CEST+1"} {
		if _, err := (&limits.BudgetInput{CreditLimit: &limit, PeriodicReset: &monthly, TimeZone: zone}).Apply("usage_limits", nil, time.Now()); err == nil {
			t.Errorf("the zone %q is accepted", zone)
		}
	}
	if _, err := (&limits.BudgetInput{CreditLimit: &limit, TimeZone: "Europe/Berlin"}).Apply("usage_limits", nil, time.Now()); err == nil {
		t.Error("a zone without a period is accepted")
	}
}

func mustZone(t *testing.T, name string) *time.Location {
	t.Helper()
	at, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return at
}
