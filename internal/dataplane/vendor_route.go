package dataplane

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/base/urlpath"
	"modelgate/internal/identity/access"
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
// send. They pass through. A path that ends in a slash stands for everything below
// it.
//
//   - https://ai.google.dev/api/files
//   - https://docs.cohere.com/reference
//   - https://docs.ollama.com/api
var vendorPaths = map[string]vendorAPI{
	"/v1beta/files":            geminiFiles,
	"/v1beta/files/":           geminiFiles,
	"/upload/v1beta/files":     geminiFiles,
	"/upload/v1beta/files/":    geminiFiles,
	"/upload/v1/files":         geminiFiles,
	"/upload/v1/files/":        geminiFiles,
	"/v2/audio/transcriptions": cohereAPI,
	"/v2/batches":              cohereAPI,
	"/v2/batches/":             cohereAPI,
	"/v2/chat":                 cohereAPI,
	"/v2/embed":                cohereAPI,
	"/v2/parse":                cohereAPI,
	"/v2/rerank":               cohereAPI,
	"/api/blobs/":              ollamaAPI,
	"/api/chat":                ollamaAPI,
	"/api/copy":                ollamaAPI,
	"/api/create":              ollamaAPI,
	"/api/delete":              ollamaAPI,
	"/api/embed":               ollamaAPI,
	"/api/embeddings":          ollamaAPI,
	"/api/generate":            ollamaAPI,
	"/api/ps":                  ollamaAPI,
	"/api/pull":                ollamaAPI,
	"/api/push":                ollamaAPI,
	"/api/show":                ollamaAPI,
	"/api/tags":                ollamaAPI,
	"/api/version":             ollamaAPI,
}

// changesOllama reports whether a request changes the models of an Ollama server,
// which all of its users share, whatever spelling of the path the server accepts.
func changesOllama(path string) bool {
	rest, ok := strings.CutPrefix(lenient(path), "/api/")
	first, _, _ := strings.Cut(rest, "/")
	switch first {
	case "blobs", "copy", "create", "delete", "pull", "push":
		return ok
	}
	return false
}

// credentialPaths are parts of the paths on which providers issue credentials, decide who has
// access, or connect a client directly: what it uses then does not pass through the gateway. A
// part matches complete segments, or the custom method that ends a segment.
//
//   - https://platform.openai.com/docs/api-reference/realtime-sessions
//   - https://platform.openai.com/docs/api-reference/administration
//   - https://ai.google.dev/gemini-api/docs/ephemeral-tokens
//   - https://openrouter.ai/docs/features/provisioning-api-keys
//   - https://docs.anthropic.com/en/api/administration-api
//   - https://docs.fireworks.ai/api-reference/create-api-key
//   - https://learn.microsoft.com/rest/api/aiservices/accountmanagement/accounts/list-keys
//   - https://elevenlabs.io/docs/api-reference/tokens/create
//   - https://developers.deepgram.com/reference/auth/tokens/grant
//   - https://docs.cartesia.ai/api-reference/auth/access-token
//   - https://www.assemblyai.com/docs/api-reference/streaming-api/generate-streaming-token
//   - https://docs.fireworks.ai/api-reference/create-user
//   - https://cloud.google.com/iam/docs/reference/credentials/rest
//   - https://docs.databricks.com/api/workspace/tokens/create
//   - https://learn.microsoft.com/rest/api/authorization/role-assignments
var credentialPaths = []string{
	"/realtime/sessions/", "/realtime/transcription_sessions/", "/realtime/client_secrets/", "/realtime/calls/",
	"/realtimeapi/sessions/", "/chatkit/sessions/", "/organization/", "/organizations/", "/auth_tokens/", "/keys/", "/auth/grant/",
	"/apikeys/", "/api_keys/", "/api-keys/", "/listkeys/", "/regeneratekey/", "/access_tokens/",
	"/access-tokens/", "/accesstokens/", "/access_keys/", "/access-keys/", "/accesskeys/",
	"/service_accounts/", "/service-accounts/", "/serviceaccounts/",
	"/users/", "/members/", "/memberships/", "/invites/", "/invitations/", "/certificates/", "/scim/",
	"/permissions/", "/roleassignments/", "/role_assignments/",
	"/token/create/", "/token-management/", ":setiampolicy/", ":generateaccesstoken/", ":generateidtoken/", ":signblob/", ":signjwt/",
	"/access-token/", "/single-use-token/", "/get-signed-url/", "/get_signed_url/", "/conversation/token/", "/realtime/token/", "/v3/token/",
}

// issuesCredentials reports whether a path may have a provider issue a credential,
// whatever spelling of it the provider accepts.
func issuesCredentials(method, path string) bool {
	path = withoutParams(lenient(path)) + "/"
	if method != http.MethodGet && strings.HasSuffix(path, "/realtime/") { // connects a client by WebRTC
		return true
	}
	return slices.ContainsFunc(credentialPaths, func(part string) bool { return strings.Contains(path, part) })
}

// administeredThings are words in the names of actions with which providers issue credentials or
// decide who has access, such as CreateAccessKey.
var administeredThings = []string{
	"Key", "Keys", "User", "Users", "Policy", "Policies", "Role", "Roles", "Token", "Credential",
	"Credentials", "Secret", "Secrets", "Member", "Members", "Group", "Groups",
	"Account", "Accounts", "Permission", "Permissions", "Login", "Password", "Certificate", "Certificates",
	"Grant", "Grants", "Invitation", "Invitations",
}

// administers reports whether a request names an action of an API in RPC style with which a
// provider issues credentials or decides who has access.
//
//   - https://docs.aws.amazon.com/IAM/latest/APIReference/API_CreateAccessKey.html
//   - https://www.alibabacloud.com/help/en/ram/developer-reference/api-ram-2015-05-01-createaccesskey
//   - https://www.tencentcloud.com/document/api/598/35173
func administers(query string, h http.Header) bool {
	actions := slices.Concat(h.Values("X-Amz-Target"), h.Values("X-Tc-Action"), h.Values("X-Acs-Action"))
	separates := func(c rune) bool { return c == '&' || c == ';' }
	for pair := range strings.FieldsFuncSeq(query, separates) {
		if name, action, _ := strings.Cut(pair, "="); strings.EqualFold(urlpath.Decode(name), "action") {
			actions = append(actions, urlpath.Decode(action))
		}
	}
	return slices.ContainsFunc(actions, func(action string) bool {
		return slices.ContainsFunc(wordsOf(action), func(word string) bool { return slices.Contains(administeredThings, word) })
	})
}

// wordsOf returns the words of a name in CamelCase.
func wordsOf(name string) (words []string) {
	from := 0
	for i, c := range name {
		if c < 'a' || c > 'z' {
			words, from = append(words, name[from:i]), i
		}
	}
	return append(words, name[from:])
}

// checkIssuedCredentials returns an error for a request that may have the provider issue
// credentials or change who has access, unless the key may change providers.
func (rs *resolver) checkIssuedCredentials(t *provider.Target) error {
	if c := rs.admission.call; c != nil && c.Metered && t.Slug != "" { // what the connection uses is counted
		return nil
	}
	if rs.admission.request.Operation != api.Proxy || !issuesCredentials(rs.admission.request.Received.Method,
		rs.admission.request.Received.Path) && !administers(rs.admission.request.Received.Query, rs.admission.request.Received.Header) ||
		rs.admission.request.Identity.May(access.ScopeProvidersUpdate) {
		return nil
	}
	return apierr.New(apierr.Forbidden,
		"%.100s creates credentials, access or connections for use without the gateway and its limits; this gateway key lacks the scope %q, or the role of its user the permission for it", rs.admission.request.Received.Path, access.ScopeProvidersUpdate).
		WithParam("path").WithCode(provider.CodeModelRefused)
}

// isCohereClient reports whether a request is from Cohere's own library, which
// names itself "cohere" or "cohere-ai". It uses version 1 of Cohere's API, whose
// paths are those of other vendors.
func isCohereClient(h http.Header) bool {
	name := h["X-Fern-Sdk-Name"]
	return len(name) == 1 && strings.TrimSuffix(name[0], "-ai") == string(api.DialectCohere)
}

// findVendorRoute returns the route of a path in vendorPaths.
func findVendorRoute(path string) (route, bool) {
	if isGeminiBatch(path) {
		out := vendorRoute(geminiFiles)
		out.kept = api.Batches
		return out, true
	}
	if v, ok := vendorPaths[path]; ok {
		return vendorRoute(v), !strings.HasSuffix(path, "/")
	}
	for end := len(path); end > 0; {
		end = strings.LastIndexByte(path[:end], '/')
		if v, ok := vendorPaths[path[:end+1]]; ok {
			return vendorRoute(v), true
		}
	}
	return route{}, false
}

// isGeminiBatch reports whether a path is one of Gemini's batches.
// https://ai.google.dev/api/batch-api
func isGeminiBatch(path string) bool {
	const family = "/v1beta/batches"
	if path == family || strings.HasPrefix(path, family+"/") {
		return true
	}
	rest, ok := strings.CutPrefix(path, "/v1beta/models/")
	return ok && (strings.HasSuffix(rest, ":batchGenerateContent") || strings.HasSuffix(rest, ":asyncBatchEmbedContent"))
}

func vendorRoute(v vendorAPI) route {
	out := passThrough
	out.api = v
	if v.dialect == api.DialectGemini {
		out.dialect = v.dialect
	}
	if v == geminiFiles {
		out.keeps, out.kept = true, api.Files
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
// itself: unless headers name a provider and the path does not, or a config that does not
// choose by the model.
func (a *admission) listsModels() bool {
	switch {
	case a.route.op != api.Models, isCohereClient(a.request.Received.Header):
		return false
	case strings.HasPrefix(a.route.model, "@"):
		return true
	case a.route.dialect == api.DialectGemini:
		return !a.opts.namesProvider() && a.opts.customHost == ""
	}
	return !a.opts.namesTarget() || !a.opts.namesProvider() && a.opts.customHost == "" && routesModels(a)
}

// passModelsThrough changes the route of a request for models that a provider
// must respond to, except for the list of the chat dialect. A list for a client of
// the messages dialect is asked for with that dialect's headers.
func (a *admission) passModelsThrough() {
	scope := a.route.scope
	switch {
	case a.route.op != api.Models || a.listsModels():
	case isCohereClient(a.request.Received.Header):
		if slug, name, ok := strings.Cut(a.route.model, "/"); ok && strings.HasPrefix(slug, "@") && name != "" {
			a.opts.provider, a.request.Received.Path = slug, "/models/"+url.PathEscape(name)
		}
		a.route = passThrough
		a.route.scope = scope
	case a.route.dialect == api.DialectGemini:
		a.route = vendorRoute(geminiModels)
		a.route.scope = scope
		a.request.Received.Path = a.entry.Path
	case a.route.model != "":
		a.route = passThrough
	case a.isMessagesClient():
		a.request.Client = a.errorClient()
	}
}

// isMessagesClient reports whether a request on a path that several protocols
// share is from a client of the messages dialect, which names its version.
func (a *admission) isMessagesClient() bool {
	return a.route.clientDialect() == api.DialectChat && (a.route.op == api.Models || a.route.op == api.Proxy) &&
		len(a.request.Received.Header["Anthropic-Version"]) > 0
}

// chooseProvider chooses the provider of a request whose headers name none: by
// its model, or as the only one of the API that its path belongs to.
func (rs *resolver) chooseProvider() error {
	if rs.admission.opts.namesProvider() {
		return nil
	}
	v := rs.admission.route.api
	switch {
	case rs.admission.route.op != api.Proxy || v != (vendorAPI{}):
	case rs.admission.isMessagesClient(), strings.HasPrefix(rs.admission.entry.Path, api.BasePath+batchesPath):
		v = anthropicFiles
	case isCohereClient(rs.admission.request.Received.Header):
		v = cohereAPI
	}
	if rs.admission.splitModel(); rs.admission.opts.provider == "" && rs.admission.upload != nil && v.op != api.Files {
		if err := rs.admission.splitFormModel(); err != nil {
			return err
		}
	}
	if rs.admission.opts.provider != "" || v == (vendorAPI{}) {
		return nil
	}
	slugs := slices.DeleteFunc(rs.allowedSlugs(), func(slug string) bool {
		entry, _ := rs.admission.snap.Managed(rs.admission.request.Identity.Workspace, slug)
		return !v.offeredBy(entry.Target.Spec)
	})
	if len(slugs) > 1 {
		return apierr.New(apierr.Invalid, "several providers have this path: @%s; set x-gateway-provider to one of them",
			strings.Join(slugs[:min(len(slugs), 8)], ", @")).
			WithParam("x-gateway-provider").WithCode("missing_provider")
	}
	if len(slugs) == 1 {
		rs.admission.opts.provider = "@" + slugs[0]
	}
	return nil
}

// checkAPI returns an error for a target that does not have the path of the
// request, and for a caller who may not change the target.
func (rs *resolver) checkAPI(t *provider.Target) error {
	if rs.admission.request.Operation == api.Proxy && ollamaAPI.offeredBy(t.Spec) &&
		changesOllama(rs.admission.request.Received.Path) && !rs.admission.request.Identity.May(access.ScopeProvidersUpdate) {
		return apierr.New(apierr.Forbidden,
			"%s changes the models of an Ollama server for all of its users; this gateway key lacks the scope %q, or the role of its user the permission for it", rs.admission.request.Received.Path, access.ScopeProvidersUpdate).
			WithParam("path")
	}
	if v := rs.admission.route.api; v == (vendorAPI{}) || v.offeredBy(t.Spec) {
		return nil
	}
	return apierr.New(apierr.Unsupported, "provider %q does not have the path %.100q of another vendor's API; choose another provider", t.ID, rs.admission.request.Received.Path).
		WithParam("x-gateway-provider").WithCode("unsupported_operation")
}
