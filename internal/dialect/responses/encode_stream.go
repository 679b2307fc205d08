package responses

import (
	"strconv"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// NewEncoder returns an encoder for one streamed response.
func (Dialect) NewEncoder(to dialect.ResponseTarget) dialect.StreamEncoder {
	return &streamEncoder{output: output{to: to}}
}

// streamEncoder writes a stream. Items may be open in parallel, like the parts
// of a response. A message ends when another item begins or the response ends.
type streamEncoder struct {
	output
	head
	began, over bool
	seq         int64
	parts       []slot // by part number
}

// slot is the place of a part. Its item is nil if the protocol has no place for
// it.
type slot struct {
	item    *item
	content *content
	sign    llm.Signature // of a text
}

// Encode appends the frames for an event.
func (e *streamEncoder) Encode(dst []byte, ev *llm.Event) []byte {
	if e.over || ev.Choice != 0 {
		return dst
	}
	switch ev.Kind {
	case llm.EventStart:
		return e.start(dst, ev)
	case llm.EventPartStart:
		return e.partStart(e.start(dst, &llm.Event{}), ev)
	case llm.EventDelta:
		return e.delta(dst, ev)
	case llm.EventPartEnd:
		if s := e.slot(ev.Part); s != nil {
			return e.partEnd(dst, s)
		}
	case llm.EventFinish:
		e.stop = ev.Stop
	case llm.EventUsage:
		e.usage = ev.Usage
	case llm.EventError:
		return e.fail(e.start(dst, &llm.Event{}), ev.Fault)
	case llm.EventEnd:
		return e.complete(e.start(dst, &llm.Event{}))
	}
	return dst
}

// frame writes the start of an event, up to its further members.
func (e *streamEncoder) frame(dst []byte, typ string) []byte {
	dst = append(dst, "event: "...)
	dst = append(dst, typ...)
	dst = append(dst, "\ndata: {\"type\":\""...)
	dst = append(dst, typ...)
	dst = append(dst, `","sequence_number":`...)
	dst = strconv.AppendInt(dst, e.seq, 10)
	e.seq++
	return append(dst, ',')
}

const frameEnd = "}\n\n"

func endFrame(b *jsonedit.Builder) []byte { return append(b.Bytes(), frameEnd...) }

// start writes the two events that begin a stream, once.
func (e *streamEncoder) start(dst []byte, ev *llm.Event) []byte {
	if e.began {
		return dst
	}
	e.began = true
	usage, stop := e.usage, e.stop
	e.head = newHead(ev.ID, ev.Model, ev.ServiceTier, ev.Created, e.to)
	dst = e.response(dst, "response.created", "in_progress", "")
	dst = e.response(dst, "response.in_progress", "in_progress", "")
	e.usage, e.stop = usage, stop
	return dst
}

// response writes an event with the response object.
func (e *streamEncoder) response(dst []byte, typ, status, reason string) []byte {
	b := jsonedit.AppendLine(e.frame(dst, typ))
	b.Name("response")
	e.head.write(&b, status, reason, e.items)
	return endFrame(&b)
}

func (e *streamEncoder) slot(part int) *slot {
	i := part // parts begin in the order of their numbers
	if i < 0 || i >= len(e.parts) || e.parts[i].item == nil {
		return nil
	}
	return &e.parts[i]
}

func (e *streamEncoder) partStart(dst []byte, ev *llm.Event) []byte {
	before, signs := e.joins, (*item)(nil)
	if c, ok := ev.Opened.(llm.ToolCall); ok && c.Signature.Value != "" {
		signs = e.addSignature(c.Signature)
	}
	it, c := e.begin(ev.Opened)
	e.parts = append(e.parts, slot{item: it, content: c})
	if before != nil && before != e.joins {
		dst = e.leave(dst, before)
	}
	if signs != nil {
		dst = e.item(dst, signs)
	}
	if it == nil {
		return dst
	}
	if c == nil || c.index == 0 {
		dst = e.itemAdded(dst, it)
	}
	s := &e.parts[len(e.parts)-1]
	switch part := ev.Opened.(type) {
	case llm.Text:
		s.sign = part.Signature
		dst = e.contentAdded(dst, it, c)
		dst = e.grow(dst, s, part.Text, nil)
		for i := range part.Citations {
			dst = e.cite(dst, s, &part.Citations[i])
		}
	case llm.Refusal:
		dst = e.contentAdded(dst, it, c)
		dst = e.grow(dst, s, part.Text, nil)
	case llm.Thinking:
		it.sign = part.Signature
		dst = e.grow(dst, s, part.Text, nil)
	case llm.ToolCall:
		dst = e.grow(dst, s, part.Arguments, nil)
	}
	return dst
}

// item writes the two events of a complete item.
func (e *streamEncoder) item(dst []byte, it *item) []byte {
	dst = e.itemAdded(dst, it)
	it.done = true
	return e.itemEvent(dst, "response.output_item.done", it, "completed")
}

// itemAdded begins an item. A message is empty at that point: clients add each
// part when its content_part.added event arrives.
func (e *streamEncoder) itemAdded(dst []byte, it *item) []byte {
	begun := *it
	begun.content = nil
	return e.itemEvent(dst, "response.output_item.added", &begun, "in_progress")
}

func (e *streamEncoder) itemEvent(dst []byte, typ string, it *item, status string) []byte {
	b := jsonedit.AppendLine(e.frame(dst, typ))
	b.Name("output_index")
	b.Int(int64(it.index))
	b.Name("item")
	it.write(&b, status)
	return endFrame(&b)
}

// contentAdded begins a part of a message.
func (e *streamEncoder) contentAdded(dst []byte, it *item, c *content) []byte {
	b := jsonedit.AppendLine(nil)
	b.Name("item_id")
	b.String(it.id)
	b.Name("output_index")
	b.Int(int64(it.index))
	b.Name("content_index")
	b.Int(int64(c.index))
	c.place = b.Bytes()
	return e.contentEvent(dst, "response.content_part.added", c)
}

func (e *streamEncoder) contentEvent(dst []byte, typ string, c *content) []byte {
	dst = append(e.frame(dst, typ), c.place...)
	b := jsonedit.AppendLine(append(dst, ",\"part\":"...))
	c.write(&b)
	return endFrame(&b)
}

func (e *streamEncoder) delta(dst []byte, ev *llm.Event) []byte {
	s := e.slot(ev.Part)
	if s == nil {
		return dst
	}
	dst = e.grow(dst, s, ev.Text, ev.Logprobs)
	if ev.Citation != nil {
		dst = e.cite(dst, s, ev.Citation)
	}
	switch {
	case ev.Signature.Value == "":
	case s.content != nil:
		s.sign = llm.Signature{Vendor: ev.Signature.Vendor, Value: s.sign.Value + ev.Signature.Value}
	case s.item.kind == kindThinking:
		s.item.sign = llm.Signature{Vendor: ev.Signature.Vendor, Value: s.item.sign.Value + ev.Signature.Value}
	}
	return dst
}

// grow adds text to a part.
func (e *streamEncoder) grow(dst []byte, s *slot, text string, logprobs []llm.Logprob) []byte {
	if text == "" && logprobs == nil || s.item.done || s.content != nil && !s.content.open {
		return dst
	}
	if c := s.content; c != nil {
		return e.growContent(dst, c, text, logprobs)
	}
	if text == "" {
		return dst
	}
	it := s.item
	switch it.kind {
	case kindThinking:
		if !it.sectioned {
			it.sectioned = true
			dst = e.section(dst, "response.reasoning_summary_part.added", it)
		}
		dst = e.itemDelta(dst, "response.reasoning_summary_text.delta", it)
		dst = append(dst, `,"summary_index":0,"delta":`...)
	case kindCall:
		it.text = append(it.text, text...)
		return e.argumentsDelta(dst, it, text)
	case kindCustom:
		dst = append(e.itemDelta(dst, "response.custom_tool_call_input.delta", it), `,"delta":`...)
	default:
		return dst
	}
	it.text = append(it.text, text...)
	dst = jsonedit.AppendString(dst, text)
	return append(dst, frameEnd...)
}

func (e *streamEncoder) argumentsDelta(dst []byte, it *item, text string) []byte {
	dst = append(e.itemDelta(dst, "response.function_call_arguments.delta", it), `,"delta":`...)
	return append(jsonedit.AppendString(dst, text), frameEnd...)
}

func (e *streamEncoder) growContent(dst []byte, c *content, text string, logprobs []llm.Logprob) []byte {
	c.text = append(c.text, text...)
	if c.refusal {
		dst = append(e.frame(dst, "response.refusal.delta"), c.place...)
		dst = jsonedit.AppendString(append(dst, `,"delta":`...), text)
		return append(dst, frameEnd...)
	}
	dst = append(e.frame(dst, "response.output_text.delta"), c.place...)
	dst = jsonedit.AppendString(append(dst, `,"delta":`...), text)
	dst = append(dst, `,"logprobs":`...)
	if logprobs == nil {
		return append(dst, "[]"+frameEnd...)
	}
	c.logprobs = append(c.logprobs, logprobs...)
	b := jsonedit.AppendLine(dst)
	writeLogprobs(&b, logprobs)
	return endFrame(&b)
}

// itemDelta writes the start of a delta event of an item without content.
func (e *streamEncoder) itemDelta(dst []byte, typ string, it *item) []byte {
	dst = append(e.frame(dst, typ), `"item_id":`...)
	dst = jsonedit.AppendString(dst, it.id)
	dst = append(dst, `,"output_index":`...)
	return strconv.AppendInt(dst, int64(it.index), 10)
}

// section writes an event with the complete text of a summary's only part.
func (e *streamEncoder) section(dst []byte, typ string, it *item) []byte {
	b := jsonedit.AppendLine(append(e.itemDelta(dst, typ, it), `,"summary_index":0,"part":`...))
	writeSummary(&b, it.text)
	return endFrame(&b)
}

func (e *streamEncoder) cite(dst []byte, s *slot, cite *llm.Citation) []byte {
	c := s.content
	if c == nil || c.refusal || !c.open {
		return dst
	}
	dst = append(e.frame(dst, "response.output_text.annotation.added"), c.place...)
	dst = append(dst, `,"annotation_index":`...)
	dst = strconv.AppendInt(dst, int64(len(c.cites)), 10)
	b := jsonedit.AppendLine(append(dst, `,"annotation":`...))
	writeCitation(&b, cite)
	c.cites = append(c.cites, *cite)
	return endFrame(&b)
}
