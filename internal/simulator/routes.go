package simulator

import (
	"net/http"
	"strings"
)

// A handler answers one operation.
type handler func(x *exchange)

type route struct{ method, path string }

// routes are the operations of every dialect; paths are without /v1. A dialect
// consists of its files and its lines here.
type routes struct {
	exact  map[route]service
	prefix map[route]service // the path ends in a slash, followed by an id
	ending []ending
}

// An ending is the end of paths of operations that begin with a model, a
// project or a region.
type ending struct {
	suffix string
	service
}

func newRoutes() routes {
	const get, post = http.MethodGet, http.MethodPost
	return routes{
		exact: map[route]service{
			{post, "/chat/completions"}:     {answerChat, nil},
			{post, "/completions"}:          {answerCompletion, nil},
			{post, "/embeddings"}:           {answerEmbeddings, nil},
			{post, "/images/generations"}:   {answerImages, nil},
			{post, "/audio/speech"}:         {answerSpeech, nil},
			{post, "/audio/transcriptions"}: {answerTranscript, nil},
			{post, "/audio/translations"}:   {answerTranscript, nil},
			{post, "/moderations"}:          {answerModerations, nil},
			{get, "/models"}:                {answerModels, nil},
			{post, "/files"}:                {answerUpload, nil},
			{get, "/files"}:                 {answerFiles, nil},

			{post, "/messages"}:              {answerMessages, &messagesSpeech},
			{post, "/messages/count_tokens"}: {answerMessagesCount, &messagesSpeech},
			{post, "/responses"}:             {answerResponses, &responsesSpeech},
			{post, "/v2/chat"}:               {answerCohere, &cohereSpeech},
			{post, "/v2/embed"}:              {answerCohereEmbed, &cohereSpeech},
			{post, "/v2/rerank"}:             {answerCohereRerank, &cohereSpeech},
			{post, "/api/chat"}:              {answerOllama, &ollamaSpeech},
			{post, "/api/embed"}:             {answerOllamaEmbed, &ollamaSpeech},
		},
		prefix: map[route]service{
			{get, "/models/"}:              {answerModel, nil},
			{get, "/files/"}:               {answerFile, nil},
			{http.MethodDelete, "/files/"}: {answerFileDelete, nil},
		},
		ending: endings(),
	}
}

// endings returns the operations that are found by the end of their path.
func endings() []ending {
	return []ending{
		{"/anthropic/v1/messages", service{answerMessages, &messagesSpeech}},
		{"/anthropic/v1/messages/count_tokens", service{answerMessagesCount, &messagesSpeech}},
		{":generateContent", service{answerGemini, &geminiSpeech}},
		{":streamGenerateContent", service{answerGemini, &geminiSpeech}},
		{":countTokens", service{answerGeminiCount, &geminiSpeech}},
		{":embedContent", service{answerGeminiEmbed, &geminiSpeech}},
		{":batchEmbedContents", service{answerGeminiBatch, &geminiSpeech}},
		{":predict", service{answerVertexPredict, &geminiSpeech}},
		{"/count-tokens:rawPredict", service{answerVertexCount, &messagesSpeech}},
		{":rawPredict", service{answerVertexMessages, &messagesSpeech}},
		{":streamRawPredict", service{answerVertexMessages, &messagesSpeech}},
		{"/converse", service{answerConverse, &converseSpeech}},
		{"/converse-stream", service{answerConverse, &converseSpeech}},
		{"/invoke", service{answerInvoke, &invokeSpeech}},
		{"/invoke-with-response-stream", service{answerInvoke, &invokeSpeech}},
		{"/count-tokens", service{answerBedrockCount, &converseSpeech}},
		{"/invocations", service{answerEndpoint, nil}},
		{"/invocations-response-stream", service{answerEndpoint, nil}},
	}
}

// find returns the service of a path, with or without /v1. Unknown paths are
// echoed.
func (rs *routes) find(method, path string) service {
	path = withoutVersion(path)
	if s := rs.exact[route{method, path}]; s.answer != nil {
		return s
	}
	if len(path) > 1 {
		end := strings.IndexByte(path[1:], '/')
		if s := rs.prefix[route{method, path[:end+2]}]; end >= 0 && s.answer != nil {
			return s
		}
	}
	if method == http.MethodPost {
		for i := range rs.ending {
			if e := &rs.ending[i]; e.fits(path) {
				return e.service
			}
		}
	}
	return service{answerEcho, nil}
}

// fits reports whether a path matches the ending. Bedrock's paths begin with
// the model, and a verb after a colon follows a model.
func (e *ending) fits(path string) bool {
	if !strings.HasSuffix(path, e.suffix) {
		return false
	}
	if e.speech == nil {
		return strings.HasPrefix(path, "/endpoints/")
	}
	if e.speech.kind >= framingBinary {
		return strings.HasPrefix(path, "/model/")
	}
	return e.suffix[0] == '/' || strings.Contains(path, "models/")
}

func withoutVersion(path string) string {
	const version = "/v1"
	if strings.HasPrefix(path, version+"/") {
		return path[len(version):]
	}
	return path
}

// modelBetween returns the model in a path: the text between the last
// occurrences of before and after.
func modelBetween(path, before, after string) string {
	if at := strings.LastIndex(path, after); at >= 0 {
		path = path[:at]
	}
	if at := strings.Index(path, before); at >= 0 {
		path = path[at+len(before):]
	}
	return path
}
