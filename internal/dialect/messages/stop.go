package messages

import (
	"modelgate/internal/dialect"
	"modelgate/internal/model/llm"
)

// stops maps the protocol's stop reasons.
// https://docs.claude.com/en/api/handling-stop-reasons
var stops = map[string]llm.StopReason{
	"end_turn":                      llm.StopEnd,
	"stop_sequence":                 llm.StopSequence,
	"max_tokens":                    llm.StopLength,
	"tool_use":                      llm.StopTool,
	"pause_turn":                    llm.StopPause,
	"refusal":                       llm.StopRefusal,
	"model_context_window_exceeded": llm.StopContext,
	"compaction":                    llm.StopEnd,
}

// words maps neutral reasons to stop reasons of the protocol.
var words = map[llm.StopReason]string{
	llm.StopEnd:      "end_turn",
	llm.StopSequence: "stop_sequence",
	llm.StopLength:   "max_tokens",
	llm.StopTool:     "tool_use",
	llm.StopPause:    "pause_turn",
	llm.StopRefusal:  "refusal",
	llm.StopFilter:   "refusal",
	llm.StopContext:  "model_context_window_exceeded",
	llm.StopOther:    "max_tokens", // the nearest that is not a clean end
}

// stopOf returns the neutral reason.
func stopOf(said string) llm.StopReason {
	if stop, ok := stops[said]; ok {
		return stop
	}
	return dialect.StopReasonOf(said)
}

// ending holds the properties of a response that decide its stop reason.
type ending struct {
	stop       llm.StopReason
	said, text string
	called     bool // has tool calls
	refused    bool // has a refusal
}

// word returns the protocol's stop reason: the provider's own if it is one of
// the protocol's, since several have the same neutral reason.
func (e *ending) word() string {
	open := e.stop == "" || e.stop == llm.StopEnd
	switch stop, ok := stops[e.said]; {
	case ok && stop == e.stop:
		return e.said
	case open && e.refused:
		return "refusal"
	case open && e.called:
		return "tool_use"
	case open:
		return "end_turn"
	}
	if word, ok := words[e.stop]; ok {
		return word
	}
	return "end_turn"
}
