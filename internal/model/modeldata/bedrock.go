package modeldata

// Pages of Amazon Bedrock.
const (
	bedrockClaude     = "https://docs.aws.amazon.com/bedrock/latest/userguide/claude-messages-extended-thinking.html"
	bedrockFeatures   = "https://docs.aws.amazon.com/bedrock/latest/userguide/conversation-inference-supported-models-features.html"
	bedrockNova       = "https://docs.aws.amazon.com/nova/latest/nova2-userguide/extended-thinking.html"
	bedrockNovaV1     = "https://docs.aws.amazon.com/nova/latest/userguide/what-is-nova.html"
	bedrockTitanText  = "https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-titan-text.html"
	bedrockTitanEmbed = "https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-titan-embed-text.html"
	bedrockImages     = "https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-titan-image.html"
	bedrockStability  = "https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-stability-diffusion.html"
	bedrockCohere     = "https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-embed.html"
	bedrockRerank     = "https://docs.aws.amazon.com/bedrock/latest/userguide/rerank-supported.html"
	bedrockStructured = "https://docs.aws.amazon.com/bedrock/latest/userguide/structured-output.html"
	bedrockParameters = "https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters.html"
)

// Bedrock holds the models of Amazon Bedrock. Names begin with the vendor,
// without the region of an inference profile.
var Bedrock = NewTable(
	// Embeddings, images and ranking.
	Model{Pattern: "^amazon-titan-embed-text-v1", Method: MethodTitanText, Source: bedrockTitanEmbed, Read: "2026-11-23"},
	Model{Pattern: "^amazon-titan-embed-text", Method: MethodTitanText2, Source: bedrockTitanEmbed, Read: "2026-11-23"},
	Model{Pattern: "^amazon-titan-embed-g1", Method: MethodTitanText, Source: bedrockTitanEmbed, Read: "2026-11-23"},
	Model{Pattern: "^amazon-titan-embed-image", Method: MethodTitanMedia, Source: bedrockTitanEmbed, Read: "2026-11-23"},
	Model{Pattern: "^amazon-nova*embed", Method: MethodNovaEmbed, Source: bedrockNova, Read: "2026-11-23"},
	Model{Pattern: "^amazon-nova*embeddings", Method: MethodNovaEmbed, Source: bedrockNova, Read: "2026-11-23"},
	Model{Pattern: "^cohere-embed-english", Method: MethodCohereEmbed, Source: bedrockCohere, Read: "2026-11-23"},
	Model{Pattern: "^cohere-embed-multilingual", Method: MethodCohereEmbed, Source: bedrockCohere, Read: "2026-11-23"},
	Model{Pattern: "^cohere-*embed", Method: MethodCohereEmbed4, Source: bedrockCohere, Read: "2026-11-23"},
	Model{Pattern: "^amazon-titan-image", Method: MethodTitanImage, Source: bedrockImages, Read: "2026-11-23"},
	Model{Pattern: "^amazon-nova-canvas", Method: MethodNovaImage, Source: bedrockImages, Read: "2026-11-23"},
	Model{Pattern: "^stability-stable-diffusion-xl", Method: MethodDiffusion, Source: bedrockStability, Read: "2026-11-23"},
	Model{Pattern: "^stability-", Method: MethodStability, Source: bedrockStability, Read: "2026-11-23"},
	Model{Pattern: "rerank", Method: MethodRerank, Source: bedrockRerank, Read: "2026-11-23"},

	// Claude. Output formats and strict tools are rejected for most families
	// whose own API supports them.
	Model{Pattern: "^anthropic-claude-3-7", Thinking: BudgetThinking, NamedTool: true, Source: bedrockClaude, Read: "2026-11-23"},
	Model{Pattern: "^anthropic-claude-3", NamedTool: true, Source: bedrockFeatures, Read: "2026-11-23"},
	Model{Pattern: "^anthropic-claude-v2", Source: bedrockFeatures, Read: "2026-11-23"},
	Model{Pattern: "^anthropic-claude-2", Source: bedrockFeatures, Read: "2026-11-23"},
	Model{Pattern: "^anthropic-claude-instant", Source: bedrockFeatures, Read: "2026-11-23"},
	Model{Pattern: "^anthropic-*opus-4-1", Thinking: BudgetThinking, NamedTool: true, Source: bedrockClaude, Read: "2026-11-23"},
	Model{Pattern: "^anthropic-*-4-20250514", Thinking: BudgetThinking, NamedTool: true, Source: bedrockClaude, Read: "2026-11-23"},
	Model{Pattern: "^anthropic-*-4-0", Thinking: BudgetThinking, NamedTool: true, Source: bedrockClaude, Read: "2026-11-23"},
	Model{Pattern: "^anthropic-*opus-4-5", Thinking: BudgetThinking, Efforts: lowToHigh, Structured: true, NamedTool: true,
		Source: bedrockClaude, Read: "2026-11-23"},
	Model{Pattern: "^anthropic-*-4-5", Thinking: BudgetThinking, Structured: true, NamedTool: true, Source: bedrockClaude, Read: "2026-11-23"},
	Model{Pattern: "^anthropic-*-4-6", Thinking: AnyThinking, Efforts: claudeEfforts, Structured: true, NamedTool: true, Source: bedrockClaude,
		Read: "2026-11-23"},
	Model{Pattern: "^anthropic-", Thinking: AdaptiveThinking, Efforts: claudeXHigh, NoSampling: true, NamedTool: true, Source: bedrockClaude,
		Read: "2026-11-23"},

	// Models of Amazon.
	Model{Pattern: "^amazon-nova*omni", Efforts: lowToHigh, NamedTool: true, Audio: true, Source: bedrockNova, Read: "2026-11-23"},
	Model{Pattern: "^amazon-nova*sonic", NamedTool: true, Audio: true, Source: bedrockFeatures, Read: "2026-11-23"},
	Model{Pattern: "^amazon-nova-#", Efforts: lowToHigh, NamedTool: true, Source: bedrockNova, Read: "2026-11-23"},
	Model{Pattern: "^amazon-nova-*-#", Efforts: lowToHigh, NamedTool: true, Source: bedrockNova, Read: "2026-11-23"},
	Model{Pattern: "^amazon-nova", MaxOutput: 10000, NamedTool: true, Source: bedrockNovaV1, Read: "2026-11-23"},
	Model{Pattern: "^amazon-titan-text-lite", MaxOutput: 4096, NoSystem: true, Source: bedrockTitanText, Read: "2026-11-28"},
	Model{Pattern: "^amazon-titan-text-express", MaxOutput: 8192, NoSystem: true, Source: bedrockTitanText, Read: "2026-11-28"},
	Model{Pattern: "^amazon-titan-text-premier", MaxOutput: 3072, NoSystem: true, Source: bedrockTitanText, Read: "2026-11-28"},
	Model{Pattern: "^amazon-titan-text", NoSystem: true, Source: bedrockFeatures, Read: "2026-11-23"},

	// Models of others.
	Model{Pattern: "^mistral-mistral-7b", NoSystem: true, Source: bedrockFeatures, Read: "2026-11-23"},
	Model{Pattern: "^mistral-*mixtral", NoSystem: true, Source: bedrockFeatures, Read: "2026-11-23"},
	Model{Pattern: "^mistral-*large-#", ForcedTool: true, Structured: true, Source: bedrockStructured, Read: "2026-11-23"},
	Model{Pattern: "^mistral-*large", ForcedTool: true, Source: bedrockFeatures, Read: "2026-11-23"},
	Model{Pattern: "^mistral-*ministral", Structured: true, Source: bedrockStructured, Read: "2026-11-23"},
	Model{Pattern: "^mistral-*magistral", Structured: true, Source: bedrockStructured, Read: "2026-11-23"},
	Model{Pattern: "^mistral-*voxtral", Structured: true, Audio: true, Source: bedrockStructured, Read: "2026-11-23"},
	Model{Pattern: "^openai-", Efforts: lowToHigh, Structured: true, Source: bedrockStructured, Read: "2026-11-23"},
	Model{Pattern: "^qwen-", Efforts: lowToHigh, Structured: true, Source: bedrockStructured, Read: "2026-11-23"},
	Model{Pattern: "^deepseek-r1", Source: bedrockStructured, Read: "2026-11-23"},
	Model{Pattern: "^ai21-j2", OldPenalties: true, Source: bedrockParameters, Read: "2026-11-23"},
	Model{Pattern: "^amazon-", Source: bedrockStructured, Read: "2026-11-23"},
	Model{Pattern: "^meta-", Source: bedrockStructured, Read: "2026-11-23"},
	Model{Pattern: "^mistral-", Source: bedrockStructured, Read: "2026-11-23"},
	Model{Pattern: "^cohere-", Source: bedrockStructured, Read: "2026-11-23"},
	Model{Pattern: "^ai21-", Source: bedrockStructured, Read: "2026-11-23"},
	Model{Pattern: "^writer-", Source: bedrockStructured, Read: "2026-11-23"},
	Model{Pattern: "^twelvelabs-", Source: bedrockStructured, Read: "2026-11-23"},
	Model{Pattern: "^luma-", Source: bedrockStructured, Read: "2026-11-23"},
	Model{Pattern: "*", Structured: true, Source: bedrockStructured, Read: "2026-11-23"},
)
