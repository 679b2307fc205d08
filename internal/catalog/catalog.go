// Package catalog says what models cost.
//
// A [Book] finds the price of a provider's model and computes in integers. A
// model without a price is told as unknown and never as free. Where prices
// come from is left to the settings; what is done with a cost, to routing and
// the books.
package catalog

import (
	"fmt"
	"math"
	"strings"
)

// NanoDollars is an amount of money: a billionth of a US dollar.
type NanoDollars int64

// Price is a row of the book.
type Price struct {
	Provider string // id of a row of the provider table
	// Model is a model's name; with a star at its end, all that begin so.
	Model string
	// Input and Output are per token. A million tokens at one dollar are 1,000.
	Input, Output NanoDollars
}

// PerMillion returns the price per token of a price in dollars for a million
// tokens, rounded to a nano-dollar. The error says what is wrong with it.
func PerMillion(dollars float64) (NanoDollars, error) {
	if math.IsNaN(dollars) || dollars < 0 || dollars > 1e6 {
		return 0, fmt.Errorf("a price is 0 to 1000000 dollars for a million tokens, not %v", dollars)
	}
	return NanoDollars(math.Round(dollars * 1000)), nil
}

// Book finds prices. The zero value knows none. It is immutable and safe for
// concurrent use.
type Book struct {
	exact    map[string]Price
	prefixes []Price // the longest first among those of one provider
}

// NewBook returns the book of rows. Of two rows for the same model the later
// counts.
func NewBook(rows []Price) *Book {
	b := &Book{exact: make(map[string]Price, len(rows))}
	for _, p := range rows {
		if prefix, ok := strings.CutSuffix(p.Model, "*"); ok {
			p.Model = prefix
			b.insert(p)
			continue
		}
		b.exact[p.Provider+"\x00"+p.Model] = p
	}
	return b
}

// insert keeps longer prefixes before shorter ones, and later rows before
// earlier ones of the same length.
func (b *Book) insert(p Price) {
	at := 0
	for at < len(b.prefixes) && len(b.prefixes[at].Model) > len(p.Model) {
		at++
	}
	b.prefixes = append(b.prefixes[:at], append([]Price{p}, b.prefixes[at:]...)...)
}

// Price returns the row for a provider's model.
func (b *Book) Price(provider, model string) (Price, bool) {
	if b == nil {
		return Price{}, false
	}
	if p, ok := b.exact[provider+"\x00"+model]; ok {
		return p, true
	}
	for _, p := range b.prefixes {
		if p.Provider == provider && strings.HasPrefix(model, p.Model) {
			return p, true
		}
	}
	return Price{}, false
}

// Cost returns what the tokens cost. It stops at the largest amount there is.
func (p Price) Cost(input, output int64) NanoDollars {
	sum := float64(p.Input)*float64(input) + float64(p.Output)*float64(output)
	if sum >= math.MaxInt64 {
		return math.MaxInt64
	}
	return p.Input*NanoDollars(input) + p.Output*NanoDollars(output)
}
