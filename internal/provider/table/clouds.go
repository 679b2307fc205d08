package table

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect/converse"
	"modelgate/internal/model/modeldata"
	"modelgate/internal/provider"
)

// signedBy returns an authentication that also signs requests for a service of
// AWS.
func signedBy(a provider.Auth, service string) provider.Auth {
	a.Method, a.Service = provider.MethodAWS, service
	a.KeyAlternatives = []string{"access_key_id", "secret_access_key", "role_arn", "auth_type"}
	return a
}

func awsOptions() []provider.Option {
	return []provider.Option{
		{Name: "region", Default: "us-east-1", Host: provider.HostRegion, Doc: "AWS region"},
		{Name: "access_key_id", Doc: "access key for signing requests; defaults to the key"},
		{Name: "secret_access_key", Doc: "secret of the access key"},
		{Name: "session_token", Doc: "token of a temporary access key"},
		{Name: "role_arn", Doc: "role to assume first"},
		{Name: "external_id", Doc: "external id for assuming the role"},
		{Name: "auth_type", Values: []string{"accessKey", "assumedRole", "serviceRole", "apiKey"}, Doc: "accessKey, assumedRole, apiKey, or serviceRole: the role of the gateway's machine, only for managed providers; by default it follows from the other options"},
	}
}

func sagemakerOptions() []provider.Option {
	var list []provider.Option
	for _, o := range [][2]string{
		{"custom_attributes", "Custom-Attributes"}, {"target_model", "Target-Model"}, {"target_variant", "Target-Variant"},
		{"target_container_hostname", "Target-Container-Hostname"}, {"inference_id", "Inference-Id"},
		{"enable_explanations", "Enable-Explanations"}, {"inference_component", "Inference-Component"}, {"session_id", "Session-Id"},
	} {
		list = append(list, provider.Option{Name: "amzn_sagemaker_" + o[0], Header: "X-Amzn-Sagemaker-" + o[1], Doc: "as the header of that name"})
	}
	return list
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
		{Name: "auth_type", Values: []string{"basic", "accessToken", "serviceAccount", "workloadIdentityFederation", "workload"}, Meanings: rename{"basic": "accessToken"},
			Doc: "serviceAccount, workloadIdentityFederation, accessToken, or workload: the identity of the gateway's machine, only for managed providers; by default it follows from the other options"},
	}
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

// bedrockSpeaks returns the dialects of a model, which is named by id,
// inference profile or an ARN with either.
func bedrockSpeaks(model string) []api.Dialect {
	if strings.Contains(model, "anthropic.claude") {
		return []api.Dialect{api.DialectConverse, api.DialectMessages, api.DialectInvoke}
	}
	return []api.Dialect{api.DialectConverse}
}

// unescaped undoes one level of escaping: ARNs are often escaped as in a path.
func unescaped(model string) string {
	if plain, err := url.PathUnescape(model); err == nil {
		return plain
	}
	return model
}

// bedrockShapes returns the rules for bodies of the messages API in
// InvokeModel.
// https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-anthropic-claude-messages-request-response.html
func bedrockShapes() map[api.Operation]provider.BodyRule {
	shape := provider.BodyRule{
		Drop:  []string{"model", "stream"},
		Set:   map[string]string{"anthropic_version": `"` + bedrockVersion + `"`},
		Betas: "anthropic_beta",
		// Only the vendor itself stores conversations. Official clients know
		// the code and then send complete conversations.
		Refuse: map[string]string{"thread": "thread_unsupported_request"},
	}
	return map[api.Operation]provider.BodyRule{api.Messages: shape, api.Messages.Streamed(): shape, api.CountTokens: {Translate: true}}
}

// bedrockPath returns a path with the model's own id for token counting, which
// profiles do not support.
// https://docs.aws.amazon.com/bedrock/latest/userguide/count-tokens.html
func bedrockPath(op api.Operation, model string) string {
	if op != api.CountTokens && op != api.ConverseCount {
		return ""
	}
	return "/model/" + strings.ReplaceAll(url.PathEscape(converse.Foundation(unescaped(model))), ":", "%3A") + "/count-tokens"
}

// bothDialects are those of providers with both protocols of OpenAI.
var bothDialects = []api.Dialect{api.DialectChat, api.DialectResponses}

// dialectsOf returns the dialects of models by the rows of a table. Those of
// other models are both, chat first.
func dialectsOf(models modeldata.Table) func(string) []api.Dialect {
	return func(model string) []api.Dialect {
		if d := models.Of(model).Dialects; d != nil {
			return d
		}
		return bothDialects
	}
}

func mantleSpeaks(model string) []api.Dialect {
	if strings.Contains(model, "anthropic.") {
		return []api.Dialect{api.DialectMessages}
	}
	return openaiDialects(model)
}

// openaiDialects returns the dialects of a model of OpenAI, or of any other
// model that is served by the same protocols.
var openaiDialects = dialectsOf(modeldata.OpenAI)

func databricksSpeaks(model string) []api.Dialect {
	if modeldata.Anthropic.Of(model).HasRow() {
		return []api.Dialect{api.DialectChat, api.DialectMessages}
	}
	return openaiDialects(model)
}

// azureResponses is the first date of api_version with responses.
// https://learn.microsoft.com/azure/ai-foundry/openai/how-to/responses
const azureResponses = "2025-03-01"

// azureModel sets the model that the API version expects in bodies: the
// deployment if it is not in the path, otherwise the deployment's model if it
// is configured, whose rules apply.
func azureModel(d *provider.TargetDraft) error {
	name := d.Option("model_name")
	d.BaseModel = cmp.Or(d.BaseModel, name)
	switch version := d.Option("api_version"); {
	case version == "v1", version == "preview":
		name = d.Option("deployment_id")
	case version < azureResponses:
		d.Spec.Dialects, d.Spec.Paths = nil, maps.Clone(d.Spec.Paths)
		delete(d.Spec.Paths, api.Responses)
	}
	if name != "" {
		d.Spec.UpstreamModel = func(string) string { return name }
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

func azureAISpeaks(model string) []api.Dialect {
	if modeldata.Anthropic.Of(model).HasRow() {
		return []api.Dialect{api.DialectMessages}
	}
	return []api.Dialect{api.DialectChat}
}

// azureAIAddress sets the address by the kind of deployment, and the operations
// of a custom host by its path.
// https://learn.microsoft.com/azure/ai-foundry/foundry-models/concepts/endpoints
func azureAIAddress(d *provider.TargetDraft) error {
	if address := d.Option("foundry_url"); address != "" && !d.Custom {
		d.Base, d.Custom = address, true
	}
	if d.Custom {
		d.Spec.Dialects = nil
		path := strings.TrimRight(d.Base, "/")
		switch {
		case strings.HasSuffix(path, "/anthropic"):
			d.Spec.Dialect, d.Spec.Paths = api.DialectMessages, nativePaths{api.Messages: "/v1/messages"}
		case strings.HasSuffix(path, "/openai/v1"):
			d.Spec.Paths, d.Spec.Dialects = join(d.Spec.Paths, paths(api.Responses)), openaiDialects
		}
		return nil
	}
	kind := d.Option("deployment_type")
	if kind == "" {
		kind = azureAIKind(d)
	}
	switch kind {
	case "":
		return nil
	case "serverless":
		d.Base = "https://{deployment_name}.{region}.models.ai.azure.com"
	case "managed":
		d.Base = "https://{endpoint_name}.{region}.inference.ml.azure.com/score"
	default:
		return apierr.New(apierr.Invalid, "the option %q of provider %q must be serverless or managed", d.Spec.OptionPrefix+"deployment_type", d.Spec.ID).
			WithParam("deployment_type")
	}
	d.Spec.Dialects, d.Spec.Paths = nil, maps.Clone(d.Spec.Paths)
	delete(d.Spec.Paths, api.Messages)
	return nil
}

// azureAIKind returns the kind of deployment that the options name.
func azureAIKind(d *provider.TargetDraft) string {
	switch {
	case d.Option("resource_name") != "":
		return ""
	case d.Option("endpoint_name") != "":
		return "managed"
	case d.Option("deployment_name") != "":
		return "serverless"
	}
	return ""
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

func vertexSpeaks(model string) []api.Dialect {
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

// vertexProject takes the project from the service account if no option sets
// it. A service account that is not an object is an error.
func vertexProject(d *provider.TargetDraft) error {
	text := d.Option("service_account_json")
	if text == "" {
		if text = strings.TrimSpace(d.Key.Reveal()); !strings.HasPrefix(text, "{") {
			return nil
		}
	}
	var account struct {
		Project string `json:"project_id"`
	}
	if err := json.Unmarshal([]byte(text), &account); err != nil {
		return apierr.New(apierr.Invalid, "the service account of provider %q must be a JSON object", d.Spec.ID).
			WithParam(d.Spec.OptionPrefix + "service_account_json")
	}
	if account.Project == "" || d.Option("project_id") != "" {
		return nil
	}
	if d.Options == nil {
		d.Options = map[string]string{}
	}
	d.Options["project_id"] = account.Project
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
