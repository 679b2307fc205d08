package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/waittest"
)

// TestEveryWayOfSpendingCountsOnce sends requests that cause none, one or several attempts,
// and compares what the limits of their key count with what reached the provider.
func TestEveryWayOfSpendingCountsOnce(t *testing.T) {
	l := newLimitedGateway(t)
	const body = `{"model":"sim-1","max_tokens":200,"messages":[{"role":"user","content":"%s"}]}`
	var used struct { // by one response
		Usage struct {
			Total float64 `json:"total_tokens"`
		}
	}
	if err := json.Unmarshal(l.chat(gatewaytest.Key, fmt.Sprintf(body, "hello")).Body, &used); err != nil || used.Usage.Total == 0 {
		t.Fatal(err)
	}
	ofOne := used.Usage.Total
	type count struct{ requests, attempts, tokens float64 }
	for _, tt := range []struct {
		name string
		send func(key string)
		want count
	}{
		{"one request", func(key string) { l.chat(key, oneChat) }, count{1, 1, 16}},
		{"several responses", func(key string) { l.chat(key, strings.Replace(oneChat, `"max_tokens":10`, `"max_tokens":10,"n":3`, 1)) }, count{1, 1, 36}},
		{"explain", func(key string) { l.send("POST", "/v1/explain", key, oneChat) }, count{}},
		{"list of models", func(key string) { l.send("GET", "/v1/models", key, "") }, count{}},
		{"estimated count of tokens", func(key string) { l.send("POST", "/v1/messages/count_tokens", key, oneChat) }, count{1, 0, 0}},
		{"tokens to embed", func(key string) {
			l.send("POST", "/v1/embeddings", key, `{"model":"sim-embed-1","input":[[1,2,3],[4,5]]}`)
		}, count{1, 1, 5}},
		{"cached twice", func(key string) {
			for range 3 {
				l.Post("/chat/completions", fmt.Sprintf(body, "hello"), "x-gateway-api-key", key, "x-gateway-config", `{"provider":"@simulator","cache":{"mode":"simple"}}`)
			}
		}, count{1, 1, ofOne}},
		{"equal requests at a time", func(key string) {
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					l.Post("/chat/completions", fmt.Sprintf(body, "howdy"), "x-gateway-api-key", key, "x-gateway-config", `{"provider":"@simulator","cache":{"mode":"simple"}}`)
				})
			}
			wg.Wait()
		}, count{1, 1, ofOne}},
		{"retries", func(key string) {
			l.Post("/chat/completions", strings.Replace(oneChat, "sim-1", "sim-1+status=503+times=2", 1), "x-gateway-api-key", key, "x-gateway-config", `{"provider":"@simulator","retry":{"attempts":3}}`)
		}, count{1, 3, 16}},
		{"fallbacks", func(key string) {
			l.Post("/chat/completions", oneChat, "x-gateway-api-key", key, "x-gateway-config", `{"strategy":{"mode":"fallback"},"targets":[{"provider":"@simulator","override_params":{"model":"sim-1+status=500"}},{"provider":"@simulator"}]}`)
		}, count{1, 2, 16}},
	} {
		key, before := l.key(allLimits), l.reached.Load()
		tt.send(key)
		var got count
		waittest.Until(t, "nothing is reserved: "+tt.name, func() bool {
			all := l.limits(key)
			got = count{all["requests"].Used, float64(l.reached.Load() - before), all["tokens"].Used}
			return all["requests"].Reserved+all["tokens"].Reserved+all["cost"].Reserved == 0
		})
		if got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// TestHedgesDoNotExceedABudgetTogether starts hedges while a budget that stops has room for
// one response only.
func TestHedgesDoNotExceedABudgetTogether(t *testing.T) {
	h := newHeldGateway(t, "log: {level: info}\n")
	key := h.key(`"usage_limits":{"type":"tokens","credit_limit":100,"on_budget_end":"stop"}`)
	const config = `{"strategy":{"mode":"fallback"},"hedge":{"delay_ms":20,"max":2},"targets":[{"provider":"@simulator"},{"provider":"@simulator"},{"provider":"@simulator"}]}`
	body := strings.Replace(heldChat, `"max_tokens":10`, `"max_tokens":50`, 1)
	done := make(chan gatewaytest.Response, 1)
	go func() {
		done <- h.Post("/chat/completions", body, "x-gateway-api-key", key, "x-gateway-config", config)
	}()
	waittest.Receive(t, h.holding, "a request at the provider")
	waittest.Until(t, "the attempt has reserved", func() bool { return h.limits(key)["tokens"].Reserved > 50 })
	select { // the hedges start in this time
	case <-h.holding:
		t.Error("a hedge has reached the provider")
	case <-time.After(100 * time.Millisecond):
	}
	h.releaseOne()
	res := h.await(done)
	var got counted
	waittest.Until(t, "the attempt is settled", func() bool { got = h.limits(key)["tokens"]; return got.Reserved == 0 && got.Used > 0 })
	if res.Status != 200 || h.reached.Load() != 1 || got.Used > 100 {
		t.Errorf("%d %s; %d attempts reached the provider, counted %+v", res.Status, res.Body, h.reached.Load(), got)
	}
}
