package conformance

import (
	"fmt"
	"testing"
	"time"
)

// TestCircuitsOpen proves when a target goes into cooldown. The end of a
// cooldown is at least half a minute away: the tests of internal/pipeline prove
// it on a clock of their own, as TestAnOpenCircuitIsSkippedUntilItHasCooledDown
// and TestAHalfOpenCircuitLetsOneProbeInAtATime.
func TestCircuitsOpen(t *testing.T) {
	g, _ := start(t)
	breaker := func(members string) string { return `"cb_config":{"cooldown_interval":30000,` + members + `}` }
	repeat := func(status int) []int { return []int{status} }
	for _, tt := range []struct {
		of, name string
		rule     string
		statuses []int // of the first target
		calls    int   // of ten that reach it
	}{
		{"S-029 S-505", "after one failure", `"failure_threshold":1`, repeat(500), 1},
		{"S-029", "after three failures", `"failure_threshold":3`, repeat(503), 3},
		{"S-029", "a success in between resets the count", `"failure_threshold":3`, []int{500, 500, 200, 500, 500, 500}, 6},
		{"S-029", "never for successes", `"failure_threshold":1`, repeat(200), 10},
		{"S-104", "a 500 counts without a list", `"failure_threshold":2`, repeat(500), 2},
		{"S-104", "a 502 counts without a list", `"failure_threshold":2`, repeat(502), 2},
		{"S-104", "a 429 counts without a list", `"failure_threshold":2`, repeat(429), 2},
		{"S-104", "a 408 counts without a list", `"failure_threshold":2`, repeat(408), 2},
		{"S-029", "a client's fault in between does not reset the count", `"failure_threshold":3`, []int{500, 500, 400, 500}, 4},
		{"S-104", "a client error is not counted without a list", `"failure_threshold":2`, repeat(400), 10},
		{"S-104", "a 404 is not counted without a list", `"failure_threshold":2`, repeat(404), 10},
		{"S-104 S-483", "a listed status counts", `"failure_threshold":2,"failure_status_codes":[404]`, repeat(404), 2},
		{"S-104 S-483", "with a list, nothing else counts", `"failure_threshold":2,"failure_status_codes":[429]`, repeat(500), 10},
		{"S-483", "a listed 429", `"failure_threshold":1,"failure_status_codes":[429]`, []int{500, 500, 429, 500}, 3},
		{"S-104 S-483", "an empty list", `"failure_threshold":1,"failure_status_codes":[]`, repeat(500), 10},
	} {
		prove(t, tt.of, tt.name, func(t *testing.T) {
			p := fleet(t, withStatuses(tt.statuses...), nil)
			config := tree(fallback, leaf(p[0], breaker(tt.rule)), leaf(p[1]))
			for range 10 {
				g.ask(t, config).wantOK(t)
			}
			if n := p[0].hits(); n != tt.calls {
				t.Errorf("the first target was called %d times, want %d", n, tt.calls)
			}
		})
	}
	prove(t, "S-483", "a listed 429 that says when to come back", func(t *testing.T) {
		p := fleet(t, soon(withStatuses(429)), nil)
		config := tree(fallback, leaf(p[0], breaker(`"failure_threshold":1,"failure_status_codes":[429]`)), leaf(p[1]))
		for range 10 {
			g.ask(t, config).wantOK(t)
			<-time.After(2 * time.Millisecond) // longer than it asks for
		}
		called(t, []int{1, 10}, p...)
	})
	prove(t, "S-029", "a response that never comes counts", func(t *testing.T) {
		gone, srv := startProvider(nil)
		srv.Close()
		p := newProvider(t, nil)
		config := tree(fallback, leaf(gone, breaker(`"failure_threshold":2`)), leaf(p))
		var last response
		for range 3 {
			last = g.ask(t, config).wantOK(t)
		}
		if tries, _ := g.entry(t, last)["attempts"].([]any); len(tries) != 1 {
			t.Errorf("attempts of the third request = %v, want the second target alone", tries)
		}
	})
	prove(t, "S-029 S-131", "a rule of the parent is one for each target", func(t *testing.T) {
		p := fleet(t, withStatuses(500), withStatuses(500), nil)
		config := with(tree(fallback, leaf(p[0]), leaf(p[1]), leaf(p[2])), breaker(`"failure_threshold":2`))
		for range 5 {
			g.ask(t, config).wantOK(t)
		}
		called(t, []int{2, 2, 5}, p...)
	})
	prove(t, "S-029", "in a balance the others are drawn", func(t *testing.T) {
		p := fleet(t, withStatuses(500), nil)
		config := tree(loadbalance, leaf(p[0], `"weight":0.5`, breaker(`"failure_threshold":1`)), leaf(p[1], `"weight":0.5`))
		failed := 0
		for range 30 {
			if g.ask(t, config).status != 200 {
				failed++
			}
		}
		if failed > 1 || p[0].hits() != failed {
			t.Errorf("%d requests failed, the failing target was called %d times, want one at most", failed, p[0].hits())
		}
	})
	prove(t, "S-029", "when all are open, the one that opened first is probed", func(t *testing.T) {
		p := fleet(t, withStatuses(500), withStatuses(503))
		config := tree(fallback, leaf(p[0], breaker(`"failure_threshold":1`)), leaf(p[1], breaker(`"failure_threshold":1`)))
		for i, want := range []int{503, 500} {
			if got := g.ask(t, config); got.status != want {
				t.Errorf("request %d: status %d, want %d", i, got.status, want)
			}
		}
		called(t, []int{2, 1}, p...)
	})
	prove(t, "S-029", "for one config and not for another", func(t *testing.T) {
		p := fleet(t, withStatuses(500), nil)
		for n := range 3 {
			g.ask(t, tree(fallback, leaf(p[0], breaker(fmt.Sprintf(`"failure_threshold":%d`, n+1))), leaf(p[1]))).wantOK(t)
		}
		called(t, []int{3, 3}, p...)
	})
}
