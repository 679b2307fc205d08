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

// flexible are the providers whose flex tier costs what their batches do.
//
//   - https://platform.openai.com/docs/guides/flex-processing
//   - https://ai.google.dev/gemini-api/docs/flex-inference
//   - https://cloud.google.com/vertex-ai/generative-ai/docs/flex-paygo
//   - https://aws.amazon.com/bedrock/service-tiers/
var flexible = map[string]bool{"openai": true, "azure-openai": true, "google": true, "vertex-ai": true, "bedrock": true}

// TierOf returns the tier behind a provider's word for it. A word that says nothing
// of a price is Standard, and one that is unknown is Unpriced.
func TierOf(provider, word string) Tier {
	switch strings.ToLower(word) {
	case "", "default", "standard", "auto", "on_demand", "unspecified":
		return Standard
	case "batch":
		return Batch
	case "priority":
		return Priority
	case "flex":
		switch {
		case flexible[provider]:
			return Batch
		case provider == "groq": // https://console.groq.com/docs/flex-processing
			return Standard
		}
	case "provisioned":
		if provider == "openrouter" { // what its own provider has served; the cost that it reports is as ever
			return Standard
		}
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
