package chat

import (
	"strings"

	"modelgate/internal/llm"
)

// stopReason returns the neutral reason for a provider's finish reason.
// Providers pass the finish reasons of the models they serve through in this
// dialect; an unknown one means a normal end.
func stopReason(word string) llm.StopReason {
	if reason, ok := stopReasons[word]; ok {
		return reason
	}
	if reason, ok := stopReasons[strings.ToLower(word)]; ok {
		return reason
	}
	return llm.StopEnd
}

var stopReasons = map[string]llm.StopReason{
	"stop": llm.StopEnd, "end_turn": llm.StopEnd, "eos": llm.StopEnd,
	"stop_sequence":  llm.StopSequence,
	"length":         llm.StopLength,
	"max_tokens":     llm.StopLength,
	"model_length":   llm.StopLength,
	"tool_calls":     llm.StopTool,
	"function_call":  llm.StopTool,
	"tool_use":       llm.StopTool,
	"tool_call":      llm.StopTool,
	"pause_turn":     llm.StopPause,
	"refusal":        llm.StopRefusal,
	"content_filter": llm.StopFilter, "content_filtered": llm.StopFilter, "guardrail_intervened": llm.StopFilter,
	"sensitive": llm.StopFilter, "safety": llm.StopFilter, "blocklist": llm.StopFilter, "prohibited_content": llm.StopFilter,
	"spii": llm.StopFilter, "language": llm.StopFilter, "image_safety": llm.StopFilter,
	"model_context_window_exceeded": llm.StopContext,
}

// exhausted is DeepSeek's finish reason for a response that its servers
// aborted.
// https://api-docs.deepseek.com/api/create-chat-completion
const exhausted = "insufficient_system_resource"

// finishState holds the properties of a response that decide its finish reason.
type finishState struct{ calls, refusal, legacy bool }

// finishReason returns the dialect's finish reason of a choice. A model that
// called tools waits for their results, whatever reason its provider sent. A
// refusal in plain text is a normal end.
func finishReason(stop llm.StopReason, s finishState) string {
	switch stop {
	case llm.StopLength, llm.StopContext:
		return "length"
	case llm.StopFilter:
		return "content_filter"
	case llm.StopRefusal:
		if !s.refusal {
			return "content_filter"
		}
	}
	if stop != llm.StopTool && !s.calls {
		return "stop"
	}
	if s.legacy {
		return "function_call"
	}
	return "tool_calls"
}
