package modeldata

// DeepSeek holds the models of DeepSeek.
var DeepSeek = NewTable(
	Model{Pattern: "^deepseek-reasoner", Drop: []string{"logprobs", "top_logprobs"},
		Source: "https://api-docs.deepseek.com/guides/reasoning_model", Read: "2026-11-23"},
	Model{Pattern: "^deepseek-v2", Source: "https://api-docs.deepseek.com/guides/reasoning_model", Read: "2026-11-23"},
	Model{Pattern: "^deepseek-v3", Source: "https://api-docs.deepseek.com/guides/reasoning_model", Read: "2026-11-23"},
	Model{Pattern: "^deepseek-v#", KeepsThinking: true, Source: "https://api-docs.deepseek.com/guides/thinking_mode", Read: "2026-11-23"},
)

// Groq holds the models that Groq serves. It rejects an effort for those that are not
// listed.
var Groq = NewTable(
	Model{Pattern: "gpt-oss", Efforts: lowToHigh, Source: "https://console.groq.com/docs/reasoning", Read: "2026-11-23"},
	Model{Pattern: "qwen", Efforts: []string{"none", "default"}, Source: "https://console.groq.com/docs/reasoning", Read: "2026-11-23"},
	Model{Pattern: "*", NoEffort: true, Source: "https://console.groq.com/docs/reasoning", Read: "2026-11-23"},
)

// Mistral holds the models of Mistral. It rejects an effort for those that are not
// listed.
var Mistral = NewTable(
	Model{Pattern: "^mistral-small", Efforts: []string{"none", "high"}, Source: "https://docs.mistral.ai/capabilities/reasoning",
		Read: "2026-11-23"},
	Model{Pattern: "^mistral-medium", Efforts: []string{"none", "high"}, Source: "https://docs.mistral.ai/capabilities/reasoning",
		Read: "2026-11-23"},
	Model{Pattern: "*", NoEffort: true, Source: "https://docs.mistral.ai/capabilities/reasoning", Read: "2026-11-23"},
)

// XAI holds the models of xAI, most of which decide themselves how much to think.
var XAI = NewTable(
	Model{Pattern: "^grok-2", NoEffort: true, Source: xaiReasoning, Read: "2026-11-28"},
	Model{Pattern: "^grok-3-mini", Efforts: []string{"low", "high"}, Drop: []string{"stop"}, Source: xaiReasoning, Read: "2026-11-28"},
	Model{Pattern: "^grok-3", NoEffort: true, Source: xaiReasoning, Read: "2026-11-28"},
	Model{Pattern: "^grok-4-fast", NoEffort: true, Drop: []string{"stop"}, Source: xaiReasoning, Read: "2026-11-28"},
	Model{Pattern: "^grok-4-1", NoEffort: true, Drop: []string{"stop"}, Source: xaiReasoning, Read: "2026-11-28"},
	Model{Pattern: "^grok-4-20*multi-agent", Efforts: lowToXHigh, Drop: []string{"stop"}, Source: xaiReasoning, Read: "2026-11-28"},
	Model{Pattern: "^grok-4-20", NoEffort: true, Drop: []string{"stop"}, Source: xaiReasoning, Read: "2026-11-28"},
	Model{Pattern: "^grok-4-0709", NoEffort: true, Drop: []string{"stop"}, Source: xaiReasoning, Read: "2026-11-28"},
	Model{Pattern: "^grok-4-3", Efforts: []string{"none", "low", "medium", "high"}, Drop: []string{"stop"}, Source: xaiReasoning,
		Read: "2026-11-28"},
	Model{Pattern: "^grok-4-5", Efforts: lowToHigh, Drop: []string{"stop"}, Source: xaiReasoning, Read: "2026-11-28"},
	Model{Pattern: "^grok-4-6", Efforts: lowToXHigh, Drop: []string{"stop"}, Source: xaiReasoning, Read: "2026-11-28"},
	Model{Pattern: "^grok-4-#", Efforts: lowToXHigh, Drop: []string{"stop"}, Source: xaiReasoning, Read: "2026-11-28"},
	Model{Pattern: "^grok-4", Efforts: []string{"none", "low", "medium", "high"}, Drop: []string{"stop"}, Source: xaiReasoning,
		Read: "2026-11-28"},
	Model{Pattern: "^grok-code", NoEffort: true, Drop: []string{"stop"}, Source: xaiReasoning, Read: "2026-11-28"},
	Model{Pattern: "^grok-build", NoEffort: true, Drop: []string{"stop"}, Source: xaiReasoning, Read: "2026-11-28"},
	Model{Pattern: "^grok-composer", NoEffort: true, Drop: []string{"stop"}, Source: xaiReasoning, Read: "2026-11-28"},
	Model{Pattern: "^grok-", Efforts: lowToXHigh, Drop: []string{"stop"}, Source: xaiReasoning, Read: "2026-11-28"},
)

const xaiReasoning = "https://docs.x.ai/developers/model-capabilities/text/reasoning"

// Vertex holds the publishers of models whose name Vertex AI does not begin
// with one. Models of Google have none.
var Vertex = NewTable(
	Model{Pattern: "^claude", Publisher: "anthropic", Source: "https://cloud.google.com/vertex-ai/generative-ai/docs/partner-models/claude",
		Read: "2026-11-23"},
	Model{Pattern: "^mistral", Publisher: "mistralai", Source: "https://cloud.google.com/vertex-ai/generative-ai/docs/partner-models/mistral",
		Read: "2026-11-23"},
	Model{Pattern: "^codestral", Publisher: "mistralai",
		Source: "https://cloud.google.com/vertex-ai/generative-ai/docs/partner-models/mistral", Read: "2026-11-23"},
)
