package catalog_test

import (
	"testing"
	"time"

	"modelgate/internal/model/catalog"
	"modelgate/internal/model/llm"
)

// Amounts of money, in nano-dollars.
const (
	dollar = 1_000_000_000
)

// The arithmetic is that of a bill: tokens in millions times the dollars that the
// page of the provider names.
func TestBillsOfTheBookAreThoseOfTheProviders(t *testing.T) {
	const m = 1_000_000
	for _, tt := range []struct {
		name, provider, model string
		at                    string
		usage                 llm.Usage
		batch                 bool
		want                  float64 // dollars
		row                   string
	}{
		{"cached input is not input too", "openai", "gpt-4.1", "", llm.Usage{Input: 3 * m, CachedInput: 1 * m, Output: m / 2}, false,
			3*2 + 1*0.5 + 0.5*8, "openai/gpt-4.1"},
		{"reasoning is output", "openai", "o3-2025-04-16", "", llm.Usage{Input: 1 * m, Output: 1 * m, Reasoning: 2 * m}, false,
			1*2 + (1+2)*8, "openai/o3-20*"},
		{"a batch", "openai", "gpt-4o-mini", "", llm.Usage{Input: 10 * m, Output: 1 * m}, true,
			(10*0.15 + 1*0.6) / 2, "openai/gpt-4o-mini"},
		{"audio", "openai", "gpt-audio", "", llm.Usage{Input: 1 * m, InputAudio: 2 * m, Output: 1 * m, OutputAudio: 1 * m}, false,
			1*2.5 + 2*32 + 1*10 + 1*64, "openai/gpt-audio"},
		{"a prompt at the limit", "openai", "gpt-5.4", "", llm.Usage{Input: 172_000, CachedInput: 100_000, Output: 10_000}, false,
			0.172*2.5 + 0.1*0.25 + 0.01*15, "openai/gpt-5.4"},
		{"a prompt above it, all of it", "openai", "gpt-5.4", "", llm.Usage{Input: 172_001, CachedInput: 100_000, Output: 10_000}, false,
			0.172001*5 + 0.1*0.5 + 0.01*22.5, "openai/gpt-5.4"},
		{"caches of both ages", "anthropic", "claude-opus-4-5-20251101", "", llm.Usage{Input: 1 * m, CachedInput: 10 * m, CacheWrite5m: 1 * m, CacheWrite1h: 1 * m, Output: 1 * m}, false,
			1*5 + 10*0.5 + 1*6.25 + 1*10 + 1*25, "anthropic/claude-opus-4-5*"},
		{"caches count for the length", "anthropic", "claude-sonnet-4-20250514", "", llm.Usage{Input: 1_000, CachedInput: 200_000, Output: 1_000}, false,
			0.001*6 + 0.2*0.6 + 0.001*22.5, "anthropic/claude-sonnet-4-2025*"},
		// The increase of September 2026 was cancelled: https://platform.claude.com/docs/en/about-claude/pricing
		{"an increase that did not come", "anthropic", "claude-sonnet-5", "2026-09-01", llm.Usage{Input: 1 * m, Output: 1 * m}, false,
			1*2 + 1*10, "anthropic/claude-sonnet-5*"},
		{"before the price changed", "openai", "gpt-5.6-luna", "2026-07-29", llm.Usage{Input: 100_000, Output: 1 * m}, false,
			0.1*1 + 1*6, "openai/gpt-5.6-luna"},
		{"and after", "openai", "gpt-5.6-luna", "2026-07-30", llm.Usage{Input: 100_000, Output: 1 * m}, false,
			0.1*0.2 + 1*1.2, "openai/gpt-5.6-luna@2026-07-30"},
		{"images are not text", "google", "gemini-2.5-flash-image", "", llm.Usage{Input: 1_000, Output: 1_390, OutputImage: 1_290}, false,
			0.001*0.3 + 0.0001*2.5 + 0.00129*30, "google/gemini-2.5-flash-image"},
		{"a length that matters no more", "vertex-ai", "claude-opus-4-6@default", "2026-04-01", llm.Usage{Input: 1 * m, Output: 1 * m}, false,
			1*5 + 1*25, "vertex-ai/claude-opus-4-6*@2026-03-13"},
		{"a short one", "google", "gemini-2.5-pro", "", llm.Usage{Input: 100_000, Output: 5_000, Reasoning: 15_000}, false,
			0.1*1.25 + 0.02*10, "google/gemini-2.5-pro"},
		{"a long one", "google", "gemini-2.5-pro", "", llm.Usage{Input: 1 * m, CachedInput: 1 * m, Output: 1 * m}, false,
			1*2.5 + 1*0.25 + 1*15, "google/gemini-2.5-pro"},
		{"sound", "google", "gemini-2.5-flash", "", llm.Usage{Input: 1 * m, InputAudio: 1 * m, Output: 1 * m}, false,
			1*0.3 + 1*1 + 1*2.5, "google/gemini-2.5-flash"},
		{"in one region", "bedrock", "eu.anthropic.claude-haiku-4-5-20251001-v1:0", "", llm.Usage{Input: 1 * m, CachedInput: 1 * m, Output: 1 * m}, false,
			1*1.1 + 1*0.11 + 1*5.5, "bedrock/eu.anthropic.claude-haiku-4-5*"},
		{"in all", "bedrock", "global.anthropic.claude-haiku-4-5-20251001-v1:0", "", llm.Usage{Input: 1 * m, CachedInput: 1 * m, Output: 1 * m}, false,
			1*1 + 1*0.1 + 1*5, "bedrock/global.anthropic.claude-haiku-4-5*"},
		{"less than a nano-dollar a token", "bedrock", "amazon.nova-micro-v1:0", "", llm.Usage{Input: 2 * m, CachedInput: 4 * m, Output: 1 * m}, false,
			2*0.035 + 4*0.00875 + 1*0.14, "bedrock/amazon.nova-micro-v1*"},
		{"of a deployment's model", "azure-openai", "gpt-4o", "", llm.Usage{Input: 1 * m, CachedInput: 1 * m, Output: 1 * m}, false,
			1*2.5 + 1*1.25 + 1*10, "azure-openai/gpt-4o"},
		{"mistral", "mistral-ai", "mistral-large-2512", "", llm.Usage{Input: 1 * m, Output: 1 * m}, true,
			(1*0.5 + 1*1.5) / 2, "mistral-ai/mistral-large-2512"},
		{"cohere", "cohere", "command-r7b-12-2024", "", llm.Usage{Input: 4 * m, Output: 2 * m}, false,
			4*0.0375 + 2*0.15, "cohere/command-r7b-12-2024"},
		{"groq", "groq", "llama-3.3-70b-versatile", "", llm.Usage{Input: 1 * m, Output: 1 * m}, false,
			1*0.59 + 1*0.79, "groq/llama-3.3-70b-versatile"},
		{"deepseek", "deepseek", "deepseek-v4-flash", "2026-10-16", llm.Usage{Input: 1 * m, CachedInput: 10 * m, Output: 1 * m}, false,
			1*0.14 + 10*0.0028 + 1*0.28, "deepseek/deepseek-v4-flash*"},
		{"x-ai", "x-ai", "grok-4-fast-reasoning", "", llm.Usage{Input: 128_001, Reasoning: 1_000, Output: 1_000}, false,
			0.128001*0.4 + 0.002*1, "x-ai/grok-4-fast-reasoning*"},
		{"together", "together-ai", "deepseek-ai/DeepSeek-V3.1", "", llm.Usage{Input: 1 * m, Output: 1 * m}, false,
			1*0.6 + 1*1.7, "together-ai/deepseek-ai/DeepSeek-V3.1"},
		{"fireworks", "fireworks-ai", "accounts/fireworks/models/kimi-k2p6", "", llm.Usage{Input: 1 * m, CachedInput: 1 * m, Output: 1 * m}, false,
			1*0.95 + 1*0.16 + 1*4, "fireworks-ai/accounts/fireworks/models/kimi-k2p6"},
		{"a fee for each request", "perplexity-ai", "sonar-pro", "", llm.Usage{Input: 1_000, Output: 1_000}, false,
			0.001*3 + 0.001*15 + 0.006, "perplexity-ai/sonar-pro"},
		{"reasoning at a price of its own", "perplexity-ai", "sonar-deep-research", "", llm.Usage{Input: 1 * m, Reasoning: 1 * m, Output: 1 * m}, false,
			1*2 + 1*3 + 1*8, "perplexity-ai/sonar-deep-research"},
		{"embeddings", "voyage", "voyage-4-lite", "", llm.Usage{Input: 1 * m}, false, 1 * 0.02, "voyage/voyage-4-lite"},
	} {
		t.Run(tt.provider+" "+tt.name, func(t *testing.T) {
			at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			if tt.at != "" {
				at = day(tt.at)
			}
			p, ok := catalog.Builtin().Price(tt.provider, tt.model, at)
			if !ok {
				t.Fatalf("the book has no price of %s for %s", tt.provider, tt.model)
			}
			tier := catalog.Standard
			if tt.batch {
				tier = catalog.Batch
			}
			if got, want := p.Cost(tt.usage, tier), catalog.NanoDollars(tt.want*dollar+0.5); got != want || p.Row() != tt.row {
				t.Errorf("Cost = %d by %s, want %d by %s", got, p.Row(), want, tt.row)
			}
		})
	}
}

func TestPartsOfAResponseAreNotPricedAsTheTotal(t *testing.T) {
	// 1,000 prompt tokens of which 900 came from a cache: 100 × 250 and 900 × 25
	// nano-dollars, and 10 × 2,000 for what was written.
	p, ok := catalog.Builtin().Price("openai", "gpt-5-mini", time.Now())
	if !ok {
		t.Fatal("the book has no price for gpt-5-mini")
	}
	if got := p.Cost(llm.Usage{Input: 100, CachedInput: 900, Output: 10}, catalog.Standard); got != 100*250+900*25+10*2000 {
		t.Errorf("Cost = %d, want %d", got, 100*250+900*25+10*2000)
	}
}
