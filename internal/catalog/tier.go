package catalog

import "strings"

// Tier is how a provider has served a request, as far as that has a price of its own.
type Tier uint8

// Tiers. Standard is what the rates of a row are of.
const (
	Standard Tier = iota
	Batch         // in its own time: as one of a batch, or at the price of one
	Priority
	Unpriced // in a way that books have no price for
)

var tiers = [...]string{Standard: "standard", Batch: "batch", Priority: "priority", Unpriced: "unpriced"}

// String returns the tier's name.
func (t Tier) String() string { return tiers[t] }

// TierOf returns the tier behind a provider's word for it. A word that says nothing
// of a price is Standard, and one that is unknown is Unpriced. Own has the meaning
// of words, in lower case, that only some providers have.
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

// Has reports whether the row says what requests of a tier cost.
func (p *Price) Has(t Tier) bool {
	_, ok := p.share(t)
	return ok
}

// share is what requests of a tier pay of the row, in percent.
func (p *Price) share(t Tier) (percent int, known bool) {
	switch {
	case t == Standard || p.Free():
		return 100, true
	case t == Batch && p.Batch > 0:
		return p.Batch, true
	case t == Priority && p.Priority > 0:
		return p.Priority, true
	}
	return 100, false
}
