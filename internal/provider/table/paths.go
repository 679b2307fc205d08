package table

import (
	"maps"

	"modelgate/api"
	"modelgate/internal/model/llm"
	"modelgate/internal/provider"
)

// Short names that keep a definition on few lines.
type (
	nativePaths = map[api.Operation]string // a provider's own paths
	rename      = map[string]string
	limits      = map[string]provider.Range
	mediaParts  = map[llm.MediaKind]string // types of content parts
)

// maxTokens is for providers that only have the older name of the limit.
var maxTokens = rename{"max_completion_tokens": "max_tokens"}

// usual holds the path of each operation at most providers.
var usual = nativePaths{
	api.Chat:                "/chat/completions",
	api.Completions:         "/completions",
	api.Embeddings:          "/embeddings",
	api.Images:              "/images/generations",
	api.ImageEdits:          "/images/edits",
	api.ImageVariations:     "/images/variations",
	api.AudioSpeech:         "/audio/speech",
	api.AudioTranscriptions: "/audio/transcriptions",
	api.AudioTranslations:   "/audio/translations",
	api.Moderations:         "/moderations",
	api.Rerank:              "/rerank",
	api.Responses:           "/responses",
	api.Messages:            "/messages",
	api.CountTokens:         "/messages/count_tokens",
	api.Models:              "/models",
	api.Files:               "/files",
	api.Batches:             "/batches",
	api.FineTuning:          "/fine_tuning/jobs",
	api.Realtime:            "/realtime",
}

// paths returns the usual paths of ops.
func paths(ops ...api.Operation) nativePaths { return under("", ops...) }

// under returns the usual paths of ops with a prefix.
func under(prefix string, ops ...api.Operation) nativePaths {
	m := make(nativePaths, len(ops))
	for _, op := range ops {
		path, ok := usual[op]
		if !ok {
			panic("table: no usual path for operation " + string(op))
		}
		m[op] = prefix + path
	}
	return m
}

// claudePaths returns the paths that all hosts of the messages API have, with a
// prefix.
// https://docs.anthropic.com/en/api
func claudePaths(prefix string) nativePaths {
	return under(prefix, api.Messages, api.CountTokens, api.Models)
}

// join returns the union of sets; the last path of an operation wins.
func join(sets ...nativePaths) nativePaths {
	m := nativePaths{}
	for _, s := range sets {
		maps.Copy(m, s)
	}
	return m
}
