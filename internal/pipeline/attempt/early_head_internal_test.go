package attempt

import (
	"testing"
	"testing/synctest"
	"time"

	"modelgate/internal/pipeline/exchange"
)

// A stream that fails at once still becomes an error with its own status, and its comments
// are not held back for a second.
func TestCommentsAreHeldBackForLessThanASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h headTimer
		defer h.stop()
		h.start(new(exchange.Trail), commentDelay)
		began := time.Now()
		<-h.timer.C
		if waited := time.Since(began); waited < 500*time.Millisecond || waited >= time.Second {
			t.Errorf("comments wait for %v, want less than a second", waited)
		}
	})
}
