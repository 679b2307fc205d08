package pipeline

import (
	"strings"
	"testing"
)

func TestWhatIsToldFitsAHeader(t *testing.T) {
	x := Exchange{Notes: []string{"cache;ignored"}}
	for range 10_000 {
		x.Params = append(x.Params, "parameter;dropped")
	}
	told := x.Told()
	if got := x.ParamsHeader(); len(got) > maxParams+1000 || !strings.HasPrefix(got, "cache;ignored, parameter;dropped, ") {
		t.Errorf("a header of %d bytes: %.80s", len(got), got)
	}
	if last, want := told[len(told)-1], "more;count="; !strings.HasPrefix(last, want) {
		t.Errorf("the last item is %q, want %s…", last, want)
	}
	if few := (&Exchange{Params: []string{"a;dropped", "b;dropped"}}).ParamsHeader(); few != "a;dropped, b;dropped" {
		t.Errorf("two items are told as %q", few)
	}
}
