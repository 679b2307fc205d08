package table

import (
	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/model/catalog"
	"modelgate/internal/model/llm"
	"modelgate/internal/model/modeldata"
	"modelgate/internal/provider"
)

// rowsGToO returns the providers from galadriel to ovhcloud.
func rowsGToO() []*provider.Spec {
	return []*provider.Spec{
		{
			ID: "galadriel", Name: "Galadriel",
			BaseURL: "https://api.galadriel.com/v1",
			Dialect: api.DialectChat, Auth: provider.Bearer(), Env: "GALADRIEL_API_KEY",
			Paths: paths(api.Chat),
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
			ID: "gladia", Name: "Gladia",
			BaseURL: "https://api.gladia.io",
			Dialect: api.DialectNative, Auth: provider.Header("x-gladia-key"), Env: "GLADIA_API_KEY",
			Notes: []string{"Transcriptions are polled."},
		},
		{
			ID: "gmi", Name: "GMI Cloud",
			BaseURL: "https://api.gmi-serving.com/v1",
			Dialect: api.DialectChat, Auth: provider.Bearer(), Env: "GMI_API_KEY",
			Paths: paths(api.Chat, api.Models),
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
			ID: "groq", Name: "Groq",
			BaseURL: "https://api.groq.com/openai/v1",
			Dialect: api.DialectChat, Auth: provider.Bearer(), Env: "GROQ_API_KEY",
			UsageUnasked: true,
			Paths: paths(api.Chat, api.AudioSpeech, api.AudioTranscriptions, api.AudioTranslations, api.Responses,
				api.Models, api.Files, api.Batches),
			// These fields, and any n but 1, return 400.
			// https://console.groq.com/docs/openai
			Drop:   []string{"logprobs", "logit_bias", "top_logprobs"},
			Limits: limits{"n": {Min: 1, Max: 1}},
			// https://console.groq.com/docs/reasoning
			Profile: dialect.Profile{Chat: &dialect.ChatProfile{
				NoTopK: true, Tier: true, NoNames: true, StrictMessages: true, Models: modeldata.Groq,
				Efforts: rename{"minimal": "low", "xhigh": "high", "max": "high"},
			}},
			Tiers: map[string]catalog.Tier{"flex": catalog.Standard}, // https://console.groq.com/docs/flex-processing
			Docs:  "https://console.groq.com/docs/openai",
			Notes: []string{
				"messages[].name is rejected too.",
				"Usage of a stream is also in x_groq.usage of the last chunk.",
			},
		},
		{
			ID: "helicone", Name: "Helicone AI Gateway",
			BaseURL: "https://ai-gateway.helicone.ai",
			Dialect: api.DialectChat, Auth: provider.Bearer(), Env: "HELICONE_API_KEY",
			Paths: paths(api.Chat, api.Models),
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
			ID: "hume", Name: "Hume AI",
			BaseURL: "https://api.hume.ai",
			Dialect: api.DialectNative, Auth: provider.Header("X-Hume-Api-Key"), Env: "HUME_API_KEY",
		},
		{
			ID: "hunyuan", Name: "Tencent Hunyuan",
			BaseURL: "https://api.hunyuan.cloud.tencent.com/v1",
			Dialect: api.DialectChat, Auth: provider.Bearer(), Env: "HUNYUAN_API_KEY",
			UsageUnasked: true,
			Paths:        paths(api.Chat, api.Embeddings),
		},
		{
			ID: "hyperbolic", Name: "Hyperbolic",
			BaseURL: "https://api.hyperbolic.xyz/v1",
			Dialect: api.DialectChat, Auth: provider.Bearer(), Env: "HYPERBOLIC_API_KEY",
			Paths: paths(api.Chat, api.Completions, api.Models),
			Notes: []string{"Images and speech have their own formats."},
		},
		{
			ID: "inception", Name: "Inception Labs",
			BaseURL: "https://api.inceptionlabs.ai/v1",
			Dialect: api.DialectChat, Auth: provider.Bearer(), Env: "INCEPTION_API_KEY",
			Paths: paths(api.Chat, api.Models),
			Notes: []string{"With diffusing: true, chunks of a stream replace the text instead of adding to it."},
		},
		{
			ID: "inference-net", Name: "Inference.net",
			BaseURL: "https://api.inference.net/v1",
			Dialect: api.DialectChat, Auth: provider.Bearer(), Env: "INFERENCE_API_KEY",
			Paths: paths(api.Chat, api.Completions, api.Models),
		},
		{
			ID: "iointelligence", Name: "IO Intelligence",
			BaseURL: "https://api.intelligence.io.solutions/api/v1",
			Dialect: api.DialectChat, Auth: provider.Bearer(), Env: "IOINTELLIGENCE_API_KEY",
			Paths: paths(api.Chat, api.Embeddings, api.Models),
		},
		{
			ID: "jina", Name: "Jina AI",
			Aliases: []string{"jina-ai"},
			BaseURL: "https://api.jina.ai/v1",
			Dialect: api.DialectChat, Auth: provider.Bearer(), Env: "JINA_API_KEY",
			Paths: paths(api.Embeddings, api.Rerank),
			// https://jina.ai/embeddings/
			Rename: rename{"encoding_format": "embedding_type"},
			Notes:  []string{"Inputs may be objects with a text or an image."},
		},
		{
			ID: "klingai", Name: "Kling AI",
			BaseURL: "https://api-singapore.klingai.com",
			Dialect: api.DialectNative, Auth: provider.Bearer(),
			Notes: []string{"The key is an HS256 token; the gateway does not create one from an access key."},
		},
		{
			ID: "kluster-ai", Name: "kluster.ai",
			BaseURL: "https://api.kluster.ai/v1",
			Dialect: api.DialectChat, Auth: provider.Bearer(), Env: "KLUSTER_API_KEY",
			Paths: paths(api.Chat, api.Embeddings, api.Models, api.Files, api.Batches),
		},
		{
			ID: "krutrim", Name: "Ola Krutrim",
			BaseURL: "https://cloud.olakrutrim.com/v1",
			Dialect: api.DialectChat, Auth: provider.Bearer(), Env: "KRUTRIM_API_KEY",
			Paths: paths(api.Chat),
			Notes: []string{"Errors may be HTML or plain text."},
		},
		{
			ID: "lambda", Name: "Lambda",
			BaseURL: "https://api.lambdalabs.com/v1",
			Dialect: api.DialectChat, Auth: provider.Bearer(), Env: "LAMBDA_API_KEY",
			Paths: paths(api.Chat, api.Completions, api.Models),
			Notes: []string{"Current host: https://api.lambda.ai/v1 as custom host."},
		},
		{
			ID: "lemonfox-ai", Name: "Lemonfox AI",
			BaseURL: "https://api.lemonfox.ai/v1",
			Dialect: api.DialectChat, Auth: provider.Bearer(), Env: "LEMONFOX_API_KEY",
			Paths: paths(api.Chat, api.Images, api.AudioTranscriptions),
			Notes: []string{"At most 8 images in one request."},
		},
		{
			ID: "lepton", Name: "Lepton AI",
			BaseURL: "https://api.lepton.ai/api/v1",
			Dialect: api.DialectChat, Auth: provider.Bearer(), Env: "LEPTON_API_KEY",
			Paths: paths(api.Chat, api.Completions, api.AudioTranscriptions),
			Notes: []string{"Taken over by NVIDIA; models had their own hosts: https://{model}.lepton.run/api/v1."},
		},
		{
			ID: "lightning-ai", Name: "Lightning AI",
			BaseURL: "https://lightning.ai/api/v1",
			Dialect: api.DialectChat, Auth: provider.Bearer(), Env: "LIGHTNING_API_KEY",
			Paths: paths(api.Chat, api.Models),
			Notes: []string{"The address comes from release notes and was not verified."},
		},
		{
			ID: "lingyi", Name: "01.AI Lingyi",
			BaseURL: "https://api.lingyiwanwu.com/v1",
			Dialect: api.DialectChat, Auth: provider.Bearer(), Env: "LINGYI_API_KEY",
			UsageUnasked: true,
			Paths:        paths(api.Chat, api.Models),
		},
		{
			ID: "litellm-proxy", Name: "LiteLLM proxy",
			Dialect: api.DialectChat, Auth: provider.Bearer(), Env: "LITELLM_PROXY_API_KEY",
			Options: reasoningOptions(), Complete: checkReasoning, Profile: dialect.Profile{Chat: thinkingAsSeen},
			Paths: paths(api.Chat, api.Completions, api.Embeddings, api.Images, api.AudioSpeech,
				api.AudioTranscriptions, api.Moderations, api.Rerank, api.Responses, api.Models, api.Files,
				api.Batches, api.FineTuning),
		},
		{
			ID: "llamafile", Name: "llamafile / llama.cpp server",
			Dialect: api.DialectChat, Auth: provider.Bearer(), Env: "LLAMAFILE_API_KEY",
			Options: reasoningOptions(), Complete: checkReasoning, Profile: dialect.Profile{Chat: thinkingAsSeen},
			Paths: paths(api.Chat, api.Completions, api.Embeddings, api.Rerank, api.Models),
			Notes: []string{"Also llama.cpp server. Usual address: http://localhost:8080/v1."},
		},
		{
			ID: "lm-studio", Name: "LM Studio",
			Dialect: api.DialectChat, Auth: provider.Bearer(), Env: "LM_STUDIO_API_KEY",
			Options: reasoningOptions(), Complete: checkReasoning, Profile: dialect.Profile{Chat: thinkingAsSeen},
			Paths: paths(api.Chat, api.Completions, api.Embeddings, api.Responses, api.Models),
			Notes: []string{"Usual address: http://localhost:1234/v1."},
		},
		{
			ID: "lmnt", Name: "LMNT",
			BaseURL: "https://api.lmnt.com",
			Dialect: api.DialectNative, Auth: provider.Header("x-api-key"), Env: "LMNT_API_KEY",
		},
		{
			ID: "localai", Name: "LocalAI",
			Aliases: []string{"local-ai"},
			Dialect: api.DialectChat, Auth: provider.Bearer(), Env: "LOCALAI_API_KEY",
			Options: reasoningOptions(), Complete: checkReasoning, Profile: dialect.Profile{Chat: thinkingAsSeen},
			Paths: paths(api.Chat, api.Completions, api.Embeddings, api.Images, api.AudioSpeech,
				api.AudioTranscriptions, api.Rerank, api.Models),
			Notes: []string{"Usual address: http://localhost:8080/v1."},
		},
		{
			ID: "luma", Name: "Luma AI",
			BaseURL: "https://api.lumalabs.ai",
			Dialect: api.DialectNative, Auth: provider.Bearer(), Env: "LUMA_API_KEY",
			Notes: []string{"Generations are polled."},
		},
		{
			ID: "matterai", Name: "MatterAI",
			BaseURL: "https://api.matterai.so/v1",
			Dialect: api.DialectChat, Auth: provider.Bearer(), Env: "MATTERAI_API_KEY",
			Paths: paths(api.Chat),
		},
		{
			ID: "meshy", Name: "Meshy",
			BaseURL: "https://api.meshy.ai/openapi",
			Dialect: api.DialectNative, Auth: provider.Bearer(), Env: "MESHY_API_KEY",
			Notes: []string{"Reached by pass-through; /v2 for text to 3D, /v1 otherwise."},
		},
		{
			ID: "meta-llama", Name: "Meta Llama API",
			BaseURL: "https://api.llama.com/compat/v1",
			Dialect: api.DialectChat, Auth: provider.Bearer(), Env: "LLAMA_API_KEY",
			Paths: paths(api.Chat, api.Models),
		},
		{
			ID: "milvus", Name: "Milvus / Zilliz",
			Dialect: api.DialectNative, Auth: provider.Bearer(), Env: "MILVUS_TOKEN",
			Notes: []string{"A vector store, reached by pass-through."},
		},
		{
			ID: "minimax", Name: "MiniMax",
			BaseURL: "https://api.minimax.io/v1",
			Dialect: api.DialectChat, Auth: provider.Bearer(), Env: "MINIMAX_API_KEY",
			Profile:      dialect.Profile{Turns: systemOnly},
			UsageUnasked: true,
			// https://platform.minimax.io/docs/api-reference/text-anthropic-api
			Paths: join(paths(api.Chat, api.Models), nativePaths{api.Messages: "https://api.minimax.io/anthropic/v1/messages"}),
			Notes: []string{
				"China's host: https://api.minimaxi.com/v1. Errors may come with status 200 and base_resp.",
				"Speech, images and embeddings have their own formats.",
			},
		},
		{
			ID: "mistral-ai", Name: "Mistral AI",
			Aliases: []string{"mistral"},
			BaseURL: "https://api.mistral.ai/v1",
			Dialect: api.DialectChat, Auth: provider.Bearer(), Env: "MISTRAL_API_KEY",
			UsageUnasked: true,
			Paths:        paths(api.Chat, api.Embeddings, api.AudioTranscriptions, api.Moderations, api.Models, api.Files),
			// Unknown fields return 422.
			// https://docs.mistral.ai/api/
			Drop:   []string{"logit_bias", "logprobs", "service_tier", "store", "stream_options", "top_logprobs", "user"},
			Rename: rename{"max_completion_tokens": "max_tokens", "seed": "random_seed", "dimensions": "output_dimension"},
			Limits: limits{"temperature": {Min: 0, Max: 1.5}},
			// https://docs.mistral.ai/api
			Profile: dialect.Profile{Turns: mistralTurns, Chat: &dialect.ChatProfile{
				NoTopK: true, History: dialect.ThinkingParts, ShortIDs: true, NoNames: true, StrictMessages: true, Required: "any", AskForJSON: true, ContentParts: true,
				Models: modeldata.Mistral,
				Efforts: rename{
					"minimal": "high", "low": "high", "medium": "high", "high": "high", "xhigh": "high", "max": "high", "none": "none",
				},
				URLParts: mediaParts{llm.Document: "document_url"}, DataAsURL: true,
			}},
			TelemetryName: "mistral_ai",
			Docs:          "https://docs.mistral.ai/api/",
			Notes: []string{
				"Tool call ids must be nine letters or digits.",
				"Reasoning models respond with a list of thinking and text parts.",
				"The last chunk of a stream has the usage without being asked for it.",
				"Batches and fine-tuning have their own formats.",
			},
		},
		{
			ID: "modal", Name: "Modal",
			BaseURL: "https://api.modal.com/v1",
			Dialect: api.DialectChat, Auth: provider.Bearer(), Env: "MODAL_API_KEY",
			Paths: paths(api.Chat, api.Completions, api.Embeddings),
			Notes: []string{"A deployment has its own host: set it as custom host. Modal-Key and Modal-Secret may be forwarded instead of a key."},
		},
		{
			ID: "monsterapi", Name: "MonsterAPI",
			BaseURL: "https://llm.monsterapi.ai/v1",
			Dialect: api.DialectChat, Auth: provider.Bearer(), Env: "MONSTERAPI_KEY",
			Paths: paths(api.Chat),
			// https://developer.monsterapi.ai/reference
			Limits: limits{"temperature": {Min: 0, Max: 1}},
		},
		{
			ID: "moonshot", Name: "Moonshot AI",
			BaseURL: "https://api.moonshot.cn/v1",
			Dialect: api.DialectChat, Auth: provider.Bearer(), Env: "MOONSHOT_API_KEY",
			UsageUnasked: true,
			Paths:        join(paths(api.Chat, api.Models, api.Files), nativePaths{api.Messages: "https://api.moonshot.cn/anthropic/v1/messages"}),
			// https://platform.moonshot.ai/docs/api/chat
			Limits: limits{"temperature": {Min: 0, Max: 1}},
			// https://platform.moonshot.ai/docs/api/chat
			Profile: dialect.Profile{Turns: systemOnly, Chat: &dialect.ChatProfile{
				NoTopK: true, History: dialect.ThinkingText, Effort: dialect.EffortThinking,
				Efforts: rename{"none": "", "minimal": "low", "medium": "high", "xhigh": "max"},
				Modes:   []llm.ChoiceMode{llm.ChoiceAuto, llm.ChoiceNone},
			}},
			Notes: []string{"China's host; international: https://api.moonshot.ai/v1 as custom host."},
		},
		{
			ID: "morph", Name: "Morph",
			BaseURL: "https://api.morphllm.com/v1",
			Dialect: api.DialectChat, Auth: provider.Bearer(), Env: "MORPH_API_KEY",
			Paths: paths(api.Chat, api.Embeddings, api.Rerank),
		},
		{
			ID: "nano-gpt", Name: "NanoGPT",
			BaseURL: "https://nano-gpt.com/api/v1",
			Dialect: api.DialectChat, Auth: provider.Bearer(), Env: "NANOGPT_API_KEY",
			Paths:  paths(api.Chat, api.Images, api.Models),
			Rename: maxTokens,
		},
		{
			ID: "ncompass", Name: "nCompass",
			BaseURL: "https://api.ncompass.tech/v1",
			Dialect: api.DialectChat, Auth: provider.Bearer(), Env: "NCOMPASS_API_KEY",
			Paths: paths(api.Chat),
		},
		{
			ID: "nebius", Name: "Nebius AI Studio",
			BaseURL: "https://api.studio.nebius.ai/v1",
			Dialect: api.DialectChat, Auth: provider.Bearer(), Env: "NEBIUS_API_KEY",
			Paths: paths(api.Chat, api.Completions, api.Embeddings, api.Images, api.Models),
			Notes: []string{"Current host: https://api.tokenfactory.nebius.com/v1 as custom host."},
		},
		{
			ID: "nextbit", Name: "NextBit",
			BaseURL: "https://api.nextbit256.com/v1",
			Dialect: api.DialectChat, Auth: provider.Bearer(), Env: "NEXTBIT_API_KEY",
			Paths: paths(api.Chat, api.Completions),
		},
		{
			ID: "nomic", Name: "Nomic",
			BaseURL: "https://api-atlas.nomic.ai/v1",
			Dialect: api.DialectNative, Auth: provider.Bearer(), Env: "NOMIC_API_KEY",
			Notes: []string{"Embeddings have their own format."},
		},
		{
			ID: "novita-ai", Name: "Novita AI",
			Aliases: []string{"novita"},
			BaseURL: "https://api.novita.ai/v3/openai",
			Dialect: api.DialectChat, Auth: provider.Bearer(), Env: "NOVITA_API_KEY",
			Paths: paths(api.Chat, api.Completions, api.Embeddings, api.Models),
		},
		{
			ID: "nscale", Name: "Nscale",
			BaseURL: "https://inference.api.nscale.com/v1",
			Dialect: api.DialectChat, Auth: provider.Bearer(), Env: "NSCALE_API_KEY",
			Paths: paths(api.Chat, api.Images, api.Models),
		},
		{
			ID: "nvidia-nim", Name: "NVIDIA NIM",
			BaseURL: "https://integrate.api.nvidia.com/v1",
			Dialect: api.DialectChat, Auth: provider.Bearer(), Env: "NVIDIA_API_KEY",
			Paths: paths(api.Chat, api.Completions, api.Embeddings, api.Models),
			Notes: []string{"Embeddings need input_type query or passage. Reranking is on another host."},
		},
		{
			ID: "ollama", Name: "Ollama",
			Dialect: api.DialectChat, Auth: provider.Bearer(), Env: "OLLAMA_API_KEY",
			Options: reasoningOptions(), Complete: checkReasoning, Profile: dialect.Profile{Chat: thinkingAsSeen},
			Paths:  join(under("/v1", api.Chat, api.Completions, api.Embeddings, api.Models), nativePaths{api.OllamaChat: "/api/chat"}),
			Rename: maxTokens,
			Docs:   "https://docs.ollama.com/api/openai-compatibility",
			Notes: []string{
				"Usual address: http://localhost:11434. Only https://ollama.com requires a key.",
				"Conversations use its chat protocol at /v1, so chat clients pass through unchanged and tool calls have ids; use the native path, by pass-through, for num_ctx and keep_alive.",
			},
		},
		{
			ID:           "openai",
			OptionPrefix: "vendora_",
			Name:         "OpenAI",
			Aliases:      []string{"vendora"},
			BaseURL:      "https://api.openai.com/v1",
			Dialect:      api.DialectChat, Auth: provider.Bearer(), Env: "OPENAI_API_KEY",
			Paths: paths(api.Chat, api.Completions, api.Embeddings, api.Images, api.ImageEdits, api.ImageVariations,
				api.AudioSpeech, api.AudioTranscriptions, api.AudioTranslations, api.Moderations, api.Responses,
				api.Models, api.Files, api.Batches, api.FineTuning, api.Realtime),
			Options: []provider.Option{
				{Name: "organization", Header: "OpenAI-Organization", Doc: "organisation that is billed"},
				{Name: "project", Header: "OpenAI-Project", Doc: "project that is billed"},
				{Name: "beta", Header: "OpenAI-Beta", Doc: "beta features, separated by commas"},
			},
			Dialects: openaiDialects,
			// Reasoning models reject max_tokens in favour of
			// max_completion_tokens.
			// https://platform.openai.com/docs/api-reference/chat/create
			Models:  modeldata.OpenAI,
			Profile: openaiProfile,
			Tiers:   flexTier,
			Docs:    "https://platform.openai.com/docs/api-reference",
			Notes:   []string{"Uploads, transcriptions, translations and image edits are multipart."},
		},
		{
			ID: "openai-compatible", Name: "Generic OpenAI-compatible host",
			Dialect: api.DialectChat, Auth: provider.Bearer(), Env: "OPENAI_API_KEY",
			Options: reasoningOptions(), Complete: checkReasoning, Profile: dialect.Profile{Chat: thinkingAsSeen},
			Paths: paths(api.Chat, api.Completions, api.Embeddings, api.Images, api.AudioSpeech,
				api.AudioTranscriptions, api.Moderations, api.Rerank, api.Responses, api.Models),
			Notes: []string{"For any host that supports the chat protocol; nothing is dropped or renamed."},
		},
		{
			ID:      "openrouter",
			Vendors: []provider.Vendor{provider.VendorAnthropic},
			Name:    "OpenRouter",
			BaseURL: "https://openrouter.ai/api/v1",
			Dialect: api.DialectChat, Auth: provider.Bearer(), Env: "OPENROUTER_API_KEY",
			UsageUnasked: true,
			Paths:        paths(api.Chat, api.Completions, api.Embeddings, api.Responses, api.Messages, api.Models),
			Options: []provider.Option{
				{Name: "referer", Header: "HTTP-Referer", Doc: "address of the application, for the rankings"},
				{Name: "title", Header: "X-Title", Doc: "name of the application, for the rankings"},
			},
			// https://openrouter.ai/docs/api-reference/overview
			Profile: dialect.Profile{
				Responses: openaiResponses,
				Chat: &dialect.ChatProfile{
					History: dialect.ThinkingDetails, Effort: dialect.EffortObject, Cache: true, Tier: true, Verbosity: true, DataAsURL: true, ContentParts: true,
				},
			},
			// Reported for models that OpenRouter itself serves, at the usual cost.
			Tiers: map[string]catalog.Tier{"provisioned": catalog.Standard},
			Docs:  "https://openrouter.ai/docs",
			Notes: []string{"Streams contain comments while a provider is chosen; errors may come inside a stream."},
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
			ID: "ovhcloud", Name: "OVHcloud AI Endpoints",
			BaseURL: "https://oai.endpoints.kepler.ai.cloud.ovh.net/v1",
			Dialect: api.DialectChat, Auth: provider.Bearer(), Env: "OVH_AI_ENDPOINTS_ACCESS_TOKEN",
			Paths: paths(api.Chat, api.Completions, api.Embeddings),
		},
	}
}
