package settings_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"modelgate/internal/model/catalog"
	"modelgate/internal/model/llm"
	"modelgate/internal/settings"
)

func TestAPriceBecomesARow(t *testing.T) {
	set, err := settings.Parse("modelgate.yaml", []byte(`
prices:
  - {provider: groq, model: "llama-*", input: 0.59, output: 0.79}
  - provider: anthropic
    model: claude-sonnet-5
    from: 2026-09-01
    input: 3
    output: 15
    cached_input: 0
    cache_write: 3.75
    reasoning: 16
    input_audio: 4
    output_audio: 17
    request: 0.005
    batch: 50
    priority: 180
    long: {above: 200000, input: 6, output: 22.5, cached_input: 0.6, cache_write_1h: 12}
`), settings.SecretResolver{})
	if err != nil {
		t.Fatal(err)
	}
	rates := func(m map[catalog.Kind]catalog.Rate) catalog.Rates { return catalog.RatesOf(m) }
	for i, want := range []catalog.Price{
		{Provider: "groq", Model: "llama-*", Rates: rates(map[catalog.Kind]catalog.Rate{catalog.Input: 590_000, catalog.Output: 790_000})},
		{
			Provider: "anthropic", Model: "claude-sonnet-5", From: time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC), Request: 5_000_000, Batch: 50, Priority: 180, Above: 200_000,
			Rates: catalog.Rates{
				catalog.Input: 3_000_000, catalog.CachedInput: 0, catalog.CacheWrite5m: 3_750_000, catalog.CacheWrite1h: 3_750_000, catalog.InputAudio: 4_000_000, catalog.InputImage: 3_000_000,
				catalog.Output: 15_000_000, catalog.Reasoning: 16_000_000, catalog.OutputAudio: 17_000_000, catalog.OutputImage: 15_000_000,
			},
			Long: rates(map[catalog.Kind]catalog.Rate{catalog.Input: 6_000_000, catalog.CachedInput: 600_000, catalog.CacheWrite5m: 6_000_000, catalog.CacheWrite1h: 12_000_000, catalog.Output: 22_500_000}),
		},
	} {
		if got, err := set.Prices[i].Row(); !reflect.DeepEqual(got, want) || err != nil {
			t.Errorf("prices[%d].Row() = %+v, %v; want %+v", i, got, err, want)
		}
	}
}

func TestAPriceWithoutFiguresIsRefused(t *testing.T) {
	for name, text := range map[string]string{
		"no figure": "prices:\n  - {provider: groq, model: x}\n",
		"a tier":    "prices:\n  - {provider: groq, model: x, batch: 50}\n",
	} {
		if _, err := settings.Parse("modelgate.yaml", []byte(text), settings.SecretResolver{}); err == nil || !strings.Contains(err.Error(), "prices[0].input") || !strings.Contains(err.Error(), "write 0 if the model is free") {
			t.Errorf("%s: error %v, want one that names prices[0].input", name, err)
		}
	}
}

func TestAbsentPricesAreUnknown(t *testing.T) {
	set, err := settings.Parse("modelgate.yaml", []byte(`
prices:
  - {provider: groq, model: a, input: 1}
  - {provider: groq, model: b, output: 1}
  - {provider: groq, model: c, input: 0, output: 0}
  - {provider: groq, model: d, input: 1, output: 2, long: {above: 1000, input: 2}}
  - {provider: openai, model: e, images: {default: 0.04, hd/1024x1024: 0.08}, second: 0.0001, characters: 15, flex: 25}
`), settings.SecretResolver{})
	if err != nil {
		t.Fatal(err)
	}
	var rows []catalog.Price
	for i := range set.Prices {
		row, err := set.Prices[i].Row()
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	read, written := llm.Usage{Known: true, Input: 10}, llm.Usage{Known: true, Output: 10}
	for i, want := range [][2]bool{{true, false}, {false, true}, {true, true}, {true, true}, {false, false}} {
		if got := [2]bool{rows[i].Covers(read), rows[i].Covers(written)}; got != want {
			t.Errorf("prices[%d] covers input and output %v, want %v", i, got, want)
		}
	}
	if got := rows[3].Cost(llm.Usage{Input: 1001, Output: 1000}, catalog.Standard); got != 1001*2000+1000*2000 {
		t.Errorf("a long request costs %d; output without a long price must cost as much as in a short one", got)
	}
	for _, tt := range []struct {
		u    catalog.Units
		want catalog.NanoDollars
	}{
		{catalog.Units{Images: 2, Quality: "hd", Size: "1024x1024"}, 160_000_000},
		{catalog.Units{Images: 1, Quality: "standard", Size: "512x512"}, 40_000_000},
		{catalog.Units{AudioMillis: 90_500}, 9_050_000},
		{catalog.Units{Characters: 2_000}, 30_000_000},
	} {
		if got, ok := rows[4].UnitCost(tt.u); got != tt.want || !ok {
			t.Errorf("UnitCost(%+v) = %d, %t; want %d", tt.u, got, ok, tt.want)
		}
	}
	if _, ok := rows[4].UnitCost(catalog.Units{}); ok {
		t.Error("a request that used nothing has a known cost")
	}
}
