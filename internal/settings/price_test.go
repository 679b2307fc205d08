package settings_test

import (
	"testing"
	"time"

	"modelgate/internal/catalog"
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
				catalog.Input: 3_000_000, catalog.CachedInput: 0, catalog.CacheWrite5m: 3_750_000, catalog.CacheWrite1h: 3_750_000, catalog.InputAudio: 4_000_000,
				catalog.Output: 15_000_000, catalog.Reasoning: 16_000_000, catalog.OutputAudio: 17_000_000,
			},
			Long: rates(map[catalog.Kind]catalog.Rate{catalog.Input: 6_000_000, catalog.CachedInput: 600_000, catalog.CacheWrite5m: 6_000_000, catalog.CacheWrite1h: 12_000_000, catalog.Output: 22_500_000}),
		},
	} {
		if got, err := set.Prices[i].Row(); got != want || err != nil {
			t.Errorf("prices[%d].Row() = %+v, %v; want %+v", i, got, err, want)
		}
	}
}
