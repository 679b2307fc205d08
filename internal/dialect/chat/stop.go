package chat

import "modelgate/internal/model/llm"

// finishState holds the properties of a response that decide its finish reason.
type finishState struct{ calls, refusal, legacy bool }

// finishReason returns the dialect's finish reason of a choice. A model that
// called tools waits for their results, whatever reason its provider sent. A
// refusal in plain text is a normal end.
func finishReason(stop llm.StopReason, s finishState) string {
	switch stop {
	case llm.StopLength, llm.StopContext, llm.StopOther:
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
