package table

import (
	"modelgate/api"
	"modelgate/internal/provider"
)

// rowsAToF holds the rows from 302ai to friendli.
func rowsAToF() []*provider.Spec {
	return []*provider.Spec{
		{
			ID: "302ai", Name: "302.AI",
			BaseURL: "https://api.302.ai/v1",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "AI302_API_KEY",
			Paths: paths(api.Chat),
		},
		{
			ID: "ai21", Name: "AI21 Labs",
			BaseURL: "https://api.ai21.com/studio/v1",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "AI21_API_KEY",
			Paths: paths(api.Chat),
			// https://docs.ai21.com/reference/jamba-1-6-api-ref
			Drop:   []string{"frequency_penalty", "logprobs", "presence_penalty", "seed", "tool_choice", "top_logprobs"},
			Rename: rename{"max_completion_tokens": "max_tokens"},
			Notes:  []string{"The paths of the older J2 models have the model in them and are reached by pass-through."},
		},
		{
			ID: "ai360", Name: "360 AI",
			BaseURL: "https://ai.360.cn/v1",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "AI360_API_KEY",
			Paths: paths(api.Chat, api.Embeddings),
		},
		{
			ID: "aibadgr", Name: "AI Badgr",
			BaseURL: "https://aibadgr.com/api/v1",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "AIBADGR_API_KEY",
			Paths: paths(api.Chat),
		},
		{
			ID: "aihubmix", Name: "AIHubMix",
			BaseURL: "https://aihubmix.com/v1",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "AIHUBMIX_API_KEY",
			Paths: paths(api.Chat, api.Completions, api.Embeddings, api.Images, api.AudioSpeech, api.Models),
		},
		{
			ID: "anthropic", Name: "Anthropic",
			Aliases: []string{"vendorb"},
			BaseURL: "https://api.anthropic.com/v1",
			Dialect: provider.DialectMessages, Auth: anthropicAuth(), Env: "ANTHROPIC_API_KEY",
			Header: map[string]string{"Anthropic-Version": "2023-06-01"},
			Options: []provider.Option{
				{Name: "beta", Header: "Anthropic-Beta", Doc: "beta features, comma separated"},
				{Name: "version", Header: "Anthropic-Version", Doc: "API version instead of 2023-06-01"},
			},
			Docs:  "https://docs.anthropic.com/en/api",
			Notes: []string{"Subscription tokens (sk-ant-oat…) are sent as Bearer, keys in x-api-key."},
		},
		{
			ID: "anyscale", Name: "Anyscale",
			BaseURL: "https://api.endpoints.anyscale.com/v1",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "ANYSCALE_API_KEY",
			Paths: paths(api.Chat, api.Completions, api.Embeddings),
			Notes: []string{"The public endpoints were closed in 2024; use a custom host."},
		},
		{
			ID: "assemblyai", Name: "AssemblyAI LLM Gateway",
			BaseURL: "https://llm-gateway.assemblyai.com/v1",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "ASSEMBLYAI_API_KEY",
			Paths: paths(api.Chat),
			Notes: []string{"The LLM gateway, not the transcription API."},
		},
		{
			ID: "azure-ai", Name: "Azure AI Foundry / AI Inference",
			Aliases: []string{"azure-foundry", "azure-inference"},
			BaseURL: "https://{resource_name}.services.ai.azure.com/models",
			Dialect: provider.DialectChat, Auth: provider.Auth{Header: "Authorization", Scheme: "Bearer", Sign: entraToken}, Env: "AZURE_AI_API_KEY",
			Paths: paths(api.Chat, api.Completions, api.Embeddings, api.Images, api.ImageEdits,
				api.AudioSpeech, api.AudioTranscriptions, api.AudioTranslations),
			Options: []provider.Option{
				{Name: "resource_name", Doc: "name of the Foundry resource"},
				{Name: "api_version", Doc: "api-version of the query; 2024-05-01-preview when the address ends in /models and none is given"},
				{Name: "ad_token", Doc: "Entra access token, sent as Bearer instead of the key"},
				{Name: "extra_parameters", Header: "Extra-Parameters", Doc: "what happens to fields that the model does not know: error, drop or pass-through"},
				{Name: "deployment_name", Header: "Azureml-Model-Deployment", Doc: "deployment behind a managed endpoint that has several"},
			},
			URL:   azureModelsVersion,
			Notes: []string{"Serverless, managed and project endpoints are reached by a custom host with that address."},
		},
		{
			ID: "azure-openai", Name: "Azure OpenAI",
			Aliases: []string{"azure", "cloud_c"},
			BaseURL: "https://{resource_name}.openai.azure.com/openai",
			Dialect: provider.DialectChat, Auth: azureAuth(), Env: "AZURE_OPENAI_API_KEY",
			Paths: paths(api.Chat, api.Completions, api.Embeddings, api.Images, api.ImageEdits,
				api.AudioSpeech, api.AudioTranscriptions, api.AudioTranslations,
				api.Batches, api.Files, api.FineTuning, api.Responses, api.Models),
			Options: []provider.Option{
				{Name: "resource_name", Doc: "name of the Azure OpenAI resource"},
				{Name: "deployment_id", Doc: "deployment to call; without it the model of the request names the deployment"},
				{Name: "api_version", Default: "2024-10-21", Doc: "a date, or v1 or preview for the form without dates"},
				{Name: "ad_token", Doc: "Entra access token, sent as Bearer instead of the key"},
			},
			URL: azureVersion,
			// https://learn.microsoft.com/azure/ai-foundry/openai/how-to/reasoning
			Models: reasoningLimit,
			Docs:   "https://learn.microsoft.com/azure/ai-foundry/openai/reference",
			Notes: []string{
				"With a date in api_version the path is /deployments/{deployment_id}/… and api-version is added to the query; with v1 or preview it is /v1/… and the model of the request names the deployment.",
				"A key that is a JWT is taken as an Entra token and sent as Bearer.",
				"Content filter results are annotations of prompt and choices; the first chunk of a stream may have no choices.",
			},
		},
		{
			ID: "baichuan", Name: "Baichuan",
			BaseURL: "https://api.baichuan-ai.com/v1",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "BAICHUAN_API_KEY",
			Paths: paths(api.Chat, api.Embeddings),
		},
		{
			ID: "baidu-qianfan", Name: "Baidu Qianfan",
			BaseURL: "https://qianfan.baidubce.com/v2",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "QIANFAN_API_KEY",
			Paths: paths(api.Chat, api.Embeddings, api.Images, api.Rerank),
		},
		{
			ID: "baseten", Name: "Baseten Model APIs",
			BaseURL: "https://inference.baseten.co/v1",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "BASETEN_API_KEY",
			Paths: paths(api.Chat, api.Models),
			Notes: []string{"Dedicated deployments have hosts of their own and the scheme Api-Key."},
		},
		{
			ID: "bedrock", Name: "AWS Bedrock",
			Aliases: []string{"aws-bedrock", "cloud_a"},
			BaseURL: "https://bedrock-runtime.{region}.amazonaws.com",
			Dialect: provider.DialectConverse, Auth: provider.Bearer(), Env: "AWS_BEARER_TOKEN_BEDROCK",
			Options: []provider.Option{
				{Name: "region", Default: "us-east-1", Doc: "AWS region"},
			},
			Docs: "https://docs.aws.amazon.com/bedrock/latest/APIReference",
			Notes: []string{
				"The key is a Bedrock API key, sent as Bearer. Signing with AWS access keys is not offered yet.",
				"Streams are AWS binary event streams.",
			},
		},
		{
			ID: "bedrock-mantle", Name: "Amazon Bedrock Mantle",
			BaseURL: "https://bedrock-mantle.{region}.api.aws/v1",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "AWS_BEARER_TOKEN_BEDROCK",
			Paths: paths(api.Chat, api.Responses, api.Models),
			Options: []provider.Option{
				{Name: "region", Default: "us-east-1", Doc: "AWS region"},
			},
			Notes: []string{"The key is a Bedrock API key. Models named anthropic.* answer at /anthropic/v1 in the messages protocol."},
		},
		{
			ID: "black-forest-labs", Name: "Black Forest Labs",
			BaseURL: "https://api.bfl.ai/v1",
			Dialect: provider.DialectOwn, Auth: provider.Header("x-key"), Env: "BFL_API_KEY",
			Notes: []string{"Answers name a polling_url."},
		},
		{
			ID: "byteplus", Name: "BytePlus ModelArk",
			BaseURL: "https://ark.{region}.bytepluses.com/api/v3",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "BYTEPLUS_API_KEY",
			Paths: paths(api.Chat, api.Images, api.Responses),
			Options: []provider.Option{
				{Name: "region", Default: "ap-southeast-1", Doc: "ap-southeast-1 or eu-west-1"},
			},
			Notes: []string{"The model is an endpoint id (ep-…) or a model id. Embeddings have a form of their own."},
		},
		{
			ID: "bytez", Name: "Bytez",
			BaseURL: "https://api.bytez.com",
			Dialect: provider.DialectOwn, Auth: provider.Auth{Header: "Authorization", Scheme: "Key"}, Env: "BYTEZ_API_KEY",
			Notes: []string{"Streams are raw text."},
		},
		{
			ID: "cartesia", Name: "Cartesia",
			BaseURL: "https://api.cartesia.ai",
			Dialect: provider.DialectOwn, Auth: provider.Bearer(), Env: "CARTESIA_API_KEY",
			Options: []provider.Option{
				{Name: "version", Header: "Cartesia-Version", Doc: "API version, a date; needed unless the client sends the header"},
			},
		},
		{
			ID: "cerebras", Name: "Cerebras",
			BaseURL: "https://api.cerebras.ai/v1",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "CEREBRAS_API_KEY",
			Paths: paths(api.Chat, api.Completions, api.Models),
			// https://inference-docs.cerebras.ai/resources/openai
			Rename: rename{"max_tokens": "max_completion_tokens"},
			Docs:   "https://inference-docs.cerebras.ai/resources/openai",
			Notes: []string{
				"Refused by some models: frequency_penalty, presence_penalty, logit_bias, service_tier. They are sent as they are.",
				"Needs a User-Agent header.",
			},
		},
		{
			ID: "chutes", Name: "Chutes",
			BaseURL: "https://llm.chutes.ai/v1",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "CHUTES_API_KEY",
			Paths:  paths(api.Chat, api.Completions, api.Models),
			Rename: rename{"max_completion_tokens": "max_tokens"},
		},
		{
			ID: "claude-platform-aws", Name: "Claude Platform on AWS",
			BaseURL: "https://aws-external-anthropic.{region}.api.aws/v1",
			Dialect: provider.DialectMessages, Auth: provider.Header("x-api-key"), Env: "ANTHROPIC_AWS_API_KEY",
			Header: map[string]string{"Anthropic-Version": "2023-06-01"},
			Options: []provider.Option{
				{Name: "region", Default: "us-east-1", Doc: "AWS region"},
				{Name: "workspace_id", Header: "Anthropic-Workspace-Id", Doc: "workspace; needed unless the client sends the header"},
			},
			Notes: []string{"Takes the platform's API key in x-api-key; AWS signing is not offered yet."},
		},
		{
			ID: "claude-platform-gcp", Name: "Claude Platform on Google Cloud",
			BaseURL: "https://claude.googleapis.com/v1alpha/projects/{project}/locations/{location}/workspaces/{workspace}/invoke",
			Dialect: provider.DialectMessages, Auth: provider.Bearer(),
			Header: map[string]string{"Anthropic-Version": "2023-06-01"},
			Options: []provider.Option{
				{Name: "project", Doc: "Google Cloud project"},
				{Name: "location", Default: "global", Doc: "location of the workspace"},
				{Name: "workspace", Doc: "id of the workspace"},
			},
			Notes: []string{"The key is a Google OAuth access token. The paths of the messages API follow the address."},
		},
		{
			ID: "codestral", Name: "Mistral Codestral",
			BaseURL: "https://codestral.mistral.ai/v1",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "CODESTRAL_API_KEY",
			Paths: paths(api.Chat),
			Notes: []string{"Needs a key of its own; fill-in-the-middle is at /fim/completions."},
		},
		{
			ID: "cohere", Name: "Cohere",
			BaseURL: "https://api.cohere.com",
			Dialect: provider.DialectCohere, Auth: provider.Bearer(), Env: "COHERE_API_KEY",
			Paths: under("/compatibility/v1", api.Embeddings),
			Docs:  "https://docs.cohere.com/reference",
			Notes: []string{"Embeddings go to Cohere's own twin of the OpenAI endpoint."},
		},
		{
			ID: "cometapi", Name: "CometAPI",
			BaseURL: "https://api.cometapi.com/v1",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "COMETAPI_KEY",
			Paths: paths(api.Chat, api.Embeddings, api.Models),
		},
		{
			ID: "cortex", Name: "Snowflake Cortex",
			Aliases: []string{"snowflake"},
			BaseURL: "https://{account}.snowflakecomputing.com/api/v2",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "SNOWFLAKE_JWT",
			Paths: under("/cortex/v1", api.Chat),
			Options: []provider.Option{
				{Name: "account", Doc: "account identifier, the first label of the host"},
				{Name: "token_type", Header: "X-Snowflake-Authorization-Token-Type", Doc: "KEYPAIR_JWT, OAUTH or PROGRAMMATIC_ACCESS_TOKEN"},
			},
			Docs:  "https://docs.snowflake.com/user-guide/snowflake-cortex/cortex-rest-api",
			Notes: []string{"Programmatic access tokens need no token_type."},
		},
		{
			ID: "crusoe", Name: "Crusoe",
			BaseURL: "https://managed-inference-api-proxy.crusoecloud.com/v1",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "CRUSOE_API_KEY",
			Paths:  paths(api.Chat, api.Models),
			Rename: rename{"max_completion_tokens": "max_tokens"},
			Notes:  []string{"Also answers at https://api.inference.crusoecloud.com/v1."},
		},
		{
			ID: "dashscope", Name: "Alibaba DashScope",
			Aliases: []string{"qwen", "alibaba"},
			BaseURL: "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "DASHSCOPE_API_KEY",
			Paths: paths(api.Chat, api.Embeddings, api.Models, api.Files, api.Batches),
			// https://help.aliyun.com/zh/model-studio/compatibility-of-openai-with-dashscope
			Drop: []string{"frequency_penalty"},
			Notes: []string{
				"Singapore's host. China: https://dashscope.aliyuncs.com/compatible-mode/v1, United States: https://dashscope-us.aliyuncs.com/compatible-mode/v1.",
				"Images and reranking have forms of their own.",
			},
		},
		{
			ID: "databricks", Name: "Databricks Model Serving",
			BaseURL: "https://{workspace}.cloud.databricks.com",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "DATABRICKS_TOKEN",
			Paths: under("/serving-endpoints", api.Chat, api.Completions, api.Embeddings, api.Responses),
			Options: []provider.Option{
				{Name: "workspace", Doc: "first label of the workspace host"},
			},
			Notes: []string{"The model of the request names the serving endpoint."},
		},
		{
			ID: "deepbricks", Name: "DeepBricks",
			BaseURL: "https://api.deepbricks.ai/v1",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "DEEPBRICKS_API_KEY",
			Paths: paths(api.Chat, api.Images),
			Options: []provider.Option{
				{Name: "organization", Header: "Deepbricks-Organization", Doc: "organisation that is billed"},
				{Name: "project", Header: "Deepbricks-Project", Doc: "project that is billed"},
			},
		},
		{
			ID: "deepgram", Name: "Deepgram",
			BaseURL: "https://api.deepgram.com/v1",
			Dialect: provider.DialectOwn, Auth: provider.Auth{Header: "Authorization", Scheme: "Token"}, Env: "DEEPGRAM_API_KEY",
			Notes: []string{"Options of a transcription are in the query."},
		},
		{
			ID: "deepinfra", Name: "DeepInfra",
			BaseURL: "https://api.deepinfra.com/v1/openai",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "DEEPINFRA_API_KEY",
			Paths: paths(api.Chat, api.Completions, api.Embeddings, api.Images, api.Models),
			Notes: []string{"n must be 1. Errors have the form {\"detail\": …}."},
		},
		{
			ID: "deepseek", Name: "DeepSeek",
			BaseURL: "https://api.deepseek.com/v1",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "DEEPSEEK_API_KEY",
			Paths: paths(api.Chat, api.Models),
			// https://api-docs.deepseek.com/api/create-chat-completion
			Drop:   []string{"logit_bias", "seed", "user"},
			Rename: rename{"max_completion_tokens": "max_tokens"},
			// https://api-docs.deepseek.com/guides/reasoning_model
			Models: []provider.ModelRule{{Prefixes: []string{"deepseek-reasoner"}, Drop: []string{"logprobs", "top_logprobs"}}},
			Docs:   "https://api-docs.deepseek.com",
			Notes: []string{
				"Reasoning is in reasoning_content.",
				"Under load, answers begin with blank lines or comments.",
			},
		},
		{
			ID: "digitalocean", Name: "DigitalOcean Inference",
			BaseURL: "https://inference.do-ai.run/v1",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "DIGITALOCEAN_INFERENCE_KEY",
			Paths: paths(api.Chat, api.Images, api.Models),
		},
		{
			ID: "elevenlabs", Name: "ElevenLabs",
			BaseURL: "https://api.elevenlabs.io/v1",
			Dialect: provider.DialectOwn, Auth: provider.Header("xi-api-key"), Env: "ELEVENLABS_API_KEY",
			Notes: []string{"The voice is in the path."},
		},
		{
			ID: "fal-ai", Name: "fal.ai",
			BaseURL: "https://fal.run",
			Dialect: provider.DialectChat, Auth: provider.Auth{Header: "Authorization", Scheme: "Key"}, Env: "FAL_KEY",
			Paths: under("/openrouter/router/openai/v1", api.Chat),
			Notes: []string{"Chat goes to its OpenAI twin; image, video and audio models are reached by pass-through at /{model}."},
		},
		{
			ID: "featherless-ai", Name: "Featherless AI",
			BaseURL: "https://api.featherless.ai/v1",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "FEATHERLESS_API_KEY",
			Paths: paths(api.Chat, api.Completions, api.Models),
		},
		{
			ID: "fireworks-ai", Name: "Fireworks AI",
			Aliases: []string{"fireworks"},
			BaseURL: "https://api.fireworks.ai/inference/v1",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "FIREWORKS_API_KEY",
			Paths:  paths(api.Chat, api.Completions, api.Embeddings, api.Rerank, api.Responses, api.Models),
			Rename: rename{"max_completion_tokens": "max_tokens"},
			Docs:   "https://docs.fireworks.ai/api-reference",
			Notes:  []string{"Image generation and fine-tuning have forms of their own."},
		},
		{
			ID: "fish-audio", Name: "Fish Audio",
			BaseURL: "https://api.fish.audio",
			Dialect: provider.DialectOwn, Auth: provider.Bearer(), Env: "FISH_AUDIO_API_KEY",
			Notes: []string{"The model is named in a header."},
		},
		{
			ID: "friendli", Name: "FriendliAI",
			BaseURL: "https://api.friendli.ai/serverless/v1",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "FRIENDLI_TOKEN",
			Paths: paths(api.Chat, api.Completions, api.Models),
			Notes: []string{"Dedicated endpoints: https://api.friendli.ai/dedicated/v1 as custom host."},
		},
	}
}
