package settings

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"modelgate/config"
	"modelgate/internal/catalog"
	"modelgate/internal/provider/table"
)

// Price is what a model costs, in US dollars for a million tokens. It counts
// before those of the book that comes with the program.
type Price struct {
	Provider string  `json:"provider" minLength:"1" doc:"Id of a row of the provider table"`
	Model    string  `json:"model" minLength:"1" doc:"A star at the end means all that begin so"`
	Input    float64 `json:"input,omitempty" minimum:"0"`
	Output   float64 `json:"output,omitempty" minimum:"0"`

	CachedInput  *float64 `json:"cached_input,omitempty" minimum:"0" doc:"Like input when absent"`
	CacheWrite   *float64 `json:"cache_write,omitempty" minimum:"0" doc:"Tokens kept for five minutes; like input when absent"`
	CacheWrite1h *float64 `json:"cache_write_1h,omitempty" minimum:"0" doc:"Tokens kept for an hour; like cache_write when absent"`
	Reasoning    *float64 `json:"reasoning,omitempty" minimum:"0" doc:"Like output when absent"`
	InputAudio   *float64 `json:"input_audio,omitempty" minimum:"0" doc:"Like input when absent"`
	OutputAudio  *float64 `json:"output_audio,omitempty" minimum:"0" doc:"Like output when absent"`

	Request  float64    `json:"request,omitempty" minimum:"0" maximum:"1000000" doc:"Dollars for each request besides"`
	Batch    int        `json:"batch,omitempty" minimum:"0" maximum:"100" doc:"Percent of all this that requests of a batch or in the flex tier pay; their cost is not known when absent"`
	Priority int        `json:"priority,omitempty" minimum:"0" maximum:"10000" doc:"Percent of all this that requests in the priority tier pay; their cost is not known when absent"`
	From     string     `json:"from,omitempty" format:"date" doc:"Day from which it counts; absent means always"`
	Long     *LongPrice `json:"long,omitempty" doc:"Prices of the whole of a request that reads more tokens than above"`
}

// LongPrice is what a model costs for long requests.
type LongPrice struct {
	Above        int64    `json:"above" minimum:"1"`
	Input        float64  `json:"input,omitempty" minimum:"0"`
	Output       float64  `json:"output,omitempty" minimum:"0"`
	CachedInput  *float64 `json:"cached_input,omitempty" minimum:"0"`
	CacheWrite   *float64 `json:"cache_write,omitempty" minimum:"0"`
	CacheWrite1h *float64 `json:"cache_write_1h,omitempty" minimum:"0"`
}

// check returns what is wrong with the names of a price, and the field. Models
// may be unknown to the book, since new ones come every week; providers may not.
func (p *Price) check() (field string, err error) {
	if _, ok := table.Lookup(p.Provider); !ok {
		return "provider", unknownProvider(p.Provider)
	}
	if strings.Contains(strings.TrimSuffix(p.Model, "*"), "*") {
		return "model", errors.New("a star must be the last character")
	}
	return "", nil
}

// unknownProvider is the error of an id that the provider table does not have.
func unknownProvider(id string) error {
	var known []string
	for _, spec := range table.All() {
		known = append(append(known, spec.ID), spec.Aliases...)
	}
	if like := config.Nearest(id, known); like != "" {
		return fmt.Errorf("provider %.60q not found; did you mean %q?", id, like)
	}
	return fmt.Errorf("provider %.60q not found; `modelgate providers` lists the ids", id)
}

// Row returns the row of a book. The error says what is wrong with the price.
func (p *Price) Row() (catalog.Price, error) {
	row := catalog.Price{Provider: p.Provider, Model: p.Model, Request: catalog.NanoDollars(math.Round(p.Request * 1e9)), Batch: p.Batch, Priority: p.Priority}
	if p.Provider == "" || p.Model == "" {
		return row, errors.New("a price names a provider and a model")
	}
	if spec, ok := table.Lookup(p.Provider); ok { // an alias is billed by the id
		row.Provider = spec.ID
	}
	var err error
	if p.From != "" {
		if row.From, err = time.Parse(time.DateOnly, p.From); err != nil {
			return row, errors.New("from is a day such as 2026-11-21")
		}
	}
	row.Rates, err = rates(map[catalog.Kind]*float64{
		catalog.Input: &p.Input, catalog.CachedInput: p.CachedInput, catalog.CacheWrite5m: p.CacheWrite, catalog.CacheWrite1h: p.CacheWrite1h,
		catalog.InputAudio: p.InputAudio, catalog.Output: &p.Output, catalog.Reasoning: p.Reasoning, catalog.OutputAudio: p.OutputAudio,
	})
	if l := p.Long; l != nil && err == nil {
		row.Above = l.Above
		row.Long, err = rates(map[catalog.Kind]*float64{
			catalog.Input: &l.Input, catalog.CachedInput: l.CachedInput, catalog.CacheWrite5m: l.CacheWrite, catalog.CacheWrite1h: l.CacheWrite1h,
			catalog.Output: &l.Output,
		})
	}
	return row, err
}

func rates(dollars map[catalog.Kind]*float64) (catalog.Rates, error) {
	given := make(map[catalog.Kind]catalog.Rate, len(dollars))
	for kind, d := range dollars {
		if d == nil {
			continue
		}
		rate, err := catalog.PerMillion(*d)
		if err != nil {
			return catalog.Rates{}, err
		}
		given[kind] = rate
	}
	return catalog.RatesOf(given), nil
}
