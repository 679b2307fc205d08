package attempt_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/testing/pipelinetest"
)

func TestParametersThatAreDroppedAreAnnouncedDroppedOrRefused(t *testing.T) {
	const all = `{"model":"m","logit_bias":{},"max_tokens":5,"temperature":1.7}`
	const carried = `max_tokens;renamed="max_completion_tokens", temperature;clamped=1`
	for _, tt := range []struct {
		name, asks, body, told, param string
	}{
		{"without a word", ``, all, "logit_bias;dropped, " + carried, ""},
		{"announced", `,"on_unsupported":"announce"`, all, "logit_bias;dropped, " + carried, ""},
		{"dropped", `,"on_unsupported":"drop"`, all, carried, ""},
		{"refused", `,"on_unsupported":"refuse"`, all, "logit_bias;refused, " + carried, "logit_bias"},
		{"nothing to refuse", `,"on_unsupported":"refuse"`, `{"model":"m","max_tokens":5,"temperature":1.7}`, carried, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, x, err := pipelinetest.Plan(t, `{"provider":"@a"`+tt.asks+`}`, tt.body)
			if x.Params() != tt.told {
				t.Errorf("told %q, want %q", x.Params(), tt.told)
			}
			if tt.param == "" {
				if err != nil || strings.Contains(string(got.Body), "logit_bias") {
					t.Errorf("body %s, %v; want one without logit_bias", got.Body, err)
				}
				return
			}
			if err == nil {
				t.Fatalf("body %s, want an error", got.Body)
			}
			if e := apierr.From(err); e.Status() != 400 || e.Code != "unsupported_parameter" || e.Param != tt.param {
				t.Errorf("error %v with the code %q for %q, want 400 unsupported_parameter for %q", e, e.Code, e.Param, tt.param)
			}
		})
	}
}

func TestNumberIsClampedOnlyBeyondTheBounds(t *testing.T) {
	for sent, want := range map[string]string{"0": "0", "0.0": "0.0", "1": "1", "1.0": "1.0", "-0.5": "0", "1.01": "1"} {
		got, x, err := pipelinetest.Plan(t, `{"provider":"@a"}`, `{"model":"m","temperature":`+sent+`}`)
		told := ""
		if want != sent {
			told = "temperature;clamped=" + want
		}
		if body := `{"model":"m","temperature":` + want + `}`; err != nil || string(got.Body) != body || x.Params() != told {
			t.Errorf("temperature %s: body %s, told %q, %v; want %s, %q", sent, got.Body, x.Params(), err, body, told)
		}
	}
}

func TestItemsThatDoNotFitTheHeaderAreCounted(t *testing.T) {
	const kind = ";dropped" // the end of an item
	items := func(n, size int) []dialect.ParamChange {
		return slices.Repeat([]dialect.ParamChange{{Name: strings.Repeat("x", size-len(kind)), Outcome: dialect.Dropped}}, n)
	}
	for _, tt := range []struct {
		notes, params []dialect.ParamChange
		want          int // items that are reported
		more          int // that the last one counts
	}{
		{items(2, 1024), items(2, 1024), 4, 0}, // 4096 bytes
		{items(2, 1024), append(items(2, 1024), dialect.ParamChange{Name: "y", Outcome: dialect.Dropped}), 4, 1},
		{items(2, 1024), append(items(1, 1024), items(1, 1025)...), 3, 1},
		{nil, items(9, 1024), 4, 5},
	} {
		trail := exchange.Trail{Notes: tt.notes, Outcome: &exchange.Attempt{Params: tt.params}}
		var want []string
		for _, c := range slices.Concat(tt.notes, tt.params)[:tt.want] {
			want = append(want, c.Name+kind)
		}
		if tt.more > 0 {
			want = append(want, fmt.Sprintf("more;count=%d", tt.more))
		}
		if got := trail.Params(); !slices.Equal(got, want) {
			t.Errorf("of %d and %d items %d are reported, the last %.20q; want %d, the last %.20q",
				len(tt.notes), len(tt.params), len(got), got[len(got)-1], len(want), want[len(want)-1])
		}
	}
}
