package health

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// longestAsked is the maximum wait that a provider may ask for: a header may
// hold any number or date, and sums of waits must not overflow.
const longestAsked = 1000 * time.Hour

// RetryAfter returns when the provider wants to be called again: from a header
// in milliseconds, which some providers send, otherwise from seconds or a date
// (RFC 9110, 10.2.3).
func RetryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	for _, name := range [...]string{"Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
		if ms, err := strconv.ParseFloat(h.Get(name), 64); err == nil && ms >= 0 {
			return waitOf(ms, time.Millisecond), true
		}
	}
	v := strings.TrimSpace(h.Get("Retry-After"))
	if sec, err := strconv.ParseFloat(v, 64); err == nil && sec >= 0 {
		return waitOf(sec, time.Second), true
	}
	if t, err := http.ParseTime(v); err == nil {
		return min(max(t.Sub(now), 0), longestAsked), true
	}
	return 0, false
}

// waitOf returns n units of time, at most longestAsked.
func waitOf(n float64, unit time.Duration) time.Duration {
	return time.Duration(min(n*float64(unit), float64(longestAsked)))
}
