package gemini_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"modelgate/internal/dialect"
	"modelgate/internal/dialect/gemini"
	"modelgate/internal/model/llm"
	"modelgate/internal/testing/dialecttest"
)

var can = dialecttest.Capabilities{
	Fields: []llm.Field{
		llm.FieldTools, llm.FieldToolChoice, llm.FieldFormat, llm.FieldMaxTokens, llm.FieldTemperature, llm.FieldTopP, llm.FieldTopK,
		llm.FieldFrequencyPenalty, llm.FieldPresencePenalty, llm.FieldSeed, llm.FieldStop, llm.FieldLogprobs, llm.FieldTopLogprobs,
		llm.FieldN, llm.FieldThinking, llm.FieldEffort, llm.FieldModalities, llm.FieldMetadata, llm.FieldServiceTier,
	},
	Modes:     []llm.ThinkingMode{llm.ThinkingEnabled, llm.ThinkingDisabled, llm.ThinkingAdaptive},
	PathModel: true, PathStream: true,
	AnyOrder: true, TwoUsers: true, ResultNames: true, Failed: true,
	Media: map[llm.MediaKind]dialecttest.Medium{
		llm.Image:    {Types: []string{"image/png", "image/heic"}, URL: true, TypedURL: true, Name: true, Details: []string{"low", "high"}},
		llm.Document: {Types: []string{"application/pdf", "text/plain"}, URL: true, TypedURL: true, Name: true},
		llm.Audio:    {Types: []string{"audio/wav"}, URL: true, TypedURL: true},
		llm.Video:    {Types: []string{"video/mp4"}, URL: true, TypedURL: true},
	},
	ResultMedia:   map[llm.MediaKind]dialecttest.Medium{llm.Image: {Types: []string{"image/png"}, Name: true}},
	ResponseMedia: map[llm.MediaKind]dialecttest.Medium{llm.Image: {Types: []string{"image/png"}, URL: true, TypedURL: true}, llm.Audio: {Types: []string{"audio/L16"}}},
	Thinking:      true, Signed: llm.Google, Unsigned: true, CallSigned: llm.Google,
	Citations: true,
	Stops:     []llm.StopReason{llm.StopEnd, llm.StopLength, llm.StopFilter},
	ID:        true, Model: true,
	Usage:       llm.Usage{Input: 1, CachedInput: 1, Output: 1, Reasoning: 1, InputAudio: 1, OutputAudio: 1},
	Fit:         func(r *llm.Request) { r.Format.Name = "" },
	FitResponse: citeAlone,
}

// citeAlone leaves sources to a response of one text: where there is more, the
// protocol does not say which they are of.
func citeAlone(r *llm.Response) {
	for i := range r.Choices {
		c := &r.Choices[i]
		if len(c.Parts) == 1 {
			continue
		}
		for n, p := range c.Parts {
			if t, ok := p.(llm.Text); ok {
				t.Citations = nil
				c.Parts[n] = t
			}
		}
	}
}

// unsaid are the fields that the protocol has no words for, and what stands for
// the sources next to the text.
var unsaid = cmp.Options{cmpopts.IgnoreFields(llm.Logprob{}, "Bytes"), cmpopts.IgnoreFields(llm.Choice{}, "Extra")}

func TestGeminiKeepsConversationsWhole(t *testing.T) {
	for _, to := range []dialect.RequestTarget{dialecttest.TargetOf("google", "gemini-3-flash-preview"), dialecttest.TargetOf("vertex-ai", "gemini-2.5-pro")} {
		t.Run(to.Provider, func(t *testing.T) {
			dialecttest.Run(t, dialecttest.Suite{
				Dialect: "gemini", Client: gemini.Dialect{}, Provider: gemini.Dialect{}, Target: to, Can: can, Ignore: unsaid,
			})
		})
	}
}

func TestResponsesCarryTheSignaturesOfOtherVendors(t *testing.T) {
	response := &llm.Response{Choices: []llm.Choice{{Stop: llm.StopTool, Parts: []llm.Part{
		llm.Thinking{Text: "why", Signature: llm.Signature{Vendor: llm.Anthropic, Value: "YQ=="}},
		llm.Thinking{Redacted: true, Signature: llm.Signature{Vendor: llm.Anthropic, Value: "Yg=="}},
		llm.Text{Text: "so"},
		llm.ToolCall{ID: "1", Name: "f", Arguments: "{}"},
	}}}}
	reply := dialect.ResponseTarget{Request: &llm.Request{}}
	whole := gemini.Dialect{}.EncodeResponse(nil, response, reply)
	enc := gemini.Dialect{}.NewEncoder(reply)
	var stream []byte
	for e := range dialect.Replay(response) {
		stream = enc.Encode(stream, &e)
	}
	for name, parts := range map[string][]any{"whole": partsOf(t, whole), "streamed": streamedParts(t, stream)} {
		parts = slices.DeleteFunc(parts, func(p any) bool { return len(object(p)) == 1 && object(p)["text"] == "" })
		body, err := jsonText(map[string]any{"contents": []any{map[string]any{"role": "model", "parts": parts}}})
		if err != nil {
			t.Fatal(err)
		}
		r, err := gemini.Dialect{}.DecodeRequest(body)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(response.Choices[0].Parts, r.Messages[0].Parts, dialecttest.Same()); diff != "" {
			t.Errorf("%s: returned by a client, the parts are (-want +got):\n%s", name, diff)
		}
		out, _, err := gemini.Dialect{}.EncodeRequest(nil, r, dialecttest.TargetOf("google", "gemini-2.5-pro"))
		if err != nil || len(object(list(object(mustJSON(t, string(out)))["contents"])[0])["parts"].([]any)) != 2 {
			t.Errorf("%s: the provider is sent %s, %v, want text and call alone", name, out, err)
		}
	}
}
