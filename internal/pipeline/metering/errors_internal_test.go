package metering

import (
	"strings"
	"testing"
	"time"

	"modelgate/internal/base/apierr"
	"modelgate/internal/limits/quota"
	"modelgate/internal/pipeline/exchange"
)

func TestErrorOfABudgetTellsWhatIsLeft(t *testing.T) {
	// Of 100 tokens 40 belong to an earlier period.
	l := &quota.Limit{Measure: quota.Tokens, Max: 100, Base: 40, Holder: quota.Holder{Kind: "key"}}
	for _, tt := range []struct {
		name  string
		claim quota.Claim
		state quota.State
		want  []string
	}{
		{"used up", quota.Claim{Amount: 5, Least: 5}, quota.State{Used: 60}, []string{"the budget of this gateway key is exhausted: 60 tokens without a reset; raise it"}},
		{"held by others", quota.Claim{Amount: 5, Least: 5}, quota.State{Used: 50, Held: 10}, []string{"requests in progress have reserved the remaining " + l.Amount(60)}},
		{"too large", quota.Claim{Amount: 20, Least: 20}, quota.State{Used: 50}, []string{l.Amount(10) + " left", "request may use " + l.Amount(20), "set a lower limit of output tokens"}},
		{"a long input of a stream", quota.Claim{Amount: 50, Least: 20}, quota.State{Used: 50}, []string{l.Amount(10) + " left", "input of the request uses about " + l.Amount(20), "shorten it"}},
	} {
		tt.claim.Limit = l
		err := budgetError(tt.claim, tt.state)
		if err.Kind != apierr.BudgetExhausted {
			t.Errorf("%s: kind %v", tt.name, err.Kind)
		}
		for _, want := range tt.want {
			if !strings.Contains(err.Message, want) {
				t.Errorf("%s: message %q, want it to say %q", tt.name, err.Message, want)
			}
		}
	}
}

// Of several rate limits that are reached, the error names the one that ends last:
// a client that waits for another is refused again.
func TestErrorNamesTheRateLimitThatEndsLast(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	limit := func(name string, window time.Duration) *quota.Limit {
		return &quota.Limit{Measure: quota.Requests, Max: 5, Window: window, Holder: quota.Holder{Kind: "provider", Name: name}}
	}
	claim := func(l *quota.Limit, least int64) quota.Claim {
		return quota.Claim{Limit: l, Amount: least, Least: least}
	}
	state := func(used int64, after time.Duration) quota.State {
		return quota.State{Used: used, Reset: now.Add(after)}
	}
	budget := &quota.Limit{Measure: quota.Requests, Max: 5, Holder: quota.Holder{Kind: "provider", Name: "budget"}}
	for _, tt := range []struct {
		name  string
		other quota.Claim
		state quota.State
		want  string
	}{
		{"the other is reached and ends later", claim(limit("other", time.Hour), 1), state(5, time.Hour), "other"},
		{"the other has too little left", claim(limit("other", time.Hour), 3), state(3, time.Hour), "other"},
		{"the other has just enough left", claim(limit("other", time.Hour), 3), state(2, time.Hour), "first"},
		{"the other ends at the same time", claim(limit("other", time.Minute), 1), state(5, time.Minute), "first"},
		{"the other ends earlier", claim(limit("other", time.Second), 1), state(5, time.Second), "first"},
		{"the other is a budget", claim(budget, 1), state(5, time.Hour), "first"},
	} {
		claims := []quota.Claim{claim(limit("before", time.Hour), 1), claim(limit("first", time.Minute), 1), tt.other}
		v := quota.Verdict{Refused: 1, States: []quota.State{state(5, 2*time.Hour), state(5, time.Minute), tt.state}}
		err := apierr.From(limitError(new(exchange.Request), claims, v, now))
		if !strings.Contains(err.Message, "provider "+tt.want) {
			t.Errorf("%s: message %q, want it to name %s", tt.name, err.Message, tt.want)
		}
		if wait := v.States[1].Reset.Sub(now); tt.want == "first" && err.RetryAfter != wait {
			t.Errorf("%s: retry after %v, want %v", tt.name, err.RetryAfter, wait)
		}
	}
}

func TestWaitsAreRoundedForPeople(t *testing.T) {
	for d, want := range map[time.Duration]time.Duration{
		1400 * time.Microsecond: time.Millisecond, 9*time.Second + 700*time.Microsecond: 9*time.Second + time.Millisecond,
		10*time.Second + 600*time.Millisecond: 11 * time.Second, 90*time.Second + 400*time.Millisecond: 90 * time.Second,
	} {
		if got := roundWait(d); got != want {
			t.Errorf("roundWait(%v) = %v, want %v", d, got, want)
		}
	}
}
