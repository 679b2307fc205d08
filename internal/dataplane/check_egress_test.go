package dataplane_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/waittest"
)

// A check of a request, and of a test of a guardrail, sends to the hosts only that the
// egress policies allow.
func TestChecksAreBoundByTheEgressPolicies(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		io.WriteString(w, `{"verdict":true}`)
	}))
	defer hook.Close()
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: &textProvider{texts: []string{"fine"}}})
	check := `"default.webhook":{"failOnError":true,"webhookURL":"` + hook.URL + `"}`
	config := guarded(`"input_guardrails":[{"id":"in","deny":true,` + check + `}],"output_guardrails":[{"id":"out","deny":true,` + check + `}]`)
	provider := `"` + strings.TrimSuffix(g.Upstream, "/v1") + `"`
	for _, tt := range []struct {
		policy string
		status int
		calls  int64 // of the request, and one of the test
	}{
		{`{"custom_hosts":[` + provider + `]}`, 446, 0},
		{`{"custom_hosts":[` + provider + `,"` + hook.URL + `"]}`, 200, 3},
	} {
		var made struct{ Key string }
		res := g.Post("/api-keys/workspace/service", `{"name":"k","workspace_id":"default","scopes":["completions.write","guardrails.invoke","guardrails.create"],"egress_policy":`+tt.policy+`}`)
		if err := json.Unmarshal(res.Body, &made); err != nil || made.Key == "" {
			t.Fatalf("%d %s", res.Status, res.Body)
		}
		waittest.Until(t, "the key is known", func() bool { return g.Get("/models", "x-gateway-api-key", made.Key).Status != 401 })
		calls.Store(0)
		res = g.Post("/chat/completions", sayChat("hello", false), "x-gateway-api-key", made.Key, "x-gateway-config", config, "x-gateway-provider", "")
		refused := strings.Contains(string(res.Body), "the egress policy does not allow the host")
		if res.Status != tt.status || refused != (tt.calls == 0) {
			t.Errorf("%s: status %d, want %d: %s", tt.policy, res.Status, tt.status, res.Body)
		}
		res = g.Post("/guardrails/test", `{"text":"hello","checks":[{"id":"default.webhook","parameters":{"webhookURL":"`+hook.URL+`"}}]}`, "x-gateway-api-key", made.Key, "x-gateway-provider", "")
		if refused := strings.Contains(string(res.Body), "the egress policy does not allow the host"); res.Status != 200 || refused != (tt.calls == 0) {
			t.Errorf("%s: a test of the check: %d %s", tt.policy, res.Status, res.Body)
		}
		if n := calls.Load(); n != tt.calls {
			t.Errorf("%s: the webhook was called %d times, want %d", tt.policy, n, tt.calls)
		}
	}
}
