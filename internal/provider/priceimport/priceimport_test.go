package priceimport_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"

	"modelgate/internal/model/catalog"
	"modelgate/internal/provider/priceimport"
)

// entry returns a table of LiteLLM with one entry.
func entry(name, fields string) []byte {
	quoted, err := json.Marshal(name)
	if err != nil {
		panic(err)
	}
	return fmt.Appendf(nil, `{%s:{"litellm_provider":"openai","mode":"chat",%s}}`, quoted, fields)
}

func TestLiteLLMIsReadInDollarsPerToken(t *testing.T) {
	table, err := priceimport.Read("litellm", entry("gpt-x", `"input_cost_per_token":0.0000025,"output_cost_per_token":0.00001,"cache_read_input_token_cost":0.00000125,
		"input_cost_per_token_batches":0.00000125,"output_cost_per_token_batches":0.000005,"input_cost_per_token_above_200k_tokens":0.000005,"output_cost_per_token_above_200k_tokens":0.000015`), "litellm", "2026-11-23")
	if err != nil || len(table.Rows) != 1 {
		t.Fatalf("%+v, %v; want a row", table, err)
	}
	want := catalog.Price{Provider: "openai", Model: "gpt-x", Batch: 50, Above: 200_000, Source: "litellm", Read: "2026-11-23",
		Rates: catalog.RatesOf(map[catalog.Kind]catalog.Rate{catalog.Input: 2_500_000, catalog.Output: 10_000_000, catalog.CachedInput: 1_250_000}),
		Long:  catalog.RatesOf(map[catalog.Kind]catalog.Rate{catalog.Input: 5_000_000, catalog.Output: 15_000_000})}
	if !reflect.DeepEqual(table.Rows[0], want) {
		t.Errorf("the row is %+v, want %+v", table.Rows[0], want)
	}
}

func TestModelsDevIsReadInDollarsPerMillion(t *testing.T) {
	table, err := priceimport.Read("models-dev", []byte(`{"openai":{"models":{"gpt-x":{"cost":{"input":2.5,"output":10,"cache_read":1.25}},"free":{"cost":{"input":0,"output":0}},"unknown":{}}},"nobody":{"models":{"m":{"cost":{"input":1}}}}}`), "models-dev", "2026-11-23")
	if err != nil || len(table.Rows) != 1 || table.Rows[0].Rates[catalog.Input] != 2_500_000 || table.Rows[0].Rates[catalog.Output] != 10_000_000 {
		t.Fatalf("%+v, %v; want one row of $2.5 and $10", table, err)
	}
	want := []priceimport.Skipped{{"nobody", "the provider is not in the table"}, {"openai/free", "no price"}, {"openai/unknown", "no price"}}
	if !slices.Equal(table.Skipped, want) {
		t.Errorf("skipped %v, want %v", table.Skipped, want)
	}
}

// Public tables are written by others: an entry that is wrong is skipped with a reason, and
// gives no row.
func TestHostileEntriesGiveNoRow(t *testing.T) {
	const good = `"input_cost_per_token":0.000001,"output_cost_per_token":0.000002`
	for name, fields := range map[string]string{
		"a negative price":               `"input_cost_per_token":-0.000001,"output_cost_per_token":0.000002`,
		"a price beyond reason":          `"input_cost_per_token":1e10,"output_cost_per_token":1e10`,
		"the largest number":             `"input_cost_per_token":1.7e308,"output_cost_per_token":0.000002`,
		"a string for a number":          `"input_cost_per_token":"0.1","output_cost_per_token":0.000002`,
		"an object for a number":         `"input_cost_per_token":{},"output_cost_per_token":0.000002`,
		"no price":                       `"max_tokens":7`,
		"zeros":                          `"input_cost_per_token":0,"output_cost_per_token":0`,
		"a negative price of requests":   good + `,"input_cost_per_query":-1`,
		"a price of requests too high":   good + `,"input_cost_per_query":1e9`,
		"batches that cost more":         good + `,"input_cost_per_token_batches":0.000002,"output_cost_per_token_batches":0.000004`,
		"tiers without prices":           `"tiered_pricing":[{}]`,
		"three tiers":                    `"tiered_pricing":[{"input_cost_per_token":1e-6},{"input_cost_per_token":2e-6,"range":[1,2]},{"input_cost_per_token":3e-6}]`,
		"a tier of a negative length":    `"tiered_pricing":[{"input_cost_per_token":1e-6,"output_cost_per_token":1e-6},{"input_cost_per_token":2e-6,"output_cost_per_token":2e-6,"range":[-5,2]}]`,
		"a negative length":              good + `,"input_cost_per_token_above_-200k_tokens":0.000002,"output_cost_per_token_above_-200k_tokens":0.000004`,
		"a length that overflows":        good + `,"input_cost_per_token_above_9223372036854775k_tokens":0.000002,"output_cost_per_token_above_9223372036854775k_tokens":0.000004`,
		"long requests beyond reason":    good + `,"input_cost_per_token_above_200k_tokens":1e10,"output_cost_per_token_above_200k_tokens":1e10`,
		"a negative price of the length": good + `,"input_cost_per_token_above_200k_tokens":-1,"output_cost_per_token_above_200k_tokens":-1`,
	} {
		t.Run(name, func(t *testing.T) {
			table, err := priceimport.Read("litellm", entry("gpt-x", fields), "s", "2026-11-23")
			if err != nil {
				t.Fatal(err)
			}
			if len(table.Rows) != 0 || len(table.Skipped) != 1 || table.Skipped[0].Reason == "" {
				t.Errorf("rows %+v, skipped %q; want no row and a reason", table.Rows, table.Skipped)
			}
		})
	}
	for name, model := range map[string]string{
		"empty": "", "a line break": "gpt\n-x", "a null byte": "gpt\x00-x", "a star": "gpt-*", "very long": strings.Repeat("m", 5000), "a formula": "=cmd|' /C calc'!A0\t",
	} {
		t.Run("a name with "+name, func(t *testing.T) {
			table, err := priceimport.Read("litellm", entry(model, good), "s", "2026-11-23")
			if err != nil || len(table.Rows) != 0 || len(table.Skipped) != 1 {
				t.Fatalf("%+v, %v; want no row and a reason", table, err)
			}
			if e := table.Skipped[0].Entry; len(e) > 600 || strings.ContainsFunc(e, unicode.IsControl) {
				t.Errorf("the entry is shown as %q", e)
			}
		})
	}
}

func TestBrokenTablesAreRefused(t *testing.T) {
	for name, tt := range map[string]struct{ format, data, want string }{
		"no JSON":           {"litellm", `{"a":`, "reading the table"},
		"an array":          {"litellm", `[]`, "reading the table"},
		"deep nesting":      {"litellm", strings.Repeat(`{"a":`, 100_000), "reading the table"},
		"models.dev":        {"models-dev", `{"openai":7}`, "reading the table"},
		"an unknown format": {"excel", `{}`, "must be one of litellm, models-dev, modelgate"},
		"a broken book":     {"modelgate", "provider,model\nopenai,\"x\n", ""},
		"too long":          {"litellm", strings.Repeat(" ", 64<<20+1), "longer than 64 MB"},
	} {
		t.Run(name, func(t *testing.T) {
			table, err := priceimport.Read(tt.format, []byte(tt.data), "s", "2026-11-23")
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%+v, %v; want an error with %q", table, err, tt.want)
			}
		})
	}
}

// Two providers of a table may be one of ours: which of their prices is taken must not depend
// on chance.
func TestReadingIsRepeatable(t *testing.T) {
	data := []byte(`{"xai":{"models":{"grok-y":{"cost":{"input":1,"output":2}}}},"x-ai":{"models":{"grok-y":{"cost":{"input":3,"output":4}}}},
		"openai":{"models":{"b":{"cost":{"input":1,"output":1}},"a":{"cost":{"input":1,"output":1}}}}}`)
	first, err := priceimport.Read("models-dev", data, "s", "2026-11-23")
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		again, err := priceimport.Read("models-dev", data, "s", "2026-11-23")
		if err != nil || !reflect.DeepEqual(again, first) {
			t.Fatalf("read again: %+v, %v; want %+v", again, err, first)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add("litellm", entry("gpt-x", `"input_cost_per_token":0.000001,"output_cost_per_token":0.000002`))
	f.Add("models-dev", []byte(`{"openai":{"models":{"m":{"cost":{"input":1,"output":2}}}}}`))
	f.Add("modelgate", []byte(catalog.BuiltinText()[:2000]))
	f.Fuzz(func(t *testing.T, format string, data []byte) {
		table, err := priceimport.Read(format, data, "s", "2026-11-23")
		if err != nil {
			return
		}
		for i := range table.Rows {
			if err := table.Rows[i].CheckPlausible(); err != nil {
				t.Errorf("an implausible row: %s: %v", table.Rows[i].Row(), err)
			}
		}
	})
}
