package gemini

import "modelgate/internal/llm"

// stops maps the finish reasons of the dialect.
// https://ai.google.dev/api/generate-content#FinishReason
var stops = map[string]llm.StopReason{
	"STOP": llm.StopEnd, "FINISH_REASON_UNSPECIFIED": llm.StopEnd, "OTHER": llm.StopEnd, "RECITATION": llm.StopEnd,
	"MALFORMED_FUNCTION_CALL": llm.StopEnd, "UNEXPECTED_TOOL_CALL": llm.StopEnd, "TOO_MANY_TOOL_CALLS": llm.StopEnd,
	"NO_IMAGE": llm.StopEnd, "IMAGE_OTHER": llm.StopEnd, "MISSING_THOUGHT_SIGNATURE": llm.StopEnd,
	"MAX_TOKENS": llm.StopLength,
	"SAFETY":     llm.StopFilter, "BLOCKLIST": llm.StopFilter, "PROHIBITED_CONTENT": llm.StopFilter, "SPII": llm.StopFilter,
	"LANGUAGE": llm.StopFilter, "IMAGE_SAFETY": llm.StopFilter, "IMAGE_PROHIBITED_CONTENT": llm.StopFilter,
	"IMAGE_RECITATION": llm.StopFilter, "MODEL_ARMOR": llm.StopFilter,
}

// stopOf returns the neutral reason. The protocol has no reason for waiting for
// tool results; it follows from the calls.
func stopOf(reason string, called bool) llm.StopReason {
	stop, ok := stops[reason]
	if !ok {
		stop = llm.StopEnd
	}
	if stop == llm.StopEnd && called {
		return llm.StopTool
	}
	return stop
}

// reasonOf returns the finish reason for a neutral one, or said if that is a
// finish reason of this dialect.
func reasonOf(stop llm.StopReason, said string) string {
	if _, ok := stops[said]; ok {
		return said
	}
	switch stop {
	case llm.StopLength, llm.StopContext:
		return "MAX_TOKENS"
	case llm.StopFilter, llm.StopRefusal:
		return "SAFETY"
	}
	return "STOP"
}
