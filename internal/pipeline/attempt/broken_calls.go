package attempt

import (
	"slices"

	"modelgate/internal/dialect"
	"modelgate/internal/model/llm"
)

// openCalls are the calls of a stream whose end the client has not received. The
// end of a call without complete arguments waits for the finish reason or the next
// part: providers also end a call in which the model reached its token limit.
type openCalls []openCall

type openCall struct {
	choice, part int
	custom       bool // its input is text, which has no end
	json         dialect.JSONEnd
	ended        bool // its end waits
}

// begin adds a call.
func (c *openCalls) begin(e *llm.Event, call *llm.ToolCall) {
	*c = append(*c, openCall{choice: e.Choice, part: e.Part, custom: call.Custom})
	(*c)[len(*c)-1].json.Read(call.Arguments)
}

// read reads a delta, which may be of another part.
func (c openCalls) read(e *llm.Event) {
	if i := c.find(e); i >= 0 {
		c[i].json.Read(e.Text)
	}
}

// end reports whether the end of a part is sent now.
func (c *openCalls) end(e *llm.Event) bool {
	i := c.find(e)
	if i < 0 {
		return true
	}
	call := &(*c)[i]
	if call.ended = true; call.custom || !call.json.Complete() {
		return false
	}
	*c = slices.Delete(*c, i, i+1)
	return true
}

func (c openCalls) find(e *llm.Event) int {
	return slices.IndexFunc(c, func(call openCall) bool { return call.choice == e.Choice && call.part == e.Part })
}

// encodeEvent appends the frames for an event, and for ends of calls that waited
// for it.
func (t *translation) encodeEvent(out []byte, e *llm.Event) []byte {
	switch e.Kind {
	case llm.EventPartStart:
		out = t.endCalls(out, e.Choice)
		if call, ok := e.Opened.(llm.ToolCall); ok {
			t.calls.begin(e, &call)
			call.ID = t.ids.distinct(e.Choice, call.ID)
			e.Opened = call
		}
	case llm.EventDelta:
		t.calls.read(e)
	case llm.EventPartEnd:
		if !t.calls.end(e) {
			return out
		}
	case llm.EventFinish:
		if e.Stop.CutsOff() { // the call has no end
			t.calls = slices.DeleteFunc(t.calls, func(call openCall) bool { return call.choice == e.Choice })
		}
		out = t.endCalls(out, e.Choice)
	}
	return t.enc.Encode(out, e)
}

// endCalls appends the ends that wait in a choice.
func (t *translation) endCalls(out []byte, choice int) []byte {
	for i := 0; i < len(t.calls); {
		call := t.calls[i]
		if call.choice != choice || !call.ended {
			i++
			continue
		}
		t.calls = slices.Delete(t.calls, i, i+1)
		out = t.enc.Encode(out, &llm.Event{Kind: llm.EventPartEnd, Choice: choice, Part: call.part})
	}
	return out
}

// markBrokenCalls marks the last call of each choice that the model stopped in.
func markBrokenCalls(r *llm.Response) {
	for i := range r.Choices {
		c := &r.Choices[i]
		last := len(c.Parts) - 1
		if last < 0 || !c.Stop.CutsOff() {
			continue
		}
		if call, ok := c.Parts[last].(llm.ToolCall); ok {
			var end dialect.JSONEnd
			end.Read(call.Arguments)
			call.Broken = call.Custom || !end.Complete()
			c.Parts[last] = call
		}
	}
}
