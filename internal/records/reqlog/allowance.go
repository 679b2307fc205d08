package reqlog

import (
	"sync"
	"time"
	"unicode/utf8"
)

// Allowance limits the bytes per day that records of callers without a valid key may
// take. It is safe for concurrent use.
type Allowance struct {
	perDay float64

	mu   sync.Mutex
	left float64   // guarded by mu
	at   time.Time // time at which left was valid; guarded by mu
}

// NewAllowance returns an allowance of perDay bytes in any 24 hours. The part of one
// hour may be used at once; the rest becomes available evenly over the day, so that a
// flood in the morning does not hide what happens in the evening.
func NewAllowance(perDay int64) *Allowance {
	return &Allowance{perDay: float64(perDay), left: float64(perDay) / 24}
}

// Take reports whether n bytes may be recorded at now, and counts them if so. A nil
// allowance has no limit.
func (a *Allowance) Take(n int, now time.Time) bool {
	if a == nil {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	hour := a.perDay / 24
	if !a.at.IsZero() {
		// The part that may be used at once belongs to the day's allowance.
		a.left = min(a.left+(a.perDay-hour)*max(now.Sub(a.at), 0).Hours()/24, hour)
	}
	a.at = now
	if float64(n) > a.left {
		return false
	}
	a.left -= float64(n)
	return true
}

// Lengths in bytes to which strings in a request without a valid key are cut.
const (
	KeylessPath      = 256
	KeylessUserAgent = 128
	keylessMethod    = 16
	keylessMessage   = 256
)

// KeylessCost is the maximum size of a keyless entry on disk, in the ledger and in the
// log, in bytes.
const KeylessCost = 2 << 10

// Keyless reduces the entry of a request without a valid key to what may be recorded:
// what it requested, shortened, and why it was rejected.
func (e *Entry) Keyless() {
	e.Method = Cut(e.Method, keylessMethod)
	e.Path = Cut(e.Path, KeylessPath)
	e.UserAgent = Cut(e.UserAgent, KeylessUserAgent)
	e.ErrorMessage = Cut(e.ErrorMessage, keylessMessage)
	e.Metadata, e.Bodies, e.SpanName = nil, nil, ""
}

// Cut returns s, or its first n bytes without a broken character and with a mark that
// the rest is missing.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
