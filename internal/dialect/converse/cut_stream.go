package converse

import (
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
)

// NewCutter returns a cutter for one response.
func (Dialect) NewCutter(*jsonedit.Doc) dialect.StreamCutter { return &cutter{open: map[int]bool{}} }

// cutter ends streams of the dialect. As at the token limit of a provider, each
// open block ends, also that of a call: its arguments stay as they are.
type cutter struct{ open map[int]bool }

// Read reads a message that the client receives.
func (c *cutter) Read(e sse.Event) int {
	kind := string(e.Type)
	switch kind {
	case "contentBlockStart", "contentBlockDelta", "contentBlockStop":
	default:
		return 0
	}
	if v, err := jsonedit.ParseValue(e.Data); err == nil {
		index, _ := v.Get("contentBlockIndex")
		if n, _ := index.Int(); kind == "contentBlockStop" {
			delete(c.open, int(n))
		} else {
			c.open[int(n)] = true
		}
	}
	return 0
}

// Cut appends the messages that end the stream.
func (c *cutter) Cut(dst []byte, u llm.Usage) []byte {
	w := streamEncoder{parts: map[int]*openPart{}, usage: u, finish: llm.Event{Stop: llm.StopLength}}
	for i := range c.open {
		w.parts[i] = &openPart{index: i}
	}
	return w.metadata(w.messageStop(w.stopAll(dst)))
}
