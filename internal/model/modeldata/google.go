package modeldata

// Levels of thinking that models of Google accept.
var (
	geminiLevels  = []string{"low", "medium", "high"}
	geminiMinimal = []string{"minimal", "low", "medium", "high"}
)

// Pages of Google.
const (
	geminiThinking   = "https://ai.google.dev/gemini-api/docs/thinking"
	geminiModels     = "https://ai.google.dev/gemini-api/docs/models"
	geminiGemma      = "https://ai.google.dev/gemma/docs/core/gemma_on_gemini_api"
	vertexEmbeddings = "https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/text-embeddings-api"
	vertexImages     = "https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/imagen-api"
)

// Google holds the models of Google, at Google and at Vertex AI.
var Google = NewTable(
	Model{Pattern: "^gemini-embedding-001", OneInput: true, Source: vertexEmbeddings, Read: "2026-11-23"},
	Model{Pattern: "^gemini-embedding", Method: MethodEmbedContent, OneInput: true, Source: vertexEmbeddings, Read: "2026-11-23"},
	Model{Pattern: "^imagen", Method: MethodPredict, Source: vertexImages, Read: "2026-11-23"},
	Model{Pattern: "^gemma", NoSystem: true, NoJSONSchema: true, Source: geminiGemma, Read: "2026-11-23"},
	Model{Pattern: "^gemini-1", MaxOutput: 8192, NoJSONSchema: true, Source: geminiModels, Read: "2026-11-23"},
	Model{Pattern: "^gemini-pro-vision", NoJSONSchema: true, Source: geminiModels, Read: "2026-11-23"},
	Model{Pattern: "^gemini-2-5*pro", MaxOutput: 65536, Thinking: BudgetThinking, AlwaysThinks: true, MinBudget: 128, MaxBudget: 32768,
		Source: geminiThinking, Read: "2026-11-23"},
	Model{Pattern: "^gemini-2-5*flash-lite", MaxOutput: 65536, Thinking: BudgetThinking, MinBudget: 512, MaxBudget: 24576,
		Source: geminiThinking, Read: "2026-11-23"},
	Model{Pattern: "^gemini-2-5", MaxOutput: 65536, Thinking: BudgetThinking, MinBudget: 1, MaxBudget: 24576, Source: geminiThinking,
		Read: "2026-11-23"},
	Model{Pattern: "^gemini-2-0-flash-thinking", Source: geminiModels, Read: "2026-11-28"},
	Model{Pattern: "^gemini-2-0-flash", MaxOutput: 8192, Source: geminiModels, Read: "2026-11-28"},
	Model{Pattern: "^gemini-2", Source: geminiModels, Read: "2026-11-23"},
	Model{Pattern: "^gemini-*pro-image", Thinking: BudgetThinking, AlwaysThinks: true, MinBudget: 128, MaxBudget: 32768, SignedCalls: true,
		MixedTools: true, Source: geminiThinking, Read: "2026-11-23"},
	Model{Pattern: "^gemini-*flash-lite", Efforts: geminiMinimal, SignedCalls: true, MixedTools: true, Source: geminiThinking,
		Read: "2026-11-23"},
	Model{Pattern: "^gemini-*flash", Efforts: geminiMinimal, SignedCalls: true, MixedTools: true, Source: geminiThinking, Read: "2026-11-23"},
	Model{Pattern: "^gemini-", Efforts: geminiLevels, SignedCalls: true, MixedTools: true, Source: geminiThinking, Read: "2026-11-23"},
)
