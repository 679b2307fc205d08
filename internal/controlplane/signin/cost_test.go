package signin_test

import (
	"net/http"
	"testing"
	"time"

	"modelgate/internal/testing/waittest"
)

// maxCost is the CPU time that a sign-in may take, with what the provider of the test takes.
const maxCost = 100 * time.Millisecond

func TestCostOfASignIn(t *testing.T) {
	w := newWorld(t)
	const n = 20
	before := waittest.CPUTime(t)
	for range n {
		if a := w.browser().signIn(); a.Status != http.StatusSeeOther {
			t.Fatalf("a sign-in: %d %s", a.Status, a.Body)
		}
	}
	cost := (waittest.CPUTime(t) - before) / n
	t.Logf("a sign-in takes %s of CPU", cost)
	if cost > maxCost {
		t.Errorf("a sign-in takes %s of CPU, more than %s", cost, maxCost)
	}
}
