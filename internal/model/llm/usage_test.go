package llm_test

import (
	"testing"

	"modelgate/internal/model/llm"
)

func TestTheLargerReportOfUsageCounts(t *testing.T) {
	none := llm.Usage{}
	few, same := llm.Usage{Input: 10, Output: 1, Known: true}, llm.Usage{Input: 6, CachedInput: 4, Output: 1, Known: true}
	many := llm.Usage{Input: 6, CachedInput: 4, Output: 9, Known: true}
	zero := llm.Usage{Known: true}
	invalid := llm.Usage{Input: 20, Invalid: true}
	for _, tt := range []struct{ a, b, want llm.Usage }{
		{few, invalid, invalid}, {invalid, few, invalid}, {llm.Usage{Invalid: true}, few, llm.Usage{Input: 10, Output: 1, Invalid: true}},
		{none, llm.Usage{Invalid: true}, llm.Usage{Invalid: true}},
		{none, few, few}, {few, none, few}, {few, same, same}, {same, many, many}, {many, few, many}, {many, zero, many}, {none, zero, zero},
	} {
		if got := tt.a.Larger(tt.b); got != tt.want {
			t.Errorf("%+v.Larger(%+v) = %+v, want %+v", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestEstimatesNeverGoBelowValidCounts(t *testing.T) {
	for _, tt := range []struct {
		u    llm.Usage
		want llm.Usage
	}{
		{llm.Usage{}, llm.Usage{Input: 10, Output: 5}},
		{llm.Usage{Input: 3, CachedInput: 4, Invalid: true}, llm.Usage{Input: 6, CachedInput: 4, Output: 5}},
		{llm.Usage{Input: 30, Output: 1, Reasoning: 6, Invalid: true}, llm.Usage{Input: 30, Output: 1, Reasoning: 6}},
	} {
		tt.want.Known, tt.want.Estimated = true, true
		if got := tt.u.Estimate(10, 5); got != tt.want {
			t.Errorf("%+v.Estimate(10, 5) = %+v, want %+v", tt.u, got, tt.want)
		}
	}
}
