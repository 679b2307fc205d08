package table

import (
	"net/url"

	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/model/modeldata"
	"modelgate/internal/provider"
)

// cloudRows returns the providers that host models of many vendors next to other services
// of theirs.
func cloudRows() []*provider.Spec {
	return []*provider.Spec{
		{
			ID:           "cortex",
			OptionPrefix: "snowflake_",
			Name:         "Snowflake Cortex",
			Aliases:      []string{"snowflake"},
			BaseURL:      "https://{account}.snowflakecomputing.com/api/v2",
			Dialect:      api.DialectChat, Auth: provider.Bearer(), Env: "SNOWFLAKE_JWT",
			Paths: under("/cortex/v1", api.Chat),
			Options: []provider.Option{
				{Name: "account", Host: provider.HostAccount, Doc: "account identifier, the first label of the host"},
				{Name: "token_type", Header: "X-Snowflake-Authorization-Token-Type", Doc: "KEYPAIR_JWT, OAUTH or PROGRAMMATIC_ACCESS_TOKEN"},
			},
			Profile: dialect.Profile{Chat: &dialect.ChatProfile{NoReason: true}},
			Docs:    "https://docs.snowflake.com/user-guide/snowflake-cortex/cortex-rest-api",
			Notes: []string{
				"Programmatic access tokens need no token_type.",
				"Streams end with [DONE] and without a finish reason.",
			},
		},
		{
			ID: "databricks", Name: "Databricks Model Serving",
			BaseURL: "https://{workspace}.cloud.databricks.com",
			Dialect: api.DialectChat, Auth: provider.Bearer(), Env: "DATABRICKS_TOKEN",
			Paths: join(under("/serving-endpoints", api.Chat, api.Completions, api.Embeddings, api.Responses),
				nativePaths{api.Messages: "/serving-endpoints/anthropic/v1/messages"}),
			Dialects: databricksDialects,
			Options: []provider.Option{
				{Name: "workspace", Host: provider.HostAccount, Doc: "first label of the workspace host"},
			},
			Notes: []string{"The model of the request names the serving endpoint. Endpoints whose names contain claude are also reached in the messages protocol."},
		},
		{
			ID: "github", Name: "GitHub Models",
			BaseURL: "https://models.inference.ai.azure.com",
			Dialect: api.DialectChat, Auth: provider.Bearer(), Env: "GITHUB_TOKEN",
			Paths:   paths(api.Chat, api.Completions, api.Embeddings),
			Profile: dialect.Profile{Chat: &dialect.ChatProfile{NoTopK: true, ContentParts: true}},
			Notes:   []string{"The successor of this host is https://models.github.ai/inference, with publisher/name as model; set it as custom host to use it."},
		},
		{
			ID: "github-copilot", Name: "GitHub Copilot",
			BaseURL: "https://api.githubcopilot.com",
			Dialect: api.DialectChat, Auth: provider.Bearer(), Env: "GITHUB_COPILOT_TOKEN",
			Paths:    paths(api.Chat, api.Embeddings, api.Responses, api.Models),
			Dialects: dialectsOf(modeldata.Copilot),
			Options: []provider.Option{
				{Name: "editor_version", Header: "Editor-Version", Doc: "editor and version; required unless the client sends the header"},
				{Name: "integration_id", Header: "Copilot-Integration-Id", Doc: "id of the integration; required unless the client sends the header"},
			},
			Notes: []string{"The key is a short-lived Copilot token."},
		},
		{
			PathModels: true, ID: "huggingface", Name: "Hugging Face",
			BaseURL: "https://router.huggingface.co",
			Dialect: api.DialectChat, Auth: provider.Bearer(), Env: "HF_TOKEN",
			Paths: under("/v1", api.Chat, api.Responses, api.Models),
			Options: []provider.Option{
				{Name: "bill_to", Header: "X-HF-Bill-To", Doc: "organisation that is billed"},
			},
			Notes: []string{"The suffix :provider of a model chooses the provider that runs it."},
		},
		{
			ID:           "oracle",
			OptionPrefix: "oracle_",
			Name:         "Oracle OCI Generative AI",
			BaseURL:      "https://inference.generativeai.{region}.oci.oraclecloud.com",
			Dialect:      api.DialectOracle, Auth: provider.Auth{Method: provider.MethodOCI, KeyAlternatives: []string{"private_key"}},
			Paths:    nativePaths{api.OracleChat: "/20231130/actions/chat"},
			Complete: oracleCompartment,
			Options: []provider.Option{
				{Name: "region", Host: provider.HostRegion, Doc: "OCI region, such as eu-frankfurt-1"},
				{Name: "compartment_id", Doc: "OCID of the compartment that is billed; a request may name another in the field of that name"},
				{Name: "tenancy", Doc: "OCID of the tenancy"},
				{Name: "user", Doc: "OCID of the user"},
				{Name: "fingerprint", Doc: "fingerprint of the signing key"},
				{Name: "private_key", Doc: "signing key in PEM, instead of the key; without a passphrase"},
			},
			Docs: "https://docs.oracle.com/iaas/api/#/en/generative-ai-inference",
			Notes: []string{
				"Requests are signed with the API key of a user; behind a custom host without a key, that host must sign.",
				"Requests use the GENERIC format, or for models of Cohere the COHERE format, which accepts only text; for your own endpoint, set the field api_format to COHERE.",
			},
		},
		{
			ID: "watsonx", Name: "IBM watsonx.ai",
			BaseURL: "https://{region}.ml.cloud.ibm.com",
			Dialect: api.DialectChat, Auth: provider.Bearer(),
			UsageUnasked: true,
			// https://cloud.ibm.com/apidocs/watsonx-ai#text-chat
			Paths:    nativePaths{api.Chat: "/ml/v1/text/chat", api.Chat.Streamed(): "/ml/v1/text/chat_stream"},
			Rename:   rename{"model": "model_id"},
			Complete: watsonxProject,
			URL:      watsonxVersion,
			Options: []provider.Option{
				{Name: "region", Default: "us-south", Host: provider.HostRegion, Doc: "IBM Cloud region"},
				{Name: "version", Default: "2024-10-08", Doc: "day of the API's version"},
				{Name: "project_id", Doc: "project that is billed; a request may name another in its field of that name"},
				{Name: "space_id", Doc: "deployment space that is billed, instead of a project"},
			},
			TelemetryName: "ibm.watsonx.ai",
			Notes: []string{
				"The key is an IAM access token; exchanging an API key for one is not offered yet.",
				"Events of streams have an id and an event line in addition to data.",
			},
		},
		{
			PathModels: true, ID: "workers-ai",
			OptionPrefix: "workers_ai_",
			Name:         "Cloudflare Workers AI",
			Aliases:      []string{"cloudflare"},
			BaseURL:      "https://api.cloudflare.com/client/v4/accounts/{account_id}/ai",
			Dialect:      api.DialectChat, Auth: provider.Bearer(), Env: "CLOUDFLARE_API_KEY",
			Paths: under("/v1", api.Chat, api.Embeddings, api.Responses),
			Options: []provider.Option{
				{Name: "account_id", Doc: "Cloudflare account"},
			},
			Docs:  "https://developers.cloudflare.com/workers-ai/configuration/open-ai-compatibility",
			Notes: []string{"Chat, embeddings and responses go to the OpenAI twin; /run/{model} is reached by pass-through."},
		},
	}
}

func databricksDialects(model string) []api.Dialect {
	if modeldata.Anthropic.Of(model).HasRow() {
		return []api.Dialect{api.DialectChat, api.DialectMessages}
	}
	return openaiDialects(model)
}

// oracleCompartment sets the compartment in bodies.
func oracleCompartment(spec *provider.Spec, s *provider.Settings) error {
	spec.BodyRules = map[api.Operation]provider.BodyRule{api.OracleChat: {Set: bodyFields(spec, s,
		map[string]string{"compartment_id": "compartmentId"})}}
	return nil
}

// watsonxProject sets the project or space in bodies. Streaming is set in the
// path only.
func watsonxProject(spec *provider.Spec, s *provider.Settings) error {
	shape := provider.BodyRule{
		Drop: []string{"stream", "stream_options"},
		Set:  bodyFields(spec, s, map[string]string{"project_id": "project_id", "space_id": "space_id"}),
	}
	spec.BodyRules = map[api.Operation]provider.BodyRule{api.Chat: shape, api.Chat.Streamed(): shape}
	return nil
}

// watsonxVersion adds the API version, a date, to the query.
func watsonxVersion(t *provider.Target, c *provider.Call, u *url.URL) error {
	if c.Operation != api.Proxy {
		addQuery(u, "version", t.Option("version"))
	}
	return nil
}
