package gemini

import (
	"modelgate/internal/dialect"
	"modelgate/internal/model/llm"
)

// stops are the finish reasons of the dialect.
// https://ai.google.dev/api/generate-content#FinishReason
var stops = map[string]bool{
	"STOP": true, "FINISH_REASON_UNSPECIFIED": true, "OTHER": true, "MAX_TOKENS": true,
	"MALFORMED_FUNCTION_CALL": true, "UNEXPECTED_TOOL_CALL": true, "TOO_MANY_TOOL_CALLS": true, "MALFORMED_RESPONSE": true,
	"MISSING_THOUGHT_SIGNATURE": true,
	"SAFETY":                    true, "RECITATION": true, "BLOCKLIST": true, "PROHIBITED_CONTENT": true, "SPII": true, "LANGUAGE": true,
	"MODEL_ARMOR": true,
	"NO_IMAGE":    true, "IMAGE_OTHER": true, "IMAGE_SAFETY": true, "IMAGE_PROHIBITED_CONTENT": true, "IMAGE_RECITATION": true,
}

// stopOf returns the neutral reason. The protocol has no reason for waiting for
// tool results; it follows from the calls.
func stopOf(reason string, called bool) llm.StopReason {
	stop := dialect.StopReasonOf(reason)
	if called && (stop == llm.StopEnd || reason == "UNEXPECTED_TOOL_CALL") { // the client may know the tool
		return llm.StopTool
	}
	return stop
}

// reasonOf returns the finish reason for a neutral one, or said if that is a
// finish reason of this dialect.
func reasonOf(stop llm.StopReason, said string) string {
	if stops[said] {
		return said
	}
	switch stop {
	case llm.StopOther, llm.StopFailed:
		return "OTHER"
	case llm.StopLength, llm.StopContext:
		return "MAX_TOKENS"
	case llm.StopFilter, llm.StopRefusal:
		return "SAFETY"
	}
	return "STOP"
}
