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

// BenchmarkReserve is what limits of tokens and of cost add to a request of 4 KB.
func BenchmarkReserve(b *testing.B) {
	body, err := bytepool.New(1 << 20).Get(8000)
	if err != nil {
		b.Fatal(err)
	}
	body.Fill(func(dst []byte) []byte {
		dst = append(dst, `{"model":"gpt-4o","temperature":0.5,"max_tokens":100,"stream":false,"user":"u","messages":[`...)
		dst = append(dst, strings.Repeat(`{"role":"user","content":"`+strings.Repeat("The quick brown fox. ", 20)+`"},`, 9)...)
		return append(dst, `{"role":"user","content":"hi"}]}`...)
	})
	doc := new(jsonedit.Doc)
	if err := doc.Scan(body.Bytes()); err != nil {
		b.Fatal(err)
	}
	r := &exchange.Request{Operation: api.Chat, Received: exchange.Received{Method: "POST", Body: body, Doc: doc}, Limiting: exchange.Limiting{Limits: []*quota.Limit{
		{Counter: "rate", Measure: quota.Tokens, Max: 1 << 50, Window: time.Minute}, {Counter: "budget", Measure: quota.Cost, Max: 1 << 50},
	}}}
	target := &provider.Target{Spec: &provider.Spec{ID: "openai"}}
	engine := &TargetHandler{Engine: &Engine{Quota: new(quota.Memory)}}
	b.SetBytes(int64(body.Len()))
	b.ReportAllocs()
	for b.Loop() {
		a := &attempt{plan: plan{record: exchange.Attempt{Target: target, Model: "gpt-4o"}, request: r, trail: new(exchange.Trail), handler: engine}}
		a.plan.startTimers(context.Background())
		if err := a.openAccount(); err != nil {
			b.Fatal(err)
		}
		a.account.limits.Settle(quota.Use{})
		a.account.sent.release()
		a.plan.timers.stop()
	}
}
