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

// Price is the price of a model, in US dollars per million tokens. It takes precedence
// over the built-in price book.
type Price struct {
	Provider string  `json:"provider" minLength:"1" doc:"Id of a provider"`
	Model    string  `json:"model" minLength:"1" doc:"A trailing star matches all models with this prefix"`
	Input    float64 `json:"input,omitempty" minimum:"0"`
	Output   float64 `json:"output,omitempty" minimum:"0"`

	CachedInput  *float64 `json:"cached_input,omitempty" minimum:"0" doc:"Defaults to input"`
	CacheWrite   *float64 `json:"cache_write,omitempty" minimum:"0" doc:"Tokens cached for five minutes; defaults to input"`
	CacheWrite1h *float64 `json:"cache_write_1h,omitempty" minimum:"0" doc:"Tokens cached for an hour; defaults to cache_write"`
	Reasoning    *float64 `json:"reasoning,omitempty" minimum:"0" doc:"Defaults to output"`
	InputAudio   *float64 `json:"input_audio,omitempty" minimum:"0" doc:"Defaults to input"`
	OutputAudio  *float64 `json:"output_audio,omitempty" minimum:"0" doc:"Defaults to output"`

	Request  float64    `json:"request,omitempty" minimum:"0" maximum:"1000000" doc:"Additional dollars per request"`
	Batch    int        `json:"batch,omitempty" minimum:"0" maximum:"100" doc:"Percentage of these prices for batch requests and the flex tier; their cost is unknown if absent"`
	Priority int        `json:"priority,omitempty" minimum:"0" maximum:"10000" doc:"Percentage of these prices for the priority tier; their cost is unknown if absent"`
	From     string     `json:"from,omitempty" format:"date" doc:"Day from which the price applies; defaults to always"`
	Long     *LongPrice `json:"long,omitempty" doc:"Prices of all tokens of a request with more input tokens than above"`
}

// LongPrice is the price of long requests.
type LongPrice struct {
	Above        int64    `json:"above" minimum:"1"`
	Input        float64  `json:"input,omitempty" minimum:"0"`
	Output       float64  `json:"output,omitempty" minimum:"0"`
	CachedInput  *float64 `json:"cached_input,omitempty" minimum:"0"`
	CacheWrite   *float64 `json:"cache_write,omitempty" minimum:"0"`
	CacheWrite1h *float64 `json:"cache_write_1h,omitempty" minimum:"0"`
}

// check returns an error in the names of a price, and the field. Models may be unknown,
// because new ones appear every week; providers must be known.
func (p *Price) check() (field string, err error) {
	if _, ok := table.Lookup(p.Provider); !ok {
		return "provider", unknownProvider(p.Provider)
	}
	if strings.Contains(strings.TrimSuffix(p.Model, "*"), "*") {
		return "model", errors.New("a star must be the last character")
	}
	return "", nil
}

// unknownProvider returns the error for an unknown provider id.
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

// Row returns the price in the form of the price book. The error says what is wrong
// with the price.
func (p *Price) Row() (catalog.Price, error) {
	row := catalog.Price{Provider: p.Provider, Model: p.Model, Request: catalog.NanoDollars(math.Round(p.Request * 1e9)), Batch: p.Batch, Priority: p.Priority}
	if p.Provider == "" || p.Model == "" {
		return row, errors.New("a price must name a provider and a model")
	}
	if spec, ok := table.Lookup(p.Provider); ok { // aliases are billed by id
		row.Provider = spec.ID
	}
	var err error
	if p.From != "" {
		if row.From, err = time.Parse(time.DateOnly, p.From); err != nil {
			return row, errors.New("from must be a day such as 2026-11-21")
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
