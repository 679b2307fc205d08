package simulator

import (
	"net/http"
	"strings"
)

// A handler answers one operation.
type handler func(x *exchange)

type route struct{ method, path string }

// routes are the operations of every dialect; a path is written without /v1.
// A dialect is one file and its lines here.
type routes struct {
	exact  map[route]handler
	prefix map[route]handler // the path ends in a slash and is followed by an id
}

func newRoutes() routes {
	const get, post = http.MethodGet, http.MethodPost
	return routes{
		exact: map[route]handler{
			{post, "/chat/completions"}:     answerChat,
			{post, "/completions"}:          answerCompletion,
			{post, "/embeddings"}:           answerEmbeddings,
			{post, "/images/generations"}:   answerImages,
			{post, "/audio/speech"}:         answerSpeech,
			{post, "/audio/transcriptions"}: answerTranscript,
			{post, "/audio/translations"}:   answerTranscript,
			{post, "/moderations"}:          answerModerations,
			{get, "/models"}:                answerModels,
			{post, "/files"}:                answerUpload,
			{get, "/files"}:                 answerFiles,
		},
		prefix: map[route]handler{
			{get, "/models/"}:              answerModel,
			{get, "/files/"}:               answerFile,
			{http.MethodDelete, "/files/"}: answerFileDelete,
		},
	}
}

// find returns the handler of a path, with or without /v1 before it. What has
// none is echoed.
func (rs *routes) find(method, path string) handler {
	path = withoutVersion(path)
	if h := rs.exact[route{method, path}]; h != nil {
		return h
	}
	if len(path) > 1 {
		end := strings.IndexByte(path[1:], '/')
		if h := rs.prefix[route{method, path[:end+2]}]; end >= 0 && h != nil {
			return h
		}
	}
	return answerEcho
}

func withoutVersion(path string) string {
	const version = "/v1"
	if strings.HasPrefix(path, version+"/") {
		return path[len(version):]
	}
	return path
}
