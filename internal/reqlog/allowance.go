package reqlog

import (
	"sync"
	"time"
	"unicode/utf8"
)

// Allowance is a number of bytes a day that records of callers without a valid
// key may take. It is safe for concurrent use.
type Allowance struct {
	perDay float64

	mu   sync.Mutex
	left float64   // guarded by mu
	at   time.Time // when left was true; guarded by mu
}

// NewAllowance returns an allowance of perDay bytes in any 24 hours. An hour's
// part of it may be used at once; the rest comes back evenly over the day, so
// that a flood in the morning does not hide what happens in the evening.
func NewAllowance(perDay int64) *Allowance {
	return &Allowance{perDay: float64(perDay), left: float64(perDay) / 24}
}

// Take reports whether n bytes may be recorded at now, and counts them then. A
// nil allowance has no limit.
func (a *Allowance) Take(n int, now time.Time) bool {
	if a == nil {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	hour := a.perDay / 24
	if !a.at.IsZero() {
		// What may be used at once is part of the day's allowance.
		a.left = min(a.left+(a.perDay-hour)*max(now.Sub(a.at), 0).Hours()/24, hour)
	}
	a.at = now
	if float64(n) > a.left {
		return false
	}
	a.left -= float64(n)
	return true
}

// Lengths in bytes to which the texts of a request without a valid key are cut.
const (
	KeylessPath      = 256
	KeylessUserAgent = 128
	keylessMethod    = 16
	keylessMessage   = 256
)

// KeylessCost is the number of bytes that a keyless entry takes on the disk at
// most, in the ledger and in the log.
const KeylessCost = 2 << 10

// Keyless cuts the entry of a request without a valid key to what may be kept of
// it: what it asked for, briefly, and why it was refused.
func (e *Entry) Keyless() {
	e.Method = Cut(e.Method, keylessMethod)
	e.Path = Cut(e.Path, KeylessPath)
	e.UserAgent = Cut(e.UserAgent, KeylessUserAgent)
	e.ErrorMessage = Cut(e.ErrorMessage, keylessMessage)
	e.Metadata, e.Bodies, e.SpanName = nil, nil, ""
}

// Cut returns s, or its first n bytes without a broken character and a mark that
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
