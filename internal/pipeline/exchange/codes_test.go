package exchange_test

import (
	"sync/atomic"
	"testing"

	"modelgate/internal/base/apierr"
	"modelgate/internal/pipeline/exchange"
)

// Attempts and requests of hooks share one limit.
func TestAttemptsAreCountedUpToTheirLimit(t *testing.T) {
	var used atomic.Uint32
	for range 3 {
		if err := exchange.CountAttempt(&used, 3); err != nil {
			t.Fatal(err)
		}
	}
	if e := apierr.From(exchange.CountAttempt(&used, 3)); e == nil || e.Code != exchange.CodeAttempts {
		t.Errorf("a fourth of three attempts: %v, want %s", e, exchange.CodeAttempts)
	}
}
