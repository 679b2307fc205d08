package tokens_test

import (
	"strings"
	"testing"
	"time"

	"modelgate/internal/model/tokens"
)

// The counts of the first rows are those of OpenAI's own documentation:
// https://cookbook.openai.com/examples/how_to_count_tokens_with_tiktoken
func TestTextsAreCountedByTheirVocabulary(t *testing.T) {
	for _, tt := range []struct {
		provider, model, text string
		least, most           int64
	}{
		{"openai", "gpt-4-turbo", "tiktoken is great!", 6, 6},
		{"openai", "gpt-4o", "tiktoken is great!", 6, 6},
		{"azure-openai", "gpt-4", "antidisestablishmentarianism", 6, 6},
		{"anthropic", "claude-opus-4-5", "tiktoken is great!", 7, 9},
		{"groq", "llama-3.3-70b", strings.Repeat("The quick brown fox jumps over the lazy dog. ", 5000), 40_000, 60_000},
		{"openai", "gpt-4o", "", 0, 0},
	} {
		if got := tokens.Estimate(tt.provider, tt.model, []byte(tt.text)); got < tt.least || got > tt.most {
			t.Errorf("Estimate(%s, %s, %.30q) = %d, want %d to %d", tt.provider, tt.model, tt.text, got, tt.least, tt.most)
		}
	}
}

// Whatever the text, a call takes a bounded time: texts of one long word and of
// spaces are the worst for tokenizers.
func TestATextTakesABoundedTime(t *testing.T) {
	tokens.Estimate("openai", "gpt-4o", []byte("load the vocabulary"))
	for name, text := range map[string]string{
		"one word": strings.Repeat("a", 50<<20), "spaces": strings.Repeat(" ", 50<<20), "signs": strings.Repeat("$%&/", 10<<20), "not UTF-8": strings.Repeat("\xff\x80", 20<<20),
	} {
		began := time.Now()
		n := tokens.Estimate("openai", "gpt-4o", []byte(text))
		if took := time.Since(began); took > time.Minute || n == 0 {
			t.Errorf("%s: %d tokens after %v", name, n, took)
		}
	}
}

func TestRequestsAreEstimatedWithoutTheirMedia(t *testing.T) {
	const head = `{"model":"gpt-4o","messages":[{"role":"user","content":`
	plain := tokens.EstimateRequest("openai", "gpt-4o", []byte(head+`"tiktoken is great!"}]}`))
	if plain < 10 || plain > 12 { // 6, and 4 for the message
		t.Errorf("a message of 6 tokens is estimated at %d", plain)
	}
	picture := tokens.EstimateRequest("openai", "gpt-4o", []byte(head+`[{"type":"text","text":"tiktoken is great!"},{"type":"image_url","image_url":{"url":"data:image/png;base64,`+strings.Repeat("AAAA", 1000)+`"}}]}]}`))
	if picture < 1010 || picture > 1014 {
		t.Errorf("a message of 6 tokens and a picture is estimated at %d", picture)
	}
	tools := tokens.EstimateRequest("openai", "gpt-4o", []byte(head+`"tiktoken is great!"}],"tools":[{"type":"function","function":{"name":"weather","parameters":{"properties":{"city":{"type":"string"}}}}}]}`))
	if tools <= plain+20 {
		t.Errorf("tools make it %d tokens, without them it is %d", tools, plain)
	}
	for _, broken := range []string{"", "{", `{"a`, `"\`, `]]]}`, `{"tools":`} {
		tokens.EstimateRequest("", "", []byte(broken))
	}
}

func TestApproximateGrowsWithTheText(t *testing.T) {
	if got := tokens.Approximate("groq", "m", 400); got != 100 {
		t.Errorf("Approximate of 400 bytes = %d, want 100", got)
	}
	if got := tokens.Approximate("anthropic", "claude-x", -1); got != 0 {
		t.Errorf("Approximate of less than nothing = %d, want 0", got)
	}
}
