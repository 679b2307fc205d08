package moment_test

import (
	"strings"
	"testing"
	"time"

	"modelgate/internal/base/moment"
)

func TestTimesAreReadInEveryForm(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	zone := time.FixedZone("two hours east", 2*60*60)
	for text, want := range map[string]string{
		"2026-11-30T12:00:00Z": "2026-11-30T12:00:00Z", "2026-11-30T12:00:00.5+01:00": "2026-11-30T11:00:00.5Z",
		"2026-11-30": "2026-11-29T22:00:00Z", "2026-11-30T12:00": "2026-11-30T10:00:00Z", "2026-11-30 12:00:01": "2026-11-30T10:00:01Z",
		"1796040000": "2026-11-30T12:00:00Z", "0": "1970-01-01T00:00:00Z", "-60": "1969-12-31T23:59:00Z",
		"now": "2026-11-30T12:00:00Z", "7d": "2026-11-23T12:00:00Z", "now-7d": "2026-11-23T12:00:00Z", "-7d": "2026-11-23T12:00:00Z",
		"90s": "2026-11-30T11:58:30Z", "5m": "2026-11-30T11:55:00Z", "24h": "2026-11-29T12:00:00Z", "2w": "2026-11-16T12:00:00Z",
		"+1h": "2026-11-30T13:00:00Z", "now+1h": "2026-11-30T13:00:00Z", "now 1h": "2026-11-30T13:00:00Z",
		"700000d": "0110-05-19T12:00:00Z", "+100000w": "3943-06-14T12:00:00Z",
	} {
		got, err := moment.Parse(text, now, zone)
		if err != nil || got.UTC().Format(time.RFC3339Nano) != want {
			t.Errorf("%q is %v, %v, want %s", text, got.UTC(), err, want)
		}
	}
	for _, text := range []string{"", "now7d", "7x", "7 d", "now-", "--7d", "1234567d", "7d ago", "2026-13-01", "2026-02-30", "99999999999999", "-99999999999999", "-9223372036854775808", "999999d", "+999999w", "0000-01-01T00:00:00+02:00", "+60", "yesterday", "1.5h"} {
		if got, err := moment.Parse(text, now, zone); err == nil || !strings.Contains(err.Error(), "7d") {
			t.Errorf("%q is %v, %v, want an error that names the forms", text, got, err)
		}
	}
}
