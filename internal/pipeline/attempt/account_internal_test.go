package attempt

import (
	"net/http"
	"testing"
	"time"

	"modelgate/api"
	"modelgate/internal/dialect/chat"
	"modelgate/internal/model/catalog"
	"modelgate/internal/model/llm"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/provider"
)

// dollar is a million tokens at a dollar, for each token.
const dollar = 1_000_000

func TestACostIsKnownOnlyWhereUsageAndPriceAre(t *testing.T) {
	rates := catalog.RatesOf(map[catalog.Kind]catalog.Rate{catalog.Input: dollar, catalog.CachedInput: dollar / 10, catalog.Output: 4 * dollar})
	book := catalog.NewBook([]catalog.Price{
		{Provider: "openai", Model: "gpt-x*", Rates: rates, Batch: 50},
		{Provider: "openai", Model: "dearer", Rates: catalog.RatesOf(map[catalog.Kind]catalog.Rate{catalog.Input: 9 * dollar})},
		{Provider: "openai", Model: "later", From: time.Unix(2000, 0), Rates: rates},
	}, nil)
	used := llm.Usage{Input: 10, CachedInput: 5, Output: 3, Known: true}
	for _, tt := range []struct {
		name, model, served string
		usage               llm.Usage
		reserved            bool
		cost                catalog.NanoDollars
		row                 string
		known               bool
		tier                catalog.Tier
	}{
		// 10 × 1,000 + 5 × 100 + 3 × 4,000 nano-dollars
		{"all is known", "gpt-x-1", "", used, false, 22_500, "openai/gpt-x*", true, 0},
		{"no usage", "gpt-x-1", "", llm.Usage{Input: 10}, false, 0, "", false, 0},
		{"no price", "other", "another", used, false, 0, "", false, 0},
		{"the price of the model that answered", "my-deployment", "gpt-x-1", used, false, 22_500, "openai/gpt-x*", true, 0},
		{"the price of what was asked for before that", "gpt-x-1", "dearer", used, false, 22_500, "openai/gpt-x*", true, 0},
		{"a price that is not in force yet", "later", "", used, false, 0, "", false, 0},
		{"reserved capacity", "other", "", llm.Usage{}, true, 0, "reserved", true, 0},
		{"a tier with a share", "gpt-x-1", "", used, false, 11_250, "openai/gpt-x* batch", true, catalog.Batch},
		{"a tier without one", "gpt-x-1", "", used, false, 0, "", false, catalog.Priority},
		{"reserved capacity in a tier", "other", "", used, true, 0, "reserved", true, catalog.Unpriced},
	} {
		t.Run(tt.name, func(t *testing.T) {
			target := &provider.Target{Spec: &provider.Spec{ID: "openai"}, Pricing: &catalog.NegotiatedPricing{Reserved: tt.reserved}}
			a := attemptAccount{attempt: &attempt{plan: plan{record: exchange.Attempt{Target: target, Model: tt.model}, request: &exchange.Request{Limiting: exchange.Limiting{Prices: book}}}}, began: time.Unix(1000, 0)}
			if cost, row, known := a.cost(tt.usage, tt.served, tt.tier); cost != tt.cost || row != tt.row || known != tt.known {
				t.Errorf("cost = %d, %q, %t; want %d, %q, %t", cost, row, known, tt.cost, tt.row, tt.known)
			}
		})
	}
}

func TestTheHeaderTellsTheTierWhereTheBodyDoesNot(t *testing.T) {
	for _, tt := range []struct{ name, header, body, want string }{
		{"the body does", "X-Tier", `{"service_tier":"priority"}`, "priority"},
		{"the body does not", "X-Tier", `{}`, "flex"},
		{"another provider's header", "X-Other-Tier", `{}`, ""},
		{"a provider without a header", "", `{}`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := attemptAccount{attempt: &attempt{plan: plan{record: exchange.Attempt{Target: &provider.Target{Spec: &provider.Spec{TierHeader: tt.header}}}}}}
			r := &exchange.Response{Raw: &http.Response{Header: http.Header{"X-Tier": {"flex"}}}, Tap: chat.Dialect{}.NewTap(api.Chat)}
			r.Tap.Body([]byte(tt.body))
			if got := a.tier(r); got != tt.want {
				t.Errorf("tier = %q, want %q", got, tt.want)
			}
		})
	}
}
