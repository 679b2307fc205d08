package chat

import (
	"cmp"
	"strconv"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// NewEncoder returns an encoder for one streamed response. Usage is sent in a
// chunk without choices before the terminator, if the client requested it or
// has no strict compliance. With strict compliance clients may rely on a choice
// in every chunk.
// https://platform.openai.com/docs/api-reference/chat/create#chat-create-stream_options
func (Dialect) NewEncoder(to dialect.ResponseTarget) dialect.StreamEncoder {
	asked := to.Request != nil && to.Request.IncludeUsage != nil && *to.Request.IncludeUsage
	e := &streamEncoder{to: to, asked: asked, legacy: legacy(to.Request)}
	e.tail = "]}\n\n"
	if asked {
		e.tail = `],"usage":null}` + "\n\n"
	}
	return e
}

type streamEncoder struct {
	to            dialect.ResponseTarget
	asked, legacy bool

	head    []byte // of every chunk, before the choices
	tail    string // after the choices
	extra   []llm.Member
	usage   llm.Usage
	choices []sentChoice
}

// sentChoice records what has been sent of one choice.
type sentChoice struct {
	begun bool
	parts []sentPart
	calls int
	chars int // of content, the unit of citation offsets
	said  finishState
}

// sentPart is a part that has begun.
type sentPart struct {
	kind   partKind
	call   int // number among the calls
	custom bool
	argued bool // has arguments
	chars  int  // of content before the part
	sign   llm.Signature
}

type partKind uint8

const (
	otherPart partKind = iota
	textPart
	thinkingPart
	refusalPart
	callPart
)

// Encode appends the chunks for an event.
func (e *streamEncoder) Encode(dst []byte, ev *llm.Event) []byte {
	switch ev.Kind {
	case llm.EventStart:
		e.begin(ev)
		_, dst = e.choice(dst, 0)
	case llm.EventPartStart:
		return e.open(dst, ev)
	case llm.EventDelta:
		return e.delta(dst, ev)
	case llm.EventPartEnd:
		return e.close(dst, ev)
	case llm.EventFinish:
		return e.finish(dst, ev)
	case llm.EventUsage:
		e.usage = ev.Usage
	case llm.EventError:
		return e.fault(dst, ev.Fault)
	case llm.EventEnd:
		return e.end(dst)
	}
	return dst
}

// begin builds the head that all chunks share.
func (e *streamEncoder) begin(ev *llm.Event) {
	h := headOf(&e.to, ev.ID, ev.Model, ev.Created)
	w := writer{jsonedit.AppendLine([]byte("data: "))}
	w.Open('{')
	w.textMember("id", h.id)
	w.textMember("object", "chat.completion.chunk")
	w.intMember("created", h.created)
	w.textMember("model", h.model)
	w.marks(ev.ServiceTier, ev.Fingerprint)
	w.Name("choices")
	w.Open('[')
	e.head = w.Bytes()
	if !e.to.Strict {
		e.extra = ev.Extra
	}
}

// maxChoices is the limit of choices in a stream, which the specification sets
// to 128.
const maxChoices = 128

// choice returns choice i. Its first chunk sets the role.
func (e *streamEncoder) choice(dst []byte, i int) (*sentChoice, []byte) {
	if e.head == nil {
		e.begin(&llm.Event{})
	}
	i = min(max(i, 0), maxChoices-1)
	for len(e.choices) <= i {
		e.choices = append(e.choices, sentChoice{})
	}
	c := &e.choices[i]
	if c.begun {
		return c, dst
	}
	c.begun = true
	dst = e.chunk(dst, i)
	dst = append(dst, `{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}`...)
	if len(e.extra) == 0 {
		return c, append(dst, e.tail...)
	}
	w := writer{jsonedit.AppendLine(append(dst, ']', ','))}
	w.extra(e.extra, "id", "object", "created", "model", "choices", "usage", "service_tier", "system_fingerprint")
	e.extra = nil
	dst = w.Bytes()
	if dst[len(dst)-1] == ',' {
		dst = dst[:len(dst)-1]
	}
	return c, append(dst, e.tail[1:]...)
}

// chunk appends the beginning of a chunk, up to the delta.
func (e *streamEncoder) chunk(dst []byte, choice int) []byte {
	dst = append(dst, e.head...)
	dst = append(dst, `{"index":`...)
	dst = strconv.AppendInt(dst, int64(choice), 10)
	return append(dst, `,"delta":`...)
}

// undecided appends the end of a chunk without a finish reason.
func (e *streamEncoder) undecided(dst []byte) []byte {
	dst = append(dst, `,"logprobs":null,"finish_reason":null}`...)
	return append(dst, e.tail...)
}

// open begins a part.
func (e *streamEncoder) open(dst []byte, ev *llm.Event) []byte {
	c, dst := e.choice(dst, ev.Choice)
	part := sentPart{chars: c.chars}
	defer func() { c.set(ev.Part, part) }()
	switch opened := ev.Opened.(type) {
	case llm.Text:
		part.kind = textPart
		dst = e.openBlock(dst, ev, llm.Text{Signature: opened.Signature})
		for i := range opened.Citations {
			dst = e.citation(dst, ev, &opened.Citations[i], part.chars)
		}
		if opened.Text != "" {
			dst = e.words(dst, ev, c, opened.Text)
		}
	case llm.Thinking:
		part.kind, part.sign = thinkingPart, opened.Signature
		dst = e.openBlock(dst, ev, opened)
	case llm.Refusal:
		part.kind, c.said.refusal = refusalPart, true
		if opened.Text != "" {
			dst = e.plain(dst, ev.Choice, `{"refusal":`, opened.Text, "}")
		}
	case llm.ToolCall:
		part.kind, part.call, part.custom, part.argued = callPart, c.calls, opened.Custom, opened.Arguments != ""
		c.calls++
		c.said.calls, c.said.legacy = true, e.legacy
		dst = e.openCall(dst, ev, &opened, part.call)
	case llm.Media:
		dst = e.openMedia(dst, ev, opened)
	case llm.Native:
		dst = e.openBlock(dst, ev, opened)
	}
	return dst
}

// set stores a part under its number. Decoders number parts in sequence.
func (c *sentChoice) set(n int, part sentPart) {
	for len(c.parts) <= n && len(c.parts) < 1<<16 {
		c.parts = append(c.parts, sentPart{})
	}
	if n >= 0 && n < len(c.parts) {
		c.parts[n] = part
	}
}

// openBlock begins an element of content_blocks.
func (e *streamEncoder) openBlock(dst []byte, ev *llm.Event, p llm.Part) []byte {
	if !blocked(p, e.to.Strict) {
		return dst
	}
	w := writer{jsonedit.AppendLine(e.chunk(dst, ev.Choice))}
	w.Open('{')
	if t, ok := p.(llm.Thinking); ok && t.Text != "" {
		w.textMember("reasoning_content", t.Text)
	}
	w.Name("content_blocks")
	w.Open('[')
	w.Open('{')
	w.intMember("index", int64(ev.Part))
	w.Name("delta")
	w.Open('{')
	w.block(p)
	w.Close('}')
	w.Close('}')
	w.Close(']')
	w.Close('}')
	return e.undecided(w.Bytes())
}

func (e *streamEncoder) openMedia(dst []byte, ev *llm.Event, m llm.Media) []byte {
	if !isAudioOutput(m) {
		return e.openBlock(dst, ev, m)
	}
	w := writer{jsonedit.AppendLine(e.chunk(dst, ev.Choice))}
	w.Open('{')
	w.Name("audio")
	w.audio(&m, &e.to)
	w.Close('}')
	return e.undecided(w.Bytes())
}

func (e *streamEncoder) openCall(dst []byte, ev *llm.Event, call *llm.ToolCall, number int) []byte {
	w := writer{jsonedit.AppendLine(e.chunk(dst, ev.Choice))}
	w.Open('{')
	if e.legacy && number == 0 {
		w.Name("function_call")
		w.Open('{')
		w.textMember("name", call.Name)
		w.textMember("arguments", call.Arguments)
		w.Close('}')
	} else {
		if e.legacy {
			number--
		}
		w.Name("tool_calls")
		w.Open('[')
		w.call(call, number, !e.to.Strict)
		w.Close(']')
	}
	w.Close('}')
	return e.undecided(w.Bytes())
}

// finish ends a choice.
func (e *streamEncoder) finish(dst []byte, ev *llm.Event) []byte {
	c, dst := e.choice(dst, ev.Choice)
	w := writer{jsonedit.AppendLine(append(dst, e.head...))}
	w.Open('{')
	w.intMember("index", int64(ev.Choice))
	w.Name("delta")
	w.Raw([]byte("{}"))
	w.Name("logprobs")
	w.Null()
	w.textMember("finish_reason", finishReason(ev.Stop, c.said))
	if !e.to.Strict {
		w.native(ev.NativeFinishReason, ev.StopText)
		w.extra(ev.Extra, "index", "delta", "logprobs", "finish_reason", "native_finish_reason", "stop_reason")
	}
	w.Close('}')
	return append(w.Bytes(), e.tail...)
}

// fault appends the provider's error, which ends the stream.
func (e *streamEncoder) fault(dst []byte, f *llm.ProviderError) []byte {
	if f == nil {
		f = &llm.ProviderError{}
	}
	w := writer{jsonedit.AppendLine(append(dst, "data: "...))}
	w.Open('{')
	w.Name("error")
	w.Open('{')
	w.textMember("message", cmp.Or(f.Message, "the provider reported an error without a message"))
	w.textMember("type", cmp.Or(f.Type, "upstream_error"))
	w.Name("param")
	w.Null()
	w.Name("code")
	if f.Code == "" {
		w.Null()
	} else {
		w.String(f.Code)
	}
	w.textMember("source", f.Source())
	w.Close('}')
	w.textMember("provider", e.to.Provider)
	w.Close('}')
	return append(w.Bytes(), "\n\n"...)
}

func (e *streamEncoder) end(dst []byte) []byte {
	if e.head == nil {
		e.begin(&llm.Event{})
	}
	if e.usage.Known && (e.asked || !e.to.Strict) {
		w := writer{jsonedit.AppendLine(append(append(dst, e.head...), `],"usage":`...))}
		w.usage(&e.usage, e.to.Strict)
		dst = append(w.Bytes(), "}\n\n"...)
	}
	return append(dst, terminator...)
}
