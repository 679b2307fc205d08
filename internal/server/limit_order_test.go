package server_test

import (
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/quotatest"
	"modelgate/internal/testing/storetest"
	"modelgate/internal/testing/waittest"
)

// TestMarkedBudgetsAreNamedInOrderWithSharedCounters uses up a rate limit and a budget
// that is checked later. Once the budget is marked as exhausted the gateway refuses without
// a reservation, and names the rate limit nevertheless. test/conformance has each pair with
// counters in memory.
func TestMarkedBudgetsAreNamedInOrderWithSharedCounters(t *testing.T) {
	redis := quotatest.NewRedis(t)
	t.Setenv("COUNTERS_REDIS", redis.URL())
	for name, o := range map[string]gatewaytest.Options{
		"redis":    {Settings: "limits: {counters: {store: redis, url: '${COUNTERS_REDIS}', deadline: 10s}}\n"},
		"postgres": {Settings: "limits: {counters: {store: postgres, deadline: 10s}}\n", Database: storetest.Postgres(t)},
		"leased":   {Settings: "limits: {counters: {deadline: 10s}}\n", Database: storetest.Postgres(t)},
	} {
		t.Run(name, func(t *testing.T) {
			o.MasterKey = "the master key of a test of limits"
			l := &limitedGateway{t: t, Gateway: gatewaytest.New(t, o)}
			const rate, budget = `"rate_limits":[{"type":"requests","unit":"rpd","value":1}]`, `"usage_limits":{"type":"tokens","credit_limit":100}`
			l.provider("poor", budget)
			long := strings.Replace(oneChat, "hello", strings.Repeat("hello ", 200), 1)
			for _, tt := range []struct{ limits, provider, wait string }{
				{rate + "," + budget, "@simulator", "the budget of this gateway key is exhausted"},
				{rate, "@poor", "the budget of the provider @poor is exhausted"},
			} {
				key, other := l.key(tt.limits), l.key(`"rate_limits":[]`)
				if res := l.chat(key, long, "x-gateway-provider", tt.provider); res.Status != 200 {
					t.Fatalf("the first: %d %s", res.Status, res.Body)
				}
				waittest.Until(t, "the budget is marked", func() bool {
					if tt.provider == "@poor" {
						return strings.Contains(string(l.chat(other, oneChat, "x-gateway-provider", tt.provider).Body), tt.wait)
					}
					return strings.Contains(string(l.Get("/api-keys?workspace_id=default").Body), `"status":"exhausted"`)
				})
				l.key(`"rate_limits":[]`) // is known later than the mark
				for range 3 {
					res := l.chat(key, oneChat, "x-gateway-provider", tt.provider)
					if res.Status != 429 || !strings.Contains(string(res.Body), "the rate limit of this gateway key is reached") {
						t.Errorf("%s: %d %s", tt.provider, res.Status, res.Body)
					}
				}
			}
		})
	}
}

func TestLimitsAreNamedBeforeRulesForSessions(t *testing.T) {
	l := newLimitedGateway(t)
	l.policy("usage-limits", `{"name":"sessions","conditions":[{"key":"metadata.app","value":"agent"}],"group_by":[{"key":"session"}],"type":"seconds","credit_limit":1}`)
	limited, free := l.key(`"rate_limits":[{"type":"requests","unit":"rpd","value":1}]`), l.key(`"rate_limits":[]`)
	send := func(key string) gatewaytest.Response { // with a config, which may have a cached response
		return l.chat(key, oneChat, "x-gateway-provider", "", "x-gateway-config", `{"provider":"@simulator"}`, "x-gateway-metadata", `{"app":"agent","session_id":"a"}`)
	}
	if res := send(limited); res.Status != 200 {
		t.Fatalf("the first: %d %s", res.Status, res.Body)
	}
	waittest.Until(t, "the session has ended", func() bool { return strings.Contains(string(send(free).Body), `"session_limit"`) })
	if res := send(limited); res.Status != 429 || !strings.Contains(string(res.Body), "the rate limit of this gateway key is reached") {
		t.Errorf("with its rate limit used up and its session ended: %d %s", res.Status, res.Body)
	}
}
