package catalog

import (
	"math"
	"strconv"
	"time"
)

// NegotiatedPricing are what someone has agreed with a provider, instead of the prices
// of books. Nil and the zero value agree to nothing. They are immutable.
type NegotiatedPricing struct {
	// Reserved says that capacity is paid for already: requests cost nothing.
	Reserved bool
	// Own are prices of models by the name that requests use.
	Own map[string]*Price
	// Factors multiply the prices of models, by the same names; that of the empty
	// name is for all others.
	Factors map[string]float64
}

// reserved is the price where capacity is paid for already.
var reserved = &Price{Provider: "reserved"}

// Price returns what a provider's model costs at a time: by its own price, or by
// the row of the first of its further names that b has one for, which then are
// what it was made of and what the provider calls it.
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

// Free reports whether the price is that of capacity that is paid for already.
func (p *Price) Free() bool { return p == reserved }

// times returns the price multiplied by a factor.
func (p *Price) times(factor float64) *Price {
	const most = 1e15 // leaves room in an amount
	scale := func(n float64) int64 { return int64(min(math.Round(n*factor), most)) }
	out := *p
	for kind := range out.Rates {
		out.Rates[kind], out.Long[kind] = Rate(scale(float64(p.Rates[kind]))), Rate(scale(float64(p.Long[kind])))
	}
	out.Request = NanoDollars(scale(float64(p.Request)))
	out.factor = strconv.FormatFloat(factor, 'g', -1, 64)
	return &out
}
