package catalog_test

import (
	"testing"
	"time"

	"modelgate/internal/model/catalog"
	"modelgate/internal/model/llm"
	"modelgate/internal/provider/table"
)

func TestTheWordsOfATierAreTheirProviders(t *testing.T) {
	for _, tt := range []struct {
		provider, word string
		want           catalog.Tier
	}{
		{"openai", "", catalog.Standard},
		{"openai", "default", catalog.Standard},
		{"openai", "flex", catalog.Flex},
		{"openai", "priority", catalog.Priority},
		{"openai", "scale", catalog.Unpriced},
		{"azure-openai", "priority", catalog.Priority},
		{"anthropic", "standard", catalog.Standard},
		{"anthropic", "batch", catalog.Batch},
		{"anthropic", "priority", catalog.Priority},
		{"anthropic", "fast", catalog.Unpriced},
		{"google", "FLEX", catalog.Flex},
		{"vertex-ai", "provisioned", catalog.Unpriced},
		{"bedrock", "flex", catalog.Flex},
		{"bedrock", "reserved", catalog.Unpriced},
		{"groq", "on_demand", catalog.Standard},
		{"groq", "flex", catalog.Standard},
		{"groq", "performance", catalog.Unpriced},
		{"openrouter", "flex", catalog.Unpriced},
		{"openrouter", "provisioned", catalog.Standard},
		{"openai-compatible", "whatever", catalog.Unpriced},
	} {
		row, ok := table.Lookup(tt.provider)
		if !ok {
			t.Fatal(tt.provider)
		}
		if got := catalog.TierOf(row.Tiers, tt.word); got != tt.want {
			t.Errorf("TierOf(%q, %q) = %v, want %v", tt.provider, tt.word, got, tt.want)
		}
	}
}

func TestARowSaysWhichTiersItHas(t *testing.T) {
	rates := catalog.RatesOf(map[catalog.Kind]catalog.Rate{catalog.Input: 1000})
	plain := &catalog.Price{Rates: rates}
	full := &catalog.Price{Rates: rates, Batch: 50, Priority: 175}
	free, _ := (&catalog.NegotiatedPricing{Reserved: true}).Price(nil, "openai", "m", time.Now())
	dearer, _ := (&catalog.NegotiatedPricing{Own: map[string]*catalog.Price{"m": full}, Factors: map[string]float64{"": 2}}).Price(nil, "openai", "m", time.Now())
	for _, tt := range []struct {
		name string
		p    *catalog.Price
		tier catalog.Tier
		has  bool
		cost catalog.NanoDollars // of 100 tokens
	}{
		{"standard", plain, catalog.Standard, true, 100},
		{"no share for batches", plain, catalog.Batch, false, 100},
		{"no share for priority", plain, catalog.Priority, false, 100},
		{"batch", full, catalog.Batch, true, 50},
		{"priority", full, catalog.Priority, true, 175},
		{"a tier without a price", full, catalog.Unpriced, false, 100},
		{"reserved capacity, whatever the tier", free, catalog.Unpriced, true, 0},
		{"an agreed factor too", dearer, catalog.Priority, true, 350},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.p.Has(tt.tier); got != tt.has {
				t.Errorf("Has(%v) = %t, want %t", tt.tier, got, tt.has)
			}
			if got := tt.p.Cost(llm.Usage{Input: 100, Known: true}, tt.tier); got != tt.cost {
				t.Errorf("Cost in %v = %d, want %d", tt.tier, got, tt.cost)
			}
		})
	}
}
