package messages

import (
	"slices"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
)

// NewCutter returns a cutter for one response.
func (Dialect) NewCutter(*jsonedit.Doc) dialect.StreamCutter { return new(cutter) }

// cutter ends streams of the dialect. As at the token limit of a provider, each
// open block ends, also that of a call: its arguments stay as they are.
type cutter struct{ open []int64 }

// Read reads an event that the client receives.
func (c *cutter) Read(e sse.Event) int {
	if string(e.Type) == "content_block_delta" {
		return 0
	}
	v, err := jsonedit.ParseValue(e.Data)
	if err != nil {
		return 0
	}
	var ev event
	ev.read(v)
	switch string(ev.kind) {
	case "content_block_start":
		c.open = append(c.open, ev.index)
	case "content_block_stop":
		c.open = slices.DeleteFunc(c.open, func(i int64) bool { return i == ev.index })
	}
	return 0
}

// Cut appends the events that end the stream.
func (c *cutter) Cut(dst []byte, u llm.Usage) []byte {
	for _, i := range c.open {
		b := openEvent(dst, "content_block_stop")
		b.Name("index")
		b.Int(i)
		dst = closeEvent(&b)
	}
	e := streamEncoder{usage: u, ending: ending{stop: llm.StopLength}}
	return e.end(dst)
}
