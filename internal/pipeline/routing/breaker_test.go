package routing_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"modelgate/internal/base/apierr"
	"modelgate/internal/pipeline/routing"
	"modelgate/internal/testing/pipelinetest"
)

// rtBreakerConfig is a fallback of two whose targets have a breaker that one failure
// opens for a minute.
func rtBreakerConfig(breaker string) string {
	if breaker == "" {
		breaker = `"failure_threshold":1`
	}
	return pipelinetest.Tree("fallback", 2, `,"cb_config":{"cooldown_interval":60000,`+breaker+`}`)
}

// S-029
func TestAnOpenCircuitIsSkippedUntilItHasCooledDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pipelinetest.New(t, rtBreakerConfig(`"failure_threshold":3`)).On("0", pipelinetest.Status(500), pipelinetest.Status(500), pipelinetest.Status(500), pipelinetest.Status(500), pipelinetest.Status(200))
		for i, want := range []string{"0 1", "0 1", "0 1", "1", "1"} {
			if got := r.Send(); got.TargetList() != want {
				t.Errorf("exchange %d tried %q, want %q", i, got.TargetList(), want)
			}
		}
		time.Sleep(time.Minute - time.Millisecond)
		if got := r.Send(); got.TargetList() != "1" || !got.HasDecision("circuit open") {
			t.Errorf("tried %q before the cooldown ended, want 1", got.TargetList())
		}
		time.Sleep(time.Millisecond)
		if got := r.Send(); got.TargetList() != "0 1" || !got.HasDecision("probing") {
			t.Errorf("tried %q, want a probe of 0 that fails, then 1", got.TargetList())
		}
		if got := r.Send(); got.TargetList() != "1" {
			t.Errorf("tried %q after the failed probe, want 1", got.TargetList())
		}
		time.Sleep(time.Minute)
		for i := range 2 {
			if got := r.Send(); got.TargetList() != "0" || got.HasDecision("circuit") != (i == 0) {
				t.Errorf("exchange %d tried %q with decisions %v, want 0, a probe only at first", i, got.TargetList(), got.X.Trail.Decisions)
			}
		}
		r.CheckClosed()
	})
}

func TestOnlyFailuresInARowCount(t *testing.T) {
	r := pipelinetest.New(t, rtBreakerConfig(`"failure_threshold":2`)).On("0", pipelinetest.Status(500), pipelinetest.Status(200), pipelinetest.Status(500), pipelinetest.Status(200), pipelinetest.Status(500), pipelinetest.Status(500))
	for i, want := range []string{"0 1", "0", "0 1", "0", "0 1", "0 1", "1"} {
		if got := r.Send(); got.TargetList() != want {
			t.Errorf("exchange %d tried %q, want %q", i, got.TargetList(), want)
		}
	}
}

// S-104, S-483
func TestBreakerCounting(t *testing.T) {
	const listed = `"failure_threshold":1,"failure_status_codes":[429,404]`
	for _, tt := range []struct {
		name, breaker string
		outcome       pipelinetest.Response
		opens         bool
	}{
		{"500", "", pipelinetest.Status(500), true},
		{"501 of the provider", "", pipelinetest.Status(501), true},
		{"503", "", pipelinetest.Status(503), true},
		{"529", "", pipelinetest.Status(529), true},
		{"408 of the provider", "", pipelinetest.Status(408), true},
		{"429", "", pipelinetest.Status(429), true},
		{"no connection", "", pipelinetest.Refusal(), true},
		{"no response in time", "", pipelinetest.Error(apierr.UpstreamTimeout), true},
		{"its own timeout", "", pipelinetest.Error(apierr.Timeout), true},
		{"400", "", pipelinetest.Status(400), false},
		{"401", "", pipelinetest.Status(401), false},
		{"404", "", pipelinetest.Status(404), false},
		{"a redirect", "", pipelinetest.Status(302), false},
		{"a success", "", pipelinetest.Status(200), false},
		{"a client that left", "", pipelinetest.Error(apierr.ClientGone), false},
		{"an operation it lacks", "", pipelinetest.Error(apierr.Unsupported), false},
		{"a gateway short of memory", "", pipelinetest.Error(apierr.Unavailable), false},
		{"a fault of the gateway", "", pipelinetest.Error(apierr.Internal), false},
		{"a config's fault", "", pipelinetest.Error(apierr.Invalid), false},

		{"a listed status", listed, pipelinetest.Status(429), true},
		{"a listed status with a time", listed, pipelinetest.Status(429, "Retry-After", "0"), true},
		{"a listed client fault", listed, pipelinetest.Status(404), true},
		{"a usual failure that is not listed", listed, pipelinetest.Status(500), false},
		{"no connection, 502 not listed", listed, pipelinetest.Refusal(), false},
		{"no connection, 502 listed", `"failure_threshold":1,"failure_status_codes":[502]`, pipelinetest.Refusal(), true},
		{"a gateway's own status that is listed", `"failure_threshold":1,"failure_status_codes":[501]`, pipelinetest.Error(apierr.Unsupported), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := pipelinetest.New(t, rtBreakerConfig(tt.breaker)).On("0", tt.outcome)
			r.Send()
			if got := r.Send(); (got.Targets[0] == "1") != tt.opens {
				t.Errorf("the next exchange tried %q; want the circuit open: %t", got.TargetList(), tt.opens)
			}
		})
	}
}

// What tells nothing does not break a row of failures either.
func TestNeutralOutcomesDoNotResetTheCount(t *testing.T) {
	r := pipelinetest.New(t, rtBreakerConfig(`"failure_threshold":2`)).On("0", pipelinetest.Status(500), pipelinetest.Status(400), pipelinetest.Status(500))
	for range 3 {
		r.Send()
	}
	if got := r.Send(); got.TargetList() != "1" {
		t.Errorf("tried %q after 500, 400, 500; want the circuit open", got.TargetList())
	}
	r = pipelinetest.New(t, rtBreakerConfig(`"failure_threshold":2,"failure_status_codes":[503]`)).On("0", pipelinetest.Status(503), pipelinetest.Status(500), pipelinetest.Status(503))
	for range 3 {
		r.Send()
	}
	if got := r.Send(); got.TargetList() != "1" {
		t.Errorf("tried %q after 503, an unlisted 500, 503; want the circuit open", got.TargetList())
	}
}

func TestABreakerByRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate = `"failure_threshold_percentage":50,"minimum_requests":4`
		r := pipelinetest.New(t, rtBreakerConfig(rate)).On("0", pipelinetest.Status(500), pipelinetest.Status(500), pipelinetest.Status(200), pipelinetest.Status(500), pipelinetest.Status(200))
		for i, want := range []string{"0 1", "0 1", "0", "0 1", "1"} {
			if got := r.Send(); got.TargetList() != want {
				t.Errorf("exchange %d tried %q, want %q: three of four failed", i, got.TargetList(), want)
			}
		}
		// The count begins again after the cooldown.
		r = pipelinetest.New(t, rtBreakerConfig(rate)).On("0", pipelinetest.Status(500), pipelinetest.Status(500), pipelinetest.Status(500), pipelinetest.Status(200))
		for range 3 {
			r.Send()
		}
		time.Sleep(61 * time.Second)
		for i := range 5 {
			if got := r.Send(); got.TargetList() != "0" {
				t.Errorf("exchange %d of a new window tried %q, want 0", i, got.TargetList())
			}
		}
	})
}

func TestAHalfOpenCircuitLetsOneProbeInAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pipelinetest.New(t, rtBreakerConfig("")).On("0", pipelinetest.Status(500), pipelinetest.Response{After: 10 * time.Second})
		r.Send()
		time.Sleep(time.Minute)
		results := make(chan pipelinetest.Result)
		for range 20 {
			go func() { results <- r.Send() }()
		}
		probes := 0
		for range 20 {
			got := <-results
			if got.Status != 200 {
				t.Errorf("status %d after %q while a probe is under way", got.Status, got.TargetList())
			}
			if got.TargetList() == "0" {
				probes++
			}
		}
		if probes != 1 {
			t.Errorf("%d exchanges reached the half-open target, want one", probes)
		}
	})
}

// Two exchanges may both find a cooled circuit ready before one enters it. The
// other goes on to the remaining target, whatever statuses are listed.
func TestRequestSkipsTargetWithProbeInFlight(t *testing.T) {
	const breaker = `"cb_config":{"cooldown_interval":60000,"failure_threshold":1}`
	t.Run("fallback", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := pipelinetest.New(t, `{"strategy":{"mode":"fallback","on_status_codes":[500]},"targets":[`+pipelinetest.Leaf+`,{"provider":"@b",`+breaker+`},`+pipelinetest.Leaf+`]}`)
			failing := pipelinetest.Status(500)
			failing.After = time.Second
			r.On("0", failing).On("1", pipelinetest.Status(500), pipelinetest.Response{After: 10 * time.Second})
			r.Send()
			time.Sleep(time.Minute)
			results := make(chan pipelinetest.Result)
			for range 2 {
				go func() { results <- r.Send() }()
			}
			first, second := <-results, <-results
			if first.Status != 200 || first.TargetList() != "0 2" || second.Status != 200 || second.TargetList() != "0 1" {
				t.Errorf("status %d after %q and %d after %q; want 200 after 0 2 and after 0 1", first.Status, first.TargetList(), second.Status, second.TargetList())
			}
		})
	})
	for _, mode := range []string{"loadbalance", "latency"} {
		t.Run(mode, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := pipelinetest.New(t, pipelinetest.Tree(mode, 2, ","+breaker)).On("0", pipelinetest.Status(500), pipelinetest.Response{After: 10 * time.Second}).On("1", pipelinetest.Response{After: 30 * time.Second})
				r.Random = func() float64 { return 0 }
				r.Send()
				r.Send()
				time.Sleep(time.Minute)
				// While the first exchange draws, a second one takes the probe.
				first, drawn := make(chan pipelinetest.Result), false
				r.Random = func() float64 {
					if !drawn {
						drawn = true
						go func() { first <- r.Send() }()
						time.Sleep(time.Second)
					}
					return 0
				}
				if got := r.Send(); got.Status != 200 || got.TargetList() != "1" || !got.HasDecision("probe is under way") {
					t.Errorf("status %d after %q by %v; want 200 of 1, since 0 was being probed", got.Status, got.TargetList(), got.X.Trail.Decisions)
				}
				if got := <-first; got.Status != 200 || got.TargetList() != "0" {
					t.Errorf("the probe ended in %d after %q", got.Status, got.TargetList())
				}
			})
		})
	}
}

func TestAProbeIsReleasedHoweverItEnds(t *testing.T) {
	for _, tt := range []struct {
		name  string
		probe pipelinetest.Response
	}{
		{"a client fault", pipelinetest.Status(400)},
		{"a client that left", pipelinetest.Error(apierr.ClientGone)},
		{"a config's fault", pipelinetest.Error(apierr.Invalid)},
		{"a gateway short of memory", pipelinetest.Error(apierr.Unavailable)},
		{"a panic", pipelinetest.Response{Panics: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := pipelinetest.New(t, rtBreakerConfig("")).On("0", pipelinetest.Status(500), tt.probe, pipelinetest.Status(200))
				r.Send()
				time.Sleep(time.Minute)
				func() {
					defer func() { _ = recover() }() // as the server's handler does
					r.Send()
				}()
				if got := r.Send(); got.Targets[0] != "0" || got.Status != 200 {
					t.Errorf("tried %q, want another probe at once", got.TargetList())
				}
			})
		})
	}
}

func TestWhenAllCircuitsAreOpenTheFirstOpenedIsProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := pipelinetest.Tree("loadbalance", 3, `,"cb_config":{"cooldown_interval":60000,"failure_threshold":1}`)
		r := pipelinetest.New(t, config).On("0", pipelinetest.Status(500)).On("1", pipelinetest.Status(500)).On("2", pipelinetest.Status(500))
		order := []float64{0.9, 0.9, 0} // draws 2, then 1 of what is left, then 0
		draw := 0
		r.Random = func() float64 { draw++; return order[min(draw-1, 2)] }
		for i, want := range []string{"2", "1", "0", "2", "1", "0", "2"} {
			got := r.Send()
			if got.TargetList() != want {
				t.Errorf("exchange %d tried %q, want %q: the one in cooldown for the longest time", i, got.TargetList(), want)
			}
			if i > 2 && !got.HasDecision("all targets are unavailable") {
				t.Errorf("exchange %d does not tell why: %v", i, got.X.Trail.Decisions)
			}
			time.Sleep(time.Second)
		}
		r.On("1", pipelinetest.Status(200))
		r.Send()
		for range 3 {
			if got := r.Send(); got.TargetList() != "1" || got.Status != 200 {
				t.Errorf("tried %q with %d after the probe of 1 succeeded, want it", got.TargetList(), got.Status)
			}
		}
	})
}

// S-076: a condition's choice holds, whatever the breaker says.
func TestAConditionChoosesAnOpenTargetToo(t *testing.T) {
	r := pipelinetest.New(t, `{"strategy":{"mode":"conditional","cb_config":{"cooldown_interval":60000,"failure_threshold":1},"conditions":[{"query":{"metadata.a":"1"},"then":"x"}],"default":"x"},"targets":[{"name":"x","provider":"@a"},{"name":"y","provider":"@b"}]}`)
	r.On("0", pipelinetest.Status(500))
	for range 3 {
		if got := r.Send(); got.TargetList() != "0" {
			t.Errorf("tried %q, want the named target", got.TargetList())
		}
	}
}

func TestARateLimitWithATimeParksTheTarget(t *testing.T) {
	for _, tt := range []struct {
		name     string
		response pipelinetest.Response
		parked   time.Duration
	}{
		{"429 with seconds", pipelinetest.Status(429, "Retry-After", "20"), 20 * time.Second},
		{"429 with milliseconds", pipelinetest.Status(429, "Retry-After-Ms", "1500"), 1500 * time.Millisecond},
		{"503 with seconds", pipelinetest.Status(503, "Retry-After", "20"), 20 * time.Second},
		{"529 with seconds", pipelinetest.Status(529, "Retry-After", "20"), 20 * time.Second},
		{"429 without a time", pipelinetest.Status(429), 0},
		{"500 with seconds", pipelinetest.Status(500, "Retry-After", "20"), 0},
		{"requests used up", pipelinetest.Status(200, "X-Ratelimit-Remaining-Requests", "0", "X-Ratelimit-Reset-Requests", "12s"), 12 * time.Second},
		{"tokens used up", pipelinetest.Status(200, "X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "6m0s"), time.Minute},
		{"some requests left", pipelinetest.Status(200, "X-Ratelimit-Remaining-Requests", "1", "X-Ratelimit-Reset-Requests", "12s"), 0},
		{"a century", pipelinetest.Status(429, "Retry-After", "Fri, 31 Dec 2100 23:59:59 GMT"), time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := pipelinetest.New(t, pipelinetest.Tree("fallback", 2, "")).On("0", tt.response, pipelinetest.Status(200))
				r.Send()
				if tt.parked > 0 {
					time.Sleep(tt.parked - time.Millisecond)
					if got := r.Send(); got.TargetList() != "1" {
						t.Errorf("tried %q before %v were over, want 1", got.TargetList(), tt.parked)
					}
					time.Sleep(time.Millisecond)
				}
				if got := r.Send(); got.TargetList() != "0" {
					t.Errorf("tried %q after %v, want 0", got.TargetList(), tt.parked)
				}
			})
		})
	}
}

// S02: a rate limit for ever is not a broken provider.
func TestARateLimitWithATimeIsNeutralToTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pipelinetest.New(t, rtBreakerConfig("")).On("0", pipelinetest.Status(429, "Retry-After", "1"))
		for i := range 5 {
			if got := r.Send(); got.TargetList() != "0 1" || got.HasDecision("probing") {
				t.Errorf("exchange %d tried %q with %v, want 0 1 and no probe", i, got.TargetList(), got.X.Trail.Decisions)
			}
			time.Sleep(time.Second)
		}
	})
}

func TestWhenAllAreParkedTheOneThatComesBackFirstIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pipelinetest.New(t, pipelinetest.Tree("fallback", 3, "")).On("0", pipelinetest.Status(429, "Retry-After", "90")).
			On("1", pipelinetest.Status(429, "Retry-After", "30")).On("2", pipelinetest.Status(429, "Retry-After", "60"))
		r.Send()
		if got := r.Send(); got.TargetList() != "1" {
			t.Errorf("tried %q, want 1, which comes back first", got.TargetList())
		}
	})
}

// State belongs to the config's meaning, not to its spelling, and to nobody
// else's config.
func TestStateBelongsToTheConfig(t *testing.T) {
	r := pipelinetest.New(t, rtBreakerConfig("")).On("0", pipelinetest.Status(500))
	r.Send()
	respelled := strings.ReplaceAll(rtBreakerConfig(""), `,"cb_config"`, "  ,\n \"cbConfig\"")
	if got := pipelinetest.Send(context.Background(), r.Compile(respelled)); got.TargetList() != "1" {
		t.Errorf("the same config in another spelling tried %q, want 1: its circuit is open", got.TargetList())
	}
	other := strings.Replace(rtBreakerConfig(""), "@a", "@b", 1)
	if got := pipelinetest.Send(context.Background(), r.Compile(other)); got.TargetList() != "0 1" {
		t.Errorf("another config tried %q, want 0 1: its circuit is closed", got.TargetList())
	}
}

func TestADryRunTellsTheBreakerNothing(t *testing.T) {
	r := pipelinetest.New(t, rtBreakerConfig("")).On("0", pipelinetest.Status(500))
	dry := func(x *pipelinetest.Request) { x.DryRun = true }
	for range 3 {
		if got := r.Send(dry); got.Targets[0] != "0" {
			t.Errorf("a dry run tried %q, want 0", got.TargetList())
		}
	}
}

// Anyone with a key can send ever new configs, also ones whose targets fail.
func TestBreakerStateIsBounded(t *testing.T) {
	s := new(routing.State)
	for i := range routing.MaxStates + 10 {
		s.FailAt(strconv.Itoa(i))
	}
	if n := s.Gates(); n > routing.MaxStates || n < routing.MaxStates/2 {
		t.Errorf("%d gates are kept, want most of %d", n, routing.MaxStates)
	}
}

// Whatever happens to a target, once it answers and the cooldown is over it is
// used again.
func TestABreakerIsNeverStuckOpen(t *testing.T) {
	outcomes := []pipelinetest.Response{pipelinetest.Status(200), pipelinetest.Status(400), pipelinetest.Status(500), pipelinetest.Status(429), pipelinetest.Status(429, "Retry-After", "5"),
		pipelinetest.Refusal(), pipelinetest.Error(apierr.ClientGone), pipelinetest.Error(apierr.Timeout), pipelinetest.Error(apierr.Invalid), {Panics: true}}
	rapid.Check(t, func(rt *rapid.T) {
		var responses []pipelinetest.Response
		for _, n := range rapid.SliceOfN(rapid.IntRange(0, len(outcomes)-1), 1, 40).Draw(rt, "outcomes") {
			responses = append(responses, outcomes[n])
		}
		pauses := rapid.SliceOfN(rapid.IntRange(0, 90), 10, 10).Draw(rt, "pauses")
		breaker := rapid.SampledFrom([]string{`"failure_threshold":1`, `"failure_threshold":3`, `"failure_threshold_percentage":30,"minimum_requests":3`,
			`"failure_threshold":2,"failure_status_codes":[429,500]`}).Draw(rt, "breaker")
		rtBubble(t, rt, func() string { return rtRecovers(t, breaker, append(responses, pipelinetest.Status(200)), pauses) })
	})
}

// rtRecovers returns what is wrong after all responses but the last were given.
func rtRecovers(t testing.TB, breaker string, responses []pipelinetest.Response, pauses []int) string {
	r := pipelinetest.New(t, rtBreakerConfig(breaker)).On("0", responses...)
	for i := 0; r.Counts["config.targets[0]"] < len(responses)-1; i++ {
		if i > 200*len(responses) {
			return "the target is never called again"
		}
		func() {
			defer func() { _ = recover() }()
			r.Send()
		}()
		time.Sleep(time.Duration(pauses[i%len(pauses)]+1) * time.Second)
	}
	time.Sleep(time.Minute)
	for i := range 3 {
		if got := r.Send(); got.TargetList() != "0" || i > 0 && got.HasDecision("circuit") {
			return fmt.Sprintf("exchange %d after recovery tried %q: %v", i, got.TargetList(), got.X.Trail.Decisions)
		}
	}
	return ""
}

// rtBubble runs f on a clock of its own and fails with what it returns. What f
// needs is drawn before.
func rtBubble(t *testing.T, rt *rapid.T, f func() string) {
	var problem string
	synctest.Test(t, func(*testing.T) { problem = f() })
	if problem != "" {
		rt.Fatal(problem)
	}
}
