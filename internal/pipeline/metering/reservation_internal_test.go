package metering

import (
	"slices"
	"testing"
	"time"

	"modelgate/api"
	"modelgate/internal/limits/quota"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/provider"
)

// planned is an attempt that may use a hundred tokens.
type planned struct{ estimates int }

func (p *planned) Uses(quota.Measure) bool { return true }
func (p *planned) EndsEarly() bool         { return true }
func (p *planned) Extension() quota.Use    { return quota.Use{Tokens: 10} }
func (p *planned) Estimate() Estimate {
	p.estimates++
	return Estimate{Least: quota.Use{Tokens: 1}, Most: quota.Use{Tokens: 100}}
}

func TestLimitsOfClientAndTargetAreReserved(t *testing.T) {
	full := &quota.Limit{Counter: "full", Window: time.Minute}
	free := &quota.Limit{Counter: "free", Max: 10, Window: time.Minute}
	for _, tt := range []struct {
		name           string
		client, target []*quota.Limit
		refused        bool
	}{
		{"none", nil, nil, false},
		{"of the client", []*quota.Limit{full}, nil, true},
		{"of the target", nil, []*quota.Limit{full}, true},
		{"of both", []*quota.Limit{free}, []*quota.Limit{full}, true},
		{"with room", []*quota.Limit{free}, nil, false},
	} {
		v := &Reservation{
			Store: new(quota.Memory), Record: &exchange.Attempt{Target: &provider.Target{Quota: tt.target}},
			Request: &exchange.Request{Operation: api.Chat, Limiting: exchange.Limiting{Limits: tt.client}},
			Quota:   new(exchange.RequestQuota), By: new(planned),
		}
		if err := v.Reserve(t.Context()); (err != nil) != tt.refused {
			t.Errorf("limits %s: %v, want a refusal: %t", tt.name, err, tt.refused)
		}
	}
}

func TestLedgerCountsBudgetsOfPolicies(t *testing.T) {
	v := &Reservation{}
	for _, l := range []*quota.Limit{
		{Counter: policyCounter + "budget"}, {Counter: policyCounter + "rate", Window: time.Minute}, {Counter: "key/budget"},
	} {
		v.grants = append(v.grants, quota.Grant{Limit: l})
	}
	if got := v.PolicyCounters(); !slices.Equal(got, []string{"budget"}) {
		t.Errorf("the ledger counts for %q, want the budget of the policy alone", got)
	}
}

func TestAnAttemptIsEstimatedOnceAndOnlyForALimitThatNeedsIt(t *testing.T) {
	for _, tt := range []struct {
		name     string
		measures []quota.Measure
		want     int
	}{
		{"no limit", nil, 0},
		{"requests", []quota.Measure{quota.Requests, quota.Concurrent}, 0},
		{"tokens", []quota.Measure{quota.Tokens}, 1},
		{"tokens and cost", []quota.Measure{quota.Tokens, quota.Cost}, 1},
	} {
		by := new(planned)
		v := &Reservation{
			Store: new(quota.Memory), Record: &exchange.Attempt{Target: new(provider.Target)}, Request: new(exchange.Request),
			Quota: new(exchange.RequestQuota), By: by,
		}
		for i, m := range tt.measures {
			v.Request.Limiting.Limits = append(v.Request.Limiting.Limits, &quota.Limit{Counter: string(rune('a' + i)), Measure: m, Max: 1e9})
		}
		if err := v.Reserve(t.Context()); err != nil || by.estimates != tt.want {
			t.Errorf("%s: %v, estimated %d times, want %d", tt.name, err, by.estimates, tt.want)
		}
	}
}

// A stream is ended when its limit has nothing left, and what it used replaces all that was
// reserved for it.
func TestAReservationGrowsUntilItsLimitIsFull(t *testing.T) {
	counters := new(quota.Memory)
	l := &quota.Limit{Counter: "key/tokens", Measure: quota.Tokens, Max: 105, Stop: true}
	v := &Reservation{
		Store: counters, Record: &exchange.Attempt{Target: &provider.Target{Quota: []*quota.Limit{l}}}, Request: new(exchange.Request),
		Quota: new(exchange.RequestQuota), By: new(planned),
	}
	if err := v.Reserve(t.Context()); err != nil || !v.MayEndStream() {
		t.Fatalf("%v, a limit may end the stream: %t", err, v.MayEndStream())
	}
	for _, tt := range []struct {
		used int64
		want bool
	}{{50, true}, {99, true}, {200, false}} {
		if got := v.Extend(t.Context(), quota.Use{Tokens: tt.used}); got != tt.want {
			t.Errorf("%d tokens of 105 used: goes on %t, want %t", tt.used, got, tt.want)
		}
	}
	v.Settle(quota.Use{Tokens: 60})
	states, err := counters.Read(t.Context(), time.Now(), []*quota.Limit{l})
	if err != nil || states[0].Used != 60 || states[0].Held != 0 {
		t.Errorf("after it settled: %+v, %v; want 60 used and nothing held", states, err)
	}
}
