package chat_test

import (
	"testing"

	"modelgate/internal/dialect"
	"modelgate/internal/dialect/chat"
	"modelgate/internal/model/llm"
	"modelgate/internal/testing/dialecttest"
)

// common holds what every provider of the dialect accepts.
func common() dialecttest.Capabilities {
	return dialecttest.Capabilities{
		Fields: []llm.Field{
			llm.FieldTools, llm.FieldToolChoice, llm.FieldParallelTools, llm.FieldFormat, llm.FieldMaxTokens, llm.FieldTemperature,
			llm.FieldTopP, llm.FieldFrequencyPenalty, llm.FieldPresencePenalty, llm.FieldSeed, llm.FieldStop, llm.FieldLogitBias,
			llm.FieldLogprobs, llm.FieldTopLogprobs, llm.FieldN, llm.FieldThinking, llm.FieldEffort, llm.FieldVerbosity,
			llm.FieldModalities, llm.FieldSpeech, llm.FieldUser, llm.FieldMetadata, llm.FieldServiceTier, llm.FieldCache,
		},
		Developer: true, LateSystem: true, Names: true, TwoUsers: true, Cache: true,
		Media: map[llm.MediaKind]dialecttest.Medium{
			llm.Image:    {Types: []string{"image/png", "image/webp"}, URL: true, Details: []string{"low", "high"}},
			llm.Document: {Types: []string{"application/pdf"}, FileID: true, Name: true},
			llm.Audio:    {Types: []string{"audio/mp3", "audio/wav"}},
		},
		ResponseMedia: map[llm.MediaKind]dialecttest.Medium{llm.Image: {Types: []string{"image/png"}, URL: true}},
		Thinking:      true, Signed: llm.Anthropic, Unsigned: true, Redacted: true, CallSigned: llm.Google,
		Refusal: true, Citations: true, CustomTools: true, ResultNames: true, StrictTools: true,
		Stops: []llm.StopReason{llm.StopEnd, llm.StopLength, llm.StopFilter},
		ID:    true, Model: true, Created: true, Tier: true, Mark: true,
		Usage:       llm.Usage{Input: 1, CachedInput: 1, CacheWrite5m: 1, CacheWrite1h: 1, Output: 1, Reasoning: 1, InputAudio: 1, OutputAudio: 1},
		Fit:         withoutThoughts,
		FitResponse: declined,
	}
}

// withoutThoughts takes out what the dialect's own vendor is not told again.
func withoutThoughts(r *llm.Request) {
	for i, m := range r.Messages {
		var kept []llm.Part
		for _, p := range m.Parts {
			if _, ok := p.(llm.Thinking); !ok {
				kept = append(kept, p)
			}
		}
		r.Messages[i].Parts = kept
	}
}

// declined gives a refusal its stop reason, which the dialect tells by the
// refusal.
func declined(r *llm.Response) {
	for i := range r.Choices {
		c := &r.Choices[i]
		for _, p := range c.Parts {
			if _, ok := p.(llm.Refusal); ok && c.Stop == llm.StopEnd {
				c.Stop = llm.StopRefusal
			}
		}
	}
}

func TestChatKeepsConversationsWhole(t *testing.T) {
	dialecttest.Run(t, dialecttest.Suite{
		Dialect: "chat", Client: chat.Dialect{}, Provider: chat.Dialect{},
		Target: dialecttest.TargetOf("openai", "gpt-4o"),
		Can:    common(),
	})
}

func TestStrictResponsesKeepAllFieldsThatClientsKnow(t *testing.T) {
	can := common()
	can.Thinking, can.Redacted, can.Signed, can.CallSigned = false, false, "", ""
	can.Usage.CacheWrite1h = 0
	dialecttest.Run(t, dialecttest.Suite{
		Dialect: "chat", Client: chat.Dialect{}, Provider: chat.Dialect{},
		Target:         dialecttest.TargetOf("openai", "gpt-4o"),
		ResponseTarget: dialect.ResponseTarget{Strict: true},
		Can:            can,
	})
}
