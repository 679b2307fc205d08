package messages

import "modelgate/internal/llm"

// stops are the reasons to stop by the protocol's words.
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

// words are the protocol's words by reason.
var words = map[llm.StopReason]string{
	llm.StopEnd:      "end_turn",
	llm.StopSequence: "stop_sequence",
	llm.StopLength:   "max_tokens",
	llm.StopTool:     "tool_use",
	llm.StopPause:    "pause_turn",
	llm.StopRefusal:  "refusal",
	llm.StopFilter:   "refusal",
	llm.StopContext:  "model_context_window_exceeded",
}

// stopOf reads a reason. A new word means that the model had said all.
func stopOf(said string) llm.StopReason {
	if stop, ok := stops[said]; ok {
		return stop
	}
	if said == "" {
		return ""
	}
	return llm.StopEnd
}

// ending is what the reason to stop is told from.
type ending struct {
	stop       llm.StopReason
	said, text string
	called     bool // the answer calls tools
	refused    bool // the answer is a refusal
}

// word is the protocol's word: the provider's own where it is one of the
// protocol's, for several mean the same.
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
