package responses

import (
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

func (e *streamEncoder) partEnd(dst []byte, s *slot) []byte {
	it, c := s.item, s.content
	if c != nil && s.sign.Value != "" && c.open {
		dst = e.endContent(dst, it, c)
		signs := e.addTextSignature(s.sign)
		it.left, e.joins = true, nil
		return e.item(e.leave(dst, it), signs)
	}
	if c != nil {
		return e.endContent(dst, it, c)
	}
	if it.done {
		return dst
	}
	return e.endItem(dst, it, "completed")
}

// endContent ends a part of a message, and the message if no more content is
// added to it.
func (e *streamEncoder) endContent(dst []byte, it *item, c *content) []byte {
	if !c.open {
		return dst
	}
	c.open = false
	it.open--
	typ, name := "response.output_text.done", "text"
	if c.refusal {
		typ, name = "response.refusal.done", "refusal"
	}
	b := jsonedit.AppendLine(append(append(e.frame(dst, typ), c.place...), ',', '"'))
	dst = append(append(b.Bytes(), name...), '"', ':')
	dst = jsonedit.AppendString(dst, string(c.text))
	if !c.refusal {
		b = jsonedit.AppendLine(append(dst, `,"logprobs":`...))
		writeLogprobs(&b, c.logprobs)
		dst = b.Bytes()
	}
	dst = append(dst, frameEnd...)
	dst = e.contentEvent(dst, "response.content_part.done", c)
	if it.left {
		return e.leave(dst, it)
	}
	return dst
}

// leave ends a message to which no more content is added, once its parts have
// ended.
func (e *streamEncoder) leave(dst []byte, it *item) []byte {
	if it.open > 0 || it.done {
		return dst
	}
	return e.endItem(dst, it, "completed")
}

func (e *streamEncoder) endItem(dst []byte, it *item, status string) []byte {
	it.done = true
	switch it.kind {
	case kindThinking:
		if it.sectioned {
			dst = append(e.itemDelta(dst, "response.reasoning_summary_text.done", it), `,"summary_index":0,"text":`...)
			dst = append(jsonedit.AppendString(dst, string(it.text)), frameEnd...)
			dst = e.section(dst, "response.reasoning_summary_part.done", it)
		}
	case kindCall:
		if len(it.text) == 0 { // clients add up the deltas
			dst = e.argumentsDelta(dst, it, string(it.arguments()))
		}
		dst = append(e.itemDelta(dst, "response.function_call_arguments.done", it), `,"name":`...)
		dst = jsonedit.AppendString(dst, it.toolName())
		dst = jsonedit.AppendString(append(dst, `,"arguments":`...), string(it.arguments()))
		dst = append(dst, frameEnd...)
	case kindCustom:
		dst = append(e.itemDelta(dst, "response.custom_tool_call_input.done", it), `,"input":`...)
		dst = append(jsonedit.AppendString(dst, string(it.text)), frameEnd...)
	}
	return e.itemEvent(dst, "response.output_item.done", it, status)
}

func (it *item) toolName() string {
	if it.space != nil {
		return it.space.tool
	}
	return it.call.Name
}

// closeAll ends everything that is open, except calls that broke off: clients
// would run them.
func (e *streamEncoder) closeAll(dst []byte, status string) []byte {
	for i := range e.parts {
		if s := &e.parts[i]; s.content != nil {
			dst = e.endContent(dst, s.item, s.content)
		}
	}
	for _, it := range e.items {
		switch {
		case it.done:
		case it.isCall():
			it.broken = true
		default:
			dst = e.endItem(dst, it, status)
		}
	}
	return dst
}

// complete ends the response.
func (e *streamEncoder) complete(dst []byte) []byte {
	status, reason := ending(e.stop, e.items)
	dst = e.closeAll(dst, itemStatus(status))
	e.over = true
	return e.response(dst, "response."+status, status, reason)
}

// fail ends the response with an error. Official clients read it from the
// status of the response.
func (e *streamEncoder) fail(dst []byte, f *llm.ProviderError) []byte {
	if f == nil {
		f = &llm.ProviderError{Message: failure(nil)}
	}
	e.fault, e.over = f, true
	dst = e.closeAll(dst, "incomplete")
	return e.response(dst, "response.failed", "failed", "")
}
