package table

import (
	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/provider"
)

// selfHostedRows returns the servers that users run themselves, and proxies of others:
// rows without an address.
func selfHostedRows() []*provider.Spec {
	return chatRows([]*provider.Spec{
		{
			ID: "litellm-proxy", Name: "LiteLLM proxy", Env: "LITELLM_PROXY_API_KEY",
			Options: reasoningOptions(), Complete: checkReasoning, Profile: dialect.Profile{Chat: thinkingAsSeen},
			Paths: paths(api.Chat, api.Completions, api.Embeddings, api.Images, api.AudioSpeech,
				api.AudioTranscriptions, api.Moderations, api.Rerank, api.Responses, api.Models, api.Files,
				api.Batches, api.FineTuning),
		},
		{
			ID: "llamafile", Name: "llamafile / llama.cpp server", Env: "LLAMAFILE_API_KEY",
			Options: reasoningOptions(), Complete: checkReasoning, Profile: dialect.Profile{Chat: thinkingAsSeen},
			Paths: paths(api.Chat, api.Completions, api.Embeddings, api.Rerank, api.Models),
			Notes: []string{"Also llama.cpp server. Usual address: http://localhost:8080/v1."},
		},
		{
			ID: "lm-studio", Name: "LM Studio", Env: "LM_STUDIO_API_KEY",
			Options: reasoningOptions(), Complete: checkReasoning, Profile: dialect.Profile{Chat: thinkingAsSeen},
			Paths: paths(api.Chat, api.Completions, api.Embeddings, api.Responses, api.Models),
			Notes: []string{"Usual address: http://localhost:1234/v1."},
		},
		{
			ID: "localai", Name: "LocalAI",
			Aliases: []string{"local-ai"},
			Env:     "LOCALAI_API_KEY",
			Options: reasoningOptions(), Complete: checkReasoning, Profile: dialect.Profile{Chat: thinkingAsSeen},
			Paths: paths(api.Chat, api.Completions, api.Embeddings, api.Images, api.AudioSpeech,
				api.AudioTranscriptions, api.Rerank, api.Models),
			Notes: []string{"Usual address: http://localhost:8080/v1."},
		},
		{
			ID: "ollama", Name: "Ollama", Env: "OLLAMA_API_KEY",
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
			ID: "openai-compatible", Name: "Generic OpenAI-compatible host", Env: "OPENAI_API_KEY",
			Options: append(reasoningOptions(), openaiBeta), Complete: checkReasoning, Profile: dialect.Profile{Chat: thinkingAsSeen},
			Paths: paths(api.Chat, api.Completions, api.Embeddings, api.Images, api.AudioSpeech,
				api.AudioTranscriptions, api.Moderations, api.Rerank, api.Responses, api.Models),
			Notes: []string{"For any host that supports the chat protocol; nothing is dropped or renamed."},
		},
		{
			ID: "passthrough",
			Vendors: []provider.Vendor{provider.VendorOpenAI, provider.VendorAnthropic, provider.VendorGoogle, provider.VendorAmazon,
				provider.VendorMicrosoft},
			Name: "Passthrough (no transformation)",
			Paths: paths(api.Chat, api.Completions, api.Embeddings, api.Images, api.Rerank, api.Responses, api.Messages, api.CountTokens,
				api.Models),
			Notes: []string{"For a host of any protocol behind a custom host; bodies are never changed."},
		},
		{
			ID: "sglang", Name: "SGLang", Env: "SGLANG_API_KEY",
			Options: reasoningOptions(), Complete: checkReasoning, Profile: dialect.Profile{Chat: thinkingAsSeen},
			Paths: paths(api.Chat, api.Completions, api.Embeddings, api.Rerank, api.Models),
			Notes: []string{"Usual address: http://localhost:30000/v1."},
		},
		{
			ID: "tgi", Name: "HF Text Generation Inference", Env: "TGI_API_KEY",
			Options: reasoningOptions(), Complete: checkReasoning, Profile: dialect.Profile{Chat: thinkingAsSeen},
			Paths: paths(api.Chat, api.Completions, api.Models),
			Notes: []string{"Usual address: http://localhost:8080/v1. The model name is ignored."},
		},
		{
			ID: "vllm", Name: "vLLM", Env: "VLLM_API_KEY",
			Options: reasoningOptions(), Complete: checkReasoning, Profile: dialect.Profile{Chat: thinkingAsSeen},
			Paths: paths(api.Chat, api.Completions, api.Embeddings, api.AudioTranscriptions, api.Moderations,
				api.Rerank, api.Responses, api.Models),
			Notes: []string{"Usual address: http://localhost:8000/v1."},
		},
	})
}
