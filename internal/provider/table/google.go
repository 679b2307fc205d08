package table

import (
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/model/modeldata"
	"modelgate/internal/provider"
)

// googleRows returns the providers of Google.
func googleRows() []*provider.Spec {
	return []*provider.Spec{
		{
			ID:           "claude-platform-gcp",
			Vendors:      []provider.Vendor{provider.VendorGoogle},
			OptionPrefix: "cloud_b_", ReservedCapacity: true,
			Name:    "Claude Platform on Google Cloud",
			BaseURL: "https://claude.googleapis.com/v1alpha/projects/{project}/locations/{location}/workspaces/{workspace}/invoke",
			Dialect: api.DialectMessages, Auth: googleToken(),
			Paths:  claudePaths("/v1"),
			Header: map[string]string{"Anthropic-Version": "2023-06-01"},
			Options: slices.Concat([]provider.Option{
				{Name: "project", Doc: "Google Cloud project"},
				{Name: "location", Default: "global", Doc: "location of the workspace"},
				{Name: "workspace", Doc: "id of the workspace"},
			}, googleOptions()),
			Notes: []string{"The key is a Google OAuth access token or a service account as JSON. The paths of the messages API follow the address."},
		},
		{
			ID: "google", Name: "Google Gemini (AI Studio)",
			Aliases: []string{"gemini", "google-ai-studio"},
			BaseURL: "https://generativelanguage.googleapis.com",
			Dialect: api.DialectGemini, Auth: provider.Header("x-goog-api-key"), Env: "GEMINI_API_KEY",
			Paths: nativePaths{
				api.Generate:            "/v1beta/models/{model}:generateContent",
				api.Generate.Streamed(): "/v1beta/models/{model}:streamGenerateContent?alt=sse",
				api.GenerateCount:       "/v1beta/models/{model}:countTokens",
				api.GenerateEmbed:       "/v1beta/models/{model}:embedContent",
				api.GenerateEmbedBatch:  "/v1beta/models/{model}:batchEmbedContents",
				api.Embeddings:          "/v1beta/models/{model}:batchEmbedContents",
				api.Images:              "/v1beta/models/{model}:generateContent",
				api.Models:              "/v1beta/models",
				api.Files:               "/v1beta/files",
			},
			PathOf: googlePath, UpstreamModel: googleModel, Models: modeldata.Google,
			Tiers:         flexTier,
			TierHeader:    "X-Gemini-Service-Tier", // https://ai.google.dev/gemini-api/docs/flex-inference
			TelemetryName: "gcp.gemini",
			Docs:          "https://ai.google.dev/api",
			Notes: []string{
				"The key is sent in a header, not in the query, where it would appear in logs.",
				"The chat protocol is available at /v1beta/openai, by pass-through; the unified route uses the native protocol, which carries thought signatures.",
			},
		},
		{
			ID: "palm", Name: "Google PaLM (retired)",
			BaseURL: "https://generativelanguage.googleapis.com/v1beta3",
			Dialect: api.DialectNative, Auth: provider.Query("key"), Env: "PALM_API_KEY",
			Notes: []string{"Retired by Google; the id stays so that old configs remain valid."},
		},
		{
			ID: "vertex-ai",
			Betas: provider.Betas{Drop: []string{"structured-outputs-", "advanced-tool-use-", "prompt-caching-scope-", "mcp-client-",
				"skills-", "files-api-", "fast-mode-", "redact-thinking-", "task-budgets-", "thinking-token-count-"}},
			Vendors:      []provider.Vendor{provider.VendorAnthropic},
			OptionPrefix: "cloud_b_", ReservedCapacity: true,
			Name:    "Google Vertex AI",
			Aliases: []string{"google-vertex-ai", "vertex", "cloud_b"},
			BaseURL: "https://{region}-aiplatform.googleapis.com",
			Dialect: api.DialectGemini, Auth: googleToken(),
			Paths: vertexPaths(), PathOf: vertexPath, Dialects: vertexDialects, RuleOf: vertexRule, UpstreamModel: vertexUpstreamModel,
			Complete: vertexProject, BodyRules: vertexShapes(),
			Options: slices.Concat([]provider.Option{
				{Name: "region", Host: provider.HostRegion, Doc: "location, such as europe-west4; global, us and eu choose the hosts of those names"},
				{Name: "project_id", Doc: "project; by default the project of the service account"},
				{Name: "llm_request_type", Header: "X-Vertex-Ai-Llm-Request-Type",
					ClientHeaders: []string{"X-Vertex-Ai-Llm-Request-Type", "X-Cloud-B-Llm-Request-Type"},
					Doc:           "capacity that is used: shared or dedicated"},
				{Name: "llm_shared_request_type", Header: "X-Vertex-Ai-Llm-Shared-Request-Type",
					ClientHeaders: []string{"X-Vertex-Ai-Llm-Shared-Request-Type"},
					Doc:           "tier of shared capacity: priority, flex or standard"},
				{Name: "storage_bucket_name", Doc: "bucket of Google Cloud Storage for batches"},
				{Name: "storage_url", Doc: "address of Google Cloud Storage, checked like a custom host; by default Google's"},
			}, googleOptions()),
			// https://cloud.google.com/storage/docs/request-endpoints
			Services:      map[string]provider.Service{"gcs": {Address: "https://storage.googleapis.com", Option: "storage_url", Bucket: true}},
			URL:           vertexHost,
			Profile:       dialect.Profile{Vertex: true, Messages: vertexMessages, Chat: &dialect.ChatProfile{GoogleSigned: true}},
			Tiers:         flexTier,
			TierHeader:    "X-Gemini-Service-Tier",
			TelemetryName: "gcp.vertex_ai",
			Docs:          "https://cloud.google.com/vertex-ai/docs/reference/rest",
			Notes: []string{
				"The key is a Google access token or a service account as JSON.",
				"The publisher of a model decides the protocol: google the native one, anthropic messages, others chat. It may be a prefix of the model (anthropic.claude-…, publishers/x/models/y, meta/llama-…); without it, claude-… is anthropic's, mistral-… and codestral-… mistralai's, and the rest google's. endpoints.{id} is an endpoint of one's own.",
			},
		},
	}
}

// googleToken returns the authentication with an access token of Google Cloud.
func googleToken() provider.Auth {
	a := provider.Bearer()
	a.Method, a.KeyAlternatives = provider.MethodGCP, []string{"service_account_json", "auth_type"}
	return a
}

func googleOptions() []provider.Option {
	return []provider.Option{
		{Name: "service_account_json", Doc: "service account or federated identity as a JSON object, instead of the key"},
		{Name: "auth_type", Values: []string{"basic", "accessToken", "serviceAccount", "workloadIdentityFederation", "workload"},
			Meanings: rename{"basic": "accessToken"},
			Doc:      "serviceAccount, workloadIdentityFederation, accessToken, or workload: the identity of the gateway's machine, only for managed providers; by default it follows from the other options"},
	}
}

// googleModel removes Google's prefix from a model's name.
func googleModel(model string) string { return strings.TrimPrefix(model, "models/") }

// googlePath returns the path of models that only generate images.
// https://ai.google.dev/api/models
func googlePath(op api.Operation, model string) string {
	if method := modeldata.Google.Of(model).Method; op == api.Images && method != "" {
		return "/v1beta/models/{model}:" + string(method)
	}
	return ""
}

// vertexBase is the prefix of paths of a project's models.
const vertexBase = "/projects/{project_id}/locations/{region}"

// vertexPaths returns the paths of the models of google and anthropic, and of
// those that share one endpoint.
// https://cloud.google.com/vertex-ai/docs/reference/rest
func vertexPaths() nativePaths {
	const google, anthropic = "/v1" + vertexBase + "/publishers/google/models/", "/v1" + vertexBase + "/publishers/anthropic/models/"
	return nativePaths{
		api.Generate:            google + "{model}:generateContent",
		api.Generate.Streamed(): google + "{model}:streamGenerateContent?alt=sse",
		api.GenerateCount:       google + "{model}:countTokens",
		api.Embeddings:          google + "{model}:predict",
		api.Images:              google + "{model}:generateContent",
		api.Messages:            anthropic + "{model}:rawPredict",
		api.Messages.Streamed(): anthropic + "{model}:streamRawPredict",
		api.CountTokens:         anthropic + "count-tokens:rawPredict",
		api.Chat:                "/v1" + vertexBase + "/endpoints/openapi/chat/completions",
		api.Chat.Streamed():     "/v1" + vertexBase + "/endpoints/openapi/chat/completions",
	}
}

// vertexPath returns the path of models with another endpoint.
func vertexPath(op api.Operation, model string) string {
	publisher, name := vertexModel(model)
	const google = "/v1" + vertexBase + "/publishers/google/models/{model}"
	switch {
	case op == api.Chat, op == api.Chat.Streamed():
		return vertexChatPath(op, publisher)
	case op == api.Embeddings, op == api.Images:
		if method := modeldata.Google.Of(name).Method; method != "" {
			return google + ":" + string(method)
		}
	}
	return ""
}

func vertexChatPath(op api.Operation, publisher string) string {
	switch publisher {
	case "mistralai":
		verb := ":rawPredict"
		if op == api.Chat.Streamed() {
			verb = ":streamRawPredict"
		}
		return "/v1" + vertexBase + "/publishers/mistralai/models/{model}" + verb
	case "endpoints":
		return "/v1" + vertexBase + "/endpoints/{model}/chat/completions"
	case "meta":
		return "/v1beta1" + vertexBase + "/endpoints/openapi/chat/completions"
	case "xai": // is served only there
		return "https://aiplatform.googleapis.com/v1" + vertexBase + "/endpoints/openapi/chat/completions"
	}
	return ""
}

func vertexDialects(model string) []api.Dialect {
	switch publisher, _ := vertexModel(model); publisher {
	case "google":
		return []api.Dialect{api.DialectGemini}
	case "anthropic":
		return []api.Dialect{api.DialectMessages}
	}
	return []api.Dialect{api.DialectChat}
}

// vertexUpstreamModel keeps the publisher if it is not in the path.
func vertexUpstreamModel(model string) string {
	switch publisher, name := vertexModel(model); publisher {
	case "google", "anthropic", "mistralai", "endpoints":
		return name
	default:
		return publisher + "/" + name
	}
}

// vertexModel splits a model's name, in any of its common spellings, into
// publisher and name.
func vertexModel(model string) (publisher, name string) {
	if rest, ok := strings.CutPrefix(model, "publishers/"); ok {
		if publisher, name, ok = strings.Cut(rest, "/models/"); ok {
			return publisher, name
		}
	}
	for _, publisher := range []string{"google", "anthropic", "meta", "mistralai", "endpoints"} {
		if name, ok := strings.CutPrefix(model, publisher+"."); ok {
			return publisher, name
		}
	}
	if publisher, name, ok := strings.Cut(model, "/"); ok {
		return publisher, name
	}
	return cmp.Or(modeldata.Vertex.Of(model).Publisher, "google"), model
}

// vertexRule returns what is known of a model of google or anthropic.
func vertexRule(model string) *modeldata.Model {
	publisher, name := vertexModel(model)
	if publisher == "anthropic" {
		return modeldata.Anthropic.Of(name)
	}
	return modeldata.Google.Of(name)
}

// vertexHost sets the host of the multi-regions, which differs from that of
// regions.
// https://cloud.google.com/vertex-ai/docs/reference/rest#service-endpoint
func vertexHost(t *provider.Target, _ *provider.Call, u *url.URL) error {
	if t.Guarded {
		return nil
	}
	host := u.Host
	switch region := t.Option("region"); region {
	case "global":
		host = "aiplatform.googleapis.com"
	case "us", "eu":
		host = "aiplatform." + region + ".rep.googleapis.com"
	}
	if rest, ok := strings.CutPrefix(u.Opaque, "//"+u.Host); ok {
		u.Opaque = "//" + host + rest
	}
	u.Host = host
	return nil
}

// vertexProject takes the project from the service account if no option sets
// it. A service account that is not an object is an error.
func vertexProject(spec *provider.Spec, s *provider.Settings) error {
	text := s.Option(spec, "service_account_json")
	if text == "" {
		if text = strings.TrimSpace(s.Key.Reveal()); !strings.HasPrefix(text, "{") {
			return nil
		}
	}
	var account struct {
		Project string `json:"project_id"`
	}
	if err := json.Unmarshal([]byte(text), &account); err != nil {
		return apierr.New(apierr.Invalid, "the service account of provider %q must be a JSON object", spec.ID).
			WithParam(spec.OptionPrefix + "service_account_json")
	}
	if account.Project == "" || s.Option(spec, "project_id") != "" {
		return nil
	}
	if s.Options == nil {
		s.Options = map[string]string{}
	}
	s.Options["project_id"] = account.Project
	return nil
}

// vertexShapes returns the rules for bodies of the messages API at Vertex.
// https://docs.anthropic.com/en/api/claude-on-vertex-ai
func vertexShapes() map[api.Operation]provider.BodyRule {
	version := map[string]string{"anthropic_version": `"` + vertexVersion + `"`}
	shape := provider.BodyRule{Drop: []string{"model"}, Set: version}
	return map[api.Operation]provider.BodyRule{
		api.Messages: shape, api.Messages.Streamed(): shape,
		api.CountTokens:   {Set: version}, // keeps the model, which is not in the path
		api.GenerateCount: {Translate: true},
	}
}
