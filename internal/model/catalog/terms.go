package catalog

import (
	"math"
	"strconv"
	"time"
)

// NegotiatedPricing holds prices agreed with a provider, which replace those of
// the price book. Nil and the zero value have none. It is immutable.
type NegotiatedPricing struct {
	// Reserved is true for capacity that has been paid for: requests cost
	// nothing.
	Reserved bool
	// Own holds prices of models by requested model.
	Own map[string]*Price
	// Factors holds factors for prices of models by requested model; the empty
	// name applies to all others.
	Factors map[string]float64
}

// reserved is the price for capacity that has been paid for.
var reserved = &Price{Provider: "reserved"}

// Price returns the price of a provider's model at a time: its own price, or
// the price in b of the first of its further names that has one: its base model
// and the response model.
func (t *NegotiatedPricing) Price(b *PriceBook, provider, model string, at time.Time, further ...string) (p *Price, ok bool) {
	if t != nil && t.Reserved {
		return reserved, true
	}
	if t != nil {
		p, ok = t.Own[model]
	}
	for _, name := range further {
		if !ok && name != "" {
			p, ok = b.Price(provider, name, at)
		}
	}
	if !ok || t == nil {
		return p, ok
	}
	factor, changed := t.Factors[model]
	if !changed {
		factor, changed = t.Factors[""]
	}
	if !changed {
		return p, true
	}
	return p.times(factor), true
}

// Free reports whether the price is for capacity that has been paid for.
func (p *Price) Free() bool { return p == reserved }

// times returns the price multiplied by a factor.
func (p *Price) times(factor float64) *Price {
	const most = 1e15 // leaves headroom in an amount
	scale := func(n float64) int64 { return int64(min(math.Round(n*factor), most)) }
	out := *p
	for kind := range out.Rates {
		out.Rates[kind], out.Long[kind] = Rate(scale(float64(p.Rates[kind]))), Rate(scale(float64(p.Long[kind])))
	}
	out.Request = NanoDollars(scale(float64(p.Request)))
	out.Units = p.Units.times(scale)
	out.factor = strconv.FormatFloat(factor, 'g', -1, 64)
	return &out
}
