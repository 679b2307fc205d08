package attempt

import (
	"context"
	"strings"
	"testing"
	"time"

	"modelgate/api"
	"modelgate/internal/base/bytepool"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/limits/quota"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/provider"
)

// TestNoTokenIsCountedWithoutALimitOfTokens opens the account of an attempt. Only a limit of
// tokens or cost estimates the request, by its size: the tokenizer runs when the response
// has ended.
func TestNoTokenIsCountedWithoutALimitOfTokens(t *testing.T) {
	limit := func(m quota.Measure, window time.Duration) []*quota.Limit {
		return []*quota.Limit{{Counter: "c", Measure: m, Max: 1e15, Window: window}}
	}
	for _, tt := range []struct {
		name   string
		limits []*quota.Limit
		want   bool
	}{
		{"no limit", nil, false},
		{"a rate of requests", limit(quota.Requests, time.Hour), false},
		{"requests in progress", limit(quota.Concurrent, 0), false},
		{"a rate of tokens", limit(quota.Tokens, time.Hour), true},
		{"a budget", limit(quota.Cost, 0), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body, err := bytepool.New(1 << 20).Get(4000)
			if err != nil {
				t.Fatal(err)
			}
			body.Fill(func(b []byte) []byte { return append(b, `{"prompt":"`+strings.Repeat("word ", 600)+`"}`...) })
			doc := new(jsonedit.Doc)
			if err := doc.Scan(body.Bytes()); err != nil {
				t.Fatal(err)
			}
			r := &exchange.Request{Operation: api.Chat, Received: exchange.Received{Method: "POST", Body: body, Doc: doc}, Limiting: exchange.Limiting{Limits: tt.limits}}
			a := &attempt{plan: plan{record: exchange.Attempt{Target: &provider.Target{Spec: &provider.Spec{ID: "openai"}}, Model: "gpt-4o"}, request: r, trail: new(exchange.Trail),
				handler: &TargetHandler{Engine: &Engine{Quota: new(quota.Memory)}}}}
			a.plan.startTimers(context.Background())
			defer a.plan.timers.stop()
			err = a.openAccount()
			acc := &a.account
			if err != nil || acc.sent.counted || acc.sent.input > 0 != tt.want {
				t.Errorf("%v; counted by the tokenizer %t, %d tokens of input; want an estimate %t", err, acc.sent.counted, acc.sent.input, tt.want)
			}
		})
	}
}
