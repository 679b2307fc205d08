package table

import (
	"modelgate/api"
	"modelgate/internal/provider"
)

// rowsPToZ holds the rows from palm to zhipu.
func rowsPToZ() []*provider.Spec {
	return []*provider.Spec{
		{
			ID: "palm", Name: "Google PaLM (retired)",
			BaseURL: "https://generativelanguage.googleapis.com/v1beta3",
			Dialect: provider.DialectOwn, Auth: provider.Query("key"), Env: "PALM_API_KEY",
			Notes: []string{"Retired by Google; the id stays so that old configs keep their meaning."},
		},
		{
			ID: "parasail", Name: "Parasail",
			BaseURL: "https://api.parasail.io/v1",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "PARASAIL_API_KEY",
			Paths: paths(api.Chat, api.Embeddings, api.Models),
		},
		{
			ID: "passthrough", Name: "Passthrough (no transformation)",
			Dialect: provider.DialectChat, Auth: provider.Bearer(),
			Paths: paths(api.Chat, api.Completions, api.Embeddings, api.Images, api.Rerank, api.Responses, api.Models),
			Notes: []string{"For a host of any protocol behind a custom host; bodies are never changed."},
		},
		{
			ID: "perplexity-ai", Name: "Perplexity AI",
			Aliases: []string{"perplexity"},
			BaseURL: "https://api.perplexity.ai",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "PERPLEXITY_API_KEY",
			Paths: join(paths(api.Chat), under("/v1", api.Embeddings, api.Responses)),
			// https://docs.perplexity.ai/api-reference/chat-completions-post
			Drop:   []string{"logprobs", "n", "seed", "stop", "top_logprobs"},
			Rename: maxTokens,
			Docs:   "https://docs.perplexity.ai",
			Notes: []string{
				"Roles must alternate after the system message.",
				"Tools are not known by the sonar models; a request with tools is sent as it is.",
				"Citations and search results are extra top-level fields; stream frames end in CRLF.",
				"Embeddings come as encoded int8 or binary strings.",
			},
		},
		{
			ID: "poe", Name: "Poe",
			BaseURL: "https://api.poe.com/v1",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "POE_API_KEY",
			Paths:  paths(api.Chat, api.Responses, api.Models),
			Rename: maxTokens,
		},
		{
			ID: "predibase", Name: "Predibase",
			BaseURL: "https://serving.app.predibase.com",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "PREDIBASE_API_TOKEN",
			Paths: under("/{tenant}/deployments/v2/llms/{base_model}/v1", api.Chat),
			Options: []provider.Option{
				{Name: "tenant", Doc: "tenant id"},
				{Name: "base_model", Doc: "base model or deployment; the model of the request then names the adapter"},
			},
			Notes: []string{"An empty model means the base model without an adapter."},
		},
		{
			ID: "prodia", Name: "Prodia",
			BaseURL: "https://inference.prodia.com/v2",
			Dialect: provider.DialectOwn, Auth: provider.Bearer(), Env: "PRODIA_TOKEN",
		},
		{
			ID: "publicai", Name: "PublicAI",
			BaseURL: "https://api.publicai.co/v1",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "PUBLICAI_API_KEY",
			Paths:  paths(api.Chat, api.Models),
			Rename: maxTokens,
			Notes:  []string{"Message content must be a string, not a list of parts."},
		},
		{
			ID: "qdrant", Name: "Qdrant",
			Dialect: provider.DialectOwn, Auth: provider.Header("api-key"), Env: "QDRANT_API_KEY",
			Notes: []string{"A vector store, reached by pass-through."},
		},
		{
			ID: "recraft-ai", Name: "Recraft",
			BaseURL: "https://external.api.recraft.ai/v1",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "RECRAFT_API_KEY",
			Paths: paths(api.Images),
		},
		{
			ID: "reka-ai", Name: "Reka AI",
			BaseURL: "https://api.reka.ai",
			Dialect: provider.DialectOwn, Auth: provider.Header("x-api-key"), Env: "REKA_API_KEY",
		},
		{
			ID: "replicate", Name: "Replicate",
			BaseURL: "https://api.replicate.com/v1",
			Dialect: provider.DialectOwn, Auth: provider.Bearer(), Env: "REPLICATE_API_TOKEN",
			Notes: []string{"Predictions are polled, or waited for with Prefer: wait."},
		},
		{
			ID: "rev-ai", Name: "Rev AI",
			BaseURL: "https://api.rev.ai",
			Dialect: provider.DialectOwn, Auth: provider.Bearer(), Env: "REVAI_API_KEY",
			Notes: []string{"Transcriptions are jobs that are polled."},
		},
		{
			ID: "runway", Name: "Runway",
			BaseURL: "https://api.dev.runwayml.com/v1",
			Dialect: provider.DialectOwn, Auth: provider.Bearer(), Env: "RUNWAYML_API_SECRET",
			Header: map[string]string{"X-Runway-Version": "2024-11-06"},
			Notes:  []string{"Tasks are polled."},
		},
		{
			ID: "sagemaker", Name: "AWS SageMaker",
			BaseURL: "https://runtime.sagemaker.{region}.amazonaws.com",
			Dialect: provider.DialectOwn, Auth: unsigned("SigV4"),
			Options: []provider.Option{
				{Name: "region", Default: "us-east-1", Doc: "AWS region"},
			},
			Notes: []string{"Requests must be signed with SigV4, which is not offered yet: a call is refused unless a custom host that signs is given."},
		},
		{
			ID: "sambanova", Name: "SambaNova",
			BaseURL: "https://api.sambanova.ai/v1",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "SAMBANOVA_API_KEY",
			Paths: paths(api.Chat, api.Embeddings, api.AudioTranscriptions, api.Models),
		},
		{
			ID: "sarvam", Name: "Sarvam AI",
			BaseURL: "https://api.sarvam.ai/v1",
			Dialect: provider.DialectChat, Auth: provider.Header("api-subscription-key"), Env: "SARVAM_API_KEY",
			Paths:  paths(api.Chat),
			Rename: maxTokens,
			Notes:  []string{"Bearer is accepted as well."},
		},
		{
			ID: "scaleway", Name: "Scaleway Generative APIs",
			BaseURL: "https://api.scaleway.ai/v1",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "SCW_SECRET_KEY",
			Paths: paths(api.Chat, api.Embeddings, api.AudioTranscriptions, api.Models),
		},
		{
			ID: "scenario-ai", Name: "Scenario",
			BaseURL: "https://api.cloud.scenario.com/v1",
			Dialect: provider.DialectOwn, Env: "SCENARIO_API_KEY",
			Auth:  provider.Auth{Header: "Authorization", Scheme: "Basic", Sign: basicPair},
			Notes: []string{"The credential is key:secret, sent as Basic."},
		},
		{
			ID: "segmind", Name: "Segmind",
			BaseURL: "https://api.segmind.com/v1",
			Dialect: provider.DialectOwn, Auth: provider.Header("x-api-key"), Env: "SEGMIND_API_KEY",
		},
		{
			ID: "sglang", Name: "SGLang",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "SGLANG_API_KEY",
			Paths: paths(api.Chat, api.Completions, api.Embeddings, api.Rerank, api.Models),
			Notes: []string{"Usual address: http://localhost:30000/v1."},
		},
		{
			ID: "siliconflow", Name: "SiliconFlow",
			BaseURL: "https://api.siliconflow.cn/v1",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "SILICONFLOW_API_KEY",
			Paths: paths(api.Chat, api.Embeddings, api.Images, api.AudioSpeech, api.AudioTranscriptions, api.Rerank,
				api.Models),
			Notes: []string{
				"China's host; international: https://api.siliconflow.com/v1 as custom host.",
				"Images take image_size and batch_size instead of size and n.",
			},
		},
		{
			ID: "stability-ai", Name: "Stability AI",
			BaseURL: "https://api.stability.ai",
			Dialect: provider.DialectOwn, Auth: provider.Bearer(), Env: "STABILITY_API_KEY",
			Options: []provider.Option{
				{Name: "client_id", Header: "Stability-Client-Id", Doc: "name of the application"},
				{Name: "client_user_id", Header: "Stability-Client-User-Id", Doc: "user of the application"},
				{Name: "client_version", Header: "Stability-Client-Version", Doc: "version of the application"},
			},
			Notes: []string{"Image generation is multipart."},
		},
		{
			ID: "stepfun", Name: "StepFun",
			BaseURL: "https://api.stepfun.com/v1",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "STEPFUN_API_KEY",
			Paths: paths(api.Chat, api.Images, api.AudioSpeech, api.AudioTranscriptions, api.Models, api.Files),
		},
		{
			ID: "synthetic", Name: "Synthetic",
			BaseURL: "https://api.synthetic.new/openai/v1",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "SYNTHETIC_API_KEY",
			Paths:  paths(api.Chat, api.Completions, api.Embeddings, api.Models),
			Rename: maxTokens,
		},
		{
			ID: "tetrate", Name: "Tetrate Agent Router",
			BaseURL: "https://api.router.tetrate.ai/v1",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "TETRATE_API_KEY",
			Paths: paths(api.Chat, api.Embeddings, api.Models),
		},
		{
			ID: "tgi", Name: "HF Text Generation Inference",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "TGI_API_KEY",
			Paths: paths(api.Chat, api.Completions, api.Models),
			Notes: []string{"Usual address: http://localhost:8080/v1. The model name is ignored."},
		},
		{
			ID: "together-ai", Name: "Together AI",
			Aliases: []string{"together"},
			BaseURL: "https://api.together.xyz/v1",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "TOGETHER_API_KEY",
			Paths: paths(api.Chat, api.Completions, api.Embeddings, api.Images, api.AudioSpeech,
				api.AudioTranscriptions, api.Rerank, api.Models),
			Docs: "https://docs.together.ai/reference",
			Notes: []string{
				"finish_reason may be eos.",
				"Images take width and height instead of size.",
			},
		},
		{
			ID: "tripo3d", Name: "Tripo3D",
			BaseURL: "https://api.tripo3d.ai/v2/openapi",
			Dialect: provider.DialectOwn, Auth: provider.Bearer(), Env: "TRIPO_API_KEY",
			Notes: []string{"Reached by pass-through."},
		},
		{
			ID: "triton", Name: "NVIDIA Triton",
			Dialect: provider.DialectOwn, Auth: provider.Auth{},
			Notes: []string{"No credential is sent."},
		},
		{
			ID: "upstage", Name: "Upstage",
			BaseURL: "https://api.upstage.ai/v1/solar",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "UPSTAGE_API_KEY",
			Paths: paths(api.Chat, api.Embeddings),
			Notes: []string{"The same API also answers at https://api.upstage.ai/v1."},
		},
		{
			ID: "venice", Name: "Venice AI",
			BaseURL: "https://api.venice.ai/api/v1",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "VENICE_AI_API_KEY",
			Paths: paths(api.Chat, api.Embeddings, api.Images, api.AudioSpeech, api.Models),
		},
		{
			ID: "vercel-ai-gateway", Name: "Vercel AI Gateway",
			BaseURL: "https://ai-gateway.vercel.sh/v1",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "AI_GATEWAY_API_KEY",
			Paths: paths(api.Chat, api.Embeddings, api.Models),
			Notes: []string{"Models are named creator/name."},
		},
		{
			ID: "vertex-ai", Name: "Google Vertex AI",
			Aliases: []string{"google-vertex-ai", "vertex", "cloud_b"},
			BaseURL: "https://{region}-aiplatform.googleapis.com",
			Dialect: provider.DialectGemini, Auth: provider.Bearer(),
			Options: []provider.Option{
				{Name: "region", Doc: "location, such as europe-west4; global, us and eu choose the hosts of those names"},
			},
			URL:   vertexHost,
			Docs:  "https://cloud.google.com/vertex-ai/docs/reference/rest",
			Notes: []string{"The key is a Google access token; exchanging a service account for one is not offered yet."},
		},
		{
			ID: "vllm", Name: "vLLM",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "VLLM_API_KEY",
			Paths: paths(api.Chat, api.Completions, api.Embeddings, api.AudioTranscriptions, api.Moderations,
				api.Rerank, api.Responses, api.Models),
			Notes: []string{"Usual address: http://localhost:8000/v1."},
		},
		{
			ID: "volcengine", Name: "Volcengine Ark (Doubao)",
			BaseURL: "https://ark.cn-beijing.volces.com/api/v3",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "ARK_API_KEY",
			Paths: paths(api.Chat, api.Embeddings, api.Images, api.Responses, api.Models),
			Notes: []string{"The model is an endpoint id or a model id."},
		},
		{
			ID: "voyage", Name: "Voyage AI",
			Aliases: []string{"voyage-ai"},
			BaseURL: "https://api.voyageai.com/v1",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "VOYAGE_API_KEY",
			Paths: paths(api.Embeddings, api.Rerank),
			// https://docs.voyageai.com/reference/embeddings-api
			Rename: rename{"dimensions": "output_dimension"},
			Notes:  []string{"encoding_format may be base64 or absent. Usage has total_tokens only. Reranking has a form of its own."},
		},
		{
			ID: "watsonx", Name: "IBM watsonx.ai",
			BaseURL: "https://{region}.ml.cloud.ibm.com",
			Dialect: provider.DialectOwn, Auth: provider.Bearer(),
			Options: []provider.Option{
				{Name: "region", Default: "us-south", Doc: "IBM Cloud region"},
			},
			Notes: []string{"The key is an IAM access token; exchanging an API key for one is not offered yet."},
		},
		{
			ID: "workers-ai", Name: "Cloudflare Workers AI",
			Aliases: []string{"cloudflare"},
			BaseURL: "https://api.cloudflare.com/client/v4/accounts/{account_id}/ai",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "CLOUDFLARE_API_KEY",
			Paths: under("/v1", api.Chat, api.Embeddings, api.Responses),
			Options: []provider.Option{
				{Name: "account_id", Doc: "Cloudflare account"},
			},
			Docs:  "https://developers.cloudflare.com/workers-ai/configuration/open-ai-compatibility",
			Notes: []string{"Chat, embeddings and responses go to the OpenAI twin; /run/{model} is reached by pass-through."},
		},
		{
			ID: "writer", Name: "Writer",
			BaseURL: "https://api.writer.com/v1",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "WRITER_API_KEY",
			Paths: join(own{api.Chat: "/chat"}, paths(api.Completions, api.Models)),
			Notes: []string{"Chunks of a stream hold the whole message so far beside the delta."},
		},
		{
			ID: "x-ai", Name: "xAI",
			Aliases: []string{"xai"},
			BaseURL: "https://api.x.ai/v1",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "XAI_API_KEY",
			Paths: paths(api.Chat, api.Completions, api.Embeddings, api.Images, api.Responses, api.Models,
				api.Realtime),
			// https://docs.x.ai/docs/api-reference
			Drop:   []string{"frequency_penalty", "presence_penalty"},
			Rename: rename{"max_tokens": "max_completion_tokens", "parallel_tool_calls": "parallel_function_calling"},
			Limits: limits{"top_logprobs": {Min: 0, Max: 8}},
			// https://docs.x.ai/docs/guides/reasoning
			Models: []provider.ModelRule{{Prefixes: []string{"grok-3-mini", "grok-4", "grok-code"}, Drop: []string{"stop"}}},
			Docs:   "https://docs.x.ai/docs/api-reference",
			Notes: []string{
				"Reasoning tokens are not counted in completion_tokens.",
				"Tool schemas must not hold additionalProperties: false.",
			},
		},
		{
			ID: "xiaomi-mimo", Name: "Xiaomi MiMo",
			BaseURL: "https://api.xiaomimimo.com/v1",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "XIAOMI_MIMO_API_KEY",
			Paths:  paths(api.Chat, api.Models),
			Rename: maxTokens,
		},
		{
			ID: "xunfei-spark", Name: "iFlytek Spark",
			BaseURL: "https://spark-api-open.xf-yun.com/v1",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "SPARK_API_KEY",
			Paths: paths(api.Chat),
			Notes: []string{"The key is the APIPassword."},
		},
		{
			ID: "z-ai", Name: "Z.ai",
			BaseURL: "https://api.z.ai/api/paas/v4",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "ZAI_API_KEY",
			Paths: paths(api.Chat, api.Embeddings, api.Images, api.Models),
			// https://docs.z.ai/api-reference/llm/chat-completion
			Drop:   []string{"frequency_penalty", "logit_bias", "logprobs", "n", "presence_penalty", "seed", "top_logprobs"},
			Rename: rename{"max_completion_tokens": "max_tokens", "user": "user_id"},
			Notes:  []string{"Same protocol as zhipu. Coding plan: https://api.z.ai/api/coding/paas/v4 as custom host."},
		},
		{
			ID: "zhipu", Name: "Zhipu AI (BigModel)",
			BaseURL: "https://open.bigmodel.cn/api/paas/v4",
			Dialect: provider.DialectChat, Auth: provider.Bearer(), Env: "ZHIPU_API_KEY",
			Paths: paths(api.Chat, api.Embeddings, api.Images, api.Rerank, api.Models),
			// https://docs.bigmodel.cn/api-reference
			Drop:   []string{"frequency_penalty", "logit_bias", "logprobs", "n", "presence_penalty", "seed", "top_logprobs"},
			Rename: rename{"max_completion_tokens": "max_tokens", "user": "user_id"},
			Notes:  []string{"temperature must be above 0. response_format knows text and json_object."},
		},
	}
}
