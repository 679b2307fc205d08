package catalog_test

import (
	"math"
	"testing"

	"modelgate/internal/model/catalog"
	"modelgate/internal/model/llm"
)

func TestTermsComeBeforeBooks(t *testing.T) {
	book := catalog.NewBook([]catalog.Price{
		{Provider: "openai", Model: "base", Rates: onlyRate(1000), Request: 7},
		{Provider: "openai", Model: "served", Rates: onlyRate(2000)},
		{Provider: "openai", Model: "mine", Rates: onlyRate(9000)},
	}, nil)
	own := &catalog.Price{Provider: "integration", Model: "mine", Rates: onlyRate(4000)}
	for _, tt := range []struct {
		name          string
		terms         *catalog.NegotiatedPricing
		model         string
		basis, served string
		want          catalog.Rate
		row           string
	}{
		{"nothing agreed", nil, "base", "base", "served", 1000, "openai/base"},
		{"the tariff it derives from", nil, "mine", "base", "served", 1000, "openai/base"},
		{"what has answered", nil, "d", "d", "served", 2000, "openai/served"},
		{"unknown", nil, "d", "d", "", -1, ""},
		{"unknown, whatever the factor", &catalog.NegotiatedPricing{Factors: map[string]float64{"": 2}}, "d", "d", "", -1, ""},
		{"its own", &catalog.NegotiatedPricing{Own: map[string]*catalog.Price{"mine": own}}, "mine", "base", "served", 4000, "integration/mine"},
		{"of others the book's", &catalog.NegotiatedPricing{Own: map[string]*catalog.Price{"mine": own}}, "base", "base", "", 1000, "openai/base"},
		{"times a factor", &catalog.NegotiatedPricing{Factors: map[string]float64{"": 1.5}}, "base", "base", "", 1500, "openai/base x1.5"},
		{"times its own factor", &catalog.NegotiatedPricing{Factors: map[string]float64{"": 1.5, "base": 0.25}}, "base", "base", "", 250, "openai/base x0.25"},
		{"its own times a factor", &catalog.NegotiatedPricing{Own: map[string]*catalog.Price{"mine": own}, Factors: map[string]float64{"": 2}}, "mine", "base", "", 8000, "integration/mine x2"},
		{"free", &catalog.NegotiatedPricing{Factors: map[string]float64{"": 0}}, "base", "base", "", 0, "openai/base x0"},
		{"reserved", &catalog.NegotiatedPricing{Reserved: true, Own: map[string]*catalog.Price{"mine": own}}, "mine", "base", "", 0, "reserved"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rate, row := catalog.Rate(-1), ""
			if p, ok := tt.terms.Price(book, "openai", tt.model, day("2026-01-01"), tt.basis, tt.served); ok {
				rate, row = p.Rates[catalog.Input], p.Row()
			}
			if rate != tt.want || row != tt.row {
				t.Errorf("Price = %d by %q, want %d by %q", rate, row, tt.want, tt.row)
			}
		})
	}
	if p, _ := book.Price("openai", "base", day("2026-01-01")); p.Rates[catalog.Input] != 1000 || p.Request != 7 {
		t.Errorf("the row of the book became %+v", p)
	}
}

func TestAFactorOfAnySizeOverflowsNothing(t *testing.T) {
	terms := &catalog.NegotiatedPricing{Factors: map[string]float64{"": 1e12}}
	book := catalog.NewBook([]catalog.Price{{Provider: "a", Model: "*", Rates: onlyRate(1e12), Request: math.MaxInt64}}, nil)
	p, _ := terms.Price(book, "a", "m", day("2026-01-01"), "m")
	most := llm.Usage{Input: math.MaxInt64, CachedInput: math.MaxInt64, Output: math.MaxInt64, Reasoning: math.MaxInt64, OutputAudio: math.MaxInt64}
	if got := p.Cost(most, catalog.Standard); got != math.MaxInt64 {
		t.Errorf("Cost = %d, want the largest amount", got)
	}
}
