package oracle

import (
	"bytes"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
)

// NewDecoder returns a decoder for one streamed response.
func (Dialect) NewDecoder(r *llm.Request, to dialect.RequestTarget) dialect.StreamDecoder {
	if isCohere(r, to) {
		return &cohereDecoder{r: r, model: to.Model}
	}
	return &streamDecoder{asked: r, model: to.Model}
}

// maxChoices is the limit of choices in a response.
const maxChoices = 128

// streamDecoder reads one streamed response: pieces of messages by choice, then
// the finish reasons, then usage. The protocol has no terminator.
type streamDecoder struct {
	asked        *llm.Request // may be nil
	model        string
	begun, ended bool
	choices      []*choice
}

// choice is the state of one choice.
type choice struct {
	next     int // number of the next part
	open     int // number of the open text part, -1 if none is open
	kind     string
	calls    []call // open calls
	called   bool
	finished bool
}

// call is an open tool call.
type call struct {
	id   string
	part int
	// text collects the arguments of a custom tool.
	custom bool
	text   []byte
	json   dialect.JSONEnd
}

// Decode reads one event.
func (d *streamDecoder) Decode(dst []llm.Event, frame sse.Event) []llm.Event {
	if d.ended {
		return dst
	}
	v, err := jsonedit.ParseValue(frame.Data)
	if err != nil || v.Kind() != jsonedit.Object {
		return dst // [DONE] too
	}
	p := pieceOf(v)
	if p.message.Kind() == jsonedit.String || string(frame.Type) == "error" {
		d.ended = true
		fault := &llm.ProviderError{Code: v.TextOf("code"), Message: dialect.ErrorMessage(v.Raw()), Raw: bytes.Clone(v.Raw())}
		return append(dst, llm.Event{Kind: llm.EventError, Fault: fault})
	}
	isMessage, isUsage := p.message.Kind() == jsonedit.Object, p.usage.Kind() == jsonedit.Object
	if !isMessage && p.said == "" && !isUsage {
		return dst
	}
	if !d.begun {
		d.begun = true
		dst = append(dst, llm.Event{Kind: llm.EventStart, Model: d.model})
	}
	if p.index >= 0 && p.index < maxChoices && (isMessage || p.said != "") {
		dst = d.add(dst, int(p.index), &p)
	}
	if isUsage {
		dst = append(dst, llm.Event{Kind: llm.EventUsage, Usage: usageOf(p.usage)})
	}
	return dst
}

// piece holds the content of an event: a piece of one choice, usage, or both.
type piece struct {
	index                    int64
	message, logprobs, usage jsonedit.Value
	said                     string
}

// pieceOf reads an event in one pass.
func pieceOf(v jsonedit.Value) (p piece) {
	for key, member := range v.Fields() {
		switch string(key.Raw()) {
		case `"index"`:
			n, ok := member.Int()
			if p.index = n; !ok {
				p.index = -1
			}
		case `"message"`:
			p.message = member
		case `"logprobs"`:
			p.logprobs = member
		case `"usage"`:
			p.usage = member
		case `"finishReason"`:
			p.said, _ = member.Text()
		}
	}
	return p
}

// add reads a piece of one choice.
func (d *streamDecoder) add(dst []llm.Event, index int, p *piece) []llm.Event {
	for len(d.choices) <= index {
		d.choices = append(d.choices, &choice{open: -1})
	}
	c := d.choices[index]
	if c.finished {
		return dst
	}
	from := len(dst)
	dst = c.message(dst, p, d.asked)
	if p.said != "" {
		c.finished = true
		dst = append(c.close(dst), llm.Event{Kind: llm.EventFinish, Stop: stopOf(p.said, c.called), NativeFinishReason: p.said})
	}
	for i := from; i < len(dst); i++ {
		dst[i].Choice = index
	}
	return dst
}

func (c *choice) message(dst []llm.Event, p *piece, asked *llm.Request) []llm.Event {
	var thought, refusal string
	var content, calls jsonedit.Value
	for key, member := range p.message.Fields() {
		switch string(key.Raw()) {
		case `"reasoningContent"`:
			thought, _ = member.Text()
		case `"content"`:
			content = member
		case `"refusal"`:
			refusal, _ = member.Text()
		case `"toolCalls"`:
			calls = member
		}
	}
	dst = c.addText(dst, "reasoningContent", thought, nil)
	dst = c.addText(dst, "content", words(content), logprobsOf(p.logprobs))
	dst = c.addText(dst, "refusal", refusal, nil)
	for call := range calls.Elements() {
		dst = c.call(dst, call, asked)
	}
	return dst
}

// End ends the open parts. The response is complete if every choice has a
// finish reason.
func (d *streamDecoder) End(dst []llm.Event) []llm.Event {
	if d.ended {
		return dst
	}
	d.ended = true
	finished := len(d.choices) > 0
	for i, c := range d.choices {
		from := len(dst)
		dst = c.close(dst)
		for j := from; j < len(dst); j++ {
			dst[j].Choice = i
		}
		finished = finished && c.finished
	}
	if finished {
		dst = append(dst, llm.Event{Kind: llm.EventEnd})
	}
	return dst
}

func (c *choice) begin(dst []llm.Event, part llm.Part) []llm.Event {
	c.next++
	return append(dst, llm.Event{Kind: llm.EventPartStart, Part: c.next - 1, Opened: part})
}

// addText adds text to the open part, or begins one.
func (c *choice) addText(dst []llm.Event, kind, words string, logprobs []llm.Logprob) []llm.Event {
	if words == "" {
		return dst
	}
	if c.open < 0 || c.kind != kind {
		var part llm.Part
		switch kind {
		case "content":
			part = llm.Text{}
		case "refusal":
			part = llm.Refusal{}
		default:
			part = llm.Thinking{}
		}
		dst = c.begin(c.close(dst), part)
		c.open, c.kind = c.next-1, kind
	}
	return append(dst, llm.Event{Kind: llm.EventDelta, Part: c.open, Text: words, Logprobs: logprobs})
}

// call reads a piece of a call: the first has its id and name, later ones
// repeat the id or have none.
func (c *choice) call(dst []llm.Event, v jsonedit.Value, asked *llm.Request) []llm.Event {
	id, word, arguments := v.TextOf("id"), v.TextOf("name"), v.TextOf("arguments")
	i := c.find(id, word)
	if i >= 0 && word != "" && arguments != "" && c.calls[i].json.Complete() {
		i = -1 // another call with the same id
	}
	if i < 0 {
		if c.open >= 0 {
			dst = c.close(dst)
		}
		c.called = true
		custom := asked.IsCustom(word)
		dst = c.begin(dst, llm.ToolCall{ID: id, Name: word, Custom: custom})
		c.calls = append(c.calls, call{id: id, part: c.next - 1, custom: custom})
		i = len(c.calls) - 1
	}
	at := &c.calls[i]
	at.json.Read(arguments)
	if at.custom {
		at.text = append(at.text, arguments...)
	} else if arguments != "" {
		dst = append(dst, llm.Event{Kind: llm.EventDelta, Part: at.part, Text: arguments})
	}
	return dst
}

// find returns the index of the open call that a piece belongs to, negative if
// it begins a call.
func (c *choice) find(id, word string) int {
	last := len(c.calls) - 1
	if id == "" && word == "" {
		return last
	}
	for i := last; i >= 0 && i > last-maxChoices && id != ""; i-- {
		if c.calls[i].id == id {
			return i
		}
	}
	return -1
}

// close ends the open parts.
func (c *choice) close(dst []llm.Event) []llm.Event {
	if c.open >= 0 {
		dst = append(dst, llm.Event{Kind: llm.EventPartEnd, Part: c.open})
		c.open = -1
	}
	for i := range c.calls {
		call := &c.calls[i]
		if len(call.text) > 0 {
			dst = append(dst, llm.Event{Kind: llm.EventDelta, Part: call.part, Text: dialect.UnwrapText(string(call.text))})
		}
		dst = append(dst, llm.Event{Kind: llm.EventPartEnd, Part: call.part})
	}
	c.calls = c.calls[:0]
	return dst
}
