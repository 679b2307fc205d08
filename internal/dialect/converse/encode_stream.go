package converse

import (
	"cmp"
	"maps"
	"slices"

	"modelgate/internal/dialect"
	"modelgate/internal/format/eventstream"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// NewEncoder returns an encoder for one streamed response.
func (Dialect) NewEncoder(to dialect.ResponseTarget) dialect.StreamEncoder {
	return &streamEncoder{to: to, parts: map[int]*openPart{}}
}

// streamEncoder writes one streamed response as binary messages. Parts may be
// open in parallel, since every message names its block.
type streamEncoder struct {
	to      dialect.ResponseTarget
	parts   map[int]*openPart
	next    int    // index of the next block
	payload []byte // of the current message
	usage   llm.Usage
	finish  llm.Event // EventFinish; written at the end, since an error may follow it

	started, ended bool
}

// openPart is an open part. Its index is -1 until something is written.
type openPart struct {
	index  int
	kind   llm.Part // the part without its content
	custom bool
	marked bool          // a piece of the signature has been written
	signed llm.Signature // of a text
}

// Encode appends the messages for an event. The protocol has one choice.
func (w *streamEncoder) Encode(dst []byte, e *llm.Event) []byte {
	if w.ended || e.Choice != 0 {
		return dst
	}
	if e.Kind != llm.EventError && !w.started {
		w.started = true
		dst = w.message(dst, "messageStart", append(w.payload[:0], `{"role":"assistant"}`...))
	}
	switch e.Kind {
	case llm.EventPartStart:
		return w.open(dst, e)
	case llm.EventDelta:
		return w.delta(dst, e)
	case llm.EventPartEnd:
		return w.end(dst, e.Part)
	case llm.EventFinish:
		if w.finish.Kind == 0 {
			w.finish = *e
		}
	case llm.EventUsage:
		w.usage = e.Usage
	case llm.EventError:
		w.ended = true
		return w.fault(dst, e.Fault)
	case llm.EventEnd:
		w.ended = true
		return w.metadata(w.messageStop(w.stopAll(dst)))
	}
	return dst
}

// stopAll ends the blocks of calls that broke off, whose arguments stay as they
// are.
func (w *streamEncoder) stopAll(dst []byte) []byte {
	for _, part := range slices.Sorted(maps.Keys(w.parts)) {
		dst = w.stop(dst, w.parts[part])
	}
	return dst
}

// message appends a message and reuses the memory of its payload.
func (w *streamEncoder) message(dst []byte, event string, payload []byte) []byte {
	w.payload = payload
	return eventstream.Append(dst, []eventstream.Header{
		{Name: ":event-type", Text: event},
		{Name: ":content-type", Text: "application/json"},
		{Name: ":message-type", Text: "event"},
	}, payload)
}

// at writes the start of the payload of a message about a block:
// {"contentBlockIndex":n
func (w *streamEncoder) at(index int) jsonedit.Builder {
	b := jsonedit.Append(w.payload[:0])
	b.Open('{')
	b.Name("contentBlockIndex")
	b.Int(int64(index))
	return b
}

// block assigns an index to a part when something is written for the first
// time.
func (w *streamEncoder) block(p *openPart) int {
	if p.index < 0 {
		p.index = w.next
		w.next++
	}
	return p.index
}

func (w *streamEncoder) open(dst []byte, e *llm.Event) []byte {
	p := &openPart{index: -1, kind: e.Opened}
	w.parts[e.Part] = p
	switch opened := e.Opened.(type) {
	case llm.Text:
		p.signed = opened.Signature
		dst = w.text(dst, p, opened.Text)
		for i := range opened.Citations {
			dst = w.citation(dst, p, &opened.Citations[i])
		}
	case llm.Refusal:
		return w.text(dst, p, opened.Text)
	case llm.Thinking:
		if opened.Redacted {
			return w.redacted(dst, p, opened.Signature)
		}
		return w.sign(w.think(dst, p, opened.Text), p, opened.Signature)
	case llm.ToolCall:
		return w.call(dst, p, &opened)
	case llm.Media:
		if (Dialect{}).HoldsMedia(&opened, w.to) {
			dst = w.raw(dst, p, "start", wrap("image", wrap("format", jsonedit.AppendString(nil, wordOf(llm.Image, opened.Type)))))
			return w.raw(dst, p, "delta", wrap("image", wrap("source", wrap("bytes", jsonedit.AppendString(nil, opened.Data)))))
		}
	case llm.Native:
		return w.native(dst, p, &opened)
	}
	return dst
}

// raw writes a start or delta message of a block.
func (w *streamEncoder) raw(dst []byte, p *openPart, member string, value []byte) []byte {
	b := w.at(w.block(p))
	b.Name(member)
	b.Raw(value)
	b.Close('}')
	event := "contentBlockDelta"
	if member == "start" {
		event = "contentBlockStart"
	}
	return w.message(dst, event, b.Bytes())
}

func (w *streamEncoder) text(dst []byte, p *openPart, text string) []byte {
	if text == "" {
		return dst
	}
	b := w.at(w.block(p))
	b.Name("delta")
	b.Open('{')
	b.Name("text")
	b.String(text)
	b.Close('}')
	b.Close('}')
	return w.message(dst, "contentBlockDelta", b.Bytes())
}

func (w *streamEncoder) think(dst []byte, p *openPart, text string) []byte {
	if text == "" {
		return dst
	}
	b := w.at(w.block(p))
	b.Name("delta")
	b.Open('{')
	b.Name("reasoningContent")
	b.Open('{')
	b.Name("text")
	b.String(text)
	b.Close('}')
	b.Close('}')
	b.Close('}')
	return w.message(dst, "contentBlockDelta", b.Bytes())
}

// sign writes a piece of a signature. The first one is preceded by the mark of
// another vendor.
func (w *streamEncoder) sign(dst []byte, p *openPart, s llm.Signature) []byte {
	if s.Value == "" {
		return dst
	}
	text := s.Value
	if !p.marked {
		text = dialect.MarkSignature(own, s)
	}
	p.marked = true
	return w.raw(dst, p, "delta", wrap("reasoningContent", wrap("signature", jsonedit.AppendString(nil, text))))
}

func (w *streamEncoder) citation(dst []byte, p *openPart, c *llm.Citation) []byte {
	var b jsonedit.Builder
	appendCitation(&b, c)
	return w.raw(dst, p, "delta", wrap("citation", b.Bytes()))
}

func (w *streamEncoder) call(dst []byte, p *openPart, c *llm.ToolCall) []byte {
	if mark := markCall(c); mark != nil {
		before := &openPart{index: -1}
		dst = w.stop(w.sign(dst, before, mark.Signature), before)
	}
	p.custom = c.Custom
	b := w.at(w.block(p))
	b.Name("start")
	b.Open('{')
	b.Name("toolUse")
	b.Open('{')
	b.Name("toolUseId")
	b.String(c.ID)
	b.Name("name")
	b.String(c.Name)
	b.Close('}')
	b.Close('}')
	b.Close('}')
	dst = w.message(dst, "contentBlockStart", b.Bytes())
	if p.custom {
		dst = w.input(dst, p, `{"input":"`)
	}
	return w.arguments(dst, p, c.Arguments)
}

// arguments writes a piece of a call's arguments. The text input of a custom
// tool becomes part of a string inside of them.
func (w *streamEncoder) arguments(dst []byte, p *openPart, text string) []byte {
	if p.custom {
		quoted := jsonedit.AppendString(nil, text)
		text = string(quoted[1 : len(quoted)-1])
	}
	return w.input(dst, p, text)
}

func (w *streamEncoder) input(dst []byte, p *openPart, text string) []byte {
	if text == "" {
		return dst
	}
	b := w.at(w.block(p))
	b.Name("delta")
	b.Open('{')
	b.Name("toolUse")
	b.Open('{')
	b.Name("input")
	b.String(text)
	b.Close('}')
	b.Close('}')
	b.Close('}')
	return w.message(dst, "contentBlockDelta", b.Bytes())
}

// native writes the calls and results of tools that run at the provider.
func (w *streamEncoder) native(dst []byte, p *openPart, n *llm.Native) []byte {
	v, err := jsonedit.ParseValue(n.Raw)
	if err != nil || n.Dialect != name || n.Type != "toolUse" && n.Type != "toolResult" {
		return dst
	}
	inner, _ := v.Get(n.Type)
	member, content := "input", []byte(nil)
	if n.Type == "toolResult" {
		member = "content"
	}
	if m, ok := inner.Get(member); ok {
		content = m.Raw()
	}
	var doc jsonedit.Doc
	if doc.Scan(inner.Raw()) != nil {
		return dst
	}
	dst = w.raw(dst, p, "start", wrap(n.Type, doc.Apply(nil, jsonedit.Edit{Name: member})))
	if n.Type == "toolResult" {
		return w.raw(dst, p, "delta", wrap("toolResult", content))
	}
	return w.input(dst, p, string(content))
}

func (w *streamEncoder) delta(dst []byte, e *llm.Event) []byte {
	p := w.parts[e.Part]
	if p == nil {
		return dst
	}
	switch p.kind.(type) {
	case llm.Text, llm.Refusal:
		dst = w.text(dst, p, e.Text)
		if s := e.Signature; s.Value != "" {
			p.signed = llm.Signature{Vendor: s.Vendor, Value: p.signed.Value + s.Value}
		}
		if e.Citation != nil {
			dst = w.citation(dst, p, e.Citation)
		}
	case llm.Thinking:
		dst = w.sign(w.think(dst, p, e.Text), p, e.Signature)
	case llm.ToolCall:
		dst = w.arguments(dst, p, e.Text)
	}
	return dst
}

func (w *streamEncoder) end(dst []byte, part int) []byte {
	p := w.parts[part]
	if p == nil {
		return dst
	}
	delete(w.parts, part)
	if p.custom {
		dst = w.input(dst, p, `"}`)
	}
	if t, ok := p.kind.(llm.Thinking); ok && p.index >= 0 && !t.Redacted && !p.marked {
		dst = w.sign(dst, p, llm.Signature{Vendor: own, Value: dialect.Unsigned})
	}
	dst = w.stop(dst, p)
	if p.signed.Value != "" {
		after := &openPart{index: -1}
		dst = w.stop(w.redacted(dst, after, p.signed), after)
	}
	return dst
}

// redacted writes a block that holds only a signature.
func (w *streamEncoder) redacted(dst []byte, p *openPart, s llm.Signature) []byte {
	data := jsonedit.AppendString(nil, redactedData(s, own))
	return w.raw(dst, p, "delta", wrap("reasoningContent", wrap("redactedContent", data)))
}

func (w *streamEncoder) stop(dst []byte, p *openPart) []byte {
	if p.index < 0 {
		return dst
	}
	b := w.at(p.index)
	b.Close('}')
	return w.message(dst, "contentBlockStop", b.Bytes())
}

func (w *streamEncoder) messageStop(dst []byte) []byte {
	e := &w.finish
	b := jsonedit.Append(w.payload[:0])
	b.Open('{')
	b.Name("stopReason")
	b.String(reason(e.Stop, e.NativeFinishReason))
	appendFields(&b, e.Extra, e.StopText, w.to)
	b.Close('}')
	return w.message(dst, "messageStop", b.Bytes())
}

// metadata writes the last message of the stream: clients take it as the end.
func (w *streamEncoder) metadata(dst []byte) []byte {
	e := &w.finish
	b := jsonedit.Append(w.payload[:0])
	b.Open('{')
	appendUsage(&b, w.usage)
	appendMetrics(&b, e.Extra)
	appendExtra(&b, e.Extra, "trace", "performanceConfig")
	if e.ServiceTier != "" {
		b.Name("serviceTier")
		b.Raw(wrap("type", jsonedit.AppendString(nil, e.ServiceTier)))
	}
	b.Close('}')
	return w.message(dst, "metadata", b.Bytes())
}

func (w *streamEncoder) fault(dst []byte, f *llm.ProviderError) []byte {
	if f == nil {
		f = &llm.ProviderError{}
	}
	return appendException(dst, exceptionFor(f), cmp.Or(f.Message, "the provider reported an error without a message"))
}
