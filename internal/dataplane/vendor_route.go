package dataplane

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"modelgate/api"
	"modelgate/internal/access"
	"modelgate/internal/apierr"
	"modelgate/internal/provider"
)

// vendorAPI is a vendor's API whose requests pass through. The zero value means
// none.
type vendorAPI struct {
	op      api.Operation // offered by its providers
	dialect api.Dialect   // of its providers; empty means any
}

// The APIs of which parts pass through by their own paths.
var (
	geminiModels   = vendorAPI{api.Models, api.DialectGemini}
	geminiFiles    = vendorAPI{api.Files, api.DialectGemini}
	anthropicFiles = vendorAPI{api.Files, api.DialectMessages}
	cohereAPI      = vendorAPI{api.CohereChat, api.DialectCohere}
	ollamaAPI      = vendorAPI{op: api.OllamaChat}
)

// offeredBy reports whether a provider offers the API.
func (v vendorAPI) offeredBy(s *provider.Spec) bool {
	_, ok := s.Paths[v.op]
	return ok && (v.dialect == "" || v.dialect == s.Dialect)
}

// routePath returns the path by which the route of a request is found. Google's
// client libraries, which name themselves, use version v1 of its API as well,
// whose paths are otherwise those of other vendors.
func routePath(h http.Header, path string) string {
	if rest, ok := strings.CutPrefix(path, api.BasePath); ok && len(h["X-Goog-Api-Client"]) > 0 {
		switch first, _, _ := strings.Cut(rest[1:], "/"); first {
		case "files", "models":
			return "/v1beta" + rest
		}
	}
	return path
}

// vendorPaths are the paths outside of /v1 that vendors' own client libraries
// send. They pass through; files with everything below them.
//
//   - https://ai.google.dev/api/files
//   - https://docs.cohere.com/reference
//   - https://docs.ollama.com/api
var vendorPaths = map[string]vendorAPI{
	"/v1beta/files":        geminiFiles,
	"/upload/v1beta/files": geminiFiles,
	"/upload/v1/files":     geminiFiles,
	"/v2/chat":             cohereAPI,
	"/v2/embed":            cohereAPI,
	"/v2/rerank":           cohereAPI,
	"/api/chat":            ollamaAPI,
	"/api/embed":           ollamaAPI,
	"/api/embeddings":      ollamaAPI,
	"/api/generate":        ollamaAPI,
	"/api/ps":              ollamaAPI,
	"/api/show":            ollamaAPI,
	"/api/tags":            ollamaAPI,
	"/api/version":         ollamaAPI,
}

// findVendorRoute returns the route of a path in vendorPaths, or of a file below
// one.
func findVendorRoute(path string) (route, bool) {
	for known := path; ; {
		if v, ok := vendorPaths[known]; ok {
			return vendorRoute(v), known == path || v.op == api.Files
		}
		end := strings.LastIndexByte(known, '/')
		if end <= 0 {
			return route{}, false
		}
		known = known[:end]
	}
}

func vendorRoute(v vendorAPI) route {
	out := passThrough
	out.api = v
	if v.dialect == api.DialectGemini {
		out.dialect = v.dialect
	}
	return out
}

// findModelsRoute returns the route of a path that lists models in the gemini
// dialect, or that shows one.
func findModelsRoute(method, path string) (out route, ok bool) {
	if method != http.MethodGet {
		return out, false
	}
	out = route{op: api.Models, body: bodyNone, scope: access.ScopeModels}
	name, ok := strings.CutPrefix(path, "/v1/models/")
	if !ok {
		out.dialect = api.DialectGemini
		if name, ok = strings.CutPrefix(path, "/v1beta/models/"); !ok {
			return out, path == "/v1beta/models"
		}
	}
	model, err := url.PathUnescape(name)
	out.model = model
	return out, err == nil && model != ""
}

// listsModels reports whether the gateway responds to a request for models by
// itself: unless headers name a provider and the path does not.
func (x *exchange) listsModels() bool {
	switch {
	case x.route.op != api.Models:
		return false
	case strings.HasPrefix(x.route.model, "@"):
		return true
	case x.route.dialect == api.DialectGemini:
		return !x.opts.namesProvider() && x.opts.customHost == ""
	}
	return !x.opts.namesTarget()
}

// passModelsThrough changes the route of a request for models that a provider
// must respond to, except for the list of the chat dialect. A list for a client of
// the messages dialect is asked for with that dialect's headers.
func (x *exchange) passModelsThrough() {
	scope := x.route.scope
	switch {
	case x.route.op != api.Models || x.listsModels():
	case x.route.dialect == api.DialectGemini:
		x.route = vendorRoute(geminiModels)
		x.route.scope = scope
		x.Path = x.entry.Path
	case x.route.model != "":
		x.route = passThrough
	case x.isMessagesClient():
		x.Client = x.errorClient()
	}
}

// isMessagesClient reports whether a request on a path that several protocols
// share is from a client of the messages dialect, which names its version.
func (x *exchange) isMessagesClient() bool {
	return x.route.clientDialect() == api.DialectChat && (x.route.op == api.Models || x.route.op == api.Proxy) && len(x.Header["Anthropic-Version"]) > 0
}

// chooseProvider chooses the provider of a request whose headers name none: by
// its model, or as the only one of the API that its path belongs to.
func (x *exchange) chooseProvider() error {
	if x.opts.namesProvider() {
		return nil
	}
	v := x.route.api
	if x.route.op == api.Proxy && v == (vendorAPI{}) && x.isMessagesClient() {
		v = anthropicFiles
	}
	if x.splitModel(); x.opts.provider == "" && x.upload != nil && v == (vendorAPI{}) {
		return x.splitFormModel()
	}
	if x.opts.provider != "" || v == (vendorAPI{}) {
		return nil
	}
	slugs := slices.DeleteFunc(x.allowedSlugs(), func(slug string) bool {
		entry, _ := x.snap.Managed(x.Identity.Workspace, slug)
		return !v.offeredBy(entry.Target.Spec)
	})
	if len(slugs) > 1 {
		return apierr.New(apierr.Invalid, "several providers have this path: @%s; set x-gateway-provider to one of them", strings.Join(slugs[:min(len(slugs), 8)], ", @")).
			WithParam("x-gateway-provider").WithCode("missing_provider")
	}
	if len(slugs) == 1 {
		x.opts.provider = "@" + slugs[0]
	}
	return nil
}

// checkAPI returns an error for a target that does not have the path of the
// request.
func (x *exchange) checkAPI(t *provider.Target) error {
	if v := x.route.api; v == (vendorAPI{}) || v.offeredBy(t.Spec) {
		return nil
	}
	return apierr.New(apierr.Unsupported, "provider %q does not have the path %.100q of another vendor's API; choose another provider", t.ID, x.Path).
		WithParam("x-gateway-provider").WithCode("unsupported_operation")
}
