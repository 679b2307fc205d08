package dataplane_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/recorder"
)

const hello = `{"model":"sim-1","stream":%t,"messages":[{"role":"user","content":"Hello"}]}`

// hedgeConfig is a strategy whose first target is slow to begin.
func hedgeConfig(mode, first, second string) string {
	return fmt.Sprintf(`{"strategy":{"mode":%q},"hedge":{"delay_ms":30,"max":1},"targets":[
		{"provider":"@simulator","weight":1,"override_params":{"model":%q}},
		{"provider":"@simulator","weight":0,"override_params":{"model":%q}}]}`, mode, first, second)
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func TestAHedgeTakesTheTargetThatAnswersFirst(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{Simulator: recorder.Options{Record: 100}})
	for _, mode := range []string{"fallback", "loadbalance"} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s stream %t", mode, stream), func(t *testing.T) {
				g.Sim.Reset()
				slow, quick := "sim-slow+headers=20s", "sim-quick"
				if stream {
					slow = "sim-slow+first=20s"
				}
				res := g.Post("/chat/completions", fmt.Sprintf(hello, stream), "x-gateway-provider", "",
					"x-gateway-config", oneLine(hedgeConfig(mode, slow, quick)))
				if res.Status != 200 || !strings.Contains(string(res.Body), "echo") {
					t.Fatalf("status %d, body %.200s", res.Status, res.Body)
				}
				if got := res.Header.Get("x-gateway-last-used-option-index"); got != "config.targets[1]" {
					t.Errorf("answered by %s, want config.targets[1]", got)
				}
				e := g.Entry(res)
				attempts := e["attempts"].([]any)
				if len(attempts) != 2 {
					t.Fatalf("attempts recorded: %v, want both", attempts)
				}
				loser := attempts[1].(map[string]any)
				if loser["target"] != "config.targets[0]" || !strings.Contains(fmt.Sprint(loser["error"]), "responded first") {
					t.Errorf("the loser is recorded as %v", loser)
				}
				ctx, cancel := context.WithTimeout(t.Context(), stallTimer)
				defer cancel()
				if err := g.Sim.Wait(ctx, 2); err != nil {
					t.Fatalf("the loser was not cancelled: %v", err)
				}
			})
		}
	}
}

func TestAHedgeStartsNobodyWhenTheFirstIsQuick(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{})
	config := strings.Replace(oneLine(hedgeConfig("fallback", "sim-first", "sim-second")), `"delay_ms":30`, `"delay_ms":20000`, 1)
	res := g.Post("/chat/completions", fmt.Sprintf(hello, false), "x-gateway-provider", "", "x-gateway-config", config)
	if got := res.Header.Get("x-gateway-last-used-option-index"); res.Status != 200 || got != "config.targets[0]" {
		t.Errorf("status %d by %s, want 200 by config.targets[0]", res.Status, got)
	}
	if n := g.Sim.Calls("sim-second"); n != 0 {
		t.Errorf("the second target was called %d times", n)
	}
}

func TestAHedgeFallsBackAtOnceWhenTheFirstFails(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{})
	config := strings.Replace(oneLine(hedgeConfig("fallback", "sim-first+status=500", "sim-second")), `"delay_ms":30`, `"delay_ms":20000`, 1)
	began := time.Now()
	res := g.Post("/chat/completions", fmt.Sprintf(hello, false), "x-gateway-provider", "", "x-gateway-config", config)
	if got := res.Header.Get("x-gateway-last-used-option-index"); res.Status != 200 || got != "config.targets[1]" {
		t.Errorf("status %d by %s, want 200 by config.targets[1]", res.Status, got)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("took %v: it waited for the delay", took)
	}
}

// The winner's stream must not end with the request of the loser, whether it
// ends at once or a second later.
func TestWinnerOfAHedgeStreamsOnWhenTheLoserIsCancelled(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"fallback", "loadbalance"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			u := newScripted(t)
			g := gatewaytest.New(t, gatewaytest.Options{Upstream: u})
			heads := make(chan *http.Response, 1)
			go func() {
				res, err := http.DefaultTransport.RoundTrip(g.Request("POST", "/chat/completions", streamChat, "x-gateway-provider", "",
					"x-gateway-config", oneLine(hedgeConfig(mode, "m-slow", "m-quick"))))
				if err != nil {
					t.Error(err)
				}
				heads <- res
			}()
			slow, quick := u.next(), u.next()
			if !strings.Contains(string(slow.Body), "m-slow") {
				slow, quick = quick, slow
			}
			quick.events()
			quick.send(chunk("0"))
			res := receive(t, heads, "the response headers")
			defer res.Body.Close()
			r := bufferOf(res)
			want := chunk("0")
			got := event(t, r)
			receive(t, slow.Context().Done(), "the end of the loser's request")
			for i := range 20 {
				<-time.After(50 * time.Millisecond)
				next := chunk(fmt.Sprint(i + 1))
				quick.send(next)
				want, got = want+next, got+event(t, r)
			}
			quick.send(finish + done)
			quick.finish()
			rest, err := io.ReadAll(r)
			if got += string(rest); got != want+finish+done || err != nil {
				t.Errorf("got %q, %v; want %q", got, err, want+finish+done)
			}
		})
	}
}
