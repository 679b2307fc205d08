package modeldata

// Copilot holds the models that GitHub Copilot serves, by endpoint; its list of
// models names them in supported_endpoints.
var Copilot = NewTable(
	Model{Pattern: "^gpt-*-codex", Dialects: responsesOnly, Source: copilotModels, Read: "2026-11-23"},
	Model{Pattern: "^gpt-3", Dialects: chatOnly, Source: copilotModels, Read: "2026-11-23"},
	Model{Pattern: "^gpt-4", Dialects: chatOnly, Source: copilotModels, Read: "2026-11-23"},
	Model{Pattern: "^gpt-5-1", Dialects: responsesFirst, Source: copilotModels, Read: "2026-11-23"},
	Model{Pattern: "^gpt-5-2", Dialects: responsesFirst, Source: copilotModels, Read: "2026-11-23"},
	Model{Pattern: "^gpt-5-3", Dialects: responsesOnly, Source: copilotModels, Read: "2026-11-23"},
	Model{Pattern: "^gpt-5-mini", Dialects: responsesFirst, Source: copilotModels, Read: "2026-11-23"},
	Model{Pattern: "^gpt-", Dialects: responsesOnly, Source: copilotModels, Read: "2026-11-23"},
	Model{Pattern: "^claude", Dialects: chatOnly, Source: copilotModels, Read: "2026-11-23"},
	Model{Pattern: "^gemini", Dialects: chatOnly, Source: copilotModels, Read: "2026-11-23"},
	Model{Pattern: "^grok", Dialects: chatOnly, Source: copilotModels, Read: "2026-11-23"},
)

const copilotModels = "https://docs.github.com/en/copilot/reference/ai-models/supported-models"
