package pipeline_test

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
	"modelgate/internal/pipeline"
)

// rtBreakerConfig is a fallback of two whose targets have a breaker that one failure
// opens for a minute.
func rtBreakerConfig(breaker string) string {
	if breaker == "" {
		breaker = `"failure_threshold":1`
	}
	return rtTree("fallback", 2, `,"cb_config":{"cooldown_interval":60000,`+breaker+`}`)
}

// S-029
func TestAnOpenCircuitIsSkippedUntilItHasCooledDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rtNew(t, rtBreakerConfig(`"failure_threshold":3`)).on("0", rtStatus(500), rtStatus(500), rtStatus(500), rtStatus(500), rtStatus(200))
		for i, want := range []string{"0 1", "0 1", "0 1", "1", "1"} {
			if got := r.send(); got.targetList() != want {
				t.Errorf("exchange %d tried %q, want %q", i, got.targetList(), want)
			}
		}
		time.Sleep(time.Minute - time.Millisecond)
		if got := r.send(); got.targetList() != "1" || !got.hasDecision("circuit open") {
			t.Errorf("tried %q before the cooldown ended, want 1", got.targetList())
		}
		time.Sleep(time.Millisecond)
		if got := r.send(); got.targetList() != "0 1" || !got.hasDecision("probing") {
			t.Errorf("tried %q, want a probe of 0 that fails, then 1", got.targetList())
		}
		if got := r.send(); got.targetList() != "1" {
			t.Errorf("tried %q after the failed probe, want 1", got.targetList())
		}
		time.Sleep(time.Minute)
		for i := range 2 {
			if got := r.send(); got.targetList() != "0" || got.hasDecision("circuit") != (i == 0) {
				t.Errorf("exchange %d tried %q with decisions %v, want 0, a probe only at first", i, got.targetList(), got.x.trail.Decisions)
			}
		}
		r.closedOnce()
	})
}

func TestOnlyFailuresInARowCount(t *testing.T) {
	r := rtNew(t, rtBreakerConfig(`"failure_threshold":2`)).on("0", rtStatus(500), rtStatus(200), rtStatus(500), rtStatus(200), rtStatus(500), rtStatus(500))
	for i, want := range []string{"0 1", "0", "0 1", "0", "0 1", "0 1", "1"} {
		if got := r.send(); got.targetList() != want {
			t.Errorf("exchange %d tried %q, want %q", i, got.targetList(), want)
		}
	}
}

// S-104, S-483
func TestBreakerCounting(t *testing.T) {
	const listed = `"failure_threshold":1,"failure_status_codes":[429,404]`
	for _, tt := range []struct {
		name, breaker string
		outcome       rtResponse
		opens         bool
	}{
		{"500", "", rtStatus(500), true},
		{"501 of the provider", "", rtStatus(501), true},
		{"503", "", rtStatus(503), true},
		{"529", "", rtStatus(529), true},
		{"408 of the provider", "", rtStatus(408), true},
		{"429", "", rtStatus(429), true},
		{"no connection", "", rtRefusal(), true},
		{"no response in time", "", rtError(apierr.UpstreamTimeout), true},
		{"its own timeout", "", rtError(apierr.Timeout), true},
		{"400", "", rtStatus(400), false},
		{"401", "", rtStatus(401), false},
		{"404", "", rtStatus(404), false},
		{"a redirect", "", rtStatus(302), false},
		{"a success", "", rtStatus(200), false},
		{"a client that left", "", rtError(apierr.ClientGone), false},
		{"an operation it lacks", "", rtError(apierr.Unsupported), false},
		{"a gateway short of memory", "", rtError(apierr.Unavailable), false},
		{"a fault of the gateway", "", rtError(apierr.Internal), false},
		{"a config's fault", "", rtError(apierr.Invalid), false},

		{"a listed status", listed, rtStatus(429), true},
		{"a listed status with a time", listed, rtStatus(429, "Retry-After", "0"), true},
		{"a listed client fault", listed, rtStatus(404), true},
		{"a usual failure that is not listed", listed, rtStatus(500), false},
		{"no connection, 502 not listed", listed, rtRefusal(), false},
		{"no connection, 502 listed", `"failure_threshold":1,"failure_status_codes":[502]`, rtRefusal(), true},
		{"a gateway's own status that is listed", `"failure_threshold":1,"failure_status_codes":[501]`, rtError(apierr.Unsupported), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := rtNew(t, rtBreakerConfig(tt.breaker)).on("0", tt.outcome)
			r.send()
			if got := r.send(); (got.targets[0] == "1") != tt.opens {
				t.Errorf("the next exchange tried %q; want the circuit open: %t", got.targetList(), tt.opens)
			}
		})
	}
}

// What tells nothing does not break a row of failures either.
func TestNeutralOutcomesDoNotResetTheCount(t *testing.T) {
	r := rtNew(t, rtBreakerConfig(`"failure_threshold":2`)).on("0", rtStatus(500), rtStatus(400), rtStatus(500))
	for range 3 {
		r.send()
	}
	if got := r.send(); got.targetList() != "1" {
		t.Errorf("tried %q after 500, 400, 500; want the circuit open", got.targetList())
	}
	r = rtNew(t, rtBreakerConfig(`"failure_threshold":2,"failure_status_codes":[503]`)).on("0", rtStatus(503), rtStatus(500), rtStatus(503))
	for range 3 {
		r.send()
	}
	if got := r.send(); got.targetList() != "1" {
		t.Errorf("tried %q after 503, an unlisted 500, 503; want the circuit open", got.targetList())
	}
}

func TestABreakerByRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate = `"failure_threshold_percentage":50,"minimum_requests":4`
		r := rtNew(t, rtBreakerConfig(rate)).on("0", rtStatus(500), rtStatus(500), rtStatus(200), rtStatus(500), rtStatus(200))
		for i, want := range []string{"0 1", "0 1", "0", "0 1", "1"} {
			if got := r.send(); got.targetList() != want {
				t.Errorf("exchange %d tried %q, want %q: three of four failed", i, got.targetList(), want)
			}
		}
		// The count begins again after the cooldown.
		r = rtNew(t, rtBreakerConfig(rate)).on("0", rtStatus(500), rtStatus(500), rtStatus(500), rtStatus(200))
		for range 3 {
			r.send()
		}
		time.Sleep(61 * time.Second)
		for i := range 5 {
			if got := r.send(); got.targetList() != "0" {
				t.Errorf("exchange %d of a new window tried %q, want 0", i, got.targetList())
			}
		}
	})
}

func TestAHalfOpenCircuitLetsOneProbeInAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rtNew(t, rtBreakerConfig("")).on("0", rtStatus(500), rtResponse{after: 10 * time.Second})
		r.send()
		time.Sleep(time.Minute)
		results := make(chan rtResult)
		for range 20 {
			go func() { results <- r.send() }()
		}
		probes := 0
		for range 20 {
			got := <-results
			if got.status != 200 {
				t.Errorf("status %d after %q while a probe is under way", got.status, got.targetList())
			}
			if got.targetList() == "0" {
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
			r := rtNew(t, `{"strategy":{"mode":"fallback","on_status_codes":[500]},"targets":[`+rtLeaf+`,{"provider":"@b",`+breaker+`},`+rtLeaf+`]}`)
			failing := rtStatus(500)
			failing.after = time.Second
			r.on("0", failing).on("1", rtStatus(500), rtResponse{after: 10 * time.Second})
			r.send()
			time.Sleep(time.Minute)
			results := make(chan rtResult)
			for range 2 {
				go func() { results <- r.send() }()
			}
			first, second := <-results, <-results
			if first.status != 200 || first.targetList() != "0 2" || second.status != 200 || second.targetList() != "0 1" {
				t.Errorf("status %d after %q and %d after %q; want 200 after 0 2 and after 0 1", first.status, first.targetList(), second.status, second.targetList())
			}
		})
	})
	for _, mode := range []string{"loadbalance", "latency"} {
		t.Run(mode, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rtNew(t, rtTree(mode, 2, ","+breaker)).on("0", rtStatus(500), rtResponse{after: 10 * time.Second}).on("1", rtResponse{after: 30 * time.Second})
				r.random = func() float64 { return 0 }
				r.send()
				r.send()
				time.Sleep(time.Minute)
				// While the first exchange draws, a second one takes the probe.
				first, drawn := make(chan rtResult), false
				r.random = func() float64 {
					if !drawn {
						drawn = true
						go func() { first <- r.send() }()
						time.Sleep(time.Second)
					}
					return 0
				}
				if got := r.send(); got.status != 200 || got.targetList() != "1" || !got.hasDecision("probe is under way") {
					t.Errorf("status %d after %q by %v; want 200 of 1, since 0 was being probed", got.status, got.targetList(), got.x.trail.Decisions)
				}
				if got := <-first; got.status != 200 || got.targetList() != "0" {
					t.Errorf("the probe ended in %d after %q", got.status, got.targetList())
				}
			})
		})
	}
}

func TestAProbeIsReleasedHoweverItEnds(t *testing.T) {
	for _, tt := range []struct {
		name  string
		probe rtResponse
	}{
		{"a client fault", rtStatus(400)},
		{"a client that left", rtError(apierr.ClientGone)},
		{"a config's fault", rtError(apierr.Invalid)},
		{"a gateway short of memory", rtError(apierr.Unavailable)},
		{"a panic", rtResponse{panics: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rtNew(t, rtBreakerConfig("")).on("0", rtStatus(500), tt.probe, rtStatus(200))
				r.send()
				time.Sleep(time.Minute)
				func() {
					defer func() { _ = recover() }() // as the server's handler does
					r.send()
				}()
				if got := r.send(); got.targets[0] != "0" || got.status != 200 {
					t.Errorf("tried %q, want another probe at once", got.targetList())
				}
			})
		})
	}
}

func TestWhenAllCircuitsAreOpenTheFirstOpenedIsProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := rtTree("loadbalance", 3, `,"cb_config":{"cooldown_interval":60000,"failure_threshold":1}`)
		r := rtNew(t, config).on("0", rtStatus(500)).on("1", rtStatus(500)).on("2", rtStatus(500))
		order := []float64{0.9, 0.9, 0} // draws 2, then 1 of what is left, then 0
		draw := 0
		r.random = func() float64 { draw++; return order[min(draw-1, 2)] }
		for i, want := range []string{"2", "1", "0", "2", "1", "0", "2"} {
			got := r.send()
			if got.targetList() != want {
				t.Errorf("exchange %d tried %q, want %q: the one in cooldown for the longest time", i, got.targetList(), want)
			}
			if i > 2 && !got.hasDecision("all targets are unavailable") {
				t.Errorf("exchange %d does not tell why: %v", i, got.x.trail.Decisions)
			}
			time.Sleep(time.Second)
		}
		r.on("1", rtStatus(200))
		r.send()
		for range 3 {
			if got := r.send(); got.targetList() != "1" || got.status != 200 {
				t.Errorf("tried %q with %d after the probe of 1 succeeded, want it", got.targetList(), got.status)
			}
		}
	})
}

// S-076: a condition's choice holds, whatever the breaker says.
func TestAConditionChoosesAnOpenTargetToo(t *testing.T) {
	r := rtNew(t, `{"strategy":{"mode":"conditional","cb_config":{"cooldown_interval":60000,"failure_threshold":1},"conditions":[{"query":{"metadata.a":"1"},"then":"x"}],"default":"x"},"targets":[{"name":"x","provider":"@a"},{"name":"y","provider":"@b"}]}`)
	r.on("0", rtStatus(500))
	for range 3 {
		if got := r.send(); got.targetList() != "0" {
			t.Errorf("tried %q, want the named target", got.targetList())
		}
	}
}

func TestARateLimitWithATimeParksTheTarget(t *testing.T) {
	for _, tt := range []struct {
		name     string
		response rtResponse
		parked   time.Duration
	}{
		{"429 with seconds", rtStatus(429, "Retry-After", "20"), 20 * time.Second},
		{"429 with milliseconds", rtStatus(429, "Retry-After-Ms", "1500"), 1500 * time.Millisecond},
		{"503 with seconds", rtStatus(503, "Retry-After", "20"), 20 * time.Second},
		{"529 with seconds", rtStatus(529, "Retry-After", "20"), 20 * time.Second},
		{"429 without a time", rtStatus(429), 0},
		{"500 with seconds", rtStatus(500, "Retry-After", "20"), 0},
		{"requests used up", rtStatus(200, "X-Ratelimit-Remaining-Requests", "0", "X-Ratelimit-Reset-Requests", "12s"), 12 * time.Second},
		{"tokens used up", rtStatus(200, "X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "6m0s"), time.Minute},
		{"some requests left", rtStatus(200, "X-Ratelimit-Remaining-Requests", "1", "X-Ratelimit-Reset-Requests", "12s"), 0},
		{"a century", rtStatus(429, "Retry-After", "Fri, 31 Dec 2100 23:59:59 GMT"), time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rtNew(t, rtTree("fallback", 2, "")).on("0", tt.response, rtStatus(200))
				r.send()
				if tt.parked > 0 {
					time.Sleep(tt.parked - time.Millisecond)
					if got := r.send(); got.targetList() != "1" {
						t.Errorf("tried %q before %v were over, want 1", got.targetList(), tt.parked)
					}
					time.Sleep(time.Millisecond)
				}
				if got := r.send(); got.targetList() != "0" {
					t.Errorf("tried %q after %v, want 0", got.targetList(), tt.parked)
				}
			})
		})
	}
}

// S02: a rate limit for ever is not a broken provider.
func TestARateLimitWithATimeIsNeutralToTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rtNew(t, rtBreakerConfig("")).on("0", rtStatus(429, "Retry-After", "1"))
		for i := range 5 {
			if got := r.send(); got.targetList() != "0 1" || got.hasDecision("probing") {
				t.Errorf("exchange %d tried %q with %v, want 0 1 and no probe", i, got.targetList(), got.x.trail.Decisions)
			}
			time.Sleep(time.Second)
		}
	})
}

func TestWhenAllAreParkedTheOneThatComesBackFirstIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rtNew(t, rtTree("fallback", 3, "")).on("0", rtStatus(429, "Retry-After", "90")).
			on("1", rtStatus(429, "Retry-After", "30")).on("2", rtStatus(429, "Retry-After", "60"))
		r.send()
		if got := r.send(); got.targetList() != "1" {
			t.Errorf("tried %q, want 1, which comes back first", got.targetList())
		}
	})
}

// State belongs to the config's meaning, not to its spelling, and to nobody
// else's config.
func TestStateBelongsToTheConfig(t *testing.T) {
	r := rtNew(t, rtBreakerConfig("")).on("0", rtStatus(500))
	r.send()
	respelled := strings.ReplaceAll(rtBreakerConfig(""), `,"cb_config"`, "  ,\n \"cbConfig\"")
	if got := rtSend(context.Background(), r.compile(respelled)); got.targetList() != "1" {
		t.Errorf("the same config in another spelling tried %q, want 1: its circuit is open", got.targetList())
	}
	other := strings.Replace(rtBreakerConfig(""), "@a", "@b", 1)
	if got := rtSend(context.Background(), r.compile(other)); got.targetList() != "0 1" {
		t.Errorf("another config tried %q, want 0 1: its circuit is closed", got.targetList())
	}
}

func TestADryRunTellsTheBreakerNothing(t *testing.T) {
	r := rtNew(t, rtBreakerConfig("")).on("0", rtStatus(500))
	dry := func(x *rtRequest) { x.DryRun = true }
	for range 3 {
		if got := r.send(dry); got.targets[0] != "0" {
			t.Errorf("a dry run tried %q, want 0", got.targetList())
		}
	}
}

// Anyone with a key can send ever new configs, also ones whose targets fail.
func TestBreakerStateIsBounded(t *testing.T) {
	s := new(pipeline.State)
	for i := range pipeline.MaxStates + 10 {
		s.FailAt(strconv.Itoa(i))
	}
	if n := s.Gates(); n > pipeline.MaxStates || n < pipeline.MaxStates/2 {
		t.Errorf("%d gates are kept, want most of %d", n, pipeline.MaxStates)
	}
}

// Whatever happens to a target, once it answers and the cooldown is over it is
// used again.
func TestABreakerIsNeverStuckOpen(t *testing.T) {
	outcomes := []rtResponse{rtStatus(200), rtStatus(400), rtStatus(500), rtStatus(429), rtStatus(429, "Retry-After", "5"),
		rtRefusal(), rtError(apierr.ClientGone), rtError(apierr.Timeout), rtError(apierr.Invalid), {panics: true}}
	rapid.Check(t, func(rt *rapid.T) {
		var responses []rtResponse
		for _, n := range rapid.SliceOfN(rapid.IntRange(0, len(outcomes)-1), 1, 40).Draw(rt, "outcomes") {
			responses = append(responses, outcomes[n])
		}
		pauses := rapid.SliceOfN(rapid.IntRange(0, 90), 10, 10).Draw(rt, "pauses")
		breaker := rapid.SampledFrom([]string{`"failure_threshold":1`, `"failure_threshold":3`, `"failure_threshold_percentage":30,"minimum_requests":3`,
			`"failure_threshold":2,"failure_status_codes":[429,500]`}).Draw(rt, "breaker")
		rtBubble(t, rt, func() string { return rtRecovers(t, breaker, append(responses, rtStatus(200)), pauses) })
	})
}

// rtRecovers returns what is wrong after all responses but the last were given.
func rtRecovers(t testing.TB, breaker string, responses []rtResponse, pauses []int) string {
	r := rtNew(t, rtBreakerConfig(breaker)).on("0", responses...)
	for i := 0; r.counts["config.targets[0]"] < len(responses)-1; i++ {
		if i > 200*len(responses) {
			return "the target is never called again"
		}
		func() {
			defer func() { _ = recover() }()
			r.send()
		}()
		time.Sleep(time.Duration(pauses[i%len(pauses)]+1) * time.Second)
	}
	time.Sleep(time.Minute)
	for i := range 3 {
		if got := r.send(); got.targetList() != "0" || i > 0 && got.hasDecision("circuit") {
			return fmt.Sprintf("exchange %d after recovery tried %q: %v", i, got.targetList(), got.x.trail.Decisions)
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
