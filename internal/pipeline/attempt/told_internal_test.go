package attempt

import (
	"strings"
	"testing"

	"modelgate/internal/dialect"
	"modelgate/internal/model/llm"
	"modelgate/internal/pipeline/exchange"
)

func TestParamsFitAHeader(t *testing.T) {
	outcome := new(exchange.Attempt)
	for range 10_000 {
		outcome.Params = append(outcome.Params, dialect.ParamChange{Name: "parameter", Outcome: dialect.Dropped})
	}
	trail := exchange.Trail{Notes: []dialect.ParamChange{{Name: "cache", Outcome: dialect.Ignored}}, Outcome: outcome}
	told := trail.Params()
	if got := strings.Join(told, ", "); len(got) > exchange.MaxParams+1000 || !strings.HasPrefix(got, "cache;ignored, parameter;dropped, ") {
		t.Errorf("a header of %d bytes: %.80s", len(got), got)
	}
	if last, want := told[len(told)-1], "more;count="; !strings.HasPrefix(last, want) {
		t.Errorf("the last item is %q, want %s…", last, want)
	}
	outcome.Params = []dialect.ParamChange{{Name: "a", Outcome: dialect.Dropped}, {Name: "b", Outcome: dialect.Dropped}}
	if few := strings.Join((&exchange.Trail{Outcome: outcome}).Params(), ", "); few != "a;dropped, b;dropped" {
		t.Errorf("two items are reported as %q", few)
	}
}

// Decoders report what is known so far, and some providers correct it downwards.
func TestALaterReportOfUsageReplacesTheOneBefore(t *testing.T) {
	var seen translationTap
	for _, u := range []llm.Usage{{Input: 5, Known: true}, {Input: 2, CachedInput: 3, Output: 7, Known: true}, {Input: 2, Output: 1, Known: true}} {
		seen.event(&llm.Event{Kind: llm.EventUsage, Usage: u})
	}
	if want := (llm.Usage{Input: 2, Output: 1, Known: true}); seen.Info().Usage != want {
		t.Errorf("usage = %+v, want %+v", seen.Info().Usage, want)
	}
}
