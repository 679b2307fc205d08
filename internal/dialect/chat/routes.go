package chat

import (
	"math"

	"modelgate/api"
)

// route is what a unified route asks of a body. At most 64 parameters.
type route struct {
	params []param
	byLen  [maxName + 1][]int8 // indexes into params of the names of each length
	across []relation          // rules between parameters, checked when each is well
}

const maxName = 31 // bytes of the longest name of a parameter

func newRoute(params []param, across ...relation) *route {
	r := &route{params: params, across: across}
	for i, p := range params {
		r.byLen[len(p.name)] = append(r.byLen[len(p.name)], int8(i))
	}
	return r
}

// find returns the index of the parameter of that name, or -1.
func (r *route) find(name []byte) int {
	if len(name) > maxName {
		return -1
	}
	for _, i := range r.byLen[len(name)] {
		if r.params[i].name == string(name) {
			return int(i)
		}
	}
	return -1
}

// The bounds of the specification's Limits part.
const (
	maxTools       = 128
	maxStops       = 4
	maxInputs      = 2048
	maxInputTokens = 8192

	// No token of the reference model's vocabulary is longer than 128 bytes, and
	// byte-pair tokens cover the text without overlap: a text of more than 8192
	// times that has more than 8192 tokens however it is cut. The bound is twice
	// as much, so that special tokens and a later vocabulary leave it safe.
	maxInputBytes = maxInputTokens * 256
)

var (
	penalty     = number{-2, 2}
	temperature = number{0, 2}
	share       = number{0, 1}
	count       = integer{1, 128}
	bias        = table{number{-100, 100}, "an object of token ids with a bias from -100 to 100"}
	stops       = byKind{
		what:  "a string or an array of at most 4 strings",
		text:  text{},
		array: list{max: maxStops, each: text{}, what: "strings"},
	}
	model = param{name: "model", rule: text{}, required: true}
	user  = param{name: "user", rule: text{}}
)

// The routes that are checked. What a parameter's rule does not say is left to
// the provider, and so is every parameter that is not named: official clients
// and providers have more than the specification knows.
var (
	chatRoute = newRoute([]param{
		model,
		{name: "messages", rule: list{min: 1, each: message, what: "messages"}, required: true},
		{name: "frequency_penalty", rule: penalty},
		{name: "presence_penalty", rule: penalty},
		{name: "logit_bias", rule: bias},
		{name: "logprobs", rule: boolean{}},
		{name: "top_logprobs", rule: integer{0, 20}},
		{name: "max_tokens", rule: anyInteger},
		{name: "n", rule: count},
		{name: "response_format", rule: object{}},
		{name: "seed", rule: anyInteger},
		{name: "stop", rule: stops},
		{name: "stream", rule: boolean{}},
		{name: "stream_options", rule: object{}},
		{name: "thinking", rule: thinking},
		{name: "temperature", rule: temperature},
		{name: "top_p", rule: share},
		{name: "tools", rule: list{max: maxTools, each: tool{}, what: "tools"}},
		{name: "tool_choice", rule: toolChoice},
		{name: "parallel_tool_calls", rule: boolean{}},
		user,
		{name: "function_call", rule: functionCall},
		{name: "functions", rule: list{min: 1, max: maxTools, each: named, what: "functions"}},
		{name: "max_completion_tokens", rule: anyInteger},
		{name: "reasoning_effort", rule: text{}},
		{name: "verbosity", rule: text{}},
		{name: "service_tier", rule: text{}},
		{name: "store", rule: boolean{}},
		{name: "prediction", rule: object{}},
		{name: "modalities", rule: list{each: text{}, what: "strings"}},
		{name: "audio", rule: object{}},
		{name: "web_search_options", rule: object{}},
	}, relation{"top_logprobs", needLogprobs}, relation{"stream_options", needStream})

	completionsRoute = newRoute([]param{
		model,
		{name: "prompt", rule: prompt, required: true, nullable: true},
		{name: "best_of", rule: integer{0, 20}},
		{name: "echo", rule: boolean{}},
		{name: "frequency_penalty", rule: penalty},
		{name: "presence_penalty", rule: penalty},
		{name: "logit_bias", rule: bias},
		{name: "logprobs", rule: integer{0, 5}},
		{name: "max_tokens", rule: integer{0, math.MaxInt64}},
		{name: "n", rule: count},
		{name: "seed", rule: anyInteger},
		{name: "stop", rule: stops},
		{name: "stream", rule: boolean{}},
		{name: "stream_options", rule: object{}},
		{name: "suffix", rule: text{}},
		{name: "temperature", rule: temperature},
		{name: "top_p", rule: share},
		user,
	}, relation{"stream_options", needStream}, relation{"best_of", coverN}, relation{"best_of", notStreamed})

	embeddingsRoute          = newRoute(embeddings(text{notEmpty: true}, inputs{}))
	referenceEmbeddingsRoute = newRoute(embeddings(
		text{notEmpty: true, bytes: maxInputBytes, why: ", which is more than 8192 tokens hold"},
		inputs{tokens: maxInputTokens, bytes: maxInputBytes}))

	speechRoute = newRoute([]param{
		model,
		{name: "input", rule: text{}, required: true},
		// Voices of a client's own are objects with an id.
		{name: "voice", rule: byKind{text: text{}, object: object{}, what: "a string"}, required: true},
	})

	moderationsRoute = newRoute([]param{
		{name: "input", rule: byKind{text: text{}, array: list{}, what: "a string or an array"}, required: true},
		{name: "model", rule: text{}},
	})
)

func embeddings(one text, many inputs) []param {
	many.notEmpty = true
	return []param{
		model,
		{name: "input", rule: byKind{text: one, array: many, what: inputForms}, required: true},
		{name: "encoding_format", rule: text{}},
		{name: "dimensions", rule: integer{1, math.MaxInt64}},
		user,
	}
}

// routeOf returns the route of op for a body that names model, or nil when there
// is nothing to check.
func routeOf(op api.Operation) *route {
	switch op {
	case api.Chat:
		return chatRoute
	case api.Completions:
		return completionsRoute
	case api.Embeddings:
		return embeddingsRoute
	case api.Images:
		return imagesRoute
	case api.AudioSpeech:
		return speechRoute
	case api.Moderations:
		return moderationsRoute
	}
	return nil
}
