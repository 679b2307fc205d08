package llm_test

import (
	"testing"

	"modelgate/internal/llm"
)

func TestTheLargerReportOfUsageCounts(t *testing.T) {
	none := llm.Usage{}
	few, same := llm.Usage{Input: 10, Output: 1, Known: true}, llm.Usage{Input: 6, CachedInput: 4, Output: 1, Known: true}
	many := llm.Usage{Input: 6, CachedInput: 4, Output: 9, Known: true}
	zero := llm.Usage{Known: true}
	for _, tt := range []struct{ a, b, want llm.Usage }{
		{none, few, few}, {few, none, few}, {few, same, same}, {same, many, many}, {many, few, many}, {many, zero, many}, {none, zero, zero},
	} {
		if got := tt.a.Larger(tt.b); got != tt.want {
			t.Errorf("%+v.Larger(%+v) = %+v, want %+v", tt.a, tt.b, got, tt.want)
		}
	}
}
