package table

import (
	"modelgate/api"
	"modelgate/internal/provider"
)

// openAILikeRows returns the providers that are like OpenAI, by address and credential.
func openAILikeRows() []*provider.Spec {
	return chatRows([]*provider.Spec{
		{ID: "302ai", Name: "302.AI", BaseURL: "https://api.302.ai/v1", Env: "AI302_API_KEY", Paths: paths(api.Chat)},
		{ID: "aibadgr", Name: "AI Badgr", BaseURL: "https://aibadgr.com/api/v1", Env: "AIBADGR_API_KEY", Paths: paths(api.Chat)},
		{
			ID: "aihubmix", Name: "AIHubMix", BaseURL: "https://aihubmix.com/v1", Env: "AIHUBMIX_API_KEY",
			Paths: paths(api.Chat, api.Completions, api.Embeddings, api.Images, api.AudioSpeech, api.Models),
		},
		{
			ID: "anyscale", Name: "Anyscale", BaseURL: "https://api.endpoints.anyscale.com/v1", Env: "ANYSCALE_API_KEY",
			Paths: paths(api.Chat, api.Completions, api.Embeddings),
			Notes: []string{"The public endpoints were closed in 2024; use a custom host."},
		},
		{
			ID: "assemblyai", Name: "AssemblyAI LLM Gateway", BaseURL: "https://llm-gateway.assemblyai.com/v1", Env: "ASSEMBLYAI_API_KEY",
			Paths: paths(api.Chat),
			Notes: []string{"The LLM gateway, not the transcription API."},
		},
		{
			ID: "baseten", Name: "Baseten Model APIs", BaseURL: "https://inference.baseten.co/v1", Env: "BASETEN_API_KEY",
			Paths: paths(api.Chat, api.Models),
			Notes: []string{"Dedicated deployments have their own hosts and the scheme Api-Key."},
		},
		{
			ID: "chutes", Name: "Chutes", BaseURL: "https://llm.chutes.ai/v1", Env: "CHUTES_API_KEY",
			Paths:  paths(api.Chat, api.Completions, api.Models),
			Rename: maxTokens,
		},
		{
			ID: "cometapi", Name: "CometAPI", BaseURL: "https://api.cometapi.com/v1", Env: "COMETAPI_KEY",
			Paths: paths(api.Chat, api.Embeddings, api.Models),
		},
		{
			ID: "crusoe", Name: "Crusoe", BaseURL: "https://managed-inference-api-proxy.crusoecloud.com/v1", Env: "CRUSOE_API_KEY",
			Paths:  paths(api.Chat, api.Models),
			Rename: maxTokens,
			Notes:  []string{"Also available at https://api.inference.crusoecloud.com/v1."},
		},
		{
			ID: "deepinfra", Name: "DeepInfra", BaseURL: "https://api.deepinfra.com/v1/openai", Env: "DEEPINFRA_API_KEY",
			Paths: paths(api.Chat, api.Completions, api.Embeddings, api.Images, api.Models),
			Notes: []string{"n must be 1. Errors have the form {\"detail\": …}."},
		},
		{
			ID: "digitalocean", Name: "DigitalOcean Inference", BaseURL: "https://inference.do-ai.run/v1", Env: "DIGITALOCEAN_INFERENCE_KEY",
			Paths: paths(api.Chat, api.Images, api.Models),
		},
		{
			ID: "featherless-ai", Name: "Featherless AI", BaseURL: "https://api.featherless.ai/v1", Env: "FEATHERLESS_API_KEY",
			Paths: paths(api.Chat, api.Completions, api.Models),
		},
		{
			ID: "friendli", Name: "FriendliAI", BaseURL: "https://api.friendli.ai/serverless/v1", Env: "FRIENDLI_TOKEN",
			Paths: paths(api.Chat, api.Completions, api.Models),
			Notes: []string{"Dedicated endpoints: https://api.friendli.ai/dedicated/v1 as custom host."},
		},
		{ID: "galadriel", Name: "Galadriel", BaseURL: "https://api.galadriel.com/v1", Env: "GALADRIEL_API_KEY", Paths: paths(api.Chat)},
		{ID: "gmi", Name: "GMI Cloud", BaseURL: "https://api.gmi-serving.com/v1", Env: "GMI_API_KEY", Paths: paths(api.Chat, api.Models)},
		{
			ID: "helicone", Name: "Helicone AI Gateway", BaseURL: "https://ai-gateway.helicone.ai", Env: "HELICONE_API_KEY",
			Paths: paths(api.Chat, api.Models),
		},
		{
			ID: "hyperbolic", Name: "Hyperbolic", BaseURL: "https://api.hyperbolic.xyz/v1", Env: "HYPERBOLIC_API_KEY",
			Paths: paths(api.Chat, api.Completions, api.Models),
			Notes: []string{"Images and speech have their own formats."},
		},
		{
			ID: "inception", Name: "Inception Labs", BaseURL: "https://api.inceptionlabs.ai/v1", Env: "INCEPTION_API_KEY",
			Paths: paths(api.Chat, api.Models),
			Notes: []string{"With diffusing: true, chunks of a stream replace the text instead of adding to it."},
		},
		{
			ID: "inference-net", Name: "Inference.net", BaseURL: "https://api.inference.net/v1", Env: "INFERENCE_API_KEY",
			Paths: paths(api.Chat, api.Completions, api.Models),
		},
		{
			ID: "iointelligence", Name: "IO Intelligence",
			BaseURL: "https://api.intelligence.io.solutions/api/v1",
			Env:     "IOINTELLIGENCE_API_KEY",
			Paths:   paths(api.Chat, api.Embeddings, api.Models),
		},
		{
			ID: "jina", Name: "Jina AI",
			Aliases: []string{"jina-ai"},
			BaseURL: "https://api.jina.ai/v1",
			Env:     "JINA_API_KEY",
			Paths:   paths(api.Embeddings, api.Rerank),
			// https://jina.ai/embeddings/
			Rename: rename{"encoding_format": "embedding_type"},
			Notes:  []string{"Inputs may be objects with a text or an image."},
		},
		{
			ID: "kluster-ai", Name: "kluster.ai", BaseURL: "https://api.kluster.ai/v1", Env: "KLUSTER_API_KEY",
			Paths: paths(api.Chat, api.Embeddings, api.Models, api.Files, api.Batches),
		},
		{
			ID: "krutrim", Name: "Ola Krutrim", BaseURL: "https://cloud.olakrutrim.com/v1", Env: "KRUTRIM_API_KEY",
			Paths: paths(api.Chat),
			Notes: []string{"Errors may be HTML or plain text."},
		},
		{
			ID: "lambda", Name: "Lambda", BaseURL: "https://api.lambdalabs.com/v1", Env: "LAMBDA_API_KEY",
			Paths: paths(api.Chat, api.Completions, api.Models),
			Notes: []string{"Current host: https://api.lambda.ai/v1 as custom host."},
		},
		{
			ID: "lemonfox-ai", Name: "Lemonfox AI", BaseURL: "https://api.lemonfox.ai/v1", Env: "LEMONFOX_API_KEY",
			Paths: paths(api.Chat, api.Images, api.AudioTranscriptions),
			Notes: []string{"At most 8 images in one request."},
		},
		{
			ID: "lepton", Name: "Lepton AI", BaseURL: "https://api.lepton.ai/api/v1", Env: "LEPTON_API_KEY",
			Paths: paths(api.Chat, api.Completions, api.AudioTranscriptions),
			Notes: []string{"Taken over by NVIDIA; models had their own hosts: https://{model}.lepton.run/api/v1."},
		},
		{
			ID: "lightning-ai", Name: "Lightning AI", BaseURL: "https://lightning.ai/api/v1", Env: "LIGHTNING_API_KEY",
			Paths: paths(api.Chat, api.Models),
			Notes: []string{"The address comes from release notes and was not verified."},
		},
		{ID: "matterai", Name: "MatterAI", BaseURL: "https://api.matterai.so/v1", Env: "MATTERAI_API_KEY", Paths: paths(api.Chat)},
		{
			ID: "meta-llama", Name: "Meta Llama API", BaseURL: "https://api.llama.com/compat/v1", Env: "LLAMA_API_KEY",
			Paths: paths(api.Chat, api.Models),
		},
		{
			ID: "modal", Name: "Modal", BaseURL: "https://api.modal.com/v1", Env: "MODAL_API_KEY",
			Paths: paths(api.Chat, api.Completions, api.Embeddings),
			Notes: []string{"A deployment has its own host: set it as custom host. Modal-Key and Modal-Secret may be forwarded instead of a key."},
		},
		{
			ID: "morph", Name: "Morph", BaseURL: "https://api.morphllm.com/v1", Env: "MORPH_API_KEY",
			Paths: paths(api.Chat, api.Embeddings, api.Rerank),
		},
		{
			ID: "nano-gpt", Name: "NanoGPT", BaseURL: "https://nano-gpt.com/api/v1", Env: "NANOGPT_API_KEY",
			Paths:  paths(api.Chat, api.Images, api.Models),
			Rename: maxTokens,
		},
		{ID: "ncompass", Name: "nCompass", BaseURL: "https://api.ncompass.tech/v1", Env: "NCOMPASS_API_KEY", Paths: paths(api.Chat)},
		{
			ID: "nebius", Name: "Nebius AI Studio", BaseURL: "https://api.studio.nebius.ai/v1", Env: "NEBIUS_API_KEY",
			Paths: paths(api.Chat, api.Completions, api.Embeddings, api.Images, api.Models),
			Notes: []string{"Current host: https://api.tokenfactory.nebius.com/v1 as custom host."},
		},
		{
			ID: "nextbit", Name: "NextBit", BaseURL: "https://api.nextbit256.com/v1", Env: "NEXTBIT_API_KEY",
			Paths: paths(api.Chat, api.Completions),
		},
		{
			ID: "novita-ai", Name: "Novita AI",
			Aliases: []string{"novita"},
			BaseURL: "https://api.novita.ai/v3/openai",
			Env:     "NOVITA_API_KEY",
			Paths:   paths(api.Chat, api.Completions, api.Embeddings, api.Models),
		},
		{
			ID: "nscale", Name: "Nscale", BaseURL: "https://inference.api.nscale.com/v1", Env: "NSCALE_API_KEY",
			Paths: paths(api.Chat, api.Images, api.Models),
		},
		{
			ID: "nvidia-nim", Name: "NVIDIA NIM", BaseURL: "https://integrate.api.nvidia.com/v1", Env: "NVIDIA_API_KEY",
			Paths: paths(api.Chat, api.Completions, api.Embeddings, api.Models),
			Notes: []string{"Embeddings need input_type query or passage. Reranking is on another host."},
		},
		{
			ID: "ovhcloud", Name: "OVHcloud AI Endpoints",
			BaseURL: "https://oai.endpoints.kepler.ai.cloud.ovh.net/v1",
			Env:     "OVH_AI_ENDPOINTS_ACCESS_TOKEN",
			Paths:   paths(api.Chat, api.Completions, api.Embeddings),
		},
		{
			ID: "parasail", Name: "Parasail", BaseURL: "https://api.parasail.io/v1", Env: "PARASAIL_API_KEY",
			Paths: paths(api.Chat, api.Embeddings, api.Models),
		},
		{
			ID: "poe", Name: "Poe", BaseURL: "https://api.poe.com/v1", Env: "POE_API_KEY",
			Paths:  paths(api.Chat, api.Responses, api.Models),
			Rename: maxTokens,
		},
		{
			ID: "publicai", Name: "PublicAI", BaseURL: "https://api.publicai.co/v1", Env: "PUBLICAI_API_KEY",
			Paths:  paths(api.Chat, api.Models),
			Rename: maxTokens,
			Notes:  []string{"Message content must be a string, not a list of parts."},
		},
		{ID: "recraft-ai", Name: "Recraft", BaseURL: "https://external.api.recraft.ai/v1", Env: "RECRAFT_API_KEY", Paths: paths(api.Images)},
		{
			ID: "reka-ai", Name: "Reka AI", BaseURL: "https://api.reka.ai/v1", Env: "REKA_API_KEY",
			Paths: paths(api.Chat, api.Responses, api.Messages, api.Models),
			Docs:  "https://docs.reka.ai/chat/api-reference",
			Notes: []string{"The older protocol at /chat is reached by pass-through."},
		},
		{
			ID: "sarvam", Name: "Sarvam AI", BaseURL: "https://api.sarvam.ai/v1",
			Auth: provider.Header("api-subscription-key"), Env: "SARVAM_API_KEY",
			Paths:  paths(api.Chat),
			Rename: maxTokens,
			Notes:  []string{"Bearer is accepted as well."},
		},
		{
			ID: "scaleway", Name: "Scaleway Generative APIs", BaseURL: "https://api.scaleway.ai/v1", Env: "SCW_SECRET_KEY",
			Paths: paths(api.Chat, api.Embeddings, api.AudioTranscriptions, api.Models),
		},
		{
			ID: "synthetic", Name: "Synthetic", BaseURL: "https://api.synthetic.new/openai/v1", Env: "SYNTHETIC_API_KEY",
			Paths:  paths(api.Chat, api.Completions, api.Embeddings, api.Models),
			Rename: maxTokens,
		},
		{
			ID: "tetrate", Name: "Tetrate Agent Router", BaseURL: "https://api.router.tetrate.ai/v1", Env: "TETRATE_API_KEY",
			Paths: paths(api.Chat, api.Embeddings, api.Models),
		},
		{
			ID: "together-ai", Name: "Together AI",
			Aliases:      []string{"together"},
			BaseURL:      "https://api.together.xyz/v1",
			Env:          "TOGETHER_API_KEY",
			UsageUnasked: true,
			Paths: paths(api.Chat, api.Completions, api.Embeddings, api.Images, api.AudioSpeech,
				api.AudioTranscriptions, api.Rerank, api.Models),
			Docs: "https://docs.together.ai/reference",
			Notes: []string{
				"finish_reason may be eos.",
				"Images take width and height instead of size.",
			},
		},
		{
			ID: "upstage", Name: "Upstage", BaseURL: "https://api.upstage.ai/v1/solar", Env: "UPSTAGE_API_KEY",
			Paths: paths(api.Chat, api.Embeddings),
			Notes: []string{"The same API is also available at https://api.upstage.ai/v1."},
		},
		{
			ID: "venice", Name: "Venice AI", BaseURL: "https://api.venice.ai/api/v1", Env: "VENICE_AI_API_KEY",
			Paths: paths(api.Chat, api.Embeddings, api.Images, api.AudioSpeech, api.Models),
		},
		{
			ID: "vercel-ai-gateway", Name: "Vercel AI Gateway", BaseURL: "https://ai-gateway.vercel.sh/v1", Env: "AI_GATEWAY_API_KEY",
			Paths: paths(api.Chat, api.Embeddings, api.Models),
			Notes: []string{"Models are named creator/name."},
		},
		{
			ID: "writer", Name: "Writer", BaseURL: "https://api.writer.com/v1", Env: "WRITER_API_KEY",
			Paths: join(nativePaths{api.Chat: "/chat"}, paths(api.Completions, api.Models)),
			Notes: []string{"Chunks of a stream have the message so far in addition to the delta."},
		},
	})
}

// chatRows completes rows of providers that are like OpenAI: conversations are in the
// chat dialect and, unless a row says otherwise, the key is sent as Bearer.
func chatRows(rows []*provider.Spec) []*provider.Spec {
	for _, row := range rows {
		row.Dialect = api.DialectChat
		if row.Auth.Header == "" {
			row.Auth = provider.Bearer()
		}
	}
	return rows
}
