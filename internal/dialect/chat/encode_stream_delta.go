package chat

import (
	"strconv"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// delta appends the chunks for a delta to a part.
func (e *streamEncoder) delta(dst []byte, ev *llm.Event) []byte {
	c, dst := e.choice(dst, ev.Choice)
	if ev.Part < 0 || ev.Part >= len(c.parts) {
		return dst
	}
	part := &c.parts[ev.Part]
	switch part.kind {
	case textPart:
		if ev.Text != "" || len(ev.Logprobs) > 0 {
			dst = e.words(dst, ev, c, ev.Text)
		}
		if ev.Citation != nil {
			dst = e.citation(dst, ev, ev.Citation, part.chars)
		}
		if ev.Signature.Value != "" && !e.to.Strict {
			dst = e.signed(dst, ev, `{"type":"text","thought_signature":`, dialect.MarkSignature(llm.Google, ev.Signature))
		}
	case thinkingPart:
		dst = e.thought(dst, ev, part)
	case refusalPart:
		dst = e.plain(dst, ev.Choice, `{"refusal":`, ev.Text, "}")
	case callPart:
		dst = e.arguments(dst, ev, part)
	}
	return dst
}

// plain appends a chunk whose delta is text between before and after.
func (e *streamEncoder) plain(dst []byte, choice int, before, text, after string) []byte {
	dst = append(e.chunk(dst, choice), before...)
	dst = jsonedit.AppendString(dst, text)
	return e.undecided(append(dst, after...))
}

// words appends a chunk with text.
func (e *streamEncoder) words(dst []byte, ev *llm.Event, c *sentChoice, text string) []byte {
	c.chars += runes(text)
	dst = append(e.chunk(dst, ev.Choice), `{"content":`...)
	dst = jsonedit.AppendString(dst, text)
	if !e.to.Strict {
		dst = append(dst, `,"content_blocks":[{"index":`...)
		dst = strconv.AppendInt(dst, int64(ev.Part), 10)
		dst = append(dst, `,"delta":{"type":"text","text":`...)
		dst = jsonedit.AppendString(dst, text)
		dst = append(dst, "}}]"...)
	}
	dst = append(dst, '}')
	if len(ev.Logprobs) == 0 {
		return e.undecided(dst)
	}
	w := writer{jsonedit.AppendLine(append(dst, `,"logprobs":`...))}
	w.logprobs(ev.Logprobs)
	return append(append(w.Bytes(), `,"finish_reason":null}`...), e.tail...)
}

// thought appends thinking, except with strict compliance. A signature that
// arrives in pieces is marked once.
func (e *streamEncoder) thought(dst []byte, ev *llm.Event, part *sentPart) []byte {
	if e.to.Strict {
		return dst
	}
	if ev.Text != "" {
		dst = append(e.chunk(dst, ev.Choice), `{"reasoning_content":`...)
		dst = jsonedit.AppendString(dst, ev.Text)
		dst = append(dst, `,"content_blocks":[{"index":`...)
		dst = strconv.AppendInt(dst, int64(ev.Part), 10)
		dst = append(dst, `,"delta":{"type":"thinking","thinking":`...)
		dst = jsonedit.AppendString(dst, ev.Text)
		dst = e.undecided(append(dst, "}}]}"...))
	}
	if ev.Signature.Value == "" {
		return dst
	}
	text := ev.Signature.Value
	if part.sign.Vendor == "" {
		text = dialect.MarkSignature(llm.Anthropic, ev.Signature)
	}
	part.sign = ev.Signature
	return e.signed(dst, ev, `{"type":"thinking","signature":`, text)
}

// signed appends an element of content_blocks with a signature.
func (e *streamEncoder) signed(dst []byte, ev *llm.Event, before, text string) []byte {
	dst = append(e.chunk(dst, ev.Choice), `{"content_blocks":[{"index":`...)
	dst = strconv.AppendInt(dst, int64(ev.Part), 10)
	dst = append(append(dst, `,"delta":`...), before...)
	dst = jsonedit.AppendString(dst, text)
	return e.undecided(append(dst, "}}]}"...))
}

func (e *streamEncoder) citation(dst []byte, ev *llm.Event, cite *llm.Citation, offset int) []byte {
	blocks := !e.to.Strict && cite.Dialect == "messages" && len(cite.Raw) > 0
	if cite.URL == "" && !blocks {
		return dst
	}
	w := writer{jsonedit.AppendLine(e.chunk(dst, ev.Choice))}
	w.Open('{')
	if cite.URL != "" {
		w.Name("annotations")
		w.Open('[')
		w.annotation(cite, offset)
		w.Close(']')
	}
	if blocks {
		w.Name("content_blocks")
		w.Open('[')
		w.Open('{')
		w.intMember("index", int64(ev.Part))
		w.Name("delta")
		w.Open('{')
		w.textMember("type", "text")
		w.rawMember("citation", cite.Raw)
		w.Close('}')
		w.Close('}')
		w.Close(']')
	}
	w.Close('}')
	return e.undecided(w.Bytes())
}

// arguments appends a piece of a call's arguments.
func (e *streamEncoder) arguments(dst []byte, ev *llm.Event, part *sentPart) []byte {
	if ev.Text != "" {
		part.argued = true
		number, after := part.call, "}}]}"
		switch {
		case e.legacy && number == 0:
			return e.plain(dst, ev.Choice, `{"function_call":{"arguments":`, ev.Text, "}}")
		case e.legacy:
			number--
		}
		dst = append(e.chunk(dst, ev.Choice), `{"tool_calls":[{"index":`...)
		dst = strconv.AppendInt(dst, int64(number), 10)
		if part.custom {
			dst = append(dst, `,"type":"custom","custom":{"input":`...)
		} else {
			dst = append(dst, `,"function":{"arguments":`...)
		}
		dst = jsonedit.AppendString(dst, ev.Text)
		dst = e.undecided(append(dst, after...))
	}
	if ev.Signature.Value != "" && !e.to.Strict {
		dst = e.callSigned(dst, ev, part)
	}
	return dst
}

// close sends empty arguments for a call that had none, since clients parse
// them.
func (e *streamEncoder) close(dst []byte, ev *llm.Event) []byte {
	c, dst := e.choice(dst, ev.Choice)
	if ev.Part < 0 || ev.Part >= len(c.parts) {
		return dst
	}
	if part := &c.parts[ev.Part]; part.kind == callPart && !part.argued && !part.custom {
		return e.arguments(dst, &llm.Event{Choice: ev.Choice, Part: ev.Part, Text: "{}"}, part)
	}
	return dst
}

func (e *streamEncoder) callSigned(dst []byte, ev *llm.Event, part *sentPart) []byte {
	if e.legacy {
		return dst
	}
	w := writer{jsonedit.AppendLine(e.chunk(dst, ev.Choice))}
	w.Open('{')
	w.Name("tool_calls")
	w.Open('[')
	w.Open('{')
	w.intMember("index", int64(part.call))
	w.Name("extra_content")
	w.google(ev.Signature)
	w.Close('}')
	w.Close(']')
	w.Close('}')
	return e.undecided(w.Bytes())
}
