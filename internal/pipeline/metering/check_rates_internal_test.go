package metering

import (
	"testing"
	"testing/synctest"
	"time"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/limits/quota"
	"modelgate/internal/pipeline/exchange"
)

func TestOnlyARateOfRequestsRefusesBeforeAttempts(t *testing.T) {
	// At a fixed time: in the last hour of a day both windows end together.
	synctest.Test(t, checkRatesBeforeAttempts)
}

func checkRatesBeforeAttempts(t *testing.T) {
	limit := func(counter string, m quota.Measure, max int64, window time.Duration) *quota.Limit {
		return &quota.Limit{Counter: counter, Measure: m, Max: max, Window: window, Holder: quota.Holder{Kind: "key", ID: counter}}
	}
	free, rate := limit("free", quota.Requests, 2, time.Hour), limit("rate", quota.Requests, 1, time.Hour)
	long, tokens := limit("long", quota.Requests, 1, 24*time.Hour), limit("tokens", quota.Tokens, 1, 24*time.Hour)
	stops := limit("stops", quota.Cost, 2, 0)
	stops.Stop = true
	budget, places := limit("budget", quota.Cost, 1, 0), limit("places", quota.Concurrent, 1, 0)
	store, now := new(quota.Memory), time.Now()
	for _, l := range []*quota.Limit{free, rate, long, tokens, budget, stops, places} {
		if v, _ := store.Reserve(t.Context(), now, []quota.Claim{{Limit: l, Amount: 1, Least: 1}}); v.Refused >= 0 {
			t.Fatal(l)
		}
	}
	for _, tt := range []struct {
		name   string
		method string
		limits []*quota.Limit
		want   *quota.Limit // named by the error; nil for none
		logged int
	}{
		{"none", "POST", nil, nil, 0},
		{"room is left", "POST", []*quota.Limit{free}, nil, 0},
		{"the second is full", "POST", []*quota.Limit{free, rate}, rate, 1},
		{"the one that is reset last is named", "POST", []*quota.Limit{rate, long}, long, 2},
		{"one of tokens too", "POST", []*quota.Limit{rate, tokens}, tokens, 2},
		{"a request that reads uses no tokens", "GET", []*quota.Limit{rate, tokens}, rate, 1},
		{"a budget before it decides", "POST", []*quota.Limit{budget, rate}, nil, 0},
		{"a budget after it does not", "POST", []*quota.Limit{rate, budget}, rate, 2},
		{"a budget before it may have too little", "POST", []*quota.Limit{stops, rate}, nil, 0},
		{"a request that reads uses no budget", "GET", []*quota.Limit{stops, budget, rate}, rate, 1},
		{"a budget after it may have too little", "POST", []*quota.Limit{rate, stops}, rate, 1},
		{"requests in progress before it", "POST", []*quota.Limit{places, rate}, nil, 0},
		{"tokens first", "POST", []*quota.Limit{tokens, rate}, nil, 0},
	} {
		r, trail := &exchange.Request{Operation: api.Proxy, Received: exchange.Received{Method: tt.method}, Limiting: exchange.Limiting{Limits: tt.limits}}, new(exchange.Trail)
		err := CheckRates(r, store, trail)
		logged := trail.Bill().Quota.Log
		if len(logged) != tt.logged {
			t.Errorf("%s: %d limits are recorded, want %d", tt.name, len(logged), tt.logged)
		}
		for _, u := range logged {
			if u.Attempt != 0 || !u.Refused {
				t.Errorf("%s: recorded %+v", tt.name, u)
			}
		}
		if tt.want == nil {
			if err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
			continue
		}
		if err == nil || apierr.From(err).Limit == nil || !apierr.From(err).Limit.Reset.Equal(tt.want.ResetOf(func() int64 { n, _ := tt.want.WindowAt(now); return n }())) || apierr.From(err).Limit.Measure != tt.want.Measure.String() {
			t.Errorf("%s: error %v, want that of %v", tt.name, err, tt.want)
		}
	}
	if err := CheckRates((&exchange.Request{Operation: api.Proxy, Received: exchange.Received{Method: "POST"}, Limiting: exchange.Limiting{Limits: []*quota.Limit{rate}}}), blindStore{store}, new(exchange.Trail)); err != nil {
		t.Errorf("a store that does not know refuses: %v", err)
	}
}

// blindStore is a store that is no [quota.Peeker].
type blindStore struct{ quota.Store }
