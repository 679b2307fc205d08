package modeldata

// DeepSeek holds the models of DeepSeek.
var DeepSeek = NewTable(
	Model{Pattern: "^deepseek-reasoner", Drop: []string{"logprobs", "top_logprobs"}, Source: "https://api-docs.deepseek.com/guides/reasoning_model", Read: "2026-11-23"},
	Model{Pattern: "^deepseek-v2", Source: "https://api-docs.deepseek.com/guides/reasoning_model", Read: "2026-11-23"},
	Model{Pattern: "^deepseek-v3", Source: "https://api-docs.deepseek.com/guides/reasoning_model", Read: "2026-11-23"},
	Model{Pattern: "^deepseek-v#", KeepsThinking: true, Source: "https://api-docs.deepseek.com/guides/thinking_mode", Read: "2026-11-23"},
)

// Groq holds the models that Groq serves.
var Groq = NewTable(
	Model{Pattern: "gpt-oss", Efforts: lowToHigh, Source: "https://console.groq.com/docs/reasoning", Read: "2026-11-23"},
	Model{Pattern: "qwen", Efforts: []string{"none", "default"}, Source: "https://console.groq.com/docs/reasoning", Read: "2026-11-23"},
)

// Mistral holds the models of Mistral that accept an effort; it rejects one for
// the others.
var Mistral = NewTable(
	Model{Pattern: "^mistral-small", Efforts: []string{"none", "high"}, Source: "https://docs.mistral.ai/capabilities/reasoning", Read: "2026-11-23"},
	Model{Pattern: "^mistral-medium", Efforts: []string{"none", "high"}, Source: "https://docs.mistral.ai/capabilities/reasoning", Read: "2026-11-23"},
)

// XAI holds the models of xAI.
var XAI = NewTable(
	Model{Pattern: "^grok-2", Source: "https://docs.x.ai/docs/guides/reasoning", Read: "2026-11-23"},
	Model{Pattern: "^grok-3-mini", Drop: []string{"stop"}, Source: "https://docs.x.ai/docs/guides/reasoning", Read: "2026-11-23"},
	Model{Pattern: "^grok-3", Source: "https://docs.x.ai/docs/guides/reasoning", Read: "2026-11-23"},
	Model{Pattern: "^grok-", Drop: []string{"stop"}, Source: "https://docs.x.ai/docs/guides/reasoning", Read: "2026-11-23"},
)

// Vertex holds the publishers of models whose name Vertex AI does not begin
// with one. Models of Google have none.
var Vertex = NewTable(
	Model{Pattern: "^claude", Publisher: "anthropic", Source: "https://cloud.google.com/vertex-ai/generative-ai/docs/partner-models/claude", Read: "2026-11-23"},
	Model{Pattern: "^mistral", Publisher: "mistralai", Source: "https://cloud.google.com/vertex-ai/generative-ai/docs/partner-models/mistral", Read: "2026-11-23"},
	Model{Pattern: "^codestral", Publisher: "mistralai", Source: "https://cloud.google.com/vertex-ai/generative-ai/docs/partner-models/mistral", Read: "2026-11-23"},
)
