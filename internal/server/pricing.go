package server

import (
	"encoding/json"

	"modelgate/internal/model/catalog"
	"modelgate/internal/model/pricing"
	"modelgate/internal/store"
	"modelgate/internal/store/publication"
)

// pricingOf returns the negotiated pricing of an integration, nil for none.
func pricingOf(i *publication.Integration) *catalog.NegotiatedPricing {
	t := &catalog.NegotiatedPricing{Reserved: i.Row.Configuration.Reserved, Factors: priceFactors(i.Row.Pricing)}
	for _, m := range i.Models {
		if price := ownPrice(m); price != nil {
			if t.Own == nil {
				t.Own = make(map[string]*catalog.Price)
			}
			t.Own[m.Slug] = price
		}
	}
	if !t.Reserved && t.Own == nil && t.Factors == nil {
		return nil
	}
	return t
}

// setPricing sets the negotiated pricing of the integration.
func (i *integration) setPricing(t *catalog.NegotiatedPricing) {
	i.settings.Terms = t
	for model, own := range i.rules.Own {
		own.Terms = t
		i.rules.Own[model] = own
	}
}

// priceFactors decodes pricing_adjustments: {"multiplier": 1.2} for all models, or
// {"gpt-4o": {"multiplier": 0.8}, "default": {"multiplier": 1.2}}.
func priceFactors(raw json.RawMessage) map[string]float64 {
	var names map[string]json.RawMessage
	if json.Unmarshal(raw, &names) != nil {
		return nil
	}
	out := make(map[string]float64, len(names))
	for name, value := range names {
		var of struct{ Multiplier *float64 }
		switch {
		case name == "multiplier" && json.Unmarshal(value, &of.Multiplier) == nil && of.Multiplier != nil:
			if _, ok := out[""]; !ok { // the one under default takes precedence
				out[""] = *of.Multiplier
			}
		case json.Unmarshal(value, &of) == nil && of.Multiplier != nil && name == "default":
			out[""] = *of.Multiplier
		case json.Unmarshal(value, &of) == nil && of.Multiplier != nil:
			out[name] = *of.Multiplier
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// ownPrice returns the price that a model's pricing_config has, nil without one.
func ownPrice(m store.IntegrationModel) *catalog.Price {
	p, _, err := pricing.Config(m.Pricing)
	if err != nil || p == nil {
		return nil
	}
	p.Provider, p.Model = "integration", m.Slug
	return p
}
