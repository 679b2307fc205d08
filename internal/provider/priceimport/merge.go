package priceimport

import (
	"cmp"
	"slices"
	"time"

	"modelgate/internal/model/catalog"
)

// Change is what a merge does about one row of a table.
type Change struct {
	Outcome Outcome
	Book    *catalog.Price // the price that the book has; nil if it has none
	Table   *catalog.Price
}

// Outcome says how a row of a table was merged.
type Outcome uint8

// Outcomes of a row.
const (
	Added     Outcome = iota // the book had no price for the model
	Confirmed                // the book has the same figures for tokens; it notes the source and day, and takes prices that it lacks
	Differs                  // the book has other figures, and keeps them
	Replaced                 // the book had other figures, and has those of the table
)

// Merge adds the rows of a table to those of a book as of a day. Rows whose
// figures the book has are confirmed. If the figures differ, the book keeps its own
// unless replace is true for a row. Neither argument is changed.
func Merge(book, rows []catalog.Price, at time.Time, replace func(of, by *catalog.Price) bool) ([]catalog.Price, []Change) {
	out := slices.Clone(book)
	index := make(map[*catalog.Price]int, len(book))
	for i := range book {
		index[&book[i]] = i
	}
	before := catalog.NewBook(book, nil)
	var changes []Change
	for i := range rows {
		row := &rows[i]
		old, ok := before.Price(row.Provider, row.Model, at)
		change := Change{Added, old, row}
		switch {
		case !ok:
			out = append(out, *row)
		case old.SameFigures(row), compatible(old, row):
			change.Outcome = Confirmed
			p := &out[index[old]]
			if row.Read > p.Read {
				p.Source, p.Read = row.Source, row.Read
			}
			fill(p, row)
		case !replace(old, row):
			change.Outcome = Differs
		case old.Model != row.Model: // the book has a name with a star, for others too
			change.Outcome = Replaced
			out = append(out, *row)
		default:
			change.Outcome = Replaced
			from := old.From
			out[index[old]] = *row
			out[index[old]].From = from
		}
		changes = append(changes, change)
	}
	slices.SortStableFunc(out, catalog.CompareRows)
	return out, changes
}

// compatible reports whether two prices charge the same for text, as far as both
// say: input, output, cached input and long requests.
func compatible(p, q *catalog.Price) bool {
	same := func(a, b *catalog.Rates, kind catalog.Kind) bool {
		return a[kind] == b[kind] || !a.HasRate(kind) || !b.HasRate(kind)
	}
	switch {
	case p.NoInput != q.NoInput || p.NoOutput != q.NoOutput || !sameTokens(p, q) || p.NoInput && p.NoOutput:
		return false
	case !same(&p.Rates, &q.Rates, catalog.CachedInput):
		return false
	case p.Above > 0 && q.Above == 0:
		return false
	case p.Above > 0:
		return p.Above == q.Above && p.Long[catalog.Input] == q.Long[catalog.Input] && p.Long[catalog.Output] == q.Long[catalog.Output]
	}
	return true
}

// fill adds the prices of q that p lacks.
func fill(p, q *catalog.Price) {
	given := make(map[catalog.Kind]catalog.Rate)
	for kind := range catalog.Kinds {
		if p.Rates.HasRate(kind) || kind == catalog.Input || kind == catalog.Output {
			given[kind] = p.Rates[kind]
		} else if q.Rates.HasRate(kind) {
			given[kind] = q.Rates[kind]
		}
	}
	p.Rates = catalog.RatesOf(given)
	if p.Above == 0 {
		p.Above, p.Long = q.Above, q.Long
	}
	if p.Units == nil {
		p.Units = q.Units
	}
	p.Request = cmp.Or(p.Request, q.Request)
	p.Batch, p.Flex, p.Priority = cmp.Or(p.Batch, q.Batch), cmp.Or(p.Flex, q.Flex), cmp.Or(p.Priority, q.Priority)
}

// Confirmations are further tables, which confirm figures.
type Confirmations []*catalog.PriceBook

// Agree reports whether a table has the prices of by for input and output, for the
// same model, and none those of the price that by would replace.
func (c Confirmations) Agree(of, by *catalog.Price) bool {
	agree := false
	for _, book := range c {
		p, ok := book.Price(by.Provider, by.Model, time.Time{})
		if !ok {
			continue
		}
		if sameTokens(p, of) && !sameTokens(of, by) {
			return false
		}
		agree = agree || sameTokens(p, by) && p.Rates[catalog.CachedInput] == by.Rates[catalog.CachedInput] && p.Above == by.Above
	}
	return agree
}

// sameTokens reports whether input and output cost the same.
func sameTokens(p, q *catalog.Price) bool {
	return p.Rates[catalog.Input] == q.Rates[catalog.Input] && p.Rates[catalog.Output] == q.Rates[catalog.Output]
}
