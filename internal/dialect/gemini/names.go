package gemini

import (
	"strings"

	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// names maps request fields to their names in this dialect.
var names = map[llm.Field]string{
	llm.FieldToolChoice:       "toolConfig.functionCallingConfig",
	llm.FieldFormat:           "generationConfig.responseMimeType",
	llm.FieldMaxTokens:        config + "maxOutputTokens",
	llm.FieldTemperature:      config + "temperature",
	llm.FieldTopP:             config + "topP",
	llm.FieldTopK:             config + "topK",
	llm.FieldFrequencyPenalty: config + "frequencyPenalty",
	llm.FieldPresencePenalty:  config + "presencePenalty",
	llm.FieldSeed:             config + "seed",
	llm.FieldStop:             config + "stopSequences",
	llm.FieldLogprobs:         config + "responseLogprobs",
	llm.FieldTopLogprobs:      config + "logprobs",
	llm.FieldN:                config + "candidateCount",
	llm.FieldThinkingObject:   config + "thinkingConfig",
	llm.FieldThinking:         config + "thinkingConfig.thinkingBudget",
	llm.FieldEffort:           config + "thinkingConfig.thinkingLevel",
	llm.FieldSummary:          config + "thinkingConfig.includeThoughts",
	llm.FieldModalities:       config + "responseModalities",
	llm.FieldSpeech:           config + "speechConfig",
	llm.FieldMetadata:         "labels",
	llm.FieldServiceTier:      "serviceTier",
	llm.FieldParts:            "parts",
	llm.FieldHistory:          "contents.parts.thought",
}

// Objects whose members are in Request.Extra under their path.
const (
	config     = "generationConfig."
	toolConfig = "toolConfig."
	calling    = "toolConfig.functionCallingConfig."
)

// camel returns a field's name in lower camel case: readers of protobuf's JSON
// also accept names with underscores.
// https://protobuf.dev/programming-guides/json/
func camel(key jsonedit.Key) string {
	return camelText(key.String())
}

func camelText(name string) string {
	name = strings.TrimLeft(name, "_")
	if !strings.Contains(name, "_") {
		return name
	}
	var b strings.Builder
	for i, word := range strings.Split(name, "_") {
		if i > 0 && word != "" && word[0] >= 'a' && word[0] <= 'z' {
			b.WriteByte(word[0] - 'a' + 'A')
			word = word[1:]
		}
		b.WriteString(word)
	}
	return b.String()
}

// field returns the member of an object under either spelling.
func field(v jsonedit.Value, name string) jsonedit.Value {
	for key, inner := range v.Fields() {
		if camel(key) == name {
			return inner
		}
	}
	return jsonedit.Value{}
}

// camelled appends a value with the keys of its objects in lower camel case.
func camelled(b *jsonedit.Builder, v jsonedit.Value) {
	switch v.Kind() {
	case jsonedit.Object:
		b.Open('{')
		for key, inner := range v.Fields() {
			b.Key(camel(key))
			camelled(b, inner)
		}
		b.Close('}')
	case jsonedit.Array:
		b.Open('[')
		for inner := range v.Elements() {
			camelled(b, inner)
		}
		b.Close(']')
	default:
		b.Raw(v.Raw())
	}
}
