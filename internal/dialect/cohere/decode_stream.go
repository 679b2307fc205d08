package cohere

import (
	"bytes"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
)

// streamDecoder reads one streamed response.
// https://docs.cohere.com/docs/streaming
type streamDecoder struct {
	plan  plan
	model string

	begun, ended bool
	next         int // number of the next part

	// block is the number of the open content block or the plan, -1 if none is
	// open. A text stays open after its end, since its citations may follow.
	block     int
	blockText bool
	planning  bool

	open   map[int64]*call // open tool calls, by Cohere's numbers
	order  []int64         // the keys of open in order
	called bool
}

// call is an open tool call.
type call struct {
	part   int
	null   bool // the word null arrived instead of arguments
	custom bool
	text   []byte // arguments of a custom tool so far
}

// NewDecoder returns a decoder for one streamed response.
func (Dialect) NewDecoder(r *llm.Request, to dialect.RequestTarget) dialect.StreamDecoder {
	return &streamDecoder{plan: planOf(r), model: to.Model, block: -1}
}

// Decode reads one event.
func (d *streamDecoder) Decode(dst []llm.Event, frame sse.Event) []llm.Event {
	if d.ended || len(frame.Data) == 0 || frame.Data[0] == '[' {
		return dst // the stream ends with [DONE], after message-end
	}
	v, err := jsonedit.ParseValue(frame.Data)
	if err != nil || v.Kind() != jsonedit.Object {
		return dst
	}
	kind := frame.Type
	if t, ok := v.Get("type"); ok {
		kind, _ = t.TextBytes()
	}
	return d.event(dst, string(kind), v)
}

func (d *streamDecoder) event(dst []llm.Event, kind string, v jsonedit.Value) []llm.Event {
	delta, _ := v.Get("delta")
	message, _ := delta.Get("message")
	switch kind {
	case "content-delta":
		return d.contentDelta(dst, v, message)
	case "tool-call-delta":
		return d.callDelta(dst, v, message)
	case "tool-plan-delta":
		return d.planDelta(dst, message)
	case "message-start":
		return d.start(dst, v.TextOf("id"))
	case "content-start":
		return d.contentStart(dst, message)
	case "content-end":
		return d.contentEnd(dst)
	case "tool-call-start":
		return d.callStart(dst, v, message)
	case "tool-call-end":
		n, _ := index(v)
		return d.callEnd(dst, n)
	case "citation-start":
		return d.citation(dst, message)
	case "message-end":
		return d.finish(dst, v, delta)
	case "", "error":
		return d.fail(dst, v)
	}
	return dst
}

// End ends the open parts. Without message-end the response is not complete.
func (d *streamDecoder) End(dst []llm.Event) []llm.Event {
	if d.ended {
		return dst
	}
	d.ended = true
	return d.closeAll(dst)
}

func (d *streamDecoder) start(dst []llm.Event, id string) []llm.Event {
	if d.begun {
		return dst
	}
	d.begun = true
	return append(dst, llm.Event{Kind: llm.EventStart, ID: id, Model: d.model})
}

// openPart begins a part.
func (d *streamDecoder) openPart(dst []llm.Event, part llm.Part) ([]llm.Event, int) {
	dst = d.start(dst, "")
	n := d.next
	d.next++
	return append(dst, llm.Event{Kind: llm.EventPartStart, Part: n, Opened: part}), n
}

func delta(part int, text string) llm.Event {
	return llm.Event{Kind: llm.EventDelta, Part: part, Text: text}
}

// endBlock ends the open content block or the plan.
func (d *streamDecoder) endBlock(dst []llm.Event) []llm.Event {
	if d.block < 0 {
		return dst
	}
	dst = append(dst, llm.Event{Kind: llm.EventPartEnd, Part: d.block})
	d.block, d.planning = -1, false
	return dst
}

func (d *streamDecoder) openBlock(dst []llm.Event, part llm.Part) []llm.Event {
	dst = d.endBlock(dst)
	dst, d.block = d.openPart(dst, part)
	_, d.blockText = part.(llm.Text)
	return dst
}

func (d *streamDecoder) contentStart(dst []llm.Event, message jsonedit.Value) []llm.Event {
	content, _ := message.Get("content")
	switch kind := content.TextOf("type"); kind {
	case "text":
		return d.addText(d.openBlock(dst, llm.Text{}), content.TextOf("text"))
	case "thinking":
		return d.addText(d.openBlock(dst, llm.Thinking{}), content.TextOf("thinking"))
	default:
		if content.Kind() != jsonedit.Object {
			return dst
		}
		part := dialect.TextOfUnknown(llm.Native{Dialect: name, Type: kind, Raw: bytes.Clone(content.Raw())})
		return d.endBlock(d.openBlock(dst, part))
	}
}

func (d *streamDecoder) addText(dst []llm.Event, words string) []llm.Event {
	if words == "" {
		return dst
	}
	return append(dst, delta(d.block, words))
}

func (d *streamDecoder) contentDelta(dst []llm.Event, v, message jsonedit.Value) []llm.Event {
	content, _ := message.Get("content")
	words, isText := content.Get("text")
	if !isText {
		words, _ = content.Get("thinking")
	}
	s, ok := words.Text()
	if !ok {
		return dst
	}
	if d.block < 0 || d.planning || d.blockText != isText {
		var part llm.Part = llm.Thinking{}
		if isText {
			part = llm.Text{}
		}
		dst = d.openBlock(dst, part)
	}
	e := delta(d.block, s)
	if item, ok := v.Get("logprobs"); ok && isText {
		e.Logprobs = appendLogprob(nil, item)
	}
	if s == "" && e.Logprobs == nil {
		return dst
	}
	return append(dst, e)
}

func (d *streamDecoder) contentEnd(dst []llm.Event) []llm.Event {
	if d.blockText || d.planning {
		return dst
	}
	return d.endBlock(dst)
}

func (d *streamDecoder) planDelta(dst []llm.Event, message jsonedit.Value) []llm.Event {
	words := message.TextOf("tool_plan")
	if words == "" {
		return dst
	}
	if !d.planning {
		dst = d.openBlock(dst, llm.Thinking{})
		d.planning = true
	}
	return append(dst, delta(d.block, words))
}

func (d *streamDecoder) callStart(dst []llm.Event, v, message jsonedit.Value) []llm.Event {
	n, ok := index(v)
	raw, _ := message.Get("tool_calls")
	if !ok || raw.Kind() != jsonedit.Object {
		return dst
	}
	dst = d.callEnd(d.endBlock(dst), n)
	function, _ := raw.Get("function")
	part := llm.ToolCall{ID: raw.TextOf("id"), Name: function.TextOf("name")}
	part.Custom = d.plan.custom(part.Name)
	c := &call{custom: part.Custom}
	if d.plan.emulated && part.Name == formatTool {
		dst, c.part = d.openPart(dst, llm.Text{})
	} else {
		d.called = true
		dst, c.part = d.openPart(dst, part)
	}
	if d.open == nil {
		d.open = map[int64]*call{}
	}
	d.open[n] = c
	d.order = append(d.order, n)
	return c.add(dst, argumentsOf(function))
}

func (d *streamDecoder) callDelta(dst []llm.Event, v, message jsonedit.Value) []llm.Event {
	n, _ := index(v)
	c := d.open[n]
	if c == nil {
		return dst
	}
	raw, _ := message.Get("tool_calls")
	function, _ := raw.Get("function")
	arguments, _ := function.Get("arguments")
	s, _ := arguments.Text()
	return c.add(dst, s)
}

// add adds a piece of arguments.
func (c *call) add(dst []llm.Event, piece string) []llm.Event {
	switch {
	case piece == "":
		return dst
	case c.custom:
		c.text = append(c.text, piece...)
		return dst
	case c.null:
		c.null = false
		piece = "null" + piece
	case piece == "null": // means no arguments if nothing follows
		c.null = true
		return dst
	}
	return append(dst, delta(c.part, piece))
}

// callEnd ends a call if it is open.
func (d *streamDecoder) callEnd(dst []llm.Event, n int64) []llm.Event {
	c := d.open[n]
	if c == nil {
		return dst
	}
	delete(d.open, n)
	if len(d.open) == 0 {
		d.order = d.order[:0]
	}
	if len(c.text) > 0 {
		dst = append(dst, delta(c.part, dialect.UnwrapText(string(c.text))))
	}
	return append(dst, llm.Event{Kind: llm.EventPartEnd, Part: c.part})
}

// citation adds a citation to the open text.
func (d *streamDecoder) citation(dst []llm.Event, message jsonedit.Value) []llm.Event {
	c, _ := message.Get("citations")
	if d.block < 0 || !d.blockText || !ofText(c) || c.Kind() != jsonedit.Object {
		return dst
	}
	cite := citationOf(c, bytes.Clone(c.Raw()))
	return append(dst, llm.Event{Kind: llm.EventDelta, Part: d.block, Citation: &cite})
}

func (d *streamDecoder) closeAll(dst []llm.Event) []llm.Event {
	dst = d.endBlock(dst)
	for _, n := range d.order {
		dst = d.callEnd(dst, n)
	}
	return dst
}

// finish reads message-end, which completes the response.
func (d *streamDecoder) finish(dst []llm.Event, v, delta jsonedit.Value) []llm.Event {
	dst = d.start(dst, v.TextOf("id"))
	said := delta.TextOf("finish_reason")
	if fault := failed(said, delta.TextOf("error")); fault != nil {
		d.ended = true
		return append(dst, llm.Event{Kind: llm.EventError, Fault: fault})
	}
	if d.ended = true; d.called && said == "" {
		return dst // broke off
	}
	dst = d.closeAll(dst)
	usage, _ := delta.Get("usage")
	return append(dst,
		llm.Event{Kind: llm.EventFinish, Stop: stopOf(said, d.called), NativeFinishReason: said},
		llm.Event{Kind: llm.EventUsage, Usage: usageOf(usage)},
		llm.Event{Kind: llm.EventEnd})
}

// fail reads an error event: it has that type, or no type and a message.
func (d *streamDecoder) fail(dst []llm.Event, v jsonedit.Value) []llm.Event {
	kind := v.TextOf("type")
	_, says := v.Get("message")
	_, fails := v.Get("error")
	if kind != "error" && !says && !fails {
		return dst
	}
	d.ended = true
	fault := &llm.ProviderError{Type: kind, Message: dialect.ErrorMessage(v.Raw()), Raw: bytes.Clone(v.Raw())}
	return append(dst, llm.Event{Kind: llm.EventError, Fault: fault})
}

// index returns Cohere's number of a block or a call.
func index(v jsonedit.Value) (int64, bool) {
	n, ok := v.Get("index")
	if !ok {
		return 0, false
	}
	return n.Int()
}
