package health

import (
	"cmp"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Headers are read again after readPause; those of a response that asks not to be called
// already after urgentPause. Reading them costs a microsecond, more than all else here.
const (
	readPause   = time.Second
	urgentPause = 50 * time.Millisecond
)

// Limits of what is kept of headers.
const (
	maxLimits   = 16
	maxName     = 40  // of a limit, in bytes
	maxHeaders  = 256 // looked at
	longestWait = time.Hour
)

// RateLimit is a limit that a provider announced in response headers.
type RateLimit struct {
	Name      string    // such as requests or input-tokens, in lower case
	Limit     float64   // negative if unknown
	Remaining float64   // negative if unknown
	Reset     time.Time // zero if unknown
	Seen      time.Time
}

// headerReader keeps the latest rate limits.
type headerReader struct {
	next    atomic.Int64 // before which nothing is read, in nanoseconds since 1970
	limits  atomic.Pointer[[]RateLimit]
	retryAt atomic.Int64 // in nanoseconds since 1970; zero for never
}

// ReadHeaders reads the rate limits in the headers of a response, unless others were read
// a moment ago. It keeps no reference to h.
func (r *Recent) ReadHeaders(h http.Header, status int, now time.Time) {
	if r == nil {
		return
	}
	nano, next := now.UnixNano(), r.headers.next.Load()
	urgent := status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable || status == 529
	if nano < next && !(urgent && nano >= next-int64(readPause-urgentPause)) || !r.headers.next.CompareAndSwap(next, nano+int64(readPause)) {
		return
	}
	if urgent {
		if wait, ok := RetryAfter(h, now); ok {
			r.headers.retryAt.Store(now.Add(min(wait, longestWait)).UnixNano())
		}
	}
	if list := parseLimits(h, now); len(list) > 0 {
		r.headers.limits.Store(&list)
	}
}

// read returns the rate limits, and when the provider may be called again if that is in
// the future.
func (x *headerReader) read(now time.Time) (list []RateLimit, retryAt time.Time) {
	if p := x.limits.Load(); p != nil {
		list = *p
	}
	if at := x.retryAt.Load(); at > now.UnixNano() {
		retryAt = time.Unix(0, at).UTC()
	}
	return list, retryAt
}

// parseLimits returns the rate limits in headers: X-Ratelimit-{Limit,Remaining,Reset}-NAME
// as at OpenAI and others, without a name, or Anthropic-Ratelimit-NAME-{Limit,Remaining,Reset}.
// https://platform.openai.com/docs/guides/rate-limits#rate-limits-in-headers
// https://docs.anthropic.com/en/api/rate-limits#response-headers
func parseLimits(h http.Header, now time.Time) []RateLimit {
	var list []RateLimit
	looked := 0
	for header, values := range h {
		if looked++; looked > maxHeaders {
			break
		}
		name, part, ok := splitHeader(header)
		if !ok || len(values) == 0 {
			continue
		}
		i := slices.IndexFunc(list, func(l RateLimit) bool { return l.Name == name })
		if i < 0 {
			if len(list) == maxLimits {
				continue
			}
			i = len(list)
			list = append(list, RateLimit{Name: name, Limit: -1, Remaining: -1, Seen: now})
		}
		list[i].set(part, values[0], now)
	}
	list = slices.DeleteFunc(list, func(l RateLimit) bool { return l.Limit < 0 && l.Remaining < 0 })
	slices.SortFunc(list, func(a, b RateLimit) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// splitHeader returns the name of a limit and which part of it a header has.
func splitHeader(header string) (name, part string, ok bool) {
	if len(header) > len("Anthropic-Ratelimit-Remaining-")+maxName {
		return "", "", false
	}
	if rest, found := strings.CutPrefix(header, "X-Ratelimit-"); found {
		part, name, _ = strings.Cut(strings.ToLower(rest), "-")
		name = cmp.Or(name, "requests")
	} else if rest, found := strings.CutPrefix(header, "Anthropic-Ratelimit-"); found {
		i := strings.LastIndexByte(rest, '-')
		if i <= 0 {
			return "", "", false
		}
		name, part = strings.ToLower(rest[:i]), strings.ToLower(rest[i+1:])
	}
	plain := strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
	return name, part, plain && len(name) <= maxName && (part == "limit" || part == "remaining" || part == "reset")
}

// set sets a part from the value of its header. Values that cannot be read are left out.
func (l *RateLimit) set(part, value string, now time.Time) {
	value = strings.TrimSpace(value)
	if part == "reset" {
		l.Reset = resetTime(value, now)
		return
	}
	n, err := strconv.ParseFloat(value, 64)
	if err != nil || n < 0 || math.IsInf(n, 0) || math.IsNaN(n) {
		return
	}
	if part == "limit" {
		l.Limit = n
		return
	}
	l.Remaining = n
}

// resetTime reads a duration such as 6m0s, a number of seconds, a time in seconds or
// milliseconds since 1970, or a date. It returns zero for anything else.
func resetTime(value string, now time.Time) time.Time {
	if d, err := time.ParseDuration(value); err == nil {
		return now.Add(min(max(d, 0), 31*24*time.Hour))
	}
	if t, err := time.Parse(time.RFC3339, value); err == nil {
		return t
	}
	n, err := strconv.ParseFloat(value, 64)
	switch {
	case err != nil || !(n >= 0 && n < 1e14):
		return time.Time{}
	case n >= 1e12:
		return time.UnixMilli(int64(n))
	case n >= 1e9:
		return time.Unix(int64(n), 0)
	}
	return now.Add(time.Duration(min(n, 31*24*3600) * float64(time.Second)))
}
