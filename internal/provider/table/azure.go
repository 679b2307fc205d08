package table

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/model/modeldata"
	"modelgate/internal/provider"
)

// azureRows returns the providers of Microsoft.
func azureRows() []*provider.Spec {
	return []*provider.Spec{
		{
			ID:           "azure-ai",
			Betas:        provider.Betas{Drop: []string{"output-300k-", "fast-mode-"}},
			Vendors:      []provider.Vendor{provider.VendorAnthropic, provider.VendorMicrosoft},
			OptionPrefix: "cloud_c_",
			Name:         "Azure AI Foundry / AI Inference",
			Aliases:      []string{"azure-foundry", "azure-inference"},
			BaseURL:      "https://{resource_name}.services.ai.azure.com/models",
			Dialect:      api.DialectChat, Env: "AZURE_AI_API_KEY",
			Auth: provider.Auth{Header: "Authorization", Scheme: "Bearer", Sign: azureAIKey, Method: provider.MethodEntra,
				KeyAlternatives: entraInstead},
			Paths: join(paths(api.Chat, api.Completions, api.Embeddings, api.Images, api.ImageEdits,
				api.AudioSpeech, api.AudioTranscriptions, api.AudioTranslations),
				nativePaths{api.Messages: "https://{resource_name}.services.ai.azure.com/anthropic/v1/messages"}),
			Models:   modeldata.Anthropic,
			Dialects: azureAIDialects, Complete: azureAIAddress,
			Options: slices.Concat([]provider.Option{
				{Name: "resource_name", Host: provider.HostAccount, Doc: "name of the Foundry resource"},
				{Name: "api_version", Doc: "api-version of the query; by default 2024-05-01-preview if the address ends in /models"},
				{Name: "extra_parameters", Header: "Extra-Parameters",
					Doc: "how to handle fields that the model does not know: error, drop or pass-through"},
				{Name: "deployment_name", Header: "Azureml-Model-Deployment", Host: provider.HostAccount,
					Doc: "deployment behind a managed endpoint that has several, or the name of a serverless one"},
				{Name: "deployment_type", Doc: "kind of deployment: serverless or managed"},
				{Name: "endpoint_name", Host: provider.HostAccount, Doc: "name of a managed endpoint"},
				{Name: "region", Host: provider.HostRegion, Doc: "region of a serverless deployment or a managed endpoint"},
				{Name: "foundry_url", Doc: "address instead of all these options, checked like a custom host"},
			}, entraOptions()),
			URL:           azureModelsVersion,
			Profile:       dialect.Profile{Chat: &dialect.ChatProfile{NoTopK: true, ContentParts: true}, Responses: openaiResponses},
			TelemetryName: "azure.ai.inference",
			Notes: []string{
				"A serverless deployment is at https://{deployment_name}.{region}.models.ai.azure.com, a managed endpoint at https://{endpoint_name}.{region}.inference.ml.azure.com/score.",
				"Models whose names begin with claude are reached in the messages protocol at /anthropic of the resource, with the key in x-api-key; so are all models behind a custom host whose path ends in /anthropic.",
				"A custom host whose path ends in /openai/v1 offers responses too.",
			},
		},
		{
			ID:           "azure-openai",
			Vendors:      []provider.Vendor{provider.VendorMicrosoft},
			OptionPrefix: "cloud_c_", Deployments: true,
			Name:    "Azure OpenAI",
			Aliases: []string{"azure", "cloud_c"},
			Sibling: provider.Sibling{Alias: "cloud_c", ID: "azure-ai",
				Options: []string{"deployment_name", "deployment_type", "endpoint_name", "foundry_url"}},
			BaseURL: "https://{resource_name}.openai.azure.com/openai",
			Dialect: api.DialectChat, Auth: azureAuth(), Env: "AZURE_OPENAI_API_KEY",
			Paths: paths(api.Chat, api.Completions, api.Embeddings, api.Images, api.ImageEdits,
				api.AudioSpeech, api.AudioTranscriptions, api.AudioTranslations,
				api.Batches, api.Files, api.FineTuning, api.Responses, api.Models),
			Surplus: []string{"/deployments/{deployment_id}", "/deployments/{deployment_id}/chat/completions",
				"/deployments/{deployment_id}/embeddings", "/v1", "/v1/chat/completions", "/v1/responses"},
			Options: slices.Concat([]provider.Option{
				{Name: "resource_name", Host: provider.HostAccount, Doc: "name of the Azure OpenAI resource"},
				{Name: "deployment_id", Alias: "deployment_name", Doc: "deployment to call; by default the model of the request"},
				{Name: "api_version", Default: "2024-10-21", Doc: "a date, or v1 or preview for the API without dates"},
				{Name: "model_name", Doc: "model behind the deployment, sent as the model"},
				openaiBeta,
			}, entraOptions()),
			Dialects: openaiDialects,
			Complete: azureModel,
			URL:      azureVersion,
			// https://learn.microsoft.com/azure/ai-foundry/openai/how-to/reasoning
			Models:        modeldata.OpenAI,
			Profile:       openaiProfile,
			Tiers:         flexTier,
			TelemetryName: "azure.ai.openai",
			Docs:          "https://learn.microsoft.com/azure/ai-foundry/openai/reference",
			Notes: []string{
				"With a date in api_version the path is /deployments/{deployment_id}/… and api-version is added to the query; with v1 or preview it is /v1/… and the model that is sent names the deployment: deployment_id, or the model of the request.",
				"Models that only the responses API serves need an api_version that has it: 2025-03-01 or later, v1 or preview.",
				"A key that is a JWT is treated as an Entra token and sent as Bearer.",
				"Content filter results are annotations of prompt and choices; the first chunk of a stream may have no choices.",
			},
		},
	}
}

// azureAuth sends keys in api-key and Entra tokens as Bearer.
// https://learn.microsoft.com/azure/ai-foundry/openai/reference#authentication
func azureAuth() provider.Auth {
	return provider.Auth{Header: "Api-Key", Sign: entraToken, Method: provider.MethodEntra, KeyAlternatives: entraInstead}
}

var entraInstead = []string{"ad_token", "auth_mode", "entra_client_secret"}

func entraOptions() []provider.Option {
	return []provider.Option{
		{Name: "ad_token", Doc: "Entra access token, sent as Bearer instead of the key"},
		{Name: "auth_mode", Values: []string{"default", "apiKey", "entra", "managed", "workload"}, Meanings: rename{"default": "apiKey"},
			Doc: "apiKey, entra (an application), managed or workload (the identity of the gateway's machine, only for managed providers); without it what is given decides"},
		{Name: "entra_tenant_id", Doc: "tenant of the application"},
		{Name: "entra_client_id", Doc: "id of the application"},
		{Name: "entra_client_secret", Doc: "secret of the application"},
		{Name: "entra_scope", Doc: "scope of the token; by default the scope of the service"},
		{Name: "managed_client_id", Doc: "client id of the managed identity"},
		{Name: "workload_client_id", Doc: "client id of the workload identity; AZURE_CLIENT_ID by default"},
	}
}

// entraToken sends the option ad_token, or a key that is a JWT, as Bearer.
func entraToken(_ context.Context, t *provider.Target, req *http.Request) error {
	token := strings.TrimPrefix(t.Option("ad_token"), "Bearer ")
	if token == "" && jwt.MatchString(t.Key.Reveal()) {
		token = t.Key.Reveal()
	}
	if token != "" {
		setBearer(req, token, "Api-Key")
	}
	return nil
}

// jwt matches a signed token: three base64url parts, the first of which is a
// JSON object and begins with an encoded {".
var jwt = regexp.MustCompile(`^eyJ[\w-]+\.[\w-]+\.[\w-]+$`)

// azureVersion adds the api_version: a date to the query, with the deployment
// in the path, or /v1 to the path.
// https://learn.microsoft.com/azure/ai-foundry/openai/api-version-lifecycle
func azureVersion(t *provider.Target, c *provider.Call, u *url.URL) error {
	version := t.Option("api_version")
	if version != "v1" {
		addQuery(u, "api-version", version)
	}
	if version == "v1" || version == "preview" {
		insert(t, u, "/v1")
		return nil
	}
	if azureDeployed[c.Operation] {
		return azureDeployment(t, c, u)
	}
	return nil
}

// azureDeployment adds the deployment to the path.
func azureDeployment(t *provider.Target, c *provider.Call, u *url.URL) error {
	deployment := cmp.Or(t.Option("deployment_id"), c.Model)
	if deployment == "" || deployment == "." || deployment == ".." {
		return apierr.New(apierr.Invalid,
			"provider %q needs the option %q, or a model that names the deployment", t.ID, "deployment_id").
			WithParam("deployment_id")
	}
	insert(t, u, "/deployments/"+url.PathEscape(deployment))
	return nil
}

// azureDeployed are the operations of a deployment. The resource serves the
// others.
var azureDeployed = map[api.Operation]bool{
	api.Chat: true, api.Completions: true, api.Embeddings: true,
	api.Images: true, api.ImageEdits: true,
	api.AudioSpeech: true, api.AudioTranscriptions: true, api.AudioTranslations: true,
}

// azureResponses is the first date of api_version with responses.
// https://learn.microsoft.com/azure/ai-foundry/openai/how-to/responses
const azureResponses = "2025-03-01"

// azureModel sets the model that the API version expects in bodies: the
// deployment if it is not in the path, otherwise the deployment's model if it
// is configured, whose rules apply.
func azureModel(spec *provider.Spec, s *provider.Settings) error {
	name := s.Option(spec, "model_name")
	s.BaseModel = cmp.Or(s.BaseModel, name)
	switch version := s.Option(spec, "api_version"); {
	case version == "v1", version == "preview":
		name = s.Option(spec, "deployment_id")
	case version < azureResponses:
		spec.Dialects, spec.Paths = nil, maps.Clone(spec.Paths)
		delete(spec.Paths, api.Responses)
	}
	if name != "" {
		spec.UpstreamModel = func(string) string { return name }
	}
	return nil
}

// azureModelsVersion adds the api-version that addresses ending in /models
// require. Other addresses of Azure AI get the configured one.
// https://learn.microsoft.com/rest/api/aifoundry/modelinference
func azureModelsVersion(t *provider.Target, c *provider.Call, u *url.URL) error {
	version := t.Option("api_version")
	if version == "" && c.Operation != api.Messages && strings.HasSuffix(t.Base.Path, "/models") {
		version = "2024-05-01-preview"
	}
	if version != "" {
		addQuery(u, "api-version", version)
	}
	return nil
}

// azureAIKey sends a key to the messages API in x-api-key, and Entra tokens as
// Bearer everywhere.
func azureAIKey(ctx context.Context, t *provider.Target, req *http.Request) error {
	if !t.Key.Empty() && strings.Contains(req.URL.Path, "/anthropic/") {
		req.Header.Del("Authorization")
		req.Header.Set("X-Api-Key", t.Key.Reveal())
	}
	if err := entraToken(ctx, t, req); err != nil {
		return err
	}
	if req.Header.Get("Authorization") != "" {
		req.Header.Del("X-Api-Key")
	}
	return nil
}

func azureAIDialects(model string) []api.Dialect {
	if modeldata.Anthropic.Of(model).HasRow() {
		return []api.Dialect{api.DialectMessages}
	}
	return []api.Dialect{api.DialectChat}
}

// azureAIAddress sets the address by the kind of deployment, and the operations
// of a custom host by its path.
// https://learn.microsoft.com/azure/ai-foundry/foundry-models/concepts/endpoints
func azureAIAddress(spec *provider.Spec, s *provider.Settings) error {
	if address := s.Option(spec, "foundry_url"); address != "" && s.CustomHost == "" {
		s.CustomHost = address
	}
	if s.CustomHost != "" {
		spec.Dialects = nil
		path := strings.TrimRight(s.CustomHost, "/")
		switch {
		case strings.HasSuffix(path, "/anthropic"):
			spec.Dialect, spec.Paths = api.DialectMessages, nativePaths{api.Messages: "/v1/messages"}
		case strings.HasSuffix(path, "/openai/v1"):
			spec.Paths, spec.Dialects = join(spec.Paths, paths(api.Responses)), openaiDialects
		}
		return nil
	}
	kind := s.Option(spec, "deployment_type")
	if kind == "" {
		kind = azureAIKind(spec, s)
	}
	switch kind {
	case "":
		return nil
	case "serverless":
		spec.BaseURL = "https://{deployment_name}.{region}.models.ai.azure.com"
	case "managed":
		spec.BaseURL = "https://{endpoint_name}.{region}.inference.ml.azure.com/score"
	default:
		return apierr.New(apierr.Invalid, "the option %q of provider %q must be serverless or managed", spec.OptionPrefix+
			"deployment_type", spec.ID).
			WithParam("deployment_type")
	}
	spec.Dialects, spec.Paths = nil, maps.Clone(spec.Paths)
	delete(spec.Paths, api.Messages)
	return nil
}

// azureAIKind returns the kind of deployment that the options name.
func azureAIKind(spec *provider.Spec, s *provider.Settings) string {
	switch {
	case s.Option(spec, "resource_name") != "":
		return ""
	case s.Option(spec, "endpoint_name") != "":
		return "managed"
	case s.Option(spec, "deployment_name") != "":
		return "serverless"
	}
	return ""
}
