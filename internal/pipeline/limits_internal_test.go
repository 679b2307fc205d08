package pipeline

import (
	"modelgate/internal/pipeline/caching"
	"net/http"
	"slices"
	"testing"
	"time"

	"modelgate/api"
	"modelgate/config"
	"modelgate/internal/base/apierr"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/limits/quota"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/provider"
)

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
		a := &attempt{
			record: exchange.Attempt{Target: &provider.Target{Quota: tt.target}}, handler: &TargetHandler{Engine: &Engine{Quota: new(quota.Memory)}},
			request: &exchange.Request{Operation: api.Chat, Limiting: exchange.Limiting{Limits: tt.client}},
		}
		acc := attemptAccount{attempt: a, bill: new(exchange.Bill)}
		if err := acc.reserve(t.Context()); (err != nil) != tt.refused {
			t.Errorf("limits %s: %v, want a refusal: %t", tt.name, err, tt.refused)
		}
	}
}

func TestFaultsOfProvidersCountAgainstNoLimit(t *testing.T) {
	for status, want := range map[int]bool{
		http.StatusBadRequest: false, http.StatusRequestTimeout: true, http.StatusTooManyRequests: true, 499: false,
		http.StatusInternalServerError: true, http.StatusServiceUnavailable: true,
	} {
		if got := providerFault(status); got != want {
			t.Errorf("status %d is a fault of the provider: %t, want %t", status, got, want)
		}
	}
}

func TestEachPromptOfACompletionCounts(t *testing.T) {
	for _, tt := range []struct {
		op   api.Operation
		body string
		want int64
	}{
		{api.Completions, `{"prompt":["a","b","c"]}`, 3},
		{api.Completions, `{"prompt":[[1,2],[3]]}`, 2},
		{api.Completions, `{"prompt":[1,2,3]}`, 1},
		{api.Completions, `{"prompt":"a"}`, 1},
		{api.Completions, `{}`, 1},
		{api.Chat, `{"prompt":["a","b","c"]}`, 1},
	} {
		doc := new(jsonedit.Doc)
		if err := doc.Scan([]byte(tt.body)); err != nil {
			t.Fatal(err)
		}
		if got := fieldsOf[tt.op].promptsIn(doc); got != tt.want {
			t.Errorf("%s with %s: %d prompts, want %d", tt.op, tt.body, got, tt.want)
		}
	}
	if got := fieldsOf[api.Completions].promptsIn(nil); got != 1 {
		t.Errorf("without a body: %d prompts, want 1", got)
	}
}

func TestLedgerCountsBudgetsOfPolicies(t *testing.T) {
	acc := &attemptAccount{}
	for _, l := range []*quota.Limit{
		{Counter: policyCounter + "budget"}, {Counter: policyCounter + "rate", Window: time.Minute}, {Counter: "key/budget"},
	} {
		acc.grants = append(acc.grants, quota.Grant{Limit: l})
	}
	if got := acc.policyCounters(); !slices.Equal(got, []string{"budget"}) {
		t.Errorf("the ledger counts for %q, want the budget of the policy alone", got)
	}
}

func TestDryRunTellsWhetherALimitHasRoom(t *testing.T) {
	for max, want := range map[int64]bool{0: false, 1: true, 2: true} {
		l := &quota.Limit{Counter: "key/requests", Max: max, Window: time.Minute}
		a := &attempt{
			record: exchange.Attempt{Target: new(provider.Target)}, handler: &TargetHandler{Engine: &Engine{Quota: new(quota.Memory)}},
			request: &exchange.Request{Operation: api.Chat, Limiting: exchange.Limiting{Limits: []*quota.Limit{l}}},
		}
		states, err := a.limitStates(t.Context())
		if err != nil || len(states) != 1 || states[0].Fits != want || states[0].Claimed != 1 {
			t.Errorf("a limit of %d requests: %+v, %v, want room: %t", max, states, err, want)
		}
	}
}

func TestEarlierLimitsAreCheckedForRoom(t *testing.T) {
	for used, want := range map[int64]bool{0: false, 1: false, 2: true} {
		l := &quota.Limit{Counter: "key/requests", Max: 2, Window: time.Hour, Holder: quota.Holder{Kind: "key", Name: "k"}}
		counters := new(quota.Memory)
		for range used {
			if v, err := counters.Reserve(t.Context(), time.Now(), []quota.Claim{{Limit: l, Amount: 1, Least: 1}}); err != nil || v.Refused >= 0 {
				t.Fatal(v, err)
			}
		}
		r := &exchange.Request{Operation: api.Chat, Limiting: exchange.Limiting{Limits: []*quota.Limit{l}}}
		exhausted := apierr.New(apierr.BudgetExhausted, "a later budget").WithCause(&quota.Exhausted{Kind: "workspace"})
		err := EarlierLimit(t.Context(), r, counters, new(exchange.Trail), exhausted)
		if got := err != error(exhausted); got != want {
			t.Errorf("with %d of 2 requests in progress: %v, want the error of the limit: %t", used, err, want)
		}
	}
}

func TestCacheIsIgnoredWithoutOne(t *testing.T) {
	n := &config.Config{Cache: new(config.Cache)}
	for name, tt := range map[string]struct {
		cache *caching.Cache
		want  []string
	}{
		"no cache": {nil, []string{"cache"}}, "a cache": {new(caching.Cache), nil},
	} {
		b := &build{Compiler: &Compiler{Cache: tt.cache}}
		if got := b.ignoredProperties(n); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q are ignored, want %q", name, got, tt.want)
		}
	}
}
