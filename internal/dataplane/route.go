package dataplane

import (
	"net/http"
	"strings"

	"modelgate/api"
	"modelgate/internal/access"
	"modelgate/internal/apierr"
)

// bodyKind says how a route's request body is read.
type bodyKind uint8

const (
	bodyRaw  bodyKind = iota // streamed through, or held when it is short JSON
	bodyJSON                 // held, scanned and validated
	bodyForm                 // multipart, streamed through
	bodyNone
)

// route is how one path is served.
type route struct {
	op    api.Operation
	body  bodyKind
	scope access.Scope
}

// unified lists the routes that the gateway knows, by method and path. Every
// other path below the base is passed through.
var unified = map[string]route{
	"POST /v1/chat/completions":     {api.Chat, bodyJSON, access.ScopeCompletions},
	"POST /v1/completions":          {api.Completions, bodyJSON, access.ScopeCompletions},
	"POST /v1/embeddings":           {api.Embeddings, bodyJSON, access.ScopeCompletions},
	"POST /v1/images/generations":   {api.Images, bodyJSON, access.ScopeCompletions},
	"POST /v1/images/edits":         {api.ImageEdits, bodyForm, access.ScopeCompletions},
	"POST /v1/images/variations":    {api.ImageVariations, bodyForm, access.ScopeCompletions},
	"POST /v1/audio/speech":         {api.AudioSpeech, bodyJSON, access.ScopeCompletions},
	"POST /v1/audio/transcriptions": {api.AudioTranscriptions, bodyForm, access.ScopeCompletions},
	"POST /v1/audio/translations":   {api.AudioTranslations, bodyForm, access.ScopeCompletions},
	"POST /v1/moderations":          {api.Moderations, bodyJSON, access.ScopeCompletions},
	"GET /v1/models":                {api.Models, bodyNone, access.ScopeModels},
	"POST /v1/explain":              {api.Explain, bodyNone, access.ScopeCompletions},
	"GET /v1/schema/config":         {api.ConfigSchema, bodyNone, access.ScopeCompletions},
}

var passThrough = route{api.Proxy, bodyRaw, access.ScopeCompletions}

// findRoute returns the route of a path as it stands in the request line.
func findRoute(method, path string) (route, error) {
	if !strings.HasPrefix(path, api.BasePath+"/") {
		return route{}, apierr.New(apierr.NotFound, "there is nothing at this path; model routes begin with %s/", api.BasePath)
	}
	if strings.ContainsFunc(path, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return route{}, apierr.New(apierr.Invalid, "a path holds no spaces or control characters; write them percent-encoded")
	}
	if r, ok := unified[method+" "+path]; ok {
		return r, nil
	}
	switch method {
	case http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete:
		return passThrough, nil
	}
	return route{}, apierr.New(apierr.MethodNotAllowed, "the method %.20q is not offered; use POST, GET, PUT or DELETE", method)
}
