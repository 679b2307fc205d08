package catalog_test

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"modelgate/internal/model/catalog"
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
		if p.Source == "" || !strings.Contains(text, "\n# "+p.Source+": https://") {
			t.Errorf("%s: the file does not name the source %q", p.Row(), p.Source)
		}
		if _, ok := p.Age(time.Now()); !ok {
			t.Errorf("%s: the row does not say when it was read", p.Row())
		}
	}
}

// models counts those of a provider, not their snapshots or the regions that
// they are offered in.
func TestTheBookHasTwelveHundredModelsOfSixtyProviders(t *testing.T) {
	_, rows := mustRead(t)
	models := map[string]bool{}
	per := map[string]int{}
	for _, p := range rows {
		name := p.Model
		if area, rest, ok := strings.Cut(name, "."); ok && p.Provider == "bedrock" && slices.Contains([]string{"us", "eu", "apac", "jp", "au", "global", "us-gov"}, area) {
			name = rest
		}
		if strings.HasSuffix(name, "-20*") || models[p.Provider+" "+name] {
			continue
		}
		models[p.Provider+" "+name] = true
		per[p.Provider]++
	}
	if len(models) < 1200 || len(per) < 60 {
		t.Errorf("the book has %d models of %d providers, want at least 1200 of 60", len(models), len(per))
	}
	for _, id := range []string{"anthropic", "azure-openai", "bedrock", "cohere", "deepseek", "fireworks-ai", "google", "groq", "mistral-ai", "openai", "openrouter", "perplexity-ai", "together-ai", "vertex-ai", "x-ai"} {
		if per[id] == 0 {
			t.Errorf("the book has no model of %s", id)
		}
	}
}

func TestTheBookPricesTiersImagesAndAudio(t *testing.T) {
	_, rows := mustRead(t)
	has := map[string]int{}
	for _, p := range rows {
		for what, ok := range map[string]bool{
			"batch": p.Batch > 0, "flex": p.Flex > 0, "priority": p.Priority > 0, "long requests": p.Above > 0,
			"audio tokens": p.Rates.HasRate(catalog.InputAudio) || p.Rates.HasRate(catalog.OutputAudio),
			"image tokens": p.Rates.HasRate(catalog.InputImage) || p.Rates.HasRate(catalog.OutputImage),
			"images":       p.Units != nil && p.Units.Images != nil,
			"seconds":      p.Units != nil && p.Units.Second > 0,
			"characters":   p.Units != nil && p.Units.Character > 0,
			"requests":     p.Request > 0,
		} {
			if ok {
				has[what]++
			}
		}
	}
	for what, least := range map[string]int{"batch": 300, "flex": 50, "priority": 100, "long requests": 100, "audio tokens": 50, "image tokens": 40, "images": 100, "seconds": 30, "characters": 10, "requests": 20} {
		if has[what] < least {
			t.Errorf("%d rows have a price of %s, want at least %d", has[what], what, least)
		}
	}
}

func TestPricesOfTheBookAreSane(t *testing.T) {
	_, rows := mustRead(t)
	cheaper := 0
	for _, p := range rows {
		if err := p.CheckPlausible(); err != nil {
			t.Errorf("%s: %v", p.Row(), err)
		}
		if out := p.Rates[catalog.Output]; out > 0 && out < p.Rates[catalog.Input] {
			cheaper++
		}
	}
	if cheaper > len(rows)/50 {
		t.Errorf("%d of %d rows have output that is cheaper than input", cheaper, len(rows))
	}
}

func TestImplausiblePricesAreRefused(t *testing.T) {
	million := func(in, out float64) catalog.Rates {
		return catalog.RatesOf(map[catalog.Kind]catalog.Rate{catalog.Input: catalog.Rate(in * 1e6), catalog.Output: catalog.Rate(out * 1e6)})
	}
	good := catalog.Price{Provider: "a", Model: "b", Rates: million(3, 15), Batch: 50, Flex: 50, Priority: 200}
	if err := good.CheckPlausible(); err != nil {
		t.Errorf("CheckPlausible of a usual price = %v", err)
	}
	for name, change := range map[string]func(p *catalog.Price){
		"too much":              func(p *catalog.Price) { p.Rates = million(3200, 9710) },
		"free input":            func(p *catalog.Price) { p.Rates = million(0, 15) },
		"output far above":      func(p *catalog.Price) { p.Rates = million(0.01, 15) },
		"cached above input":    func(p *catalog.Price) { p.Rates[catalog.CachedInput] = 4e6 },
		"writing for nothing":   func(p *catalog.Price) { p.Rates[catalog.CacheWrite5m] = 0 },
		"an hour below minutes": func(p *catalog.Price) { p.Rates[catalog.CacheWrite1h] = 1e6 },
		"long costs less":       func(p *catalog.Price) { p.Above, p.Long = 200_000, million(1, 15) },
		"long is short":         func(p *catalog.Price) { p.Above, p.Long = 200, million(6, 30) },
		"a dear request":        func(p *catalog.Price) { p.Request = 2e9 },
		"a cheap priority":      func(p *catalog.Price) { p.Priority = 50 },
		"a batch for nothing":   func(p *catalog.Price) { p.Batch = 1 },
	} {
		p := good
		change(&p)
		if p.CheckPlausible() == nil {
			t.Errorf("%s: %s is plausible", name, p.Figures())
		}
	}
}

func TestRowsAreWrittenAsTheyAreRead(t *testing.T) {
	text, rows := mustRead(t)
	if got := string(catalog.Format(catalog.Comments(text), rows)); got != text {
		t.Errorf("Format returns %d bytes that differ from the file of %d", len(got), len(text))
	}
	for i := range rows {
		if again, err := catalog.Parse(string(catalog.Format("", rows[i:i+1]))); err != nil || !again[0].SameFigures(&rows[i]) || again[0].Source != rows[i].Source || again[0].Read != rows[i].Read {
			t.Fatalf("%s is read again as %+v, %v", rows[i].Row(), again, err)
		}
	}
}

func TestFindingAPriceAllocatesNothing(t *testing.T) {
	book, at := catalog.Builtin(), time.Now()
	for _, model := range []string{"gpt-5.6-luna", "gpt-4o-2024-11-20", "unknown"} {
		if n := testing.AllocsPerRun(100, func() { book.Price("openai", model, at) }); n > 0 {
			t.Errorf("finding the price of %s allocates %v times", model, n)
		}
	}
}

func TestAFileOfPricesIsReadExactlyOrNotAtAll(t *testing.T) {
	const titles = "provider,model,source,read,input,output,cached,write_5m,write_1h,batch,from,above,long_input,long_output,long_cached,long_write_5m,long_write_1h,reasoning,audio_in,audio_out,request,flex,priority,image_in,image_out,image,second,characters,training\n"
	rows, err := catalog.Parse("# a word\n" + titles + "# more\na,b*,s,2026-11-23,0.5,2,0,,,50,2026-09-01,1000,1,4,,,,3,,,0.005,25,250,0.75,30,0.04 hd/1024x1024=0.08,0.0001,15,25\n")
	if err != nil || len(rows) != 1 {
		t.Fatalf("Parse = %v, %v; want a row", rows, err)
	}
	want := catalog.Price{
		Provider: "a", Model: "b*", From: day("2026-09-01"), Above: 1000, Batch: 50, Flex: 25, Priority: 250, Request: 5_000_000, Source: "s", Read: "2026-11-23",
		Rates: catalog.Rates{catalog.Input: 500_000, catalog.CachedInput: 0, catalog.CacheWrite5m: 500_000, catalog.CacheWrite1h: 500_000,
			catalog.InputAudio: 500_000, catalog.InputImage: 750_000, catalog.Output: 2_000_000, catalog.Reasoning: 3_000_000, catalog.OutputAudio: 2_000_000, catalog.OutputImage: 30_000_000},
		Long:  catalog.RatesOf(map[catalog.Kind]catalog.Rate{catalog.Input: 1_000_000, catalog.Output: 4_000_000}),
		Units: &catalog.UnitPrices{Images: map[string]catalog.NanoDollars{"": 40_000_000, "hd/1024x1024": 80_000_000}, Second: 100_000, Character: 15_000_000, Training: 25_000_000},
	}
	if !reflect.DeepEqual(rows[0], want) {
		t.Errorf("Parse = %+v, want %+v", rows[0], want)
	}
	if cost, known := rows[0].TrainingCost(2000); !known || cost != 50_000_000 {
		t.Errorf("TrainingCost(2000) at $25 a million = %d, %t", cost, known)
	}
	if cost, known := new(catalog.Price).TrainingCost(2000); known {
		t.Errorf("TrainingCost() without a price = %d", cost)
	}
	for _, bad := range []string{
		"a,b,s,,0.0000001,2", "a,b,s,,x,2", "a,b,s,,-1,2", "a,,s,,1,2", ",b,s,,1,2", "a,b,s,2026-13-01,1,2", "a,b,s,,1,2,,,,,2026-13-01",
		"a,b,s,,1,2" + strings.Repeat(",", 24), "a,\"b,1,2", "a,b,s,2026-11-23", "a,b", "a,b,s,,,,0.5", "a,b,s,,1,2,,,,101", "a,b,s,,1,2,,,,,,1000",
		"a,b,s,,1,2" + strings.Repeat(",", 20) + "hd=x", "a,b,s,,1,2" + strings.Repeat(",", 20) + "0.1 0.2",
	} {
		if _, err := catalog.Parse(titles + bad + "\n"); err == nil {
			t.Errorf("Parse(%q) was taken", bad)
		}
	}
	if _, err := catalog.Parse("a,b,1,2\n"); err == nil {
		t.Error("Parse took a file without titles")
	}
}
