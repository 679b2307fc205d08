package quota_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"modelgate/internal/limits/quota"
)

// TestKeptPartsOfABudgetAreForTheirWork has work claim what is kept for it, and others what is
// left.
func TestKeptPartsOfABudgetAreForTheirWork(t *testing.T) {
	l := &quota.Limit{Counter: "budget", Measure: quota.Tokens, Max: 100}
	rate := &quota.Limit{Counter: "rate", Max: 100, Window: time.Hour}
	kept := map[string]int64{"budget": 70, "rate": 70}
	h := &quota.Holds{Store: new(quota.Memory), Load: func(context.Context) (map[string]int64, error) { return kept, nil }}
	take := func(own, n int64) (quota.Verdict, bool) {
		t.Helper()
		v, err := h.Reserve(t.Context(), start, []quota.Claim{{Limit: rate, Amount: 1, Least: 1}, {Limit: l, Amount: n, Least: n, Own: own}})
		if err != nil {
			t.Fatal(err)
		}
		return v, v.Refused < 0
	}
	if _, ok := take(0, 60); !ok {
		t.Fatal("refused before anything was read")
	}
	h.Store = new(quota.Memory)
	if err := h.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if v, ok := take(0, 31); ok || v.Refused != 1 || v.States[1].Left(l) != 30 || v.States[1].Held != 70 {
		t.Errorf("others: %+v", v)
	}
	v, ok := take(0, 30)
	if !ok || v.Grants[1].Limit != l || v.States[0].Held != 0 {
		t.Errorf("others, of what is left: %+v", v)
	}
	if _, ok := take(20, 21); ok {
		t.Error("work claimed more than its own part")
	}
	if v, ok := take(20, 20); !ok || v.Grants[1].Amount != 20 {
		t.Errorf("work: %+v", v)
	}
	h.PassOn("w", map[string]int64{"budget": 20}) // what it has just claimed
	states, err := h.Read(t.Context(), start, []*quota.Limit{l, rate})
	if err != nil || states[0].Held != 100 || states[1].Held != 2 {
		t.Errorf("read: %+v, %v", states, err)
	}
	h.PassOn("w", nil)
	kept = nil
	if err := h.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s, ok := h.Peek(start, l); !ok || s.Held != 50 {
		t.Errorf("nothing is kept any more: %+v, %t", s, ok)
	}
}

// TestGrantsEndWhenAllKnowWhatIsKeptInstead hands over grants, and lets reading fail.
func TestGrantsEndWhenAllKnowWhatIsKeptInstead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &quota.Limit{Counter: "budget", Measure: quota.Cost, Max: 100}
		var failed error
		kept := map[string]int64{}
		h := &quota.Holds{Store: new(quota.Memory), Interval: time.Second, Load: func(context.Context) (map[string]int64, error) { return kept, failed }}
		v, err := h.Reserve(t.Context(), time.Now(), []quota.Claim{{Limit: l, Amount: 60, Least: 60}})
		if err != nil || v.Refused >= 0 {
			t.Fatal(v, err)
		}
		kept["budget"] = 60
		h.HandOver(v.Grants)
		held := func() int64 {
			states, err := h.Read(t.Context(), time.Now(), []*quota.Limit{l})
			if err != nil {
				t.Fatal(err)
			}
			return states[0].Held
		}
		for _, step := range []struct {
			after time.Duration
			fails error
			held  int64
		}{{0, nil, 120}, {time.Second, nil, 120}, {2 * time.Second, errors.New("away"), 120}, {time.Millisecond, nil, 60}, {time.Second, nil, 60}} {
			time.Sleep(step.after)
			failed = step.fails
			if err := h.Reload(t.Context()); (err != nil) != (step.fails != nil) || held() != step.held {
				t.Errorf("%v later %d are held, want %d: %v", step.after, held(), step.held, err)
			}
		}
	})
}
