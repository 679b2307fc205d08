package table

import (
	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/model/catalog"
	"modelgate/internal/model/llm"
	"modelgate/internal/model/modeldata"
	"modelgate/internal/provider"
)

// openAIQuirkRows returns OpenAI, and the providers that differ from it in more than the
// spelling of a parameter.
func openAIQuirkRows() []*provider.Spec {
	return chatRows([]*provider.Spec{
		{
			ID: "ai21", Name: "AI21 Labs", BaseURL: "https://api.ai21.com/studio/v1", Env: "AI21_API_KEY",
			Profile:      dialect.Profile{Turns: systemOnly},
			UsageUnasked: true,
			Paths:        paths(api.Chat),
			// https://docs.ai21.com/reference/jamba-1-6-api-ref
			Drop:   []string{"frequency_penalty", "logprobs", "presence_penalty", "seed", "tool_choice", "top_logprobs"},
			Rename: maxTokens,
			Notes:  []string{"The paths of the older J2 models contain the model; use pass-through for them."},
		},
		{
			ID: "cerebras", Name: "Cerebras", BaseURL: "https://api.cerebras.ai/v1", Env: "CEREBRAS_API_KEY",
			Options: reasoningOptions(), Complete: checkReasoning, Profile: dialect.Profile{Chat: thinkingAsSeen},
			UsageUnasked: true,
			Paths:        paths(api.Chat, api.Completions, api.Models),
			// https://inference-docs.cerebras.ai/resources/openai
			Rename: rename{"max_tokens": "max_completion_tokens"},
			Docs:   "https://inference-docs.cerebras.ai/resources/openai",
			Notes: []string{
				"Some models reject frequency_penalty, presence_penalty, logit_bias and service_tier. They are sent unchanged.",
				"Needs a User-Agent header.",
			},
		},
		{
			ID: "codestral", Name: "Mistral Codestral", BaseURL: "https://codestral.mistral.ai/v1", Env: "CODESTRAL_API_KEY",
			Profile:      dialect.Profile{Turns: mistralTurns},
			UsageUnasked: true,
			Paths:        paths(api.Chat),
			Notes:        []string{"Needs a separate key; fill-in-the-middle is at /fim/completions."},
		},
		{
			ID: "deepbricks", Name: "DeepBricks", BaseURL: "https://api.deepbricks.ai/v1", Env: "DEEPBRICKS_API_KEY",
			Paths: paths(api.Chat, api.Images),
			Options: []provider.Option{
				{Name: "organization", Header: "Deepbricks-Organization", Doc: "organisation that is billed"},
				{Name: "project", Header: "Deepbricks-Project", Doc: "project that is billed"},
			},
		},
		{
			ID:           "fireworks-ai",
			OptionPrefix: "fireworks_",
			Name:         "Fireworks AI",
			Aliases:      []string{"fireworks"},
			BaseURL:      "https://api.fireworks.ai/inference/v1",
			Env:          "FIREWORKS_API_KEY",
			UsageUnasked: true,
			Paths:        paths(api.Chat, api.Completions, api.Embeddings, api.Rerank, api.Responses, api.Models),
			Rename:       maxTokens,
			// https://docs.fireworks.ai/api-reference/post-chatcompletions
			Profile: dialect.Profile{Chat: &dialect.ChatProfile{History: dialect.ThinkingText, Effort: dialect.EffortThinking, Budget: true,
				Tier: true}},
			Options: []provider.Option{{Name: "account_id", Doc: "account, for fine-tuning and batches"}},
			Docs:    "https://docs.fireworks.ai/api-reference",
			Notes:   []string{"Image generation and fine-tuning have their own formats."},
		},
		{
			ID: "groq", Name: "Groq", BaseURL: "https://api.groq.com/openai/v1", Env: "GROQ_API_KEY",
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
			ID: "mistral-ai", Name: "Mistral AI",
			Aliases:      []string{"mistral"},
			BaseURL:      "https://api.mistral.ai/v1",
			Env:          "MISTRAL_API_KEY",
			UsageUnasked: true,
			Paths:        paths(api.Chat, api.Embeddings, api.AudioTranscriptions, api.Moderations, api.Models, api.Files),
			// Unknown fields return 422.
			// https://docs.mistral.ai/api/
			Drop:   []string{"logit_bias", "logprobs", "service_tier", "store", "stream_options", "top_logprobs", "user"},
			Rename: rename{"max_completion_tokens": "max_tokens", "seed": "random_seed", "dimensions": "output_dimension"},
			Limits: limits{"temperature": {Min: 0, Max: 1.5}},
			// https://docs.mistral.ai/api
			Profile: dialect.Profile{Turns: mistralTurns, Chat: &dialect.ChatProfile{
				NoTopK: true, History: dialect.ThinkingParts, ShortIDs: true, NoNames: true, StrictMessages: true, Required: "any", AskForJSON: true,
				ContentParts: true,
				Models:       modeldata.Mistral,
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
			ID: "monsterapi", Name: "MonsterAPI", BaseURL: "https://llm.monsterapi.ai/v1", Env: "MONSTERAPI_KEY",
			Paths: paths(api.Chat),
			// https://developer.monsterapi.ai/reference
			Limits: limits{"temperature": {Min: 0, Max: 1}},
		},
		{
			ID:           "openai",
			OptionPrefix: "vendora_",
			Name:         "OpenAI",
			Aliases:      []string{"vendora"},
			BaseURL:      "https://api.openai.com/v1",
			Env:          "OPENAI_API_KEY",
			Paths: paths(api.Chat, api.Completions, api.Embeddings, api.Images, api.ImageEdits, api.ImageVariations,
				api.AudioSpeech, api.AudioTranscriptions, api.AudioTranslations, api.Moderations, api.Responses,
				api.Models, api.Files, api.Batches, api.FineTuning, api.Realtime),
			Options: []provider.Option{
				{Name: "organization", Header: "OpenAI-Organization", Doc: "organisation that is billed"},
				{Name: "project", Header: "OpenAI-Project", Doc: "project that is billed"},
				openaiBeta,
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
			ID:           "openrouter",
			Vendors:      []provider.Vendor{provider.VendorAnthropic},
			Name:         "OpenRouter",
			BaseURL:      "https://openrouter.ai/api/v1",
			Env:          "OPENROUTER_API_KEY",
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
					History: dialect.ThinkingDetails, Effort: dialect.EffortObject, Cache: true, Tier: true, Verbosity: true, DataAsURL: true,
					ContentParts: true,
				},
			},
			// Reported for models that OpenRouter itself serves, at the usual cost.
			Tiers: map[string]catalog.Tier{"provisioned": catalog.Standard},
			Docs:  "https://openrouter.ai/docs",
			Notes: []string{"Streams contain comments while a provider is chosen; errors may come inside a stream."},
		},
		{
			ID: "perplexity-ai", Name: "Perplexity AI",
			Aliases:      []string{"perplexity"},
			BaseURL:      "https://api.perplexity.ai",
			Env:          "PERPLEXITY_API_KEY",
			UsageUnasked: true,
			Paths:        join(paths(api.Chat), under("/v1", api.Embeddings, api.Responses)),
			// https://docs.perplexity.ai/api-reference/chat-completions-post
			Drop:   []string{"logprobs", "n", "seed", "stop", "top_logprobs"},
			Rename: maxTokens,
			// https://docs.perplexity.ai/api-reference
			Profile: dialect.Profile{Turns: perplexityTurns, Chat: &dialect.ChatProfile{
				NoTopK:   true,
				Formats:  []llm.FormatKind{llm.FormatText, llm.FormatSchema},
				URLParts: mediaParts{llm.Document: "file_url"},
			}},
			TelemetryName: "perplexity",
			Docs:          "https://docs.perplexity.ai",
			Notes: []string{
				"The sonar models do not support tools; a request with tools is sent unchanged.",
				"Citations and search results are extra top-level fields; stream frames end in CRLF.",
				"Embeddings come as encoded int8 or binary strings.",
			},
		},
		{
			ID: "predibase", Name: "Predibase", BaseURL: "https://serving.app.predibase.com", Env: "PREDIBASE_API_TOKEN",
			Paths: under("/{tenant}/deployments/v2/llms/{base_model}/v1", api.Chat),
			Options: []provider.Option{
				{Name: "tenant", Doc: "tenant id"},
				{Name: "base_model", Doc: "base model or deployment; the model of the request then names the adapter"},
			},
			Notes: []string{"An empty model means the base model without an adapter."},
		},
		{
			ID: "sambanova", Name: "SambaNova", BaseURL: "https://api.sambanova.ai/v1", Env: "SAMBANOVA_API_KEY",
			Profile: dialect.Profile{Turns: systemOnly},
			Paths:   paths(api.Chat, api.Embeddings, api.AudioTranscriptions, api.Models),
		},
		{
			ID: "voyage", Name: "Voyage AI",
			Aliases: []string{"voyage-ai"},
			BaseURL: "https://api.voyageai.com/v1",
			Env:     "VOYAGE_API_KEY",
			Paths:   paths(api.Embeddings, api.Rerank),
			Profile: dialect.Profile{Chat: &dialect.ChatProfile{Voyage: true}},
			Notes:   []string{"Usage has only total_tokens. Reranking takes the parameters of both formats, and the response has results in addition to data."},
		},
		{
			ID: "x-ai", Name: "xAI",
			Aliases:      []string{"xai"},
			BaseURL:      "https://api.x.ai/v1",
			Env:          "XAI_API_KEY",
			UsageUnasked: true,
			Paths: paths(api.Chat, api.Completions, api.Embeddings, api.Images, api.Responses, api.Models,
				api.Realtime),
			Options: []provider.Option{openaiBeta},
			// https://docs.x.ai/docs/api-reference
			Drop:   []string{"frequency_penalty", "presence_penalty"},
			Rename: rename{"max_tokens": "max_completion_tokens", "parallel_tool_calls": "parallel_function_calling"},
			Limits: limits{"top_logprobs": {Min: 0, Max: 8}},
			// https://docs.x.ai/docs/guides/reasoning
			Models: modeldata.XAI,
			Profile: dialect.Profile{
				Responses: &dialect.ResponsesProfile{Encrypted: true, ServerTools: true},
				Chat: &dialect.ChatProfile{
					NoTopK: true, Tier: true, ContentParts: true, Models: modeldata.XAI,
				},
			},
			TelemetryName: "x_ai",
			Docs:          "https://docs.x.ai/docs/api-reference",
			Notes: []string{
				"Reasoning tokens are not counted in completion_tokens.",
				"Tool schemas must not contain additionalProperties: false.",
			},
		},
	})
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

// openaiDialects returns the dialects of a model of OpenAI, or of any other
// model that is served by the same protocols.
var openaiDialects = dialectsOf(modeldata.OpenAI)
