package dataplane

import (
	"maps"
	"slices"
	"strings"

	"modelgate/api"
)

// Route is a route of model requests, for the description of the API.
type Route struct{ Method, Path, Summary string }

// summaries describe the operations of model routes.
var summaries = map[api.Operation]string{
	api.Chat:                "Create a chat completion",
	api.Completions:         "Create a completion of a prompt",
	api.Embeddings:          "Create embeddings",
	api.Images:              "Create images",
	api.ImageEdits:          "Edit images",
	api.ImageVariations:     "Create variations of an image",
	api.AudioSpeech:         "Create speech from text",
	api.AudioTranscriptions: "Transcribe audio",
	api.AudioTranslations:   "Translate audio",
	api.Moderations:         "Classify content",
	api.Rerank:              "Rank documents for a query",
	api.Messages:            "Create a message, in the dialect of Anthropic",
	api.CountTokens:         "Count the input tokens of a message",
	api.Responses:           "Create a response",
	api.Models:              "List the models that the key may use",
	api.Explain:             "Show what would happen to a request",
	api.ConfigSchema:        "Read the JSON Schema of configs",
	api.Generate:            "Generate content, in the dialect of Gemini",
	api.GenerateCount:       "Count the input tokens of a Gemini request",
	api.GenerateEmbed:       "Create an embedding, in the dialect of Gemini",
	api.GenerateEmbedBatch:  "Create embeddings, in the dialect of Gemini",
	api.Converse:            "Converse, in the dialect of Bedrock",
	api.ConverseCount:       "Count the input tokens of a Converse request",
	api.Invoke:              "Invoke a model of Bedrock",
}

// Routes returns the routes of model requests. Other paths below the base pass through.
func Routes() []Route {
	var list []Route
	for _, key := range slices.Sorted(maps.Keys(unifiedRoutes)) {
		method, path, _ := strings.Cut(key, " ")
		list = append(list, Route{method, path, summaries[unifiedRoutes[key].op]})
	}
	for _, r := range modelPathRoutes {
		summary := summaries[r.route.op]
		if r.route.stream {
			summary += ", as a stream"
		}
		list = append(list, Route{"POST", r.before + "{model}" + r.after, summary})
	}
	return append(list,
		Route{"GET", api.BasePath + "/models/{model}", "Read a model"},
		Route{"POST", api.BasePath + "/prompts/{prompt}/completions", "Create a chat completion from a saved prompt"},
		Route{"POST", api.BasePath + "/prompts/{prompt}/render", "Render a saved prompt without sending it"},
		Route{"POST", api.BasePath + "/{path}", "Pass any other path through to the provider, with its method, query and body"},
	)
}
