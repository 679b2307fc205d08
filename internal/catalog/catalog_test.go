package catalog_test

import (
	"math"
	"testing"

	"modelgate/internal/catalog"
)

func TestPriceFindsTheClosestRow(t *testing.T) {
	book := catalog.NewBook([]catalog.Price{
		{Provider: "openai", Model: "gpt-*", Input: 1},
		{Provider: "openai", Model: "gpt-4*", Input: 2},
		{Provider: "openai", Model: "gpt-4.1", Input: 3},
		{Provider: "groq", Model: "*", Input: 4},
		{Provider: "openai", Model: "gpt-4*", Input: 5},
	})
	for _, tt := range []struct {
		provider, model string
		want            catalog.NanoDollars
		known           bool
	}{
		{"openai", "gpt-3.5", 1, true},
		{"openai", "gpt-4.1", 3, true},
		{"openai", "gpt-4.1-mini", 5, true},
		{"openai", "o3", 0, false},
		{"groq", "anything", 4, true},
		{"azure-openai", "gpt-4.1", 0, false},
	} {
		p, known := book.Price(tt.provider, tt.model)
		if p.Input != tt.want || known != tt.known {
			t.Errorf("Price(%s, %s) = %d, %t; want %d, %t", tt.provider, tt.model, p.Input, known, tt.want, tt.known)
		}
	}
	if _, known := (*catalog.Book)(nil).Price("openai", "gpt-4.1"); known {
		t.Error("no book knows a price")
	}
}

func TestCostCountsInNanoDollars(t *testing.T) {
	in, err := catalog.PerMillion(2.5)
	if err != nil || in != 2500 {
		t.Fatalf("PerMillion(2.5) = %d, %v; want 2500", in, err)
	}
	p := catalog.Price{Input: in, Output: 10_000}
	if got := p.Cost(1_000_000, 500_000); got != 7_500_000_000 {
		t.Errorf("Cost = %d, want 7.5 dollars", got)
	}
	if got := p.Cost(math.MaxInt64/10, 0); got != math.MaxInt64 {
		t.Errorf("Cost of too many tokens = %d, want the largest amount", got)
	}
	for _, bad := range []float64{-1, math.NaN(), math.Inf(1)} {
		if _, err := catalog.PerMillion(bad); err == nil {
			t.Errorf("PerMillion(%v) was taken", bad)
		}
	}
}
