package gemini

import (
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
)

// NewCutter returns a cutter for one response.
func (Dialect) NewCutter(*jsonedit.Doc) dialect.StreamCutter { return new(cutter) }

// cutter ends streams of the dialect.
type cutter struct {
	id, model string
	open      [maxChoices]bool // candidates that have begun and not ended
	begun     bool             // a candidate has begun
}

// Read reads a frame that the client receives.
func (c *cutter) Read(e sse.Event) int {
	v, err := jsonedit.ParseValue(e.Data)
	if err != nil {
		return 0
	}
	for key, v := range v.Fields() {
		switch string(key.Raw()) {
		case `"responseId"`:
			c.id, _ = v.Text()
		case `"modelVersion"`:
			c.model, _ = v.Text()
		case `"candidates"`:
			n := int64(0)
			for candidate := range v.Elements() {
				c.candidate(candidate, n)
				n++
			}
		}
	}
	return 0
}

// candidate reads a candidate, whose index is n unless it has one.
func (c *cutter) candidate(v jsonedit.Value, n int64) {
	var reason string
	for key, v := range v.Fields() {
		switch string(key.Raw()) {
		case `"index"`:
			n, _ = v.Int()
		case `"finishReason"`:
			reason, _ = v.Text()
		}
	}
	c.begun, c.open[max(0, min(n, maxChoices-1))] = true, reason == ""
}

// Cut appends the frame that ends the stream.
func (c *cutter) Cut(dst []byte, u llm.Usage) []byte {
	if !c.begun {
		c.open[0] = true
	}
	b := jsonedit.AppendLine(nil)
	b.Open('{')
	appendHead(&b, c.id, c.model, dialect.ResponseTarget{})
	e := streamEncoder{head: b.Bytes()[1:], usage: u}
	for i, open := range c.open {
		if open {
			e.choices = append(e.choices, writing{index: i, finish: &llm.Event{Stop: llm.StopLength}})
		}
	}
	return e.last(dst)
}
