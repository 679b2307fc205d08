package messages_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"modelgate/internal/dialect/messages"
	"modelgate/internal/model/llm"
	"modelgate/internal/testing/dialecttest"
)

func TestMessagesKeepsConversationsWhole(t *testing.T) {
	images := dialecttest.Medium{Types: []string{"image/png", "image/jpeg"}, URL: true, FileID: true}
	documents := dialecttest.Medium{Types: []string{"application/pdf"}, URL: true, FileID: true, Name: true}
	dialecttest.Run(t, dialecttest.Suite{
		Dialect:  "messages",
		Client:   messages.Dialect{},
		Provider: messages.Dialect{},
		Target:   dialecttest.TargetOf("anthropic", "claude-sonnet-5"),
		Ignore:   cmp.Options{cmpopts.IgnoreFields(llm.Response{}, "ID", "Model"), cmpopts.IgnoreFields(llm.Citation{}, "Start", "End")},
		Can: dialecttest.Capabilities{
			Fields: []llm.Field{
				llm.FieldTools, llm.FieldToolChoice, llm.FieldParallelTools, llm.FieldFormat, llm.FieldMaxTokens,
				llm.FieldTemperature, llm.FieldTopP, llm.FieldTopK, llm.FieldStop, llm.FieldThinking, llm.FieldEffort,
				llm.FieldUser, llm.FieldServiceTier, llm.FieldCache,
			},
			Formats:     []llm.FormatKind{llm.FormatSchema},
			Modes:       []llm.ThinkingMode{llm.ThinkingEnabled, llm.ThinkingDisabled, llm.ThinkingAdaptive},
			LateSystem:  true,
			AnyOrder:    true,
			TwoUsers:    true,
			Cache:       true,
			Media:       map[llm.MediaKind]dialecttest.Medium{llm.Image: images, llm.Document: documents},
			ResultMedia: map[llm.MediaKind]dialecttest.Medium{llm.Image: images},
			Thinking:    true,
			Signed:      llm.Anthropic,
			Redacted:    true,
			Citations:   true,
			Failed:      true,
			StrictTools: true,
			Stops:       []llm.StopReason{llm.StopEnd, llm.StopLength, llm.StopSequence, llm.StopContext, llm.StopPause, llm.StopRefusal},
			StopText:    true,
			Usage:       llm.Usage{Input: 1, CachedInput: 1, CacheWrite5m: 1, CacheWrite1h: 1, Output: 1, Reasoning: 1},
			Fit:         fit,
		},
	})
}

// fit leaves out what the protocol can't say, or says in one way alone.
func fit(r *llm.Request) {
	if r.MaxTokens == nil {
		most := int64(1000)
		r.MaxTokens = &most
	}
	if r.Format.Kind != "" {
		r.Format.Strict, r.Format.Name = nil, ""
	}
	if r.ToolChoice.Mode == "" && r.ParallelTools != nil {
		r.ToolChoice.Mode = llm.ChoiceAuto
	}
	if r.ToolChoice.Mode == llm.ChoiceNone {
		r.ParallelTools = nil
	}
}

func TestResponsesCarryTheSignaturesOfOtherVendors(t *testing.T) {
	dialecttest.Run(t, dialecttest.Suite{
		Dialect: "messages",
		Client:  messages.Dialect{}, Provider: messages.Dialect{},
		Target: dialecttest.TargetOf("anthropic", "claude-sonnet-5"),
		Ignore: cmp.Options{cmpopts.IgnoreFields(llm.Response{}, "ID", "Model")},
		Can: dialecttest.Capabilities{
			Fields: []llm.Field{llm.FieldTools, llm.FieldMaxTokens}, Fit: unsigned, Thinking: true, Signed: llm.Anthropic, CallSigned: llm.Google, Usage: llm.Usage{Input: 1}, AnyOrder: true,
		},
	})
}

// unsigned takes the signatures of another vendor from a request: this one's
// models are not sent them.
func unsigned(r *llm.Request) {
	fit(r)
	for _, m := range r.Messages {
		for i, p := range m.Parts {
			if call, ok := p.(llm.ToolCall); ok {
				call.Signature = llm.Signature{}
				m.Parts[i] = call
			}
		}
	}
}
