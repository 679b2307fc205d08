package exchange

import (
	"strings"
	"testing"

	"modelgate/internal/dialect"
)

func TestNotesAreKeptOnce(t *testing.T) {
	var trail Trail
	for range 2 {
		for i := range 3 * fewNotes {
			trail.Note(dialect.ParamChange{Name: strings.Repeat("n", i+1), Outcome: dialect.Dropped})
			trail.Note(dialect.ParamChange{Name: "n", Outcome: dialect.Dropped})
			if n := len(trail.Notes); n != i+1 && n != 3*fewNotes {
				t.Fatalf("%d notes after %d different ones", n, i+1)
			}
		}
	}
	if n := len(trail.Notes); n != 3*fewNotes {
		t.Errorf("%d notes, want each of %d once", n, 3*fewNotes)
	}
}

func TestParamsFitAHeader(t *testing.T) {
	outcome := new(Attempt)
	for range 10_000 {
		outcome.Params = append(outcome.Params, dialect.ParamChange{Name: "parameter", Outcome: dialect.Dropped})
	}
	trail := Trail{Notes: []dialect.ParamChange{{Name: "cache", Outcome: dialect.Ignored}}, Outcome: outcome}
	items := trail.Params()
	if got := strings.Join(items, ", "); len(got) > maxParams+1000 || !strings.HasPrefix(got, "cache;ignored, parameter;dropped, ") {
		t.Errorf("a header of %d bytes: %.80s", len(got), got)
	}
	if last, want := items[len(items)-1], "more;count="; !strings.HasPrefix(last, want) {
		t.Errorf("the last item is %q, want %s…", last, want)
	}
	outcome.Params = []dialect.ParamChange{{Name: "a", Outcome: dialect.Dropped}, {Name: "b", Outcome: dialect.Dropped}}
	if few := strings.Join((&Trail{Outcome: outcome}).Params(), ", "); few != "a;dropped, b;dropped" {
		t.Errorf("two items are reported as %q", few)
	}
}
