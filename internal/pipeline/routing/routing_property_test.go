package routing_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"modelgate/config"
	"modelgate/internal/base/apierr"
	"modelgate/internal/testing/pipelinetest"
)

// rtDrawTree draws a routing tree of at most three levels.
func rtDrawTree(rt *rapid.T, depth int) string {
	more := rapid.SampledFrom([]string{"", "", `,"retry":{"attempts":1}`, `,"retry":{"attempts":7,"use_retry_after_headers":true}`,
		`,"cb_config":{"failure_threshold":1,"cooldown_interval":30000}`, `,"weight":0.5`, `,"on_status_codes":[429,500]`}).Draw(rt, "more")
	if depth == 0 || rapid.IntRange(0, 2).Draw(rt, "leaf") == 0 {
		return `{"provider":"@a"` + more + `}`
	}
	mode := rapid.SampledFrom([]string{"fallback", "fallback", "loadbalance", "single", "conditional", "latency"}).Draw(rt, "mode")
	var targets []string
	for i := range rapid.IntRange(1, 3).Draw(rt, "targets") {
		child := rtDrawTree(rt, depth-1)
		targets = append(targets, fmt.Sprintf(`{"name":"t%d",%s`, i, child[1:]))
	}
	strategy := fmt.Sprintf(`{"mode":%q`, mode)
	if mode == "conditional" {
		strategy += `,"conditions":[{"query":{"metadata.x":"1"},"then":"t0"}],"default":"t0"`
	}
	if mode == "fallback" && rapid.Bool().Draw(rt, "listed") {
		strategy += `,"on_status_codes":[429,502]`
	}
	if hedged := rapid.IntRange(0, 4).Draw(rt, "hedged") == 0; hedged && (mode == "fallback" || mode == "loadbalance") {
		more += `,"hedge":{"delay_ms":50,"max":2}`
	}
	return `{"strategy":` + strategy + `}` + more + `,"targets":[` + strings.Join(targets, ",") + `]}`
}

var rtOutcomes = []pipelinetest.Response{pipelinetest.Status(200), pipelinetest.Status(200), pipelinetest.Status(500), pipelinetest.Status(429), pipelinetest.Status(400), pipelinetest.Status(429, "Retry-After", "3"),
	pipelinetest.Status(503, "Retry-After", "70"), pipelinetest.Refusal(), pipelinetest.Error(apierr.Timeout), pipelinetest.Error(apierr.ClientGone), {After: 200 * time.Millisecond},
	{Status: 500, After: 2 * time.Second}}

// Whatever the tree and whatever its targets do: attempts stay within retries
// plus one per target, waiting stays within the budget, the response names a
// place of the config, and every response is closed once.
func TestInvariantsOfEveryTree(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := rtDrawTree(rt, 3)
		if !strings.Contains(text, `"strategy"`) {
			text = `{"strategy":{"mode":"single"},"targets":[` + text + `]}`
		}
		responses := rapid.SliceOfN(rapid.SampledFrom(rtOutcomes), 1, 30).Draw(rt, "answers")
		seed := rapid.Uint64().Draw(rt, "seed")
		budget := time.Duration(rapid.IntRange(0, 20).Draw(rt, "budget")) * time.Second
		rtBubble(t, rt, func() string {
			r := pipelinetest.New(t, text).Seed(seed)
			next := 0
			all := func(int) pipelinetest.Response { next++; return responses[next%len(responses)] }
			for _, leaf := range r.Leaves {
				r.Script[leaf.Path] = all
			}
			for range 10 {
				if problem := rtInvariants(r, budget); problem != "" {
					return problem
				}
			}
			return ""
		})
	})
}

// rtInvariants sends an exchange and returns what is wrong with its end.
func rtInvariants(r *pipelinetest.Routes, budget time.Duration) string {
	before := len(r.Calls)
	got := r.Send(func(x *pipelinetest.Request) { x.AttemptDeadline = time.Now().Add(budget) })
	calls, all := make(map[string]int), 0
	for _, c := range r.Calls[before:] {
		calls[c.Path]++
		all++
	}
	for _, leaf := range r.Leaves {
		if retries, _ := leaf.Retry.EffectiveAttempts(); calls[leaf.Path] > retries+1 {
			return fmt.Sprintf("%s was called %d times with %d retries", leaf.Path, calls[leaf.Path], retries)
		}
	}
	if recorded := len(got.X.Trail.Attempts); recorded != all {
		return fmt.Sprintf("%d attempts are recorded of %d", recorded, all)
	}
	// A call under way when the budget ends is cut by the leaf's own clock,
	// which scripted targets don't have: they take two seconds at most.
	if got.Took > budget+2*time.Second {
		return fmt.Sprintf("took %v in a budget of %v", got.Took, budget)
	}
	isLeaf := func(l *config.Config) bool { return l.Path == got.X.Target() }
	if all > 0 && !slices.ContainsFunc(r.Leaves, isLeaf) {
		return fmt.Sprintf("answered by %q, which is not a target", got.X.Target())
	}
	for n, times := range r.Open {
		if times != 1 {
			return fmt.Sprintf("response %d was closed %d times", n, times)
		}
	}
	return ""
}
