package settings

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"modelgate/config"
	"modelgate/internal/model/catalog"
	"modelgate/internal/provider/table"
)

// Price is the price of a model, in US dollars per million tokens. It takes precedence
// over the built-in price book.
type Price struct {
	Provider string   `json:"provider" minLength:"1" doc:"Id of a provider"`
	Model    string   `json:"model" minLength:"1" doc:"A trailing star matches all models with this prefix"`
	Input    *float64 `json:"input,omitempty" minimum:"0" doc:"Unknown if absent; 0 is free"`
	Output   *float64 `json:"output,omitempty" minimum:"0" doc:"Unknown if absent; 0 is free"`

	CachedInput  *float64 `json:"cached_input,omitempty" minimum:"0" doc:"Defaults to input"`
	CacheWrite   *float64 `json:"cache_write,omitempty" minimum:"0" doc:"Tokens cached for five minutes; defaults to input"`
	CacheWrite1h *float64 `json:"cache_write_1h,omitempty" minimum:"0" doc:"Tokens cached for an hour; defaults to cache_write"`
	Reasoning    *float64 `json:"reasoning,omitempty" minimum:"0" doc:"Defaults to output"`
	InputAudio   *float64 `json:"input_audio,omitempty" minimum:"0" doc:"Defaults to input"`
	OutputAudio  *float64 `json:"output_audio,omitempty" minimum:"0" doc:"Defaults to output"`
	InputImage   *float64 `json:"input_image,omitempty" minimum:"0" doc:"Defaults to input"`
	OutputImage  *float64 `json:"output_image,omitempty" minimum:"0" doc:"Defaults to output"`

	Images     map[string]float64 `json:"images,omitempty" maxProperties:"100" doc:"Dollars per generated image, by quality and size such as hd/1024x1024; default is any other"`
	Second     float64            `json:"second,omitempty" minimum:"0" maximum:"1000" doc:"Dollars per second of recorded audio"`
	Characters float64            `json:"characters,omitempty" minimum:"0" doc:"Dollars per million characters to speak"`
	Training   float64            `json:"training,omitempty" minimum:"0" doc:"Dollars per million tokens of a fine-tuning job; their cost is unknown if absent"`

	Request  float64    `json:"request,omitempty" minimum:"0" maximum:"1000000" doc:"Additional dollars per request"`
	Batch    int        `json:"batch,omitempty" minimum:"0" maximum:"100" doc:"Percentage of these prices for batch requests; their cost is unknown if absent"`
	Flex     int        `json:"flex,omitempty" minimum:"0" maximum:"100" doc:"Percentage of these prices for the flex tier; defaults to batch"`
	Priority int        `json:"priority,omitempty" minimum:"0" maximum:"10000" doc:"Percentage of these prices for the priority tier; their cost is unknown if absent"`
	From     string     `json:"from,omitempty" format:"date" doc:"Day from which the price applies; defaults to always"`
	Long     *LongPrice `json:"long,omitempty" doc:"Prices of all tokens of a request with more input tokens than above"`
}

// LongPrice is the price of long requests.
type LongPrice struct {
	Above        int64    `json:"above" minimum:"1"`
	Input        *float64 `json:"input,omitempty" minimum:"0" doc:"Defaults to the price of short requests"`
	Output       *float64 `json:"output,omitempty" minimum:"0" doc:"Defaults to the price of short requests"`
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
		return "model", errors.New("* is allowed only as the last character")
	}
	if p.Input == nil && p.Output == nil && p.Request == 0 && p.units() == nil {
		return "input", errors.New("is required, or another price; write 0 if the model is free")
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
	row := catalog.Price{Provider: p.Provider, Model: p.Model, Request: catalog.NanoDollars(math.Round(p.Request * 1e9)),
		Batch: p.Batch, Flex: p.Flex, Priority: p.Priority, NoInput: p.Input == nil, NoOutput: p.Output == nil, Units: p.units()}
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
		catalog.Input: p.Input, catalog.CachedInput: p.CachedInput, catalog.CacheWrite5m: p.CacheWrite, catalog.CacheWrite1h: p.CacheWrite1h,
		catalog.InputAudio: p.InputAudio, catalog.InputImage: p.InputImage, catalog.OutputImage: p.OutputImage, catalog.Output: p.Output,
		catalog.Reasoning: p.Reasoning, catalog.OutputAudio: p.OutputAudio,
	})
	if l := p.Long; l != nil && err == nil {
		row.Above = l.Above
		row.Long, err = rates(map[catalog.Kind]*float64{
			catalog.Input: cmp.Or(l.Input, p.Input), catalog.CachedInput: l.CachedInput, catalog.CacheWrite5m: l.CacheWrite,
			catalog.CacheWrite1h: l.CacheWrite1h,
			catalog.Output:       cmp.Or(l.Output, p.Output),
		})
	}
	return row, err
}

// perMillion returns a price of dollars per million, bounded so that it fits.
func perMillion(dollars float64) catalog.Rate {
	return catalog.Rate(math.Round(min(dollars, 1e6) * 1e6))
}

// units returns the prices of what is not sold by tokens, nil for none.
func (p *Price) units() *catalog.UnitPrices {
	if len(p.Images) == 0 && p.Second == 0 && p.Characters == 0 && p.Training == 0 {
		return nil
	}
	u := &catalog.UnitPrices{Second: nanoDollars(p.Second), Character: perMillion(p.Characters), Training: perMillion(p.Training)}
	for name, price := range p.Images {
		if u.Images == nil {
			u.Images = make(map[string]catalog.NanoDollars, len(p.Images))
		}
		if name == "default" {
			name = ""
		}
		u.Images[name] = nanoDollars(price)
	}
	return u
}

// nanoDollars converts dollars, at most 1000.
func nanoDollars(dollars float64) catalog.NanoDollars {
	return catalog.NanoDollars(math.Round(max(0, min(dollars, 1000)) * 1e9))
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
