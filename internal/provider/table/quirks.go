package table

import (
	"cmp"
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect/replicate"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/modeldata"
	"modelgate/internal/provider"
)

// setBearer sets token as the bearer token and removes the header drop, which
// would have held the credential.
func setBearer(req *http.Request, token, drop string) {
	req.Header.Del(drop)
	req.Header.Set("Authorization", "Bearer "+token)
}

// anthropicAuth sends keys in x-api-key and subscription tokens as Bearer.
func anthropicAuth() provider.Auth {
	return provider.Auth{Header: "X-Api-Key", Sign: func(_ context.Context, t *provider.Target, req *http.Request) error {
		if key := t.Key.Reveal(); strings.HasPrefix(key, "sk-ant-oat") {
			setBearer(req, key, "X-Api-Key")
		}
		return nil
	}}
}

// azureAuth sends keys in api-key and Entra tokens as Bearer.
// https://learn.microsoft.com/azure/ai-foundry/openai/reference#authentication
func azureAuth() provider.Auth {
	return provider.Auth{Header: "Api-Key", Sign: entraToken, Method: provider.MethodEntra, KeyAlternatives: entraInstead}
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

// basicPair encodes a credential of the form key:secret. Any other is sent as
// already encoded.
func basicPair(_ context.Context, t *provider.Target, req *http.Request) error {
	if pair := t.Key.Reveal(); strings.Contains(pair, ":") {
		req.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(pair)))
	}
	return nil
}

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

// arnRegion returns the region of an ARN of Bedrock. Profiles and deployments exist
// in their region only.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference-arns.html
func arnRegion(model string) string {
	if !strings.HasPrefix(model, "arn") {
		return ""
	}
	parts := strings.SplitN(unescaped(model), ":", 5)
	if len(parts) < 5 || parts[0] != "arn" || parts[1] != "aws" && parts[1] != "aws-us-gov" || parts[2] != "bedrock" {
		return ""
	}
	return parts[3]
}

// vertexRule returns what is known of a model of google or anthropic.
func vertexRule(model string) *modeldata.Model {
	publisher, name := vertexModel(model)
	if publisher == "anthropic" {
		return modeldata.Anthropic.Of(name)
	}
	return modeldata.Google.Of(name)
}

// cohereURL adds the version to the paths of pass-through requests that name none,
// since Cohere has no API without one, and asks for all models instead of 20.
// https://docs.cohere.com/reference/list-models
func cohereURL(t *provider.Target, c *provider.Call, u *url.URL) error {
	if c.Operation == api.Models {
		addQuery(u, "page_size", "1000")
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(c.Path, "/"), "/")
	if c.Operation == api.Proxy && first != "v1" && first != "v2" && first != "compatibility" {
		insert(t, u, "/v1")
	}
	return nil
}

// oracleCompartment sets the compartment in bodies.
func oracleCompartment(d *provider.TargetDraft) error {
	d.Spec.BodyRules = map[api.Operation]provider.BodyRule{api.OracleChat: {Set: bodyFields(d, map[string]string{"compartment_id": "compartmentId"})}}
	return nil
}

// watsonxProject sets the project or space in bodies. Streaming is set in the
// path only.
func watsonxProject(d *provider.TargetDraft) error {
	shape := provider.BodyRule{
		Drop: []string{"stream", "stream_options"},
		Set:  bodyFields(d, map[string]string{"project_id": "project_id", "space_id": "space_id"}),
	}
	d.Spec.BodyRules = map[api.Operation]provider.BodyRule{api.Chat: shape, api.Chat.Streamed(): shape}
	return nil
}

// watsonxVersion adds the API version, a date, to the query.
func watsonxVersion(t *provider.Target, c *provider.Call, u *url.URL) error {
	if c.Operation != api.Proxy {
		addQuery(u, "version", t.Option("version"))
	}
	return nil
}

// bodyFields returns the body members that are set by options: fields maps an
// option to its member.
func bodyFields(d *provider.TargetDraft, fields map[string]string) map[string]string {
	set := map[string]string{}
	for option, field := range fields {
		if v := d.Option(option); v != "" {
			set[field] = string(jsonedit.AppendString(nil, v))
		}
	}
	return set
}

// replicatePath returns the path that creates a prediction of a model. A
// version is named in the body instead.
// https://replicate.com/docs/topics/predictions/create-a-prediction
func replicatePath(_ api.Operation, model string) string {
	if replicate.Version(model) != "" {
		return ""
	}
	kind, rest := "/models/", model
	if deployment, ok := strings.CutPrefix(model, "deployments/"); ok {
		kind, rest = "/deployments/", deployment
	}
	owner, name, ok := strings.Cut(rest, "/")
	if !ok {
		return ""
	}
	return kind + url.PathEscape(owner) + "/" + url.PathEscape(name) + "/predictions"
}

// containerStatus returns the status of the container from the body of a host's
// error.
// https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_runtime_InvokeEndpoint.html#API_runtime_InvokeEndpoint_Errors
func containerStatus(status int, body []byte) int {
	v, err := jsonedit.ParseValue(body)
	if err != nil {
		return status
	}
	original, _ := v.Get("OriginalStatusCode")
	if n, ok := original.Int(); ok && n >= 400 && n <= 599 {
		return int(n)
	}
	return status
}

// insert inserts segment between the base address of t and the path after it,
// in both forms of the path in u.
func insert(t *provider.Target, u *url.URL, segment string) {
	base := t.Base.EscapedPath()
	target := strings.TrimPrefix(u.Opaque, "//"+u.Host)
	u.Opaque = base + segment + strings.TrimPrefix(target, base)
	u.Path = t.Base.Path + segment + strings.TrimPrefix(u.Path, t.Base.Path)
}

// addQuery appends a parameter unless the query has it. The client's parameters
// keep their order and spelling.
func addQuery(u *url.URL, name, value string) {
	if u.Query().Has(name) {
		return
	}
	if u.RawQuery != "" {
		u.RawQuery += "&"
	}
	u.RawQuery += name + "=" + url.QueryEscape(value)
}
