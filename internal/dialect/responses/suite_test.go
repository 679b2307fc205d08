package responses_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"modelgate/internal/dialect/responses"
	"modelgate/internal/model/llm"
	"modelgate/internal/testing/dialecttest"
)

func TestResponsesKeepConversationsWhole(t *testing.T) {
	details := []string{"low", "high", "auto"}
	dialecttest.Run(t, dialecttest.Suite{
		Dialect:  "responses",
		Client:   responses.Dialect{},
		Provider: responses.Dialect{},
		Target:   dialecttest.TargetOf("openai", "gpt-5.2"),
		// The ids of items, and whether text is a summary, are not made up. The
		// bytes of a token are demanded by the protocol, and written when not told.
		Ignore: cmp.Options{
			cmpopts.IgnoreFields(llm.Thinking{}, "ID", "Summary"),
			cmpopts.IgnoreFields(llm.Media{}, "Extra"),
			cmpopts.IgnoreFields(llm.Logprob{}, "Bytes"),
		},
		Can: dialecttest.Capabilities{
			Fields: []llm.Field{
				llm.FieldTools, llm.FieldToolChoice, llm.FieldParallelTools, llm.FieldFormat, llm.FieldMaxTokens,
				llm.FieldTemperature, llm.FieldTopP, llm.FieldLogprobs, llm.FieldTopLogprobs, llm.FieldThinking,
				llm.FieldEffort, llm.FieldVerbosity, llm.FieldUser, llm.FieldMetadata, llm.FieldServiceTier,
			},
			Efforts:     []string{"none", "minimal", "low", "medium", "high", "xhigh"},
			Developer:   true,
			LateSystem:  true,
			AnyOrder:    true,
			TwoUsers:    true,
			Cache:       true,
			Thinking:    true,
			Signed:      llm.OpenAI,
			Unsigned:    true,
			Refusal:     true,
			Citations:   true,
			CustomTools: true,
			StrictTools: true,
			Media: map[llm.MediaKind]dialecttest.Medium{
				llm.Image:    {Types: []string{"image/png", "image/webp"}, URL: true, FileID: true, Details: details},
				llm.Document: {Types: []string{"application/pdf", "text/plain"}, NeedsName: true},
				llm.Audio:    {Types: []string{"audio/wav"}},
			},
			ResultMedia: map[llm.MediaKind]dialecttest.Medium{
				llm.Image: {Types: []string{"image/png"}, Details: details},
			},
			ResponseMedia: map[llm.MediaKind]dialecttest.Medium{llm.Image: {Types: []string{"image/png"}}},
			Stops:         []llm.StopReason{llm.StopEnd, llm.StopLength, llm.StopFilter},
			Model:         true,
			Created:       true,
			Tier:          true,
			Usage:         llm.Usage{Input: 1, CachedInput: 1, CacheWrite5m: 1, Output: 1, Reasoning: 1},
			FitResponse:   fitResponse,
		},
	})
}

// fitResponse gives a response the id that the made-up one gets, and has those that
// decline say so.
func fitResponse(r *llm.Response) {
	r.ID = "resp_0123456789abcdef0123456789abcdef"
	for i := range r.Choices {
		c := &r.Choices[i]
		for _, p := range c.Parts {
			if _, ok := p.(llm.Refusal); ok && c.Stop == llm.StopEnd {
				c.Stop = llm.StopRefusal
			}
		}
	}
}
