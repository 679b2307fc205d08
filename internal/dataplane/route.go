package dataplane

import (
	"net/http"
	"net/url"
	"strings"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/base/urlpath"
	"modelgate/internal/identity/access"
)

// bodyKind says how a route's request body is read.
type bodyKind uint8

const (
	bodyRaw  bodyKind = iota // streamed through, or buffered if it is short JSON
	bodyJSON                 // buffered, scanned and validated
	bodyForm                 // multipart, streamed through
	bodyNone
)

// route describes how a path is served.
type route struct {
	op      api.Operation
	body    bodyKind
	scope   access.Scope
	dialect api.Dialect // of the clients; empty means chat

	// model and stream are set by the path, in dialects that have them there.
	model  string
	stream bool

	// api is the vendor's API to which a path that passes through belongs. It is
	// sent complete, to providers of that API only. The zero value means any.
	api vendorAPI

	// keeps is true if the path is that of an object that outlives a request, of the
	// operation kept; see [Keeper].
	keeps bool
	kept  api.Operation

	// prompt is the saved prompt in the path. renders is true if the prompt is
	// only rendered.
	prompt  string
	renders bool

	// mints is true if client secrets are made.
	mints bool

	// tools is true for requests to tool servers; see [Tools].
	tools bool

	// socket is what WebSocket connections to the path carry.
	socket socketKind
}

// clientDialect returns the dialect of the route's clients.
func (r route) clientDialect() api.Dialect {
	if r.dialect == "" {
		return api.DialectChat
	}
	return r.dialect
}

// unifiedRoutes lists the unified routes by method and path. Every other path
// below the base is passed through.
var unifiedRoutes = map[string]route{
	"POST /v1/chat/completions":      {op: api.Chat, body: bodyJSON, scope: access.ScopeCompletions},
	"POST /v1/completions":           {op: api.Completions, body: bodyJSON, scope: access.ScopeCompletions},
	"POST /v1/embeddings":            {op: api.Embeddings, body: bodyJSON, scope: access.ScopeCompletions},
	"POST /v1/images/generations":    {op: api.Images, body: bodyJSON, scope: access.ScopeCompletions},
	"POST /v1/images/edits":          {op: api.ImageEdits, body: bodyForm, scope: access.ScopeCompletions},
	"POST /v1/images/variations":     {op: api.ImageVariations, body: bodyForm, scope: access.ScopeCompletions},
	"POST /v1/audio/speech":          {op: api.AudioSpeech, body: bodyJSON, scope: access.ScopeCompletions},
	"POST /v1/audio/transcriptions":  {op: api.AudioTranscriptions, body: bodyForm, scope: access.ScopeCompletions},
	"POST /v1/audio/translations":    {op: api.AudioTranslations, body: bodyForm, scope: access.ScopeCompletions},
	"POST /v1/moderations":           {op: api.Moderations, body: bodyJSON, scope: access.ScopeCompletions},
	"POST /v1/rerank":                {op: api.Rerank, body: bodyJSON, scope: access.ScopeCompletions},
	"POST /v1/messages":              {op: api.Messages, body: bodyJSON, scope: access.ScopeCompletions, dialect: api.DialectMessages},
	"POST /v1/messages/count_tokens": {op: api.CountTokens, body: bodyJSON, scope: access.ScopeCompletions, dialect: api.DialectMessages},
	"POST /v1/responses":             {op: api.Responses, body: bodyJSON, scope: access.ScopeCompletions, dialect: api.DialectResponses},
	"GET /v1/models":                 {op: api.Models, body: bodyNone, scope: access.ScopeModels},
	"POST /v1/explain":               {op: api.Explain, body: bodyNone, scope: access.ScopeCompletions},
	"GET /v1/schema/config":          {op: api.ConfigSchema, body: bodyNone, scope: access.ScopeCompletions},
}

var passThrough = route{op: api.Proxy, body: bodyRaw, scope: access.ScopeCompletions}

// modelPathRoutes are the routes of dialects whose paths name the model and end
// in the operation.
var modelPathRoutes = []struct {
	before, after string
	route         route
}{
	{"/v1beta/models/", ":generateContent", route{op: api.Generate, dialect: api.DialectGemini}},
	{"/v1beta/models/", ":streamGenerateContent", route{op: api.Generate, dialect: api.DialectGemini, stream: true}},
	{"/v1beta/models/", ":countTokens", route{op: api.GenerateCount, dialect: api.DialectGemini}},
	{"/v1beta/models/", ":embedContent", route{op: api.GenerateEmbed, dialect: api.DialectGemini}},
	{"/v1beta/models/", ":batchEmbedContents", route{op: api.GenerateEmbedBatch, dialect: api.DialectGemini}},
	{"/v1/models/", ":generateContent", route{op: api.Generate, dialect: api.DialectGemini}},
	{"/v1/models/", ":streamGenerateContent", route{op: api.Generate, dialect: api.DialectGemini, stream: true}},
	{"/v1/models/", ":countTokens", route{op: api.GenerateCount, dialect: api.DialectGemini}},
	{"/v1/models/", ":embedContent", route{op: api.GenerateEmbed, dialect: api.DialectGemini}},
	{"/v1/models/", ":batchEmbedContents", route{op: api.GenerateEmbedBatch, dialect: api.DialectGemini}},
	{"/model/", "/converse", route{op: api.Converse, dialect: api.DialectConverse}},
	{"/model/", "/converse-stream", route{op: api.Converse, dialect: api.DialectConverse, stream: true}},
	{"/model/", "/count-tokens", route{op: api.ConverseCount, dialect: api.DialectConverse}},
	{"/model/", "/invoke", route{op: api.Invoke, dialect: api.DialectInvoke}},
	{"/model/", "/invoke-with-response-stream", route{op: api.Invoke, dialect: api.DialectInvoke, stream: true}},
}

// IsModelPath reports whether a path is for model requests.
func IsModelPath(path string) bool {
	if strings.HasPrefix(path, api.BasePath+"/") || strings.HasPrefix(path, "/v1beta/") || strings.HasPrefix(path, "/model/") ||
		strings.HasPrefix(path, live) {
		return true
	}
	if _, ok := findToolRoute(path); ok {
		return true
	}
	_, ok := findVendorRoute(path)
	return ok
}

// IsUnifiedRoute reports whether a unified route serves a canonical path.
func IsUnifiedRoute(method, path string) bool {
	_, ok, _ := findUnifiedRoute(method, path)
	return ok
}

// findRoute returns the route of a canonical path. Even with an error, the
// route has the dialect for the response.
func findRoute(method, path string) (route, error) {
	if r, ok, err := findUnifiedRoute(method, path); ok {
		return r, err
	}
	if out, ok := findToolRoute(path); ok {
		return out, nil
	}
	refused := route{dialect: dialectOf(path)}
	if out, ok := findVendorRoute(path); ok && isPassThroughMethod(method) {
		return out, nil
	} else if !ok && !strings.HasPrefix(path, api.BasePath+"/") {
		return refused, apierr.New(apierr.NotFound, "no route at this path; model routes start with %s/", api.BasePath)
	}
	for _, other := range [...]string{lenient(path), lenient(withoutParams(path))} {
		if _, ok, _ := findUnifiedRoute(method, other); ok {
			return refused, apierr.New(apierr.Invalid, "the path is another spelling of %s, and the provider may treat it as that route; send it as %s", other, other).
				WithParam("path").WithCode(urlpath.Code)
		}
	}
	if err := checkKeptSpelling(path); err != nil {
		return refused, err
	}
	if out, ok := findKeptRoute(path); ok && (isPassThroughMethod(method) || method == http.MethodHead && strings.HasSuffix(path,
		"/content")) {
		return out, nil
	}
	if isPassThroughMethod(method) {
		return passThrough, nil
	}
	return refused, apierr.New(apierr.MethodNotAllowed, "method %.20q is not allowed; use GET, POST, PUT or DELETE", method)
}

func isPassThroughMethod(method string) bool {
	return method == http.MethodGet || method == http.MethodPost || method == http.MethodPut || method == http.MethodDelete
}

// findUnifiedRoute returns the unified route of a path.
func findUnifiedRoute(method, path string) (r route, ok bool, err error) {
	if r, ok = unifiedRoutes[method+" "+path]; ok {
		return r, true, nil
	}
	if r, ok, err = findModelPathRoute(method, path); ok {
		return r, true, err
	}
	if r, ok = findModelsRoute(method, path); ok {
		return r, true, nil
	}
	r, ok = promptRoute(method, path)
	return r, ok, nil
}

// withoutParams returns a path as read by servers that drop matrix parameters.
func withoutParams(path string) string {
	path = urlpath.Decode(path)
	if !strings.Contains(path, ";") {
		return path
	}
	segments := strings.Split(path, "/")
	for i, s := range segments {
		segments[i], _, _ = strings.Cut(s, ";")
	}
	return strings.Join(segments, "/")
}

// lenient returns a path as read by the most tolerant servers: they decode
// slashes before they route, drop a trailing slash, and ignore case.
func lenient(path string) string {
	path = strings.TrimSuffix(urlpath.Decode(path), "/")
	for _, d := range modelPathRoutes { // their endings have capitals
		begin, end := len(d.before), len(path)-len(d.after)
		if begin < end && strings.EqualFold(path[:begin], d.before) && strings.EqualFold(path[end:], d.after) {
			return d.before + path[begin:end] + d.after
		}
	}
	return strings.ToLower(path)
}

// dialectOf returns the dialect of clients that send a path without a route,
// guessed from the path.
func dialectOf(path string) api.Dialect {
	switch {
	case strings.HasPrefix(path, "/v1beta/"), strings.HasPrefix(path, "/upload/"):
		return api.DialectGemini
	case strings.HasPrefix(path, "/model/"):
		return api.DialectConverse
	case strings.Contains(path, "/messages"):
		return api.DialectMessages
	}
	return api.DialectChat
}

// findModelPathRoute returns the route of a path that names its model.
func findModelPathRoute(method, path string) (out route, ok bool, err error) {
	// Vercel's client leaves "models/" out of a path if the model has a slash.
	if rest, ok := strings.CutPrefix(path, "/v1beta/"); ok && (strings.HasPrefix(rest, "@") || strings.HasPrefix(rest, "%40")) {
		path = "/v1beta/models/" + rest
	}
	for _, d := range modelPathRoutes {
		rest, begins := strings.CutPrefix(path, d.before)
		name, ends := strings.CutSuffix(rest, d.after)
		if !begins || !ends || method != http.MethodPost && strings.HasPrefix(path, api.BasePath+"/") { // other methods there pass through
			continue
		}
		out = d.route
		out.body, out.scope = bodyJSON, access.ScopeCompletions
		if method != http.MethodPost {
			return out, true, apierr.New(apierr.MethodNotAllowed, "the method %.20q is not allowed; use POST", method)
		}
		if out.model, err = url.PathUnescape(name); err != nil || out.model == "" {
			return out, true, apierr.New(apierr.Invalid, "the path must name a model between %s and %s", d.before, d.after).WithParam("model")
		}
		return out, true, nil
	}
	return out, false, nil
}
