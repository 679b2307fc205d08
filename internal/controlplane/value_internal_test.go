package controlplane

import (
	"math"
	"net/url"
	"testing"
)

func TestCentsAreReadToTheNanoDollar(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "0.0000001": 1, "1": 10_000_000, "1.5": 15_000_000, "007.0": 70_000_000, "922337203685.4775807": math.MaxInt64,
		"": -1, ".5": -1, "1.": -1, "-1": -1, "+1": -1, "1.00000001": -1, "1e3": -1, "0x1": -1, "1_0": -1, "1.-5": -1, "922337203685.4775808": -1, "one": -1, "NaN": -1,
	} {
		n, err := cents(text)
		got := int64(-1)
		if err == nil {
			got = *n
		}
		if got != want {
			t.Errorf("cents(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
}

func TestFiguresBoundAListing(t *testing.T) {
	q, err := parseQuery(url.Values{
		"cost_min": {"0.5"}, "cost_max": {"2"}, "total_units_min": {"3"}, "total_units_max": {"4"},
		"prompt_token_min": {"5"}, "prompt_token_max": {"6"}, "completion_token_min": {"7"}, "completion_token_max": {"8"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, b := range []*int64{q.Cost.Min, q.Cost.Max, q.Tokens.Min, q.Tokens.Max, q.PromptTokens.Min, q.PromptTokens.Max, q.CompletionTokens.Min, q.CompletionTokens.Max} {
		want := []int64{5_000_000, 20_000_000, 3, 4, 5, 6, 7, 8}[i]
		if b == nil || *b != want {
			t.Errorf("bound %d is %v, want %d", i, b, want)
		}
	}
	for _, bad := range []url.Values{{"cost_min": {"cheap"}}, {"total_units_max": {"-1"}}, {"prompt_token_min": {"1.5"}}, {"completion_token_max": {""}}, {"cost_max": {"1", "2"}}} {
		if _, err := parseQuery(bad); err == nil {
			t.Errorf("parseQuery(%v) was taken", bad)
		}
	}
}
