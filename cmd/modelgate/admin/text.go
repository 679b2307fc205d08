package admin

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// stripControl returns s with control characters replaced, so that it can neither control a
// terminal nor look like further lines.
func stripControl(s string) string {
	return strings.Map(func(r rune) rune {
		if strconv.IsPrint(r) {
			return r
		}
		return '\uFFFD'
	}, s)
}

// escapeControl returns text of several lines with control characters escaped as in JSON.
func escapeControl(s string) string {
	var out strings.Builder
	for _, r := range s {
		if r == '\n' || strconv.IsPrint(r) {
			out.WriteRune(r)
		} else if r < 0x10000 {
			fmt.Fprintf(&out, `\u%04x`, r)
		} else {
			out.WriteRune('\uFFFD')
		}
	}
	return out.String()
}

// age is a span of time: a number of seconds, minutes, hours, days or weeks.
var age = regexp.MustCompile(`^([0-9]{1,6})(s|m|h|d|w)$`)

var units = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour}

// parseTime reads a time: in ISO 8601, a date, or a span before now, such as 7d. A span with a
// plus sign is after now.
func parseTime(text string, now time.Time) (time.Time, error) {
	if m := age.FindStringSubmatch(strings.TrimPrefix(text, "+")); m != nil {
		n, _ := strconv.Atoi(m[1]) // six digits
		span := time.Duration(n) * units[m[2]]
		if strings.HasPrefix(text, "+") {
			return now.Add(span), nil
		}
		return now.Add(-span), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("must be a time such as 2026-11-30T12:00:00Z or 2026-11-30, "+
		"a span before now such as 24h or 7d, or one after now such as +90d, not %.60q", text)
}

// shortTime returns a time relative to now, or its local date if that is more than ten weeks
// away.
func shortTime(t, now time.Time) string {
	if t.Unix() == 0 {
		return "-" // what exists from the start
	}
	span := now.Sub(t)
	before, after := "", " ago"
	if span < 0 {
		span, before, after = -span, "in ", ""
	}
	switch {
	case span < time.Minute:
		return before + strconv.Itoa(int(span/time.Second)) + "s" + after
	case span < time.Hour:
		return before + strconv.Itoa(int(span/time.Minute)) + "m" + after
	case span < 48*time.Hour:
		return before + strconv.Itoa(int(span/time.Hour)) + "h" + after
	case span < 70*24*time.Hour:
		return before + strconv.Itoa(int(span/(24*time.Hour))) + "d" + after
	}
	return t.Local().Format(time.DateOnly)
}
