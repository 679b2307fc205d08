package dialect

import (
	"strings"

	"modelgate/internal/model/llm"
)

// stopReasons maps the finish reasons of all protocols, in lower case. Providers pass those
// of the models that they serve through in their own protocol, so there is one table.
// Sources, by protocol:
//   - chat: https://platform.openai.com/docs/api-reference/chat/object,
//     https://api-docs.deepseek.com/api/create-chat-completion,
//     https://docs.mistral.ai/api, https://docs.bigmodel.cn/cn/api/introduction,
//     https://openrouter.ai/docs/api/reference/overview, https://docs.vllm.ai
//   - messages: https://docs.claude.com/en/api/handling-stop-reasons
//   - gemini: https://ai.google.dev/api/generate-content#FinishReason,
//     https://cloud.google.com/vertex-ai/generative-ai/docs/reference/rest/v1/GenerateContentResponse
//   - converse: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html
//   - Cohere: https://docs.cohere.com/reference/chat
//   - Ollama: https://docs.ollama.com/api
var stopReasons = map[string]llm.StopReason{
	"stop": llm.StopEnd, "end_turn": llm.StopEnd, "eos": llm.StopEnd, "eos_token": llm.StopEnd, "end_of_text": llm.StopEnd,
	"complete": llm.StopEnd, "completed": llm.StopEnd, "done": llm.StopEnd, "finished": llm.StopEnd, "finish": llm.StopEnd,
	"normal": llm.StopEnd, "success": llm.StopEnd, "load": llm.StopEnd, "unload": llm.StopEnd,
	"stop_sequence": llm.StopSequence,
	"length":        llm.StopLength, "max_tokens": llm.StopLength, "model_length": llm.StopLength, "max_output_tokens": llm.StopLength,
	"tool_calls": llm.StopTool, "function_call": llm.StopTool, "tool_use": llm.StopTool, "tool_call": llm.StopTool,
	"pause_turn": llm.StopPause,
	"refusal":    llm.StopRefusal,

	"content_filter": llm.StopFilter, "content_filtered": llm.StopFilter, "guardrail_intervened": llm.StopFilter, "sensitive": llm.StopFilter,
	"safety": llm.StopFilter, "blocklist": llm.StopFilter, "prohibited_content": llm.StopFilter, "spii": llm.StopFilter,
	"language":   llm.StopFilter,
	"recitation": llm.StopFilter, "model_armor": llm.StopFilter, "error_toxic": llm.StopFilter,
	"image_safety": llm.StopFilter, "image_prohibited_content": llm.StopFilter, "image_recitation": llm.StopFilter,

	"model_context_window_exceeded": llm.StopContext, "error_limit": llm.StopContext,

	"error": llm.StopFailed, "timeout": llm.StopFailed, "abort": llm.StopFailed, "aborted": llm.StopFailed, "cancelled": llm.StopFailed,
	"user_cancel":                  llm.StopFailed,
	"insufficient_system_resource": llm.StopFailed, "network_error": llm.StopFailed,
	"malformed_function_call": llm.StopFailed, "unexpected_tool_call": llm.StopFailed, "too_many_tool_calls": llm.StopFailed,
	"malformed_response": llm.StopFailed, "missing_thought_signature": llm.StopFailed,
	"malformed_model_output": llm.StopFailed, "malformed_tool_use": llm.StopFailed,
	"no_image": llm.StopOther, "image_other": llm.StopOther, "other": llm.StopOther, "finish_reason_unspecified": llm.StopOther,
}

// StopReasonOf returns the neutral reason for a provider's finish reason, in any case:
// [llm.StopOther] for an unknown one, and an empty one for none.
func StopReasonOf(said string) llm.StopReason {
	if said == "" {
		return ""
	}
	if reason, ok := stopReasons[said]; ok {
		return reason
	}
	if reason, ok := stopReasons[strings.ToLower(said)]; ok {
		return reason
	}
	return llm.StopOther
}
