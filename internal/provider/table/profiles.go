package table

import (
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/llm"
)

// openaiChat is for all that serve the models of OpenAI as OpenAI does.
var openaiChat = &dialect.ChatProfile{Vendor: true, NoTopK: true, Tier: true, ContentParts: true}

// https://docs.z.ai/api-reference/llm/chat-completion
var zhipuChat = &dialect.ChatProfile{
	History: dialect.ThinkingText, Effort: dialect.EffortSwitch,
	Formats:  []llm.FormatKind{llm.FormatText, llm.FormatJSON},
	Modes:    []llm.ChoiceMode{llm.ChoiceAuto},
	URLParts: mediaParts{llm.Document: "file_url"},
}

// https://www.volcengine.com/docs/82379
var arkChat = &dialect.ChatProfile{History: dialect.ThinkingText, Effort: dialect.EffortThinking, Tier: true}

// mistralEfforts reports whether a model accepts reasoning_effort, which Mistral
// refuses for the others.
func mistralEfforts(model string) bool {
	return strings.HasPrefix(model, "mistral-small") || strings.HasPrefix(model, "mistral-medium")
}

// groqEfforts reports whether a model accepts reasoning_effort.
func groqEfforts(model string) bool {
	return strings.Contains(model, "gpt-oss") || strings.Contains(model, "qwen")
}
