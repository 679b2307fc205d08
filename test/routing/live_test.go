package routing

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/recorder"
)

// pair is a config of two targets of the simulator.
func pair(strategy, first, second string) string {
	return fmt.Sprintf(`{%s,"targets":[{"provider":"@simulator","override_params":{"model":%q}},{"provider":"@simulator","override_params":{"model":%q}}]}`, strategy, first, second)
}

func ask(g *gatewaytest.Gateway, config string, more ...string) gatewaytest.Response {
	return g.Post("/chat/completions", chatBody, append([]string{"x-gateway-provider", "", "x-gateway-config", config}, more...)...)
}

// S04, S15: a target that keeps failing is called no more than its threshold.
func TestABrokenTargetIsLeftAlone(t *testing.T) {
	g := gatewaytest.New(t, gatewaytest.Options{})
	config := pair(`"strategy":{"mode":"fallback","cb_config":{"failure_threshold":3,"cooldown_interval":30000}}`, "broken+status=503", "spare")
	for i := range 20 {
		if res := ask(g, config); res.Status != http.StatusOK {
			t.Errorf("request %d got %d", i, res.Status)
		}
	}
	if broken, spare := g.Sim.Calls("broken+status=503"), g.Sim.Calls("spare"); broken != 3 || spare != 20 {
		t.Errorf("%d calls of the broken target and %d of the spare, want 3 and 20", broken, spare)
	}
}

// S01: the target is left alone until the time it gave, by every exchange.
func TestARateLimitedTargetIsLeftAloneUntilItsTime(t *testing.T) {
	g := gatewaytest.New(t, gatewaytest.Options{})
	const limited = "limited+status=429+retry-after=1+times=1"
	config := pair(`"strategy":{"mode":"fallback"}`, limited, "spare")
	began := time.Now()
	var by string
	for time.Since(began) < time.Minute && by != "config.targets[0]" {
		res := ask(g, config)
		by = res.Header.Get("x-gateway-last-used-option-index")
		if calls := g.Sim.Calls(limited); time.Since(began) < 900*time.Millisecond && calls != 1 {
			t.Fatalf("called %d times within %v", calls, time.Since(began))
		}
		<-time.After(50 * time.Millisecond)
	}
	if by != "config.targets[0]" {
		t.Errorf("after a minute the target is not used again, %s answers", by)
	}
}

// S16: headers and record tell who really answered.
func TestTheResponseNamesItsProvider(t *testing.T) {
	g := gatewaytest.New(t, gatewaytest.Options{})
	res := ask(g, pair(`"strategy":{"mode":"fallback"}`, "first+status=500", "second+tokens=7"))
	for name, want := range map[string]string{
		"x-gateway-model":                  "second+tokens=7",
		"x-gateway-last-used-option-index": "config.targets[1]",
		"x-gateway-retry-attempt-count":    "0",
		"x-gateway-provider":               "openai-compatible",
	} {
		if got := res.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	e := g.Entry(res)
	if e["response_model"] != "second+tokens=7" || e["usage"].(map[string]any)["completion_tokens"] != 7.0 || e["model"] != "sim-1" {
		t.Errorf("recorded as %v of %v with %v", e["response_model"], e["model"], e["usage"])
	}
}

// S21: nobody is asked for a client that has left.
func TestAClientThatLeavesIsNotServedElsewhere(t *testing.T) {
	for _, strategy := range []string{
		`"strategy":{"mode":"fallback"}`, `"strategy":{"mode":"fallback"},"retry":{"attempts":5,"on_status_codes":[408,499,500]}`,
		`"strategy":{"mode":"loadbalance"}`, `"strategy":{"mode":"fallback"},"hedge":{"delay_ms":60000}`,
	} {
		t.Run(strategy, func(t *testing.T) {
			g := gatewaytest.New(t, gatewaytest.Options{Simulator: recorder.Options{Record: 9}})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			req := g.Request(http.MethodPost, "/chat/completions", strings.Replace(chatBody, "{", `{"stream":true,`, 1),
				"x-gateway-provider", "", "x-gateway-config", pair(strategy, "a+hang", "b+hang")).WithContext(ctx)
			go func() {
				for g.Sim.Calls("a+hang")+g.Sim.Calls("b+hang") == 0 && ctx.Err() == nil {
					<-time.After(time.Millisecond)
				}
				cancel()
			}()
			if res, err := http.DefaultTransport.RoundTrip(req); !errors.Is(err, context.Canceled) {
				t.Fatalf("answered %v, %v", res, err)
			}
			wait, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			if err := g.Sim.Wait(wait, 1); err != nil {
				t.Fatalf("the provider's request was not cancelled: %v", err)
			}
			g.Stop() // whatever is under way ends before
			if a, b := g.Sim.Calls("a+hang"), g.Sim.Calls("b+hang"); a+b != 1 {
				t.Errorf("%d and %d calls, want one in all", a, b)
			}
		})
	}
}

// S-448: the time an attempt may take comes from the target, then the header,
// then the root.
func TestTheTimeoutThatCounts(t *testing.T) {
	g := gatewaytest.New(t, gatewaytest.Options{})
	leaf := func(more string) string {
		return `{"provider":"@simulator"` + more + `,"override_params":{"model":"slow+headers=20s"}}`
	}
	for _, tt := range []struct{ name, config, header, want string }{
		{"of the root", `{"request_timeout":30,"strategy":{"mode":"single"},"targets":[` + leaf("") + `]}`, "", "30 ms"},
		{"of the header over the root", `{"request_timeout":20000,"strategy":{"mode":"single"},"targets":[` + leaf("") + `]}`, "40", "40 ms"},
		{"of the target over the header", `{"strategy":{"mode":"single"},"targets":[` + leaf(`,"request_timeout":50`) + `]}`, "20000", "50 ms"},
		{"of the header over a root that is the target", leaf(`,"request_timeout":20000`), "60", "60 ms"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res := ask(g, tt.config, "x-gateway-attempt-timeout", tt.header)
			if res.Status != http.StatusRequestTimeout || !strings.Contains(string(res.Body), tt.want) {
				t.Errorf("status %d: %s; want 408 after %s", res.Status, res.Body, tt.want)
			}
		})
	}
}

// S-485: what the provider asked for reaches the client when nothing helped.
func TestRetryAfterReachesTheClientAtTheEnd(t *testing.T) {
	g := gatewaytest.New(t, gatewaytest.Options{})
	const first, second = "a+status=503+retry-after=7", "b+status=429+retry-after=120"
	for _, tt := range []struct{ name, config, want, count string }{
		{"of a fallback's last target", pair(`"strategy":{"mode":"fallback"}`, first, second), "120", "0"},
		{"of a retry that would wait too long", pair(`"strategy":{"mode":"single"},"retry":{"attempts":2,"use_retry_after_headers":true}`, second, first), "120", "-1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res := ask(g, tt.config)
			if got, count := res.Header.Get("Retry-After"), res.Header.Get("x-gateway-retry-attempt-count"); res.Status != 429 || got != tt.want || count != tt.count {
				t.Errorf("status %d, Retry-After %q, count %q; want 429, %s, %s", res.Status, got, count, tt.want, tt.count)
			}
		})
	}
}
