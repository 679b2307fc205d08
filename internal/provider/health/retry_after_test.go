package health_test

import (
	"net/http"
	"testing"
	"time"

	"modelgate/internal/provider/health"
)

// FuzzRetryAfter reads when a provider wants the next attempt: never in the
// past, and never an overflow.
func FuzzRetryAfter(f *testing.F) {
	for _, seed := range []string{"1", "1.5", "-1", "NaN", "Inf", "1e999", "0x1p-2", "Sun, 06 Nov 1994 08:49:37 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", " 3 "} {
		f.Add(seed, seed)
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f.Fuzz(func(t *testing.T, ms, seconds string) {
		d, ok := health.RetryAfter(http.Header{"Retry-After-Ms": {ms}, "Retry-After": {seconds}}, now)
		if d < 0 || !ok && d != 0 {
			t.Errorf("RetryAfter(%q, %q) = %v, %t", ms, seconds, d, ok)
		}
	})
}
