package pricing_test

import (
	"reflect"
	"strings"
	"testing"

	"modelgate/internal/model/catalog"
	"modelgate/internal/model/llm"
	"modelgate/internal/model/pricing"
)

func TestAPricingFileIsReadInCents(t *testing.T) {
	f, err := pricing.ParseFile("openai", []byte(`{
		"default": {"pricing_config": {"pay_as_you_go": {"request_token": {"price": 0}, "response_token": {"price": 0}}}},
		"gpt-x": {"pricing_config": {"type": "static", "currency": "USD",
			"pay_as_you_go": {"request_token": {"price": 0.00025}, "response_token": {"price": 0.001}, "cache_read_input_token": {"price": 0.000125},
				"request_image_token": {"price": 0.001}, "response_image_token": {"price": 0.003}, "cache_read_audio_input_token": {"price": 1},
				"additional_units": {"thinking_token": {"price": 0.002}, "web_search": {"price": 1}}},
			"batch_config": {"request_token": {"price": 0.000125}, "response_token": {"price": 0.0005}},
			"finetune_config": {"pay_per_token": {"price": 1}}, "calculate": {}}},
		"painter": {"pricing_config": {"pay_as_you_go": {"image": {"default": {"default": {"price": 4}}, "hd": {"1024x1024": {"price": 8}, "default": {"price": 9}}, "low": {"512x512": {"price": 0}}}}}},
		"unknown": {"pricing_config": null},
		"empty": {"pricing_config": {"pay_as_you_go": {}}},
		"half": {"pricing_config": {"pay_as_you_go": {"request_token": {"price": 0.001}}}}
	}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []catalog.Price{
		{Provider: "openai", Model: "gpt-x", Batch: 50, Rates: catalog.RatesOf(map[catalog.Kind]catalog.Rate{
			catalog.Input: 2_500_000, catalog.Output: 10_000_000, catalog.CachedInput: 1_250_000, catalog.InputImage: 10_000_000, catalog.OutputImage: 30_000_000, catalog.Reasoning: 20_000_000})},
		{Provider: "openai", Model: "half", NoOutput: true, Rates: catalog.RatesOf(map[catalog.Kind]catalog.Rate{catalog.Input: 10_000_000})},
		{Provider: "openai", Model: "painter", NoInput: true, NoOutput: true, Units: &catalog.UnitPrices{Images: map[string]catalog.NanoDollars{"": 40_000_000, "hd/1024x1024": 80_000_000, "hd": 90_000_000}}},
	}
	if !reflect.DeepEqual(f.Rows, want) {
		t.Errorf("rows %+v, want %+v", f.Rows, want)
	}
	if f.Unknown != 2 {
		t.Errorf("%d models without a price, want 2", f.Unknown)
	}
	for _, field := range []string{"finetune_config", "pay_as_you_go.additional_units.web_search", "pay_as_you_go.cache_read_audio_input_token"} {
		if f.Ignored[field] != 1 {
			t.Errorf("%s is not named as ignored: %v", field, f.Ignored)
		}
	}
}

// A pricing file comes from elsewhere: what is wrong is named, and nothing is taken.
func TestHostilePricingFilesAreRefusedByName(t *testing.T) {
	config := func(text string) string { return `{"good":{},"gpt-x":{"pricing_config":` + text + `}}` }
	for _, tt := range []struct{ text, names string }{
		{`[]`, "JSON object"},
		{`null`, "JSON object"},
		{`{"a":`, "JSON object"},
		{strings.Repeat("[", 100_000), "JSON object"},
		{`{"gpt-x":7}`, "gpt-x"},
		{`{"":{}}`, "name"},
		{`{"a\u0000b":{}}`, "name"},
		{`{"` + strings.Repeat("a", 300) + `":{}}`, "name"},
		{config(`7`), "pricing_config"},
		{config(`{"pay_as_you_go":[]}`), "pay_as_you_go"},
		{config(`{"pay_as_you_go":{"request_token":{"price":-1}}}`), "pay_as_you_go.request_token.price"},
		{config(`{"pay_as_you_go":{"request_token":{"price":1e300}}}`), "pay_as_you_go.request_token.price"},
		{config(`{"pay_as_you_go":{"request_token":{"price":"0.1"}}}`), "pay_as_you_go.request_token.price"},
		{config(`{"pay_as_you_go":{"request_token":0.1}}`), "pay_as_you_go.request_token"},
		{config(`{"pay_as_you_go":{"image":{"hd":{"x":{"price":1e9}}}}}`), "pay_as_you_go.image.hd.x.price"},
		{config(`{"batch_config":{"request_token":{"price":101}}}`), "batch_config.request_token.price"},
		{config(`{"currency":"EUR"}`), "currency"},
		{config(`{"type":"dynamic"}`), "type"},
	} {
		f, err := pricing.ParseFile("openai", []byte(tt.text))
		if err == nil {
			t.Errorf("%.80s was taken: %+v", tt.text, f)
			continue
		}
		if got := err.Error(); !strings.HasPrefix(got, "openai: ") || !strings.Contains(got, tt.names) || strings.Contains(tt.text, `"gpt-x":{`) && !strings.Contains(got, `"gpt-x"`) || len(got) > 300 {
			t.Errorf("%.80s: error %.300q does not name the provider, the model and %s", tt.text, got, tt.names)
		}
	}
}

// An operator who writes 0 says that tokens are free; what is left out is unknown.
func TestZeroInAPricingFileIsFree(t *testing.T) {
	f, err := pricing.ParseFile("ollama", []byte(`{"own": {"pricing_config": {"pay_as_you_go": {"request_token": {"price": 0}, "response_token": {"price": 0}}}},
		"half": {"pricing_config": {"pay_as_you_go": {"request_token": {"price": 0}}}}}`))
	if err != nil || len(f.Rows) != 2 {
		t.Fatalf("%+v, %v", f, err)
	}
	u := llm.Usage{Known: true, Input: 10, Output: 10}
	half, own := &f.Rows[0], &f.Rows[1]
	if !own.Covers(u) || own.Cost(u, catalog.Standard) != 0 {
		t.Errorf("two zeros cost %d, known %t; want free", own.Cost(u, catalog.Standard), own.Covers(u))
	}
	if half.Covers(u) {
		t.Error("the price of output is known, although the file does not have it")
	}
}
