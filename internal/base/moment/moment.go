// Package moment parses times as people write them: absolute, or relative to now.
//
// It is the only place that defines how the API, the command line and exports read times. It
// guarantees that what it accepts is a time that can be stored in milliseconds.
package moment

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// relative is a span before or after now. A query with an unescaped plus sign has a space.
var relative = regexp.MustCompile(`^(now)?([-+ ]?)([0-9]{1,6})(s|m|h|d|w)$`)

// units are the seconds of units of spans.
var units = map[string]int64{"s": 1, "m": 60, "h": 60 * 60, "d": 24 * 60 * 60, "w": 7 * 24 * 60 * 60}

// layouts are the forms of times without an offset, which are in the zone of the caller.
var layouts = [...]string{"2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly}

// hasYear reports whether the year of a time can be written in RFC 3339.
func hasYear(t time.Time) bool { return t.UTC().Year() >= 0 && t.UTC().Year() <= 9999 }

// Parse returns the time that text names:
//
//	2026-11-30T12:00:00Z, 2026-11-30T13:00:00+01:00   RFC 3339
//	2026-11-30, 2026-11-30T12:00                      in zone; a date begins at midnight
//	1796040000                                        Unix seconds
//	now                                               now
//	7d, now-7d                                        before now: seconds, minutes, hours, days or weeks
//	+7d, now+7d                                       after now
//
// A day is 24 hours and a week seven days, in every zone.
func Parse(text string, now time.Time, zone *time.Location) (time.Time, error) {
	if text == "now" {
		return now, nil
	}
	if m := relative.FindStringSubmatch(text); m != nil && (m[1] == "" || m[2] != "") {
		n, _ := strconv.ParseInt(m[3], 10, 64) // six digits: a Duration would overflow
		if n *= units[m[4]]; m[2] != "+" && m[2] != " " {
			n = -n
		}
		if t := time.Unix(now.Unix()+n, int64(now.Nanosecond())).In(now.Location()); hasYear(t) {
			return t, nil
		}
	}
	if sec, err := strconv.ParseInt(text, 10, 64); err == nil && !strings.HasPrefix(text, "+") && hasYear(time.Unix(sec, 0)) {
		return time.Unix(sec, 0).UTC(), nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	for _, layout := range layouts {
		if err == nil {
			break
		}
		t, err = time.ParseInLocation(layout, text, zone)
	}
	if err != nil || !hasYear(t) {
		return time.Time{}, fmt.Errorf("must be a time such as 2026-11-30T12:00:00Z or 2026-11-30, a span before now such as 24h or 7d, "+
			"or one after now such as +90d, not %.60q", text)
	}
	return t, nil
}
