package routing_test

import (
	"fmt"
	"strings"
	"testing"

	"modelgate/internal/testing/pipelinetest"
)

// rtLooking is a conditional node of n conditions that do not hold. Each looks
// for the field of the body that name returns.
func rtLooking(n int, name func(i int) string) string {
	conditions := make([]string, n)
	for i := range conditions {
		conditions[i] = `{"query":{"params.` + name(i) + `":1},"then":"yes"}`
	}
	return `{"strategy":{"mode":"conditional","conditions":[` + strings.Join(conditions, ",") + `],"default":"no"},
		"targets":[{"name":"no","provider":"@a"},{"name":"yes","provider":"@b"}]}`
}

// docs/routing.md: 200,000,000 steps, and an eighth of the body for each field
// that is looked for in it.
func TestLookingForAFieldTakesAnEighthOfTheBody(t *testing.T) {
	const mega = 1_000_000
	each := func(i int) string { return fmt.Sprint("a", i) }
	same := func(int) string { return "a" }
	for _, tt := range []struct {
		name, config string
		size         int // of the body
	}{
		{"20 million steps for different fields", rtLooking(40, each), 4 * mega},
		{"250 million steps if the same field were looked for each time", rtLooking(500, same), 4 * mega},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := pipelinetest.New(t, tt.config)
			body := `{"x":"` + strings.Repeat("x", tt.size) + `"}`
			got := r.Send(func(x *pipelinetest.Request) { x.Trail.Explain = false; pipelinetest.SetBody(t, x, body) })
			if got.Status != 200 || got.Path != "0" {
				t.Errorf("status %d by %q, %v; want 200 by the default", got.Status, got.Path, got.Err)
			}
		})
	}
}
