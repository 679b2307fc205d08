package catalog

import (
	"cmp"
	"strings"
)

// Tier is the way in which a provider served a request, if it has its own
// price.
type Tier uint8

// Tiers. The rates of a row are for Standard.
const (
	Standard Tier = iota
	Batch         // asynchronous, or at the price of a batch
	Flex          // synchronous and slower, usually at the price of a batch
	Priority
	Unpriced // without a price in price books
)

var tiers = [...]string{Standard: "standard", Batch: "batch", Flex: "flex", Priority: "priority", Unpriced: "unpriced"}

// String returns the tier's name.
func (t Tier) String() string { return tiers[t] }

// TierOf returns the tier for a provider's name of it. A name without effect on
// the price is Standard, an unknown one Unpriced. Own maps names, in lower
// case, that only some providers have.
func TierOf(own map[string]Tier, word string) Tier {
	word = strings.ToLower(word)
	switch word {
	case "", "default", "standard", "auto", "on_demand", "unspecified":
		return Standard
	case "batch":
		return Batch
	case "priority":
		return Priority
	}
	if t, ok := own[word]; ok {
		return t
	}
	return Unpriced
}

// Has reports whether the price of a tier is known.
func (p *Price) Has(t Tier) bool {
	_, ok := p.share(t)
	return ok
}

// share returns the price of a tier as a percentage of the rates.
func (p *Price) share(t Tier) (percent int, known bool) {
	switch {
	case t == Standard || p.Free():
		return 100, true
	case t == Batch && p.Batch > 0:
		return p.Batch, true
	case t == Flex && p.Flex+p.Batch > 0:
		return cmp.Or(p.Flex, p.Batch), true
	case t == Priority && p.Priority > 0:
		return p.Priority, true
	}
	return 100, false
}
