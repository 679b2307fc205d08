package server

import (
	"encoding/json"
	"math"

	"modelgate/internal/catalog"
	"modelgate/internal/publication"
)

// pricingOf returns the negotiated pricing of an integration, nil for none.
func pricingOf(p *publication.Provider) *catalog.NegotiatedPricing {
	t := &catalog.NegotiatedPricing{Reserved: p.Configuration.Reserved, Factors: factors(p.Pricing)}
	for _, m := range p.Models {
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

// factors decodes pricing_adjustments: {"multiplier": 1.2} for all models, or
// {"gpt-4o": {"multiplier": 0.8}, "default": {"multiplier": 1.2}}.
func factors(raw json.RawMessage) map[string]float64 {
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

// ownPrice decodes pricing_config, whose prices are cents per token. It returns nil if
// it has no prices of tokens.
func ownPrice(m publication.Model) *catalog.Price {
	type unit struct{ Price *float64 }
	var config struct {
		PayAsYouGo struct {
			RequestToken         unit `json:"request_token"`
			ResponseToken        unit `json:"response_token"`
			CacheReadInputToken  unit `json:"cache_read_input_token"`
			CacheWriteInputToken unit `json:"cache_write_input_token"`
			RequestAudioToken    unit `json:"request_audio_token"`
			ResponseAudioToken   unit `json:"response_audio_token"`
			AdditionalUnits      struct {
				CacheWrite1h  unit `json:"cache_write_1h"`
				ThinkingToken unit `json:"thinking_token"`
			} `json:"additional_units"`
		} `json:"pay_as_you_go"`
	}
	if json.Unmarshal(m.Pricing, &config) != nil {
		return nil
	}
	c := &config.PayAsYouGo
	given := make(map[catalog.Kind]catalog.Rate)
	for kind, of := range map[catalog.Kind]unit{
		catalog.Input: c.RequestToken, catalog.CachedInput: c.CacheReadInputToken, catalog.CacheWrite5m: c.CacheWriteInputToken,
		catalog.CacheWrite1h: c.AdditionalUnits.CacheWrite1h, catalog.InputAudio: c.RequestAudioToken,
		catalog.Output: c.ResponseToken, catalog.Reasoning: c.AdditionalUnits.ThinkingToken, catalog.OutputAudio: c.ResponseAudioToken,
	} {
		if of.Price != nil {
			given[kind] = centsForToken(*of.Price)
		}
	}
	if len(given) == 0 {
		return nil
	}
	return &catalog.Price{Provider: "integration", Model: m.Slug, Rates: catalog.RatesOf(given)}
}

// centsForToken converts a price in cents per token to a rate. The highest price is a
// dollar per token.
func centsForToken(cents float64) catalog.Rate {
	const cent = 1e10 // picodollars
	return catalog.Rate(math.Round(min(cents, 100) * cent))
}
