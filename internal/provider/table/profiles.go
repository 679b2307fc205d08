package table

import (
	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/model/catalog"
	"modelgate/internal/model/llm"
	"modelgate/internal/provider"
)

// openaiProfile is for hosts that serve OpenAI's models with OpenAI's API.
var openaiProfile = dialect.Profile{
	Chat:      &dialect.ChatProfile{Vendor: true, NoTopK: true, Tier: true, ContentParts: true},
	Responses: openaiResponses,
}

var openaiResponses = &dialect.ResponsesProfile{Vendor: true, Encrypted: true, ServerTools: true}

// https://docs.z.ai/api-reference/llm/chat-completion
var zhipuChat = &dialect.ChatProfile{
	History: dialect.ThinkingText, Effort: dialect.EffortSwitch,
	Formats:  []llm.FormatKind{llm.FormatText, llm.FormatJSON},
	Modes:    []llm.ChoiceMode{llm.ChoiceAuto},
	URLParts: mediaParts{llm.Document: "file_url"},
}

// https://www.volcengine.com/docs/82379
var arkChat = &dialect.ChatProfile{History: dialect.ThinkingText, Effort: dialect.EffortThinking, Tier: true}

// systemOnly is for providers that reject the role developer. Their references list the
// roles of messages:
//
//   - https://api-docs.deepseek.com/api/create-chat-completion
//   - https://docs.ai21.com/reference/jamba-1-6-api-ref
//   - https://help.aliyun.com/zh/model-studio/use-qwen-by-calling-api
//   - https://docs.z.ai/api-reference/llm/chat-completion
//   - https://www.volcengine.com/docs/82379
//   - https://platform.moonshot.ai/docs/api/chat
//   - https://platform.minimax.io/docs/api-reference/text-openai-api
//   - https://docs.siliconflow.com/en/api-reference/chat-completions/chat-completions
//   - https://docs.sambanova.ai/docs/api-reference
var systemOnly = dialect.TurnRules{SystemOnly: true}

// mistralTurns are the rules of Mistral's hosts.
// https://docs.mistral.ai/api/
// https://github.com/mistralai/mistral-common (validation of requests)
var mistralTurns = dialect.TurnRules{SystemOnly: true, ReplyAfterTool: true, MarkPrefix: true}

// perplexityTurns are the rules of Perplexity.
// https://docs.perplexity.ai/api-reference/chat-completions-post
var perplexityTurns = dialect.TurnRules{SystemOnly: true, Alternate: true}

// thinkingAsSeen is for hosts of models of many vendors, some of which need their
// thinking back with the results of tools, in the member in which they sent it.
//
//   - https://docs.vllm.ai/en/latest/features/reasoning_outputs.html
//   - https://inference-docs.cerebras.ai/capabilities/reasoning
var thinkingAsSeen = &dialect.ChatProfile{History: dialect.ThinkingAsSeen}

// reasoningOptions returns the option of hosts with that profile.
func reasoningOptions() []provider.Option {
	return []provider.Option{{Name: "reasoning", Values: []string{"keep", "drop"},
		Doc: "keep sends the thinking of earlier turns back, drop leaves it out; by default it is sent back with the results of tools to models that were seen to send it"}}
}

// checkReasoning refuses other values of that option.
func checkReasoning(spec *provider.Spec, s *provider.Settings) error {
	if v := s.Option(spec, "reasoning"); v != "" && v != "keep" && v != "drop" {
		return apierr.New(apierr.Invalid, "the option %q of provider %q must be keep or drop", "reasoning", spec.ID).WithParam("reasoning")
	}
	return nil
}

// Versions of the messages API in bodies for the clouds.
const (
	bedrockVersion = "bedrock-2023-05-31"
	vertexVersion  = "vertex-2023-10-16"
)

// https://docs.claude.com/en/api/claude-on-vertex-ai
var vertexMessages = &dialect.MessagesProfile{
	Version: vertexVersion, DataOnly: true, NoFormats: true,
	Tools: []string{"bash_", "text_editor_", "computer_20241022", "web_search_20250305", "memory_", "tool_search_"},
}

// https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-anthropic-claude-messages.html
var bedrockMessages = &dialect.MessagesProfile{
	Version: bedrockVersion, StreamsByPath: true, CountsInvoke: true, NoEagerInput: true, DataOnly: true, NoNewFormats: true, NoParallel: true,
	Tools: []string{"bash_", "text_editor_", "computer_", "memory_", "tool_search_tool_regex_"},
	Betas: []dialect.ToolBeta{
		{Prefix: "computer_20251124", Feature: "computer-use-2025-11-24"},
		{Prefix: "bash_", Feature: "computer-use-2025-01-24"},
		{Prefix: "text_editor_", Feature: "computer-use-2025-01-24"},
		{Prefix: "computer_", Feature: "computer-use-2025-01-24"},
		{Prefix: "tool_search_", Feature: "tool-search-tool-2025-10-19"},
		{Prefix: "memory_", Feature: "context-management-2025-06-27"},
	},
}

// flexTier is for providers with a flex tier, which has the price of their
// batches unless the price book says otherwise.
//
//   - https://platform.openai.com/docs/guides/flex-processing
//   - https://ai.google.dev/gemini-api/docs/flex-inference
//   - https://cloud.google.com/vertex-ai/generative-ai/docs/flex-paygo
//   - https://aws.amazon.com/bedrock/service-tiers/
var flexTier = map[string]catalog.Tier{"flex": catalog.Flex}

// openaiBeta is the option for beta features. A realtime session speaks the protocol of the beta
// only at a provider whose option says so.
var openaiBeta = provider.Option{Name: "beta", Header: "OpenAI-Beta", Doc: "beta features, separated by commas; for the beta of realtime sessions `realtime=v1`"}
