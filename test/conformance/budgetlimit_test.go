package conformance

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"modelgate/internal/testing/waittest"
)

// cost is how many tokens one request of the spenders takes.
const cost = 1100

// used waits until the budget of h has counted n tokens.
func (h *holder) used(t *testing.T, n int) {
	t.Helper()
	last := ""
	waittest.Until(t, fmt.Sprintf("%d tokens are counted for the %s", n, h.name), func() bool {
		_, u := h.read(t)
		last = fmt.Sprint(u["current_usage"])
		return last == fmt.Sprint(n)
	})
}

func TestBudgetIsExhaustedAtExactlyItsLimit(t *testing.T) {
	for i, name := range []string{"key", "provider", "grant", "workspace"} {
		prove(t, "S-513", "of the "+name, func(t *testing.T) {
			t.Parallel()
			s := newSpenders(t)
			h := s.holders()[i]
			s.set(t, h, fmt.Sprintf(`{"type":"tokens","credit_limit":%d}`, 2*cost))
			for n := range 2 {
				if got := s.spend(t); got != http.StatusOK {
					t.Fatalf("request %d is answered %d below the limit", n+1, got)
				}
				h.used(t, (n+1)*cost)
			}
			waittest.Until(t, "it is exhausted", func() bool { status, _ := h.read(t); return status == "exhausted" })
			sent := 2 // a request on the way when it is exhausted is still served
			waittest.Until(t, "requests are refused", func() bool {
				got := s.spend(t)
				if got == http.StatusOK {
					sent++
				}
				return got == http.StatusPreconditionFailed
			})
			h.used(t, sent*cost)
			s.set(t, h, fmt.Sprintf(`{"type":"tokens","credit_limit":%d}`, sent*cost+1))
			if got := s.spend(t); got != http.StatusOK {
				t.Errorf("one token below its limit a request is answered %d, want 200", got)
			}
			h.used(t, (sent+1)*cost)
		})
	}
}

func TestTheBudgetOfAWorkspaceIsCheckedWithItsUsageAtThatMoment(t *testing.T) {
	s := newSpenders(t)
	h := s.holders()[3]
	s.set(t, h, fmt.Sprintf(`{"type":"tokens","credit_limit":%d}`, 2*cost))
	prove(t, "S-527", "once the last of it is used, the next request is refused", func(t *testing.T) {
		h.used(t, 0) // its details are read before it is used
		for n := range 2 {
			if got := s.spend(t); got != http.StatusOK {
				t.Fatalf("request %d is answered %d below the limit", n+1, got)
			}
			if n == 0 {
				h.used(t, cost)
			}
		}
		if got := s.spend(t); got != http.StatusPreconditionFailed {
			t.Errorf("with the limit used up the next request is answered %d, want 412", got)
		}
	})
	prove(t, "S-527", "what was used before the gateway started counts", func(t *testing.T) {
		s := newSpenders(t)
		h := s.holders()[3]
		s.set(t, h, fmt.Sprintf(`{"type":"tokens","credit_limit":%d}`, 2*cost))
		if got := s.spend(t); got != http.StatusOK {
			t.Fatalf("below the limit a request is answered %d", got)
		}
		h.used(t, cost)
		s.again(t, budgetEnv...)
		for n, want := range []int{http.StatusOK, http.StatusPreconditionFailed} {
			if got := s.spend(t); got != want {
				t.Errorf("request %d after the start is answered %d, want %d", n+1, got, want)
			}
		}
	})
}

func TestBudgetsAreNotEnforcedWhereLimitsAreOff(t *testing.T) {
	s := newSpenders(t)
	for _, h := range s.holders() {
		s.set(t, h, `{"type":"tokens","credit_limit":1000}`)
	}
	waittest.Until(t, "the budgets are exhausted", func() bool { return s.spend(t) == http.StatusPreconditionFailed })
	prove(t, "S-542", "exhausted budgets refuse nothing with USAGE_LIMITS_ENABLED=OFF", func(t *testing.T) {
		s.again(t, append(slices.Clone(budgetEnv), "USAGE_LIMITS_ENABLED=OFF")...)
		for n := range 5 {
			if got := s.spend(t); got != http.StatusOK {
				t.Fatalf("request %d is answered %d, want 200", n+1, got)
			}
		}
	})
	prove(t, "S-542", "and refuse again when it is on", func(t *testing.T) {
		s.again(t, budgetEnv...)
		waittest.Until(t, "requests are refused", func() bool { return s.spend(t) == http.StatusPreconditionFailed })
	})
}
