package reqlog_test

import (
	"math"
	"testing"

	"modelgate/internal/model/llm"
	"modelgate/internal/records/reqlog"
)

func TestUnknownUsageIsCountedApartAndNeverAsZero(t *testing.T) {
	used := llm.Usage{Input: 10, CachedInput: 2, Output: 5, Known: true}
	for _, tt := range []struct {
		name string
		s    reqlog.Settlement
		want reqlog.Spend
	}{
		{"priced", reqlog.Settlement{Outcome: reqlog.Answered, Usage: used, Cost: 7, Priced: true}, reqlog.Spend{Attempts: 1, Cost: 7, Tokens: 17}},
		{"reserved capacity", reqlog.Settlement{Outcome: reqlog.Answered, Priced: true}, reqlog.Spend{Attempts: 1}},
		{"no price", reqlog.Settlement{Outcome: reqlog.Answered, Usage: used}, reqlog.Spend{Attempts: 1, Cost: 12*reqlog.AssumedInput + 5*reqlog.AssumedOutput, Tokens: 17, Unpriced: 1}},
		{"no usage", reqlog.Settlement{Outcome: reqlog.Answered}, reqlog.Spend{Attempts: 1, Unknown: 1}},
		{"an estimate", reqlog.Settlement{Outcome: reqlog.Estimated, Usage: llm.Usage{Input: 100, Known: true, Estimated: true}},
			reqlog.Spend{Attempts: 1, Cost: 100 * reqlog.AssumedInput, Tokens: 100, Unpriced: 1}},
		{"an estimate of nothing", reqlog.Settlement{Outcome: reqlog.Estimated}, reqlog.Spend{Attempts: 1, Unknown: 1}},
		{"abandoned with usage", reqlog.Settlement{Outcome: reqlog.Abandoned, Usage: used, Cost: 3, Priced: true}, reqlog.Spend{Attempts: 1, Cost: 3, Tokens: 17}},
		{"no response", reqlog.Settlement{Outcome: reqlog.Failed}, reqlog.Spend{Attempts: 1}},
		{"refused", reqlog.Settlement{Outcome: reqlog.Refused, Status: 400}, reqlog.Spend{Attempts: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got reqlog.Spend
			if got.AddSettlement(&tt.s); got != tt.want {
				t.Errorf("Settle = %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestSumsEndAtTheLargestNumber(t *testing.T) {
	var s reqlog.Spend
	for range 3 {
		s.AddSettlement(&reqlog.Settlement{Outcome: reqlog.Answered, Cost: math.MaxInt64 - 1, Priced: true, Usage: llm.Usage{Input: math.MaxInt64 - 1, Known: true}})
	}
	s.Add(s)
	if s.Cost != math.MaxInt64 || s.Tokens != math.MaxInt64 || s.Attempts != 6 {
		t.Errorf("%+v, want the largest cost and tokens of 6 attempts", s)
	}
	s.AddSettlement(&reqlog.Settlement{Priced: true, Cost: -5})
	if s.Cost != math.MaxInt64 {
		t.Errorf("a negative cost makes %d of the sum", s.Cost)
	}
}
