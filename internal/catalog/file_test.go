package catalog_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/catalog"
	"modelgate/internal/provider/table"
)

func mustRead(t *testing.T) (text string, rows []catalog.Price) {
	t.Helper()
	b, err := os.ReadFile("prices.csv")
	if err != nil {
		t.Fatal(err)
	}
	rows, err = catalog.Parse(string(b))
	if err != nil {
		t.Fatal(err)
	}
	return string(b), rows
}

func TestTheBookIsInOrder(t *testing.T) {
	text, rows := mustRead(t)
	key := func(p catalog.Price) string {
		return p.Provider + "\x00" + p.Model + "\x00" + p.From.Format("20060102")
	}
	for i := 1; i < len(rows); i++ {
		if key(rows[i-1]) >= key(rows[i]) {
			t.Errorf("%s stands after %s", rows[i].Row(), rows[i-1].Row())
		}
	}
	for _, p := range rows {
		if spec, ok := table.Lookup(p.Provider); !ok || spec.ID != p.Provider {
			t.Errorf("%s: the provider table has no row %q", p.Row(), p.Provider)
		}
		if !strings.Contains(text, "\n# "+p.Provider+": https://") {
			t.Errorf("%s: the file does not say where the prices of %s stand", p.Row(), p.Provider)
		}
	}
}

// models counts those of a provider, not their snapshots or the regions that
// they are offered in.
func TestTheBookHasThreeHundredModelsOfTheLargestProviders(t *testing.T) {
	_, rows := mustRead(t)
	models := map[string]bool{}
	per := map[string]int{}
	for _, p := range rows {
		name := p.Model
		if area, rest, ok := strings.Cut(name, "."); ok && p.Provider == "bedrock" && slices.Contains([]string{"us", "eu", "apac", "jp", "au", "global"}, area) {
			name = rest
		}
		if strings.HasSuffix(name, "-20*") || models[p.Provider+" "+name] {
			continue
		}
		models[p.Provider+" "+name] = true
		per[p.Provider]++
	}
	if len(models) < 300 {
		t.Errorf("the book has %d models, want at least 300", len(models))
	}
	for _, id := range []string{"anthropic", "azure-openai", "bedrock", "cohere", "deepseek", "fireworks-ai", "google", "groq", "mistral-ai", "openai", "perplexity-ai", "together-ai", "vertex-ai", "x-ai"} {
		if per[id] == 0 {
			t.Errorf("the book has no model of %s", id)
		}
	}
}

func TestPricesOfTheBookAreSane(t *testing.T) {
	_, rows := mustRead(t)
	const perMillion = 1_000_000 // a dollar
	cheaper := 0
	for _, p := range rows {
		tiers := []catalog.Rates{p.Rates}
		if p.Above > 0 {
			tiers = append(tiers, p.Long)
		}
		for i, r := range tiers {
			in, out := r[catalog.Input], r[catalog.Output]
			if in <= 0 || in > 200*perMillion || out < 0 || out > 700*perMillion {
				t.Errorf("%s: %d in and %d out are no likely prices", p.Row(), in, out)
			}
			if out > 0 && out < in {
				cheaper++
			}
			if out > 150*in {
				t.Errorf("%s: %d out for %d in", p.Row(), out, in)
			}
			if c := r[catalog.CachedInput]; c > in || c < in/200 {
				t.Errorf("%s: %d for cached input, %d for other", p.Row(), c, in)
			}
			if w := r[catalog.CacheWrite5m]; w < in/2 || w > 2*in || r[catalog.CacheWrite1h] < w || r[catalog.CacheWrite1h] > 2*in {
				t.Errorf("%s: caching costs %d and %d, reading %d", p.Row(), w, r[catalog.CacheWrite1h], in)
			}
			if i > 0 && (in < p.Rates[catalog.Input] || out < p.Rates[catalog.Output] || p.Above < 100_000) {
				t.Errorf("%s: long requests cost less, or are short", p.Row())
			}
		}
		if p.Batch != 0 && p.Batch != 50 {
			t.Errorf("%s: a batch pays %d %%", p.Row(), p.Batch)
		}
	}
	if cheaper > len(rows)/50 {
		t.Errorf("%d of %d rows have output that is cheaper than input", cheaper, len(rows))
	}
}

func TestAFileOfPricesIsReadExactlyOrNotAtAll(t *testing.T) {
	const titles = "provider,model,input,output,cached,write_5m,write_1h,batch,from,above,long_input,long_output,long_cached,long_write_5m,long_write_1h,reasoning,audio_in,audio_out,request\n"
	rows, err := catalog.Parse("# a word\n" + titles + "# more\na,b*,0.5,2,0,,,50,2026-09-01,1000,1,4,,,,3,,,0.005\n")
	if err != nil || len(rows) != 1 {
		t.Fatalf("Parse = %v, %v; want a row", rows, err)
	}
	want := catalog.Price{
		Provider: "a", Model: "b*", From: day("2026-09-01"), Above: 1000, Batch: 50, Request: 5_000_000,
		Rates: catalog.Rates{catalog.Input: 500_000, catalog.CachedInput: 0, catalog.CacheWrite5m: 500_000, catalog.CacheWrite1h: 500_000,
			catalog.InputAudio: 500_000, catalog.Output: 2_000_000, catalog.Reasoning: 3_000_000, catalog.OutputAudio: 2_000_000},
		Long: catalog.RatesOf(map[catalog.Kind]catalog.Rate{catalog.Input: 1_000_000, catalog.Output: 4_000_000}),
	}
	if rows[0] != want {
		t.Errorf("Parse = %+v, want %+v", rows[0], want)
	}
	for _, bad := range []string{"a,b,0.0000001,2", "a,b,x,2", "a,b,-1,2", "a,,1,2", ",b,1,2", "a,b,1,2,,,,,2026-13-01", "a,b,1,2" + strings.Repeat(",", 16), "a,\"b,1,2"} {
		if _, err := catalog.Parse(titles + bad + "\n"); err == nil {
			t.Errorf("Parse(%q) was taken", bad)
		}
	}
	if _, err := catalog.Parse("a,b,1,2\n"); err == nil {
		t.Error("Parse took a file without titles")
	}
}
