// Package priceimport reads public tables of model prices into rows of the price
// book.
//
// It guarantees that a row is taken completely or skipped with a reason, and that
// providers are those of the table. It does not decide which of two prices is
// right: see [Merge], which keeps the price of the book.
package priceimport

import (
	"cmp"
	_ "embed"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"modelgate/internal/model/catalog"
	"modelgate/internal/provider/table"
)

// Table is what was read of a public table.
type Table struct {
	Rows    []catalog.Price
	Skipped []Skipped
}

// Skipped is an entry that gives no row. An entry whose name is long or cannot be printed is
// shortened and quoted.
type Skipped struct{ Entry, Reason string }

// tableProvider is a provider in a public table.
type tableProvider struct {
	id      string // ours
	prefix  string // of the names of its models, before a slash; may be empty
	onePart bool   // names with another slash are not those of models
}

//go:embed providers.csv
var providersFile string

// tables are the providers by table and name.
var tables = sync.OnceValue(func() map[string]map[string]tableProvider {
	r := csv.NewReader(strings.NewReader(providersFile))
	r.Comment, r.FieldsPerRecord = '#', -1
	rows, err := r.ReadAll()
	if err != nil {
		panic("priceimport: " + err.Error()) // a test reads the same file
	}
	out := make(map[string]map[string]tableProvider)
	for _, row := range rows[1:] {
		if out[row[0]] == nil {
			out[row[0]] = make(map[string]tableProvider)
		}
		row = append(row, "", "")
		out[row[0]][row[1]] = tableProvider{row[2], row[3], row[4] == "yes"}
	}
	return out
})

// providersOf returns the providers of a table by the names that it has for them.
func providersOf(name string) map[string]tableProvider { return tables()[name] }

// maxTable is the limit of a table, in bytes.
const maxTable = 64 << 20

// Formats returns the names of the formats that Read accepts.
func Formats() []string { return []string{"litellm", "models-dev", "modelgate"} }

// Read reads a table. Source and read are noted in its rows: the key of the
// source and the day of the stored version.
func Read(format string, data []byte, source, read string) (*Table, error) {
	if len(data) > maxTable {
		return nil, fmt.Errorf("the table is longer than %d MB", maxTable>>20)
	}
	t := new(Table)
	var err error
	switch format {
	case "litellm":
		err = t.readLiteLLM(data)
	case "models-dev":
		err = t.readModelsDev(data)
	case "modelgate":
		t.Rows, err = catalog.Parse(string(data))
	default:
		err = fmt.Errorf("the format must be one of %s", strings.Join(Formats(), ", "))
	}
	if err != nil {
		return nil, err
	}
	for i := range t.Rows {
		if format != "modelgate" {
			t.Rows[i].Source, t.Rows[i].Read = source, read
		}
	}
	t.Rows = slices.DeleteFunc(t.Rows, func(p catalog.Price) bool {
		err := p.CheckPlausible()
		if spec, ok := table.Lookup(p.Provider); err == nil && (!ok || spec.ID != p.Provider) {
			err = errors.New("the provider is not in the table")
		}
		if err != nil {
			t.skip(p.Row(), err.Error())
		}
		return err != nil
	})
	slices.SortStableFunc(t.Rows, catalog.CompareRows)
	t.Rows = slices.CompactFunc(t.Rows, func(a, b catalog.Price) bool { return catalog.CompareRows(a, b) == 0 })
	slices.SortFunc(t.Skipped, func(a, b Skipped) int { return cmp.Compare(a.Entry, b.Entry) })
	return t, nil
}

func (t *Table) skip(entry, reason string) {
	if len(entry) > maxEntry || strings.ContainsFunc(entry, func(r rune) bool { return !unicode.IsPrint(r) }) {
		entry = strconv.Quote(entry[:min(len(entry), maxEntry)])
	}
	t.Skipped = append(t.Skipped, Skipped{entry, reason})
}

// maxEntry is the limit of the name of an entry that is shown, in bytes.
const maxEntry = 256

// tokenPrices are prices in dollars per token. Nil is unknown.
type tokenPrices struct {
	input, output, cached, write5m, write1h *float64
}

// dropWrites drops prices of writing to a cache that are less than half of the
// price of input: they are of its storage, or mistakes.
func (p *tokenPrices) dropWrites() {
	if p.input == nil {
		return
	}
	if p.write5m != nil && *p.write5m < *p.input/2 {
		p.write5m = nil
	}
	if p.write1h != nil && (p.write5m == nil || *p.write1h < *p.write5m) {
		p.write1h = nil
	}
}

// rates returns the prices as rates, with those of further kinds. NoInput and
// NoOutput are true if a price is unknown.
func (p tokenPrices) rates(further map[catalog.Kind]*float64) (rates catalog.Rates, noInput, noOutput bool, err error) {
	given := make(map[catalog.Kind]catalog.Rate)
	all := map[catalog.Kind]*float64{
		catalog.Input: p.input, catalog.Output: p.output, catalog.CachedInput: p.cached, catalog.CacheWrite5m: p.write5m,
		catalog.CacheWrite1h: p.write1h,
	}
	maps.Copy(all, further)
	for kind, price := range all {
		if price == nil {
			continue
		}
		if given[kind], err = catalog.PerMillion(*price * 1e6); err != nil {
			return rates, false, false, err
		}
	}
	return catalog.RatesOf(given), p.input == nil, p.output == nil, nil
}

// percentOf returns the price of a tier in percent of the standard price, zero if
// it is unknown or differs between kinds of tokens.
func percentOf(standard, tier tokenPrices) int {
	percent := 0
	for _, pair := range [...][2]*float64{{standard.input, tier.input}, {standard.output, tier.output}, {standard.cached, tier.cached}} {
		if pair[0] == nil || pair[1] == nil || *pair[0] == 0 {
			continue
		}
		p := *pair[1] / *pair[0] * 100
		rounded := math.Round(p)
		if math.Abs(p-rounded) > 0.05 || percent != 0 && percent != int(rounded) || rounded < 1 || rounded > 10_000 {
			return 0
		}
		percent = int(rounded)
	}
	return percent
}

// nanoDollars converts dollars. Values out of range are an error.
func nanoDollars(dollars float64) (catalog.NanoDollars, error) {
	if math.IsNaN(dollars) || dollars < 0 || dollars > 1000 {
		return 0, fmt.Errorf("a price is 0 to 1000 dollars, not %v", dollars)
	}
	return catalog.NanoDollars(math.Round(dollars * 1e9)), nil
}

// modelsDev is a provider in the table of models.dev. Its prices are dollars per
// million tokens.
type modelsDev struct {
	Models map[string]struct {
		Cost *struct {
			Input, Output, Reasoning *float64
			CacheRead                *float64 `json:"cache_read"`
			CacheWrite               *float64 `json:"cache_write"`
			CacheWrite1h             *float64 `json:"cache_write_1h"`
			InputAudio               *float64 `json:"input_audio"`
			OutputAudio              *float64 `json:"output_audio"`
		} `json:"cost"`
	} `json:"models"`
}

func (t *Table) readModelsDev(data []byte) error {
	var providers map[string]modelsDev
	if err := json.Unmarshal(data, &providers); err != nil {
		return fmt.Errorf("reading the table: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(providers)) { // two may be one provider of the table
		from := providers[name]
		id := cmp.Or(providersOf("models-dev")[name].id, name)
		if _, ok := table.Lookup(id); !ok {
			t.skip(name, "the provider is not in the table")
			continue
		}
		for model, m := range from.Models {
			entry := name + "/" + model
			if m.Cost == nil || m.Cost.Input == nil || *m.Cost.Input == 0 && (m.Cost.Output == nil || *m.Cost.Output == 0) {
				t.skip(entry, "no price")
				continue
			}
			perToken := func(million *float64) *float64 {
				if million == nil {
					return nil
				}
				token := *million / 1e6
				return &token
			}
			c := m.Cost
			p := catalog.Price{Provider: id, Model: model}
			prices := tokenPrices{perToken(c.Input), perToken(c.Output), positive(perToken(c.CacheRead)), perToken(c.CacheWrite),
				perToken(c.CacheWrite1h)}
			prices.dropWrites()
			var err error
			p.Rates, p.NoInput, p.NoOutput, err = prices.rates(
				map[catalog.Kind]*float64{catalog.Reasoning: perToken(c.Reasoning), catalog.InputAudio: perToken(c.InputAudio),
					catalog.OutputAudio: perToken(c.OutputAudio)})
			if err != nil {
				t.skip(entry, err.Error())
				continue
			}
			t.Rows = append(t.Rows, p)
		}
	}
	return nil
}
