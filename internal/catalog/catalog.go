// Package catalog says what models cost.
//
// A [Price] holds the rates of a provider's model from a day on. A [PriceBook] finds
// the row in force, and what usage costs by it is computed in integers and
// rounded once. A model without a row is told as unknown and never as free. The
// book that comes with the program is [Builtin]; what is put in its place is
// left to the settings, and what is done with a cost to routing and the books.
package catalog

import (
	"fmt"
	"math"
	"math/bits"
	"time"

	"modelgate/internal/llm"
)

// NanoDollars is an amount of money: a billionth of a US dollar.
type NanoDollars int64

// Rate is what one token costs in picodollars, a thousandth of a nano-dollar:
// a million tokens at one dollar are 1,000,000. Providers name prices down to
// $0.0028 for a million tokens, which nano-dollars can't hold.
type Rate int64

// PerMillion returns the rate of a price in dollars for a million tokens, rounded
// to a millionth of a dollar. The error says what is wrong with it.
func PerMillion(dollars float64) (Rate, error) {
	if math.IsNaN(dollars) || dollars < 0 || dollars > maxPerMillion {
		return 0, fmt.Errorf("a price is 0 to %d dollars for a million tokens, not %v", maxPerMillion, dollars)
	}
	return Rate(math.Round(dollars * 1e6)), nil
}

// maxPerMillion bounds a price, in dollars for a million tokens.
const maxPerMillion = 1_000_000

// Kind is a kind of token with a price of its own.
type Kind uint8

// Kinds. Those up to InputAudio are read by the model, the others written by it.
const (
	Input Kind = iota
	CachedInput
	CacheWrite5m
	CacheWrite1h
	InputAudio
	Output
	Reasoning
	OutputAudio

	Kinds
)

// fallbackKind is the kind whose rate holds for a kind that has none of its own.
var fallbackKind = [Kinds]Kind{CachedInput: Input, CacheWrite5m: Input, CacheWrite1h: CacheWrite5m, InputAudio: Input, Output: Output, Reasoning: Output, OutputAudio: Output}

// Rates are what a token of each kind costs.
type Rates [Kinds]Rate

// RatesOf returns the rates of the kinds that are given. The others cost what the
// kind does that they are a part of.
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

// Price is a row of a book.
type Price struct {
	Provider string // id of a row of the provider table
	// Model is a model's name as the provider takes it; with a star at its end,
	// all that begin so.
	Model string
	// From is when the row comes into force. Zero is always.
	From time.Time

	Rates Rates
	// Long are the rates of the whole of a request that reads more than Above
	// tokens. Zero for Above means that length does not matter.
	Long  Rates
	Above int64

	// Request is what each request costs besides.
	Request NanoDollars
	// Batch and Priority are what requests of these tiers pay of all this, in
	// percent. Zero means that it is unknown.
	Batch    int
	Priority int

	factor string // of the terms that changed it; empty for none
}

// Row names the row, as the ledger and the log have it.
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

// Cost returns what u costs in a tier, rounded once, half up. It stops at the
// largest amount there is. A tier that the row does not have costs what the
// standard one does: see [Price.Has].
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

// counts parts usage by kind. The kinds do not overlap, so no token counts twice.
func counts(u llm.Usage) [Kinds]int64 {
	return [Kinds]int64{
		Input: u.Input, CachedInput: u.CachedInput, CacheWrite5m: u.CacheWrite5m, CacheWrite1h: u.CacheWrite1h, InputAudio: u.InputAudio,
		Output: u.Output, Reasoning: u.Reasoning, OutputAudio: u.OutputAudio,
	}
}

// longer reports whether more than limit tokens were read.
func longer(n *[Kinds]int64, limit int64) bool {
	for kind := Input; kind <= InputAudio; kind++ {
		if n[kind] > limit {
			return true
		}
		limit -= max(n[kind], 0)
	}
	return false
}

// pico is how many picodollars a nano-dollar has.
const pico = 1000

// amount is a sum of picodollars, in 128 bits: nothing that is added to it
// overflows.
type amount struct{ high, low uint64 }

func (a *amount) add(count, rate int64) {
	high, low := bits.Mul64(uint64(max(count, 0)), uint64(max(rate, 0)))
	var carry uint64
	a.low, carry = bits.Add64(a.low, low, 0)
	a.high += high + carry
}

// nanoDollars returns a share of the amount, in percent.
func (a *amount) nanoDollars(percent uint64) NanoDollars {
	const whole = 100 * pico
	over, low := bits.Mul64(a.low, percent)
	low, carry := bits.Add64(low, whole/2, 0)
	high := a.high*percent + over + carry
	if high >= whole {
		return math.MaxInt64
	}
	n, _ := bits.Div64(high, low, whole)
	return NanoDollars(min(n, math.MaxInt64))
}
