package chat

import (
	"bytes"

	"modelgate/internal/dialect"
	"modelgate/internal/jsonedit"
	"modelgate/internal/llm"
)

// choice is what was read of one choice. The dialect has flat deltas; parts
// begin and end where their kind changes.
type choice struct {
	d    *streamDecoder
	next int // number of the part that begins next

	// open is the part of text, thinking or a refusal that grows, and kind what
	// it is.
	open    int
	kind    partKind
	thought llm.Thinking // the open one, except for its text

	// numbered says that the open part is the element index of content_blocks.
	numbered bool
	index    int64

	calls []*openCall
	audio *spokenAudio

	chars   int  // of text, for where citations apply
	partAt  int  // chars before the open text
	cited   bool // a citation was told
	decline bool // a refusal was told

	logprobs []llm.Logprob  // not told yet
	cites    []llm.Citation // not told yet

	said    string
	stop    string // stop sequence that came
	extra   []llm.Member
	stopped bool // a finish reason was read
	told    bool // the finish was told
}

const noPart = -1

// spokenAudio gathers what the model says aloud.
type spokenAudio struct {
	data       []byte
	transcript []byte
	extra      []llm.Member
}

// begin opens a part that comes in one piece or is kept track of elsewhere.
func (c *choice) begin(dst []llm.Event, i int, p llm.Part) ([]llm.Event, int) {
	n := c.next
	c.next++
	return append(dst, llm.Event{Kind: llm.EventPartStart, Choice: i, Part: n, Opened: p}), n
}

// piece adds a part that is whole.
func (c *choice) piece(dst []llm.Event, i int, p llm.Part) []llm.Event {
	dst = c.endTextPart(dst, i)
	dst, n := c.begin(dst, i, p)
	return append(dst, llm.Event{Kind: llm.EventPartEnd, Choice: i, Part: n})
}

// endTextPart ends the part of words that is open.
func (c *choice) endTextPart(dst []llm.Event, i int) []llm.Event {
	if c.open == noPart {
		return dst
	}
	if c.kind == textPart {
		dst = c.source(dst, i)
	}
	dst = append(dst, llm.Event{Kind: llm.EventPartEnd, Choice: i, Part: c.open})
	c.open, c.numbered = noPart, false
	return dst
}

// ready makes sure that a part of kind is open.
func (c *choice) ready(dst []llm.Event, i int, kind partKind) []llm.Event {
	if c.open != noPart && c.kind == kind {
		return dst
	}
	dst = c.endTextPart(dst, i)
	var p llm.Part
	switch kind {
	case textPart:
		p, c.partAt = llm.Text{}, c.chars
	case thinkingPart:
		p, c.thought = llm.Thinking{}, llm.Thinking{}
	default:
		p = llm.Refusal{}
	}
	c.kind = kind
	dst, c.open = c.begin(dst, i, p)
	return dst
}

// grow adds words to the open part of kind, which begins where there is none.
func (c *choice) grow(dst []llm.Event, i int, kind partKind, text string) []llm.Event {
	dst = c.ready(dst, i, kind)
	e := llm.Event{Kind: llm.EventDelta, Choice: i, Part: c.open, Text: text}
	if kind == textPart {
		c.chars += runes(text)
		e.Logprobs, c.logprobs = c.logprobs, nil
	}
	dst = append(dst, e)
	if kind == textPart && len(c.cites) > 0 {
		dst = c.emitCitations(dst, i, c.chars)
	}
	return dst
}

func (c *choice) sign(dst []llm.Event, i int, s llm.Signature) []llm.Event {
	if s.Vendor == "" || s.Value == "" {
		return dst
	}
	return append(dst, llm.Event{Kind: llm.EventDelta, Choice: i, Part: c.open, Signature: s})
}

// readThought takes thinking in the fields that providers have for it. Details
// say more than the text beside them.
func (c *choice) readThought(dst []llm.Event, i int, m *deltaFields) []llm.Event {
	if len(m.details) > 2 {
		if v, err := jsonedit.ParseValue(m.details); err == nil {
			before := len(dst)
			for e := range v.Elements() {
				dst = c.detail(dst, i, readDetail(e))
			}
			if len(dst) > before {
				return dst
			}
		}
	}
	if text, _ := unquoted(m.thought); text != "" {
		dst = c.grow(dst, i, thinkingPart, text)
	}
	return dst
}

func (c *choice) detail(dst []llm.Event, i int, t detail) []llm.Event {
	if t.text == "" && t.signature == "" {
		return dst
	}
	var last *llm.Thinking
	if c.open != noPart && c.kind == thinkingPart {
		last = &c.thought
	}
	if t.kind == "encrypted" && t.opens(last) {
		return c.piece(dst, i, t.part())
	}
	if t.opens(last) {
		dst = c.endTextPart(dst, i)
		c.kind, c.thought = thinkingPart, llm.Thinking{ID: t.id, Summary: t.kind == "summary"}
		dst, c.open = c.begin(dst, i, c.thought)
	}
	if t.text != "" {
		dst = append(dst, llm.Event{Kind: llm.EventDelta, Choice: i, Part: c.open, Text: t.text})
	}
	c.thought.Signature.Value += t.signature
	return c.sign(dst, i, t.sign())
}

// readContent takes words: a string, or parts as Mistral and others send them.
func (c *choice) readContent(dst []llm.Event, i int, raw []byte) []llm.Event {
	if len(raw) > 2 && raw[0] == '[' {
		if v, err := jsonedit.ParseValue(raw); err == nil {
			for e := range v.Elements() {
				dst = c.contentPart(dst, i, e)
			}
		}
		return dst
	}
	if text, _ := unquoted(raw); text != "" {
		dst = c.grow(dst, i, textPart, text)
	}
	return dst
}

// contentPart takes a part of content. Deltas of a kind make one part.
func (c *choice) contentPart(dst []llm.Event, i int, v jsonedit.Value) []llm.Event {
	typ, _ := v.Get("type")
	switch word, _ := typ.Text(); word {
	case "text", "output_text":
		text, _ := v.Get("text")
		if s, _ := text.Text(); s != "" {
			dst = c.grow(dst, i, textPart, s)
		}
		return dst
	case "thinking":
		thought, _ := v.Get("thinking")
		return c.thoughtPart(dst, i, v, textOf(thought))
	case "reasoning": // Claude at Databricks
		summary, _ := v.Get("summary")
		for e := range summary.Elements() {
			dst = c.thoughtPart(dst, i, e, textOf(e))
		}
		return dst
	case "reference": // Mistral's citations are numbers of its own tools' results
		return dst
	}
	return c.whole(dst, i, v)
}

func (c *choice) thoughtPart(dst []llm.Event, i int, v jsonedit.Value, text string) []llm.Event {
	if m, ok := v.Get("text"); ok && text == "" {
		text, _ = m.Text()
	}
	if text != "" {
		dst = c.grow(dst, i, thinkingPart, text)
	}
	m, _ := v.Get("signature")
	sign, _ := m.Text()
	if sign == "" {
		return dst
	}
	dst = c.ready(dst, i, thinkingPart)
	return c.sign(dst, i, dialect.ReadSignature(llm.Anthropic, sign))
}

// whole takes a part that comes in one piece. What can't be read is left out.
func (c *choice) whole(dst []llm.Event, i int, v jsonedit.Value) []llm.Event {
	var r reader
	p := r.part("", v)
	switch part := p.(type) {
	case llm.Media:
		part.At = ""
		p = part
	case llm.Native:
		part.At, part.Raw = "", bytes.Clone(part.Raw)
		p = part
	}
	if r.err != nil {
		return dst
	}
	return c.piece(dst, i, p)
}

// maxExtra bounds what is kept of a choice that only the dialect knows.
const maxExtra = 64

func (c *choice) keep(m llm.Member) {
	switch m.Name {
	case "stop_reason": // vLLM's stop sequence
		if text, ok := unquoted(m.Value); ok {
			c.stop = text
		}
		return
	case "native_finish_reason", "content_filter_offsets":
		return
	}
	if len(c.extra) >= maxExtra || !valid(m.Value) {
		return
	}
	for i := range c.extra {
		if c.extra[i].Name == m.Name {
			c.extra[i].Value = append(c.extra[i].Value[:0], m.Value...)
			return
		}
	}
	c.extra = append(c.extra, llm.Member{Name: m.Name, Value: bytes.Clone(m.Value)})
}

// complete reports whether nothing can follow what was read: the arguments of
// calls may come after the finish reason.
func (c *choice) complete() bool {
	for _, call := range c.calls {
		if !call.ended && !call.text.whole() {
			return false
		}
	}
	return c.audio == nil
}

// close ends all that is open.
func (c *choice) close(dst []llm.Event, i int) []llm.Event {
	dst = c.endTextPart(dst, i)
	if c.audio != nil {
		dst = c.piece(dst, i, c.sound())
		c.audio = nil
	}
	for _, call := range c.calls {
		dst = c.endCall(dst, i, call)
	}
	return dst
}

// finish ends the choice, once.
func (c *choice) finish(dst []llm.Event, i int) []llm.Event {
	if c.told {
		return dst
	}
	dst = c.close(dst, i)
	c.told = true
	return append(dst, llm.Event{Kind: llm.EventFinish, Choice: i, Stop: c.reason(), NativeFinishReason: c.said, StopText: c.stop, Extra: c.extra})
}

// reason is why the choice ended. Some say stop or nothing when tools were
// called, and a refusal has a field of its own.
func (c *choice) reason() llm.StopReason {
	stop := llm.StopEnd
	if c.said != "" {
		stop = stopReason(c.said)
	}
	switch {
	case stop != llm.StopEnd:
		return stop
	case c.called():
		return llm.StopTool
	case c.said == "":
		return ""
	case c.decline:
		return llm.StopRefusal
	case c.stop != "":
		return llm.StopSequence
	}
	return stop
}

// called reports whether a tool was called.
func (c *choice) called() bool {
	for _, call := range c.calls {
		if call.part != noPart {
			return true
		}
	}
	return false
}
