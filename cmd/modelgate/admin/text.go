package admin

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"modelgate/internal/base/moment"
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

// parseTime reads a time as every route does; a time without an offset is in the local zone.
func parseTime(text string, now time.Time) (time.Time, error) {
	return moment.Parse(text, now, time.Local)
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
