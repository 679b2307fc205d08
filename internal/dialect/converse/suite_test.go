package converse_test

import (
	"testing"

	"modelgate/internal/dialect"
	"modelgate/internal/dialect/converse"
	"modelgate/internal/model/llm"
	"modelgate/internal/testing/dialecttest"
)

var signed = dialecttest.Capabilities{
	Fields: []llm.Field{
		llm.FieldTools, llm.FieldToolChoice, llm.FieldFormat, llm.FieldMaxTokens, llm.FieldTemperature, llm.FieldTopP, llm.FieldTopK,
		llm.FieldStop, llm.FieldThinking, llm.FieldEffort, llm.FieldUser, llm.FieldMetadata,
	},
	Choices:   []llm.ChoiceMode{llm.ChoiceAuto, llm.ChoiceRequired, llm.ChoiceTool},
	Formats:   []llm.FormatKind{llm.FormatSchema},
	PathModel: true, PathStream: true,
	AnyOrder: true, Cache: true, Failed: true, StrictTools: true,
	Media: map[llm.MediaKind]dialecttest.Medium{
		llm.Image:    {Types: []string{"image/png", "image/jpeg", "image/webp"}},
		llm.Document: {Types: []string{"application/pdf", "text/plain"}, Name: true, NeedsName: true},
		llm.Video:    {Types: []string{"video/mp4", "video/3gpp"}},
	},
	ResultMedia:   map[llm.MediaKind]dialecttest.Medium{llm.Image: {Types: []string{"image/png"}}},
	ResponseMedia: map[llm.MediaKind]dialecttest.Medium{llm.Image: {Types: []string{"image/png"}}},
	Thinking:      true, Signed: llm.Anthropic, Redacted: true,
	Stops: []llm.StopReason{llm.StopEnd, llm.StopLength, llm.StopSequence, llm.StopContext, llm.StopFilter},
	Usage: llm.Usage{Input: 1, CachedInput: 1, CacheWrite5m: 1, CacheWrite1h: 1, Output: 1},
	Fit:   fit,
}

// fit takes out what Claude refuses together, and gives documents names of
// their own.
func fit(r *llm.Request) {
	if r.Reasoning.Mode == llm.ThinkingEnabled {
		r.Temperature, r.TopP, r.TopK = nil, nil, nil
		if r.ToolChoice.Mode == llm.ChoiceRequired || r.ToolChoice.Mode == llm.ChoiceTool {
			r.ToolChoice = llm.ToolChoice{}
		}
	}
	if r.Temperature != nil {
		r.TopP = nil
	}
	r.Format.Strict = nil
	seen := 0
	for _, m := range r.Messages {
		for i, p := range m.Parts {
			if media, ok := p.(llm.Media); ok && media.Kind == llm.Document {
				seen++
				media.Name = []string{"report", "report (2)", "report (3)", "report (4)", "report (5)", "report (6)", "report (7)", "report (8)", "report (9)", "report (10)", "report (11)", "report (12)", "report (13)", "report (14)", "report (15)"}[seen-1]
				m.Parts[i] = media
			}
		}
	}
}

func TestConverseKeepsConversationsWhole(t *testing.T) {
	dialecttest.Run(t, dialecttest.Suite{
		Dialect:  "converse",
		Client:   converse.Dialect{},
		Provider: converse.Dialect{},
		Target:   dialect.RequestTarget{Provider: "bedrock", Model: "us.anthropic.claude-sonnet-4-6"},
		Can:      signed,
		Frames:   frames,
	})
}

func TestConverseKeepsConversationsOfOtherModelsWhole(t *testing.T) {
	can := signed
	can.Fields = []llm.Field{llm.FieldTools, llm.FieldToolChoice, llm.FieldMaxTokens, llm.FieldTemperature, llm.FieldTopP, llm.FieldTopK, llm.FieldStop, llm.FieldMetadata}
	can.Thinking, can.StrictTools, can.Fit = false, false, func(r *llm.Request) { fit(&llm.Request{Messages: r.Messages}) }
	for _, model := range []string{"amazon.nova-lite-v1:0", "us.amazon.nova-2-lite-v1:0"} {
		t.Run(model, func(t *testing.T) {
			dialecttest.Run(t, dialecttest.Suite{
				Dialect: "converse", Client: converse.Dialect{}, Provider: converse.Dialect{},
				Target: dialect.RequestTarget{Provider: "bedrock", Model: model}, Can: can, Frames: frames,
			})
		})
	}
}
