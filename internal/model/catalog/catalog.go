// Package catalog holds the prices of models.
//
// A [Price] has the rates of a provider's model from a date on. A [PriceBook]
// finds the price that applies at a time. Costs are computed in integers and
// rounded once. A model without a price has an unknown cost, which is not zero.
// The built-in book is [Builtin]; it can be replaced in the settings. The
// package does not record costs or route by them.
package catalog

import (
	"fmt"
	"math"
	"math/bits"
	"time"

	"modelgate/internal/model/llm"
)

// NanoDollars is an amount of money: a billionth of a US dollar.
type NanoDollars int64

// Rate is the price of one token in picodollars, a thousandth of a nano-dollar:
// a rate of 1,000,000 is one dollar per million tokens. Providers have prices
// down to $0.0028 per million tokens, which nano-dollars cannot represent.
type Rate int64

// PerMillion returns the rate for a price in dollars per million tokens,
// rounded to a millionth of a dollar. It returns an error for a price that is
// out of range.
func PerMillion(dollars float64) (Rate, error) {
	if math.IsNaN(dollars) || dollars < 0 || dollars > maxPerMillion {
		return 0, fmt.Errorf("a price is 0 to %d dollars for a million tokens, not %v", maxPerMillion, dollars)
	}
	return Rate(math.Round(dollars * 1e6)), nil
}

// maxPerMillion is the maximum price in dollars per million tokens.
const maxPerMillion = 1_000_000

// Kind is a kind of token with a price of its own.
type Kind uint8

// Kinds of tokens. Those up to InputImage are read by the model, the others
// written by it.
const (
	Input Kind = iota
	CachedInput
	CacheWrite5m
	CacheWrite1h
	InputAudio
	InputImage
	Output
	Reasoning
	OutputAudio
	OutputImage

	Kinds
)

// fallbackKind maps a kind to the kind whose rate applies if it has none.
var fallbackKind = [Kinds]Kind{CachedInput: Input, CacheWrite5m: Input, CacheWrite1h: CacheWrite5m, InputAudio: Input, InputImage: Input,
	Output: Output, Reasoning: Output, OutputAudio: Output, OutputImage: Output}

// Rates holds the price of a token of each kind.
type Rates [Kinds]Rate

// RatesOf returns the given rates. Each other kind has the rate of the kind
// that it is a part of.
func RatesOf(given map[Kind]Rate) (r Rates) {
	for kind := range Kinds {
		rate, ok := given[kind]
		if !ok && fallbackKind[kind] != kind {
			rate = r[fallbackKind[kind]]
		}
		r[kind] = rate
	}
	return r
}

// HasRate reports whether a kind has a rate of its own, not the one of the kind that it
// is a part of.
func (r *Rates) HasRate(kind Kind) bool { return r[kind] != r[fallbackKind[kind]] }

// Price is one row of a price book.
type Price struct {
	Provider string // provider id
	// Model is the upstream model; with a star at its end, it is a prefix.
	Model string
	// From is the time from which the price applies. Zero means always.
	From time.Time

	Rates Rates
	// Long are the rates of a request that reads more than Above tokens; they
	// apply to all of its tokens. Above is zero if the length does not matter.
	Long  Rates
	Above int64

	// NoInput and NoOutput are true if the price of tokens read or written is
	// unknown. A price of zero is free.
	NoInput  bool
	NoOutput bool

	// Request is the price of each request in addition to its tokens.
	Request NanoDollars
	// Units are the prices of what is not sold by tokens. Nil means none.
	Units *UnitPrices
	// Batch, Flex and Priority are the prices of these tiers as percentages. Zero
	// means unknown; an unknown Flex is Batch.
	Batch    int
	Flex     int
	Priority int

	// Source says where the price was read, as a key of the file's list of
	// sources, and Read on which day. Both are empty for prices of an operator.
	Source string
	Read   string

	factor string // of the negotiated pricing that changed it; empty if none
}

// Row returns the name of the price in the ledger and the log.
func (p *Price) Row() string {
	name := p.Provider
	if p.Model != "" {
		name += "/" + p.Model
	}
	if !p.From.IsZero() {
		name += "@" + p.From.Format(time.DateOnly)
	}
	if p.factor != "" {
		name += " x" + p.factor
	}
	return name
}

// Covers reports whether the price of every token of u is known.
func (p *Price) Covers(u llm.Usage) bool {
	return !(p.NoInput && u.Prompt() > 0 || p.NoOutput && u.Completion() > 0)
}

// Cost returns the cost of u in a tier, rounded once, half up, and capped at
// the largest amount. A tier without a price costs as much as the standard
// tier: see [Price.Has]. Tokens without a price cost nothing: see
// [Price.Covers].
func (p *Price) Cost(u llm.Usage, t Tier) NanoDollars {
	n := counts(u)
	rates := &p.Rates
	if p.Above > 0 && longer(&n, p.Above) {
		rates = &p.Long
	}
	var sum amount
	sum.add(int64(p.Request), pico)
	for kind, count := range n {
		sum.add(count, int64(rates[kind]))
	}
	share, _ := p.share(t)
	return sum.nanoDollars(uint64(share))
}

// CacheSaving returns how much less u costs than without the provider's prompt
// cache. It is negative if writing to the cache cost more than reading saved.
func (p *Price) CacheSaving(u llm.Usage, t Tier) NanoDollars {
	plain := u
	plain.Input += u.CachedInput + u.CacheWrite5m + u.CacheWrite1h
	plain.CachedInput, plain.CacheWrite5m, plain.CacheWrite1h = 0, 0, 0
	return p.Cost(plain, t) - p.Cost(u, t)
}

// counts returns the usage by kind. The kinds do not overlap.
func counts(u llm.Usage) [Kinds]int64 {
	imagesIn, imagesOut := min(max(u.InputImage, 0), max(u.Input, 0)), min(max(u.OutputImage, 0), max(u.Output, 0))
	return [Kinds]int64{
		Input: u.Input - imagesIn, CachedInput: u.CachedInput, CacheWrite5m: u.CacheWrite5m, CacheWrite1h: u.CacheWrite1h,
		InputAudio: u.InputAudio, InputImage: imagesIn,
		Output: u.Output - imagesOut, Reasoning: u.Reasoning, OutputAudio: u.OutputAudio, OutputImage: imagesOut,
	}
}

// longer reports whether more than limit tokens were read.
func longer(n *[Kinds]int64, limit int64) bool {
	for kind := Input; kind <= InputImage; kind++ {
		if n[kind] > limit {
			return true
		}
		limit -= max(n[kind], 0)
	}
	return false
}

// pico is the number of picodollars in a nano-dollar.
const pico = 1000

// amount is a sum of picodollars in 128 bits, which cannot overflow here.
type amount struct{ high, low uint64 }

func (a *amount) add(count, rate int64) {
	high, low := bits.Mul64(uint64(max(count, 0)), uint64(max(rate, 0)))
	var carry uint64
	a.low, carry = bits.Add64(a.low, low, 0)
	a.high += high + carry
}

// nanoDollars returns a share of the amount, in percent.
func (a *amount) nanoDollars(percent uint64) NanoDollars {
	const divisor = 100 * pico
	over, low := bits.Mul64(a.low, percent)
	low, carry := bits.Add64(low, divisor/2, 0)
	high := a.high*percent + over + carry
	if high >= divisor {
		return math.MaxInt64
	}
	n, _ := bits.Div64(high, low, divisor)
	return NanoDollars(min(n, math.MaxInt64))
}
