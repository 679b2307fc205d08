package chat

import (
	"math"

	"modelgate/api"
	"modelgate/internal/format/grammar"
	"modelgate/internal/format/jsonedit"
)

// Bounds from the specification's Limits part.
const (
	maxTools       = 128
	maxStops       = 4
	maxInputs      = 2048
	maxInputTokens = 8192

	// Every token of the reference model's vocabulary is at most 128 bytes
	// long, and byte-pair tokens cover the text without overlap. A text longer
	// than 8192 times 128 bytes therefore has more than 8192 tokens. The bound
	// is twice that, to leave room for special tokens and later vocabularies.
	maxInputBytes = maxInputTokens * 256
)

var (
	penalty     = grammar.Number{Min: -2, Max: 2}
	temperature = grammar.Number{Min: 0, Max: 2}
	share       = grammar.Number{Min: 0, Max: 1}
	count       = grammar.Integer{Min: 1, Max: 128}
	bias        = grammar.Map{Each: grammar.Number{Min: -100, Max: 100}, What: "an object of token ids with a bias from -100 to 100"}
	stops       = grammar.ByKind{
		What:  "a string or an array of at most 4 strings",
		Text:  grammar.Text{},
		Array: grammar.List{Max: maxStops, Each: grammar.Text{}, What: "strings"},
	}
	model = grammar.Member{Name: "model", Rule: grammar.Text{}, Required: true}
	user  = grammar.Member{Name: "user", Rule: grammar.Text{}}
)

// The rules of request bodies. Everything else is decided by the provider,
// including parameters without a rule: official clients and providers have more
// parameters than the specification lists.
var (
	chatBody = grammar.NewBody([]grammar.Member{
		model,
		{Name: "messages", Rule: grammar.List{Min: 1, Each: message, What: "messages"}, Required: true},
		{Name: "frequency_penalty", Rule: penalty},
		{Name: "presence_penalty", Rule: penalty},
		{Name: "logit_bias", Rule: bias},
		{Name: "logprobs", Rule: grammar.Bool{}},
		{Name: "top_logprobs", Rule: grammar.Integer{Min: 0, Max: 20}},
		{Name: "max_tokens", Rule: grammar.AnyInteger},
		{Name: "n", Rule: count},
		{Name: "response_format", Rule: grammar.Object{}},
		{Name: "seed", Rule: grammar.AnyInteger},
		{Name: "stop", Rule: stops},
		{Name: "stream", Rule: grammar.Bool{}},
		{Name: "stream_options", Rule: grammar.Object{}},
		{Name: "thinking", Rule: thinking},
		{Name: "temperature", Rule: temperature},
		{Name: "top_p", Rule: share},
		{Name: "tools", Rule: grammar.List{Max: maxTools, Each: tool{}, What: "tools"}},
		{Name: "tool_choice", Rule: toolChoice},
		{Name: "parallel_tool_calls", Rule: grammar.Bool{}},
		user,
		{Name: "function_call", Rule: functionCall},
		{Name: "functions", Rule: grammar.List{Min: 1, Max: maxTools, Each: named, What: "functions"}},
		{Name: "max_completion_tokens", Rule: grammar.AnyInteger},
		{Name: "reasoning_effort", Rule: grammar.Text{}},
		{Name: "verbosity", Rule: grammar.Text{}},
		{Name: "service_tier", Rule: grammar.Text{}},
		{Name: "store", Rule: grammar.Bool{}},
		{Name: "prediction", Rule: grammar.Object{}},
		{Name: "modalities", Rule: grammar.List{Each: grammar.Text{}, What: "strings"}},
		{Name: "audio", Rule: grammar.Object{}},
		{Name: "web_search_options", Rule: grammar.Object{}},
	}, grammar.Relation{Of: "top_logprobs", Check: needLogprobs}, grammar.Relation{Of: "stream_options", Check: needStream})

	completionsBody = grammar.NewBody([]grammar.Member{
		model,
		{Name: "prompt", Rule: prompt, Required: true, Nullable: true},
		{Name: "best_of", Rule: grammar.Integer{Min: 0, Max: 20}},
		{Name: "echo", Rule: grammar.Bool{}},
		{Name: "frequency_penalty", Rule: penalty},
		{Name: "presence_penalty", Rule: penalty},
		{Name: "logit_bias", Rule: bias},
		{Name: "logprobs", Rule: grammar.Integer{Min: 0, Max: 5}},
		{Name: "max_tokens", Rule: grammar.Integer{Min: 0, Max: math.MaxInt64}},
		{Name: "n", Rule: count},
		{Name: "seed", Rule: grammar.AnyInteger},
		{Name: "stop", Rule: stops},
		{Name: "stream", Rule: grammar.Bool{}},
		{Name: "stream_options", Rule: grammar.Object{}},
		{Name: "suffix", Rule: grammar.Text{}},
		{Name: "temperature", Rule: temperature},
		{Name: "top_p", Rule: share},
		user,
	}, grammar.Relation{Of: "best_of", Check: coverN}, grammar.Relation{Of: "best_of", Check: notStreamed},
		grammar.Relation{Of: "stream_options", Check: needStream})

	embeddingsBody          = grammar.NewBody(embeddings(grammar.Text{NotEmpty: true}, inputs{}))
	referenceEmbeddingsBody = grammar.NewBody(embeddings(
		grammar.Text{NotEmpty: true, Bytes: maxInputBytes, Why: ", which is more than 8192 tokens hold"},
		inputs{tokens: maxInputTokens, bytes: maxInputBytes}))

	speechBody = grammar.NewBody([]grammar.Member{
		model,
		{Name: "input", Rule: grammar.Text{}, Required: true},
		// A custom voice is an object with an id.
		{Name: "voice", Rule: grammar.ByKind{Text: grammar.Text{}, Object: grammar.Object{}, What: "a string"}, Required: true},
	})

	moderationsBody = grammar.NewBody([]grammar.Member{
		{Name: "input", Rule: grammar.ByKind{Text: grammar.Text{}, Array: grammar.List{}, What: "a string or an array"}, Required: true},
		{Name: "model", Rule: grammar.Text{}},
	})
)

func embeddings(one grammar.Text, many inputs) []grammar.Member {
	many.notEmpty = true
	return []grammar.Member{
		model,
		{Name: "input", Rule: grammar.ByKind{Text: one, Array: many, What: inputForms}, Required: true},
		{Name: "encoding_format", Rule: grammar.Text{}},
		{Name: "dimensions", Rule: grammar.Integer{Min: 1, Max: math.MaxInt64}},
		user,
	}
}

// bodyOf returns the rules for a body of op, which may depend on its model, or
// nil if there are none.
func bodyOf(op api.Operation, d *jsonedit.Doc) *grammar.Body {
	switch op {
	case api.Chat:
		return chatBody
	case api.Completions:
		return completionsBody
	case api.Embeddings:
		if string(modelName(d)) == "text-embedding-ada-002" {
			return referenceEmbeddingsBody
		}
		return embeddingsBody
	case api.Images:
		return imagesBodyFor(d)
	case api.AudioSpeech:
		return speechBody
	case api.Moderations:
		return moderationsBody
	}
	return nil
}
