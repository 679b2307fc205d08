package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// pipelineParts are the parts of the pipeline and which of the others each may import.
// Only the package above them, which shows the order around a call, imports all.
//
// docs/architecture.md shows the same parts.
var pipelineParts = map[string][]string{
	"exchange": {},
	"framing":  {},
	"metering": {"exchange"},
	"routing":  {"exchange", "framing"},
	"guarding": {"exchange", "framing"},
	"caching":  {"exchange", "framing"},
	"attempt":  {"exchange", "framing", "metering"},
}

// pipelineInside are the parts that only the pipeline imports.
var pipelineInside = []string{"framing"}

func TestPartsOfThePipelineAreIndependent(t *testing.T) {
	g := mustGraph(t)
	report(t, pipelineProblems(g))
	for part := range pipelineParts {
		if _, ok := g["internal/pipeline/"+part]; !ok {
			t.Errorf("pipelineParts: %s is not a package of the pipeline", part)
		}
	}
}

func TestPartsPolicyNoticesEveryBreach(t *testing.T) {
	for _, tt := range []struct {
		name string
		g    graph
		want int
	}{
		{"as listed", graph{"internal/pipeline/attempt": {"internal/pipeline/metering", "io"}}, 0},
		{"who connects them", graph{"internal/pipeline": {"internal/pipeline/routing", "internal/pipeline/exchange"}}, 0},
		{"a part imports another", graph{"internal/pipeline/routing": {"internal/pipeline/attempt"}}, 1},
		{"metering imports an attempt", graph{"internal/pipeline/metering": {"internal/pipeline/attempt"}}, 1},
		{"a part imports the package above", graph{"internal/pipeline/caching": {"internal/pipeline"}}, 1},
		{"a part that is not listed", graph{"internal/pipeline/other": {}}, 1},
		{"a part from inside", graph{"internal/dataplane": {"internal/pipeline/exchange", "internal/pipeline/framing"}}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := pipelineProblems(tt.g); len(got) != tt.want {
				t.Errorf("problems = %q, want %d", got, tt.want)
			}
		})
	}
}

// pipelineProblems returns the imports of the pipeline's parts that pipelineParts does not
// list.
func pipelineProblems(g graph) (problems []string) {
	for _, from := range g.packages() {
		part, inside := strings.CutPrefix(from, "internal/pipeline/")
		allowed, listed := pipelineParts[part]
		if inside && !listed {
			problems = append(problems, fmt.Sprintf("%s is in no line of pipelineParts: add what it may import", from))
			continue
		}
		for _, to := range g[from] {
			other, isPart := strings.CutPrefix(to, "internal/pipeline/")
			switch {
			case inside && to == "internal/pipeline", inside && isPart && !slices.Contains(allowed, other):
				problems = append(problems, fmt.Sprintf("%s imports %s, but may import %q of the pipeline", from, to, allowed))
			case !inside && from != "internal/pipeline" && slices.Contains(pipelineInside, other):
				problems = append(problems, fmt.Sprintf("%s imports %s, which only the pipeline does", from, to))
			}
		}
	}
	return problems
}
