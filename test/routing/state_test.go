package routing

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

// What is remembered of targets belongs to the config and to whom it calls,
// however the request came.
func TestRequestsThatShareABreaker(t *testing.T) {
	var calls atomic.Int64
	g := gatewaytest.New(t, gatewaytest.Options{
		Settings: `
providers:
  - {slug: one, provider: openai-compatible, custom_host: SIMULATOR}
  - {slug: two, provider: openai-compatible, custom_host: SIMULATOR}
upstream: {trusted_hosts: [127.0.0.1]}
`,
		Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			calls.Add(1)
			w.WriteHeader(http.StatusInternalServerError)
		})})
	const breaker = `"cb_config":{"failure_threshold":1,"cooldown_interval":30000}`
	through := `{"strategy":{"mode":"fallback"},` + breaker + `,"targets":[{"passthrough":true},{"provider":"@two"}]}`
	own := `{"strategy":{"mode":"fallback"},` + breaker + `,"targets":[{"provider":"@one"},{"provider":"@two"}]}`
	keyed := `{"strategy":{"mode":"fallback"},` + breaker + `,"targets":[{"passthrough":true},{"provider":"openai-compatible","custom_host":"` + g.Upstream + `"}]}`
	with := func(key, host string) []string {
		return []string{"x-gateway-config", keyed, "x-gateway-provider", "openai", "x-gateway-custom-host", host, "Authorization", "Bearer " + key}
	}
	for _, tt := range []struct {
		name      string
		opens     []string
		then      []string
		remembers bool
	}{
		{"the same again", []string{"x-gateway-config", own}, []string{"x-gateway-config", own}, true},
		{"with another timeout in a header", []string{"x-gateway-config", own}, []string{"x-gateway-config", own, "x-gateway-request-timeout", "12345"}, true},
		{"with other forwarded headers", []string{"x-gateway-config", own}, []string{"x-gateway-config", own, "x-gateway-forward-headers", "X-A"}, true},
		{"with another provider in a header that the config does not heed", []string{"x-gateway-config", own}, []string{"x-gateway-config", own, "x-gateway-provider", "@two"}, true},
		{"a request that chooses the same", []string{"x-gateway-config", through, "x-gateway-provider", "@one"}, []string{"x-gateway-config", through, "x-gateway-provider", "@one"}, true},
		{"a request that chooses another provider", []string{"x-gateway-config", through, "x-gateway-provider", "@one"}, []string{"x-gateway-config", through, "x-gateway-provider", "@two"}, false},
		{"a client with the same credential", with("a", g.Upstream), with("a", g.Upstream), true},
		{"a client with a credential of its own", with("a", g.Upstream), with("b", g.Upstream), false},
		{"a client with a host of its own", with("a", g.Upstream), with("a", g.Upstream+"/other"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			// A property that tells the cases apart, so that each has its own state.
			apart := func(headers []string) []string {
				out := append([]string{"x-gateway-provider", ""}, headers...)
				for i := range out {
					out[i] = strings.Replace(out[i], `"strategy"`, fmt.Sprintf(`"override_params":{"user":%q},"strategy"`, tt.name), 1)
				}
				return out
			}
			before := calls.Load()
			g.Post("/chat/completions", chatBody, apart(tt.opens)...)
			if n := calls.Load() - before; n != 2 {
				t.Fatalf("%d calls with closed circuits, want both targets", n)
			}
			before = calls.Load()
			g.Post("/chat/completions", chatBody, apart(tt.then)...)
			// Both circuits are open: one of the two is probed.
			if n := calls.Load() - before; (n == 1) != tt.remembers {
				t.Errorf("%d calls; want the circuits remembered: %t", n, tt.remembers)
			}
		})
	}
}
