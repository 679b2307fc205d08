package catalog_test

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"modelgate/internal/model/catalog"
	"modelgate/internal/model/llm"
)

// onlyRate returns the rates of a model whose tokens all cost the same.
func onlyRate(rate catalog.Rate) catalog.Rates {
	return catalog.RatesOf(map[catalog.Kind]catalog.Rate{catalog.Input: rate, catalog.Output: rate})
}

func day(text string) time.Time {
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		panic(err)
	}
	return t
}

func TestPriceFindsTheClosestRowInForce(t *testing.T) {
	under := catalog.NewBook([]catalog.Price{
		{Provider: "openai", Model: "o3", Rates: onlyRate(7)},
		{Provider: "openai", Model: "gpt-4.1", Rates: onlyRate(8)},
	}, nil)
	book := catalog.NewBook([]catalog.Price{
		{Provider: "openai", Model: "gpt-*", Rates: onlyRate(1)},
		{Provider: "openai", Model: "gpt-4*", Rates: onlyRate(2)},
		{Provider: "openai", Model: "gpt-4.1-nano", Rates: onlyRate(3)},
		{Provider: "groq", Model: "*", Rates: onlyRate(4)},
		{Provider: "openai", Model: "gpt-4*", Rates: onlyRate(5)},
		{Provider: "x-ai", Model: "grok", From: day("2026-03-01"), Rates: onlyRate(6)},
		{Provider: "x-ai", Model: "grok", From: day("2026-05-01"), Rates: onlyRate(9)},
		{Provider: "x-ai", Model: "grok*", From: day("2026-02-01"), Rates: onlyRate(10)},
	}, under)
	for _, tt := range []struct {
		provider, model, at string
		want                catalog.Rate
	}{
		{"openai", "gpt-3.5", "2026-01-01", 1},
		{"openai", "gpt-4.1-nano", "2026-01-01", 3},
		{"openai", "gpt-4.1-mini", "2026-01-01", 5},
		{"openai", "gpt-4.1", "2026-01-01", 5}, // a beginning above wins over a name below
		{"openai", "o3", "2026-01-01", 7},
		{"openai", "gp", "2026-01-01", -1},
		{"groq", "anything", "2026-01-01", 4},
		{"azure-openai", "gpt-4.1", "2026-01-01", -1},
		{"x-ai", "grok", "2026-01-31", -1},
		{"x-ai", "grok", "2026-02-28", 10},
		{"x-ai", "grok", "2026-03-01", 6},
		{"x-ai", "grok", "2026-04-30", 6},
		{"x-ai", "grok", "2026-05-01", 9},
	} {
		got := catalog.Rate(-1)
		if p, known := book.Price(tt.provider, tt.model, day(tt.at)); known {
			got = p.Rates[catalog.Input]
		}
		if got != tt.want {
			t.Errorf("Price(%s, %s, %s) has the rate %d, want %d", tt.provider, tt.model, tt.at, got, tt.want)
		}
	}
	if _, known := (*catalog.PriceBook)(nil).Price("openai", "gpt-4.1", day("2026-01-01")); known {
		t.Error("no book knows a price")
	}
}

func TestARowIsNamedByItsDayToo(t *testing.T) {
	p := catalog.Price{Provider: "openai", Model: "o3*"}
	if got := p.Row(); got != "openai/o3*" {
		t.Errorf("Row() = %q, want openai/o3*", got)
	}
	p.From = day("2026-09-01")
	if got := p.Row(); got != "openai/o3*@2026-09-01" {
		t.Errorf("Row() = %q, want openai/o3*@2026-09-01", got)
	}
}

func TestAPriceThatIsNoneIsRefused(t *testing.T) {
	for _, bad := range []float64{-1, math.NaN(), math.Inf(1), 1_000_001} {
		if _, err := catalog.PerMillion(bad); err == nil {
			t.Errorf("PerMillion(%v) was taken", bad)
		}
	}
	for dollars, want := range map[float64]catalog.Rate{0: 0, 2.5: 2_500_000, 0.0028: 2_800, 0.003625: 3_625, 1e6: 1e12} {
		if got, err := catalog.PerMillion(dollars); got != want || err != nil {
			t.Errorf("PerMillion(%v) = %d, %v; want %d", dollars, got, err, want)
		}
	}
}

func TestACostIsRoundedOnceHalfUp(t *testing.T) {
	for _, tt := range []struct {
		rate catalog.Rate
		u    llm.Usage
		want catalog.NanoDollars
	}{
		{499, llm.Usage{Input: 1}, 0},
		{500, llm.Usage{Input: 1}, 1},
		{400, llm.Usage{Input: 1, Output: 1}, 1}, // rounded each for itself it would be 0
		{1_500, llm.Usage{Input: 1, CachedInput: 1}, 3},
		{1e12, llm.Usage{Input: math.MaxInt64, Output: math.MaxInt64}, math.MaxInt64},
		{1, llm.Usage{Input: 184_467_440_737_095_516}, 184_467_440_737_096},                                             // a hundred times it ends where 64 bits do
		{1, llm.Usage{Input: math.MaxInt64, CachedInput: math.MaxInt64, Output: math.MaxInt64}, 27_670_116_110_564_327}, // the sum takes 65 bits
		{1e12, llm.Usage{Input: 18_446_744_074}, math.MaxInt64},                                                         // just more than fits, in the units that the sum is kept in
		{1e12, llm.Usage{Input: -5, Output: 1}, 1e9},
	} {
		p := catalog.Price{Rates: onlyRate(tt.rate)}
		if got := p.Cost(tt.u, catalog.Standard); got != tt.want {
			t.Errorf("Cost of %+v at %d = %d, want %d", tt.u, tt.rate, got, tt.want)
		}
	}
}

func TestEveryTokenThatIsReadCountsForTheLength(t *testing.T) {
	p := catalog.Price{Rates: onlyRate(1000), Long: onlyRate(5000), Above: 1000}
	for _, tt := range []struct {
		name string
		u    llm.Usage
		want catalog.NanoDollars
	}{
		{"at the limit", llm.Usage{Input: 200, CachedInput: 200, CacheWrite5m: 200, CacheWrite1h: 200, InputAudio: 200}, 1000},
		{"input above it", llm.Usage{Input: 201, CachedInput: 200, CacheWrite5m: 200, CacheWrite1h: 200, InputAudio: 200}, 5005},
		{"cached input above it", llm.Usage{Input: 200, CachedInput: 201, CacheWrite5m: 200, CacheWrite1h: 200, InputAudio: 200}, 5005},
		{"a cache of five minutes above it", llm.Usage{Input: 200, CachedInput: 200, CacheWrite5m: 201, CacheWrite1h: 200, InputAudio: 200}, 5005},
		{"a cache of an hour above it", llm.Usage{Input: 200, CachedInput: 200, CacheWrite5m: 200, CacheWrite1h: 201, InputAudio: 200}, 5005},
		{"audio above it", llm.Usage{Input: 200, CachedInput: 200, CacheWrite5m: 200, CacheWrite1h: 200, InputAudio: 201}, 5005},
		{"output is left out", llm.Usage{Input: 1000, Output: 1000, Reasoning: 1000, OutputAudio: 1000}, 4000},
		{"a count below zero takes nothing off", llm.Usage{Input: 1001, CachedInput: -1}, 5005},
	} {
		if got := p.Cost(tt.u, catalog.Standard); got != tt.want {
			t.Errorf("%s: Cost of %+v = %d, want %d", tt.name, tt.u, got, tt.want)
		}
	}
}

func anyUsage(most int64) *rapid.Generator[llm.Usage] {
	return rapid.Custom(func(t *rapid.T) llm.Usage {
		n := func(name string) int64 { return rapid.Int64Range(0, most).Draw(t, name) }
		in, out := n("in"), n("out")
		return llm.Usage{Input: in, InputImage: rapid.Int64Range(0, in).Draw(t, "images in"), CachedInput: n("cached"), CacheWrite5m: n("5m"), CacheWrite1h: n("1h"), InputAudio: n("audio in"),
			Output: out, OutputImage: rapid.Int64Range(0, out).Draw(t, "images out"), Reasoning: n("reasoning"), OutputAudio: n("audio out"), Known: true}
	})
}

func anyPrice() *rapid.Generator[catalog.Price] {
	return rapid.Custom(func(t *rapid.T) (p catalog.Price) {
		for kind := range p.Rates {
			p.Rates[kind] = catalog.Rate(rapid.Int64Range(0, 1e12).Draw(t, "rate"))
			p.Long[kind] = p.Rates[kind] + catalog.Rate(rapid.Int64Range(0, 1e9).Draw(t, "more"))
		}
		p.Above = rapid.SampledFrom([]int64{0, 1, 1000, 200_000}).Draw(t, "above")
		p.Batch = rapid.IntRange(0, 100).Draw(t, "batch")
		p.Flex = rapid.IntRange(0, 100).Draw(t, "flex")
		p.Priority = rapid.IntRange(0, 10_000).Draw(t, "priority")
		return p
	})
}

func anyTier() *rapid.Generator[catalog.Tier] {
	return rapid.SampledFrom([]catalog.Tier{catalog.Standard, catalog.Batch, catalog.Flex, catalog.Priority, catalog.Unpriced})
}

func sum(a, b llm.Usage) llm.Usage {
	return llm.Usage{Input: a.Input + b.Input, CachedInput: a.CachedInput + b.CachedInput, CacheWrite5m: a.CacheWrite5m + b.CacheWrite5m,
		CacheWrite1h: a.CacheWrite1h + b.CacheWrite1h, InputAudio: a.InputAudio + b.InputAudio, Output: a.Output + b.Output,
		InputImage: a.InputImage + b.InputImage, OutputImage: a.OutputImage + b.OutputImage, Reasoning: a.Reasoning + b.Reasoning, OutputAudio: a.OutputAudio + b.OutputAudio, Known: true}
}

func TestCostGrowsWithUsageAndAddsUpWithinATier(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyPrice().Draw(t, "price")
		tier := anyTier().Draw(t, "tier")
		a, b := anyUsage(1e5).Draw(t, "a"), anyUsage(1e5).Draw(t, "b")
		both := p.Cost(sum(a, b), tier)
		if one := p.Cost(a, tier); both < one {
			t.Fatalf("more usage costs less: %d after %d", both, one)
		}
		if p.Above > 0 {
			return
		}
		// Each of the three is rounded by at most half a nano-dollar.
		if parts := p.Cost(a, tier) + p.Cost(b, tier); parts-both > 1 || both-parts > 1 {
			t.Fatalf("%d in parts and %d together", parts, both)
		}
	})
}

func TestCostIsExactForAnyNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, u := anyPrice().Draw(t, "price"), anyUsage(math.MaxInt64).Draw(t, "usage")
		tier := anyTier().Draw(t, "tier")
		rates, share := p.Rates, int64(100)
		read := new(big.Int)
		for _, n := range []int64{u.Input, u.CachedInput, u.CacheWrite5m, u.CacheWrite1h, u.InputAudio} {
			read.Add(read, big.NewInt(n))
		}
		if p.Above > 0 && read.Cmp(big.NewInt(p.Above)) > 0 {
			rates = p.Long
		}
		switch {
		case tier == catalog.Batch && p.Batch > 0:
			share = int64(p.Batch)
		case tier == catalog.Flex && p.Flex > 0:
			share = int64(p.Flex)
		case tier == catalog.Flex && p.Batch > 0:
			share = int64(p.Batch)
		case tier == catalog.Priority && p.Priority > 0:
			share = int64(p.Priority)
		}
		total := new(big.Int)
		imagesIn, imagesOut := min(u.InputImage, u.Input), min(u.OutputImage, u.Output)
		for kind, n := range []int64{u.Input - imagesIn, u.CachedInput, u.CacheWrite5m, u.CacheWrite1h, u.InputAudio, imagesIn, u.Output - imagesOut, u.Reasoning, u.OutputAudio, imagesOut} {
			total.Add(total, new(big.Int).Mul(big.NewInt(n), big.NewInt(int64(rates[kind]))))
		}
		total.Mul(total, big.NewInt(share)).Add(total, big.NewInt(50_000)).Div(total, big.NewInt(100_000))
		want := int64(math.MaxInt64)
		if total.IsInt64() {
			want = total.Int64()
		}
		if got := p.Cost(u, tier); int64(got) != want {
			t.Fatalf("Cost = %d, want %d", got, want)
		}
	})
}

func TestRowsInForceAreThosePricesComeFrom(t *testing.T) {
	at := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	row := func(model string, from time.Time, batch int) catalog.Price {
		return catalog.Price{Provider: "p", Model: model, From: from, Batch: batch}
	}
	under := catalog.NewBook([]catalog.Price{row("a", time.Time{}, 1), row("b", time.Time{}, 2), row("own-x", time.Time{}, 3), row("b*", time.Time{}, 4)}, nil)
	b := catalog.NewBook([]catalog.Price{row("a", time.Time{}, 5), row("a", at.AddDate(0, 0, -1), 6), row("a", at.AddDate(0, 0, 1), 7), row("own-*", time.Time{}, 8)}, under)
	var got strings.Builder
	for _, r := range b.InForce("p", at) {
		got.WriteString(fmt.Sprint(r.Model, " ", r.Batch, ", "))
	}
	if want := "a 6, b 2, b* 4, own-* 8, own-x 8, "; got.String() != want {
		t.Errorf("InForce = %s want %s", got.String(), want)
	}
	if rows := b.InForce("q", at); len(rows) != 0 {
		t.Errorf("rows of another provider: %v", rows)
	}
	if ids := catalog.Builtin().Providers(); len(ids) < 20 || !slices.IsSorted(ids) {
		t.Errorf("Providers = %v", ids)
	}
}
