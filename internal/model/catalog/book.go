package catalog

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// PriceBook finds prices. The zero value has none. It is immutable and safe for
// concurrent use.
type PriceBook struct {
	shelves map[string]*providerPrices // by provider
	under   *PriceBook
}

// providerPrices holds the prices of one provider, those of a model by time,
// the latest first.
type providerPrices struct {
	exact    map[string][]*Price
	prefixes map[string][]*Price // without their star
	lengths  []int               // lengths of prefixes, the longest first
}

// NewBook returns a book of rows, which it retains. The last of several rows
// for the same model and time wins. If it has no price, it looks in under,
// unless that is nil.
func NewBook(rows []Price, under *PriceBook) *PriceBook {
	b := &PriceBook{shelves: make(map[string]*providerPrices), under: under}
	for i := len(rows) - 1; i >= 0; i-- {
		b.put(&rows[i])
	}
	for _, s := range b.shelves {
		for prefix, list := range s.prefixes {
			s.lengths = append(s.lengths, len(prefix))
			slices.SortStableFunc(list, newest)
		}
		slices.Sort(s.lengths)
		s.lengths = slices.Compact(s.lengths)
		slices.Reverse(s.lengths)
		for _, list := range s.exact {
			slices.SortStableFunc(list, newest)
		}
	}
	return b
}

func newest(a, b *Price) int { return b.From.Compare(a.From) }

func (b *PriceBook) put(p *Price) {
	s := b.shelves[p.Provider]
	if s == nil {
		s = &providerPrices{exact: make(map[string][]*Price), prefixes: make(map[string][]*Price)}
		b.shelves[p.Provider] = s
	}
	if prefix, ok := strings.CutSuffix(p.Model, "*"); ok {
		s.prefixes[prefix] = append(s.prefixes[prefix], p)
		return
	}
	s.exact[p.Model] = append(s.exact[p.Model], p)
}

// Price returns the price of a provider's model at a time: the one for its
// exact name, or the one with the longest matching prefix. Callers must not
// change it.
func (b *PriceBook) Price(provider, model string, at time.Time) (*Price, bool) {
	for ; b != nil; b = b.under {
		if s := b.shelves[provider]; s != nil {
			if p := s.find(model, at); p != nil {
				return p, true
			}
		}
	}
	return nil, false
}

func (s *providerPrices) find(model string, at time.Time) *Price {
	if p := effectiveAt(s.exact[model], at); p != nil {
		return p
	}
	for _, n := range s.lengths {
		if n > len(model) {
			continue
		}
		if p := effectiveAt(s.prefixes[model[:n]], at); p != nil {
			return p
		}
	}
	return nil
}

func effectiveAt(rows []*Price, at time.Time) *Price {
	for _, p := range rows {
		if !p.From.After(at) {
			return p
		}
	}
	return nil
}

// Row is a price with the model that it is in force for.
type Row struct {
	Model string // with a star at its end, a prefix of models without a row of their own
	*Price
}

// InForce returns the prices of a provider at a time, by model. Callers must not change
// them.
func (b *PriceBook) InForce(provider string, at time.Time) []Row {
	rows := make(map[string]*Price)
	for layer := b; layer != nil; layer = layer.under {
		s := layer.shelves[provider]
		if s == nil {
			continue
		}
		for model := range s.exact {
			if p, ok := b.Price(provider, model, at); ok {
				rows[model] = p
			}
		}
		for prefix, list := range s.prefixes {
			if p := effectiveAt(list, at); p != nil && rows[prefix+"*"] == nil {
				rows[prefix+"*"] = p
			}
		}
	}
	out := make([]Row, 0, len(rows))
	for _, model := range slices.Sorted(maps.Keys(rows)) {
		out = append(out, Row{model, rows[model]})
	}
	return out
}

// Providers returns the ids of the providers that have a price, sorted.
func (b *PriceBook) Providers() []string {
	ids := make(map[string]bool)
	for ; b != nil; b = b.under {
		for id := range b.shelves {
			ids[id] = true
		}
	}
	return slices.Sorted(maps.Keys(ids))
}
