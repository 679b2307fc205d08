package chat

import (
	"bytes"
	"slices"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// choice is the state of one choice. The dialect has flat deltas; a part ends
// and the next begins when the kind of delta changes.
type choice struct {
	d    *streamDecoder
	next int // number of the next part

	// open is the open part of text, thinking or a refusal, and kind its kind.
	open    int
	kind    partKind
	thought llm.Thinking // the open one, without its text

	// numbered is true if the open part is element index of content_blocks.
	numbered bool
	index    int64

	calls []*openCall
	audio *spokenAudio

	chars   int  // of text, the unit of citation offsets
	partAt  int  // chars before the open text
	cited   bool // has a citation event
	decline bool // has a refusal

	logprobs []llm.Logprob  // not emitted yet
	cites    []llm.Citation // not emitted yet

	said     string
	stop     string // the stop sequence that was hit
	extra    []llm.Member
	stopped  bool // a finish reason was read
	finished bool // the finish event was emitted
}

const noPart = -1

// spokenAudio collects the audio output of the model.
type spokenAudio struct {
	data       []byte
	transcript []byte
	extra      []llm.Member
}

// begin begins a part other than the open one: it comes in one piece, or the
// caller tracks it.
func (c *choice) begin(dst []llm.Event, i int, p llm.Part) ([]llm.Event, int) {
	n := c.next
	c.next++
	return append(dst, llm.Event{Kind: llm.EventPartStart, Choice: i, Part: n, Opened: p}), n
}

// piece appends a complete part.
func (c *choice) piece(dst []llm.Event, i int, p llm.Part) []llm.Event {
	dst = c.endTextPart(dst, i)
	dst, n := c.begin(dst, i, p)
	return append(dst, llm.Event{Kind: llm.EventPartEnd, Choice: i, Part: n})
}

// endTextPart ends the open part of text, thinking or refusal.
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

// ready opens a part of kind unless one is open.
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

// grow appends text to the open part of kind. It begins one if there is none.
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

// readThought reads thinking from the fields that providers use for it.
// reasoning_details win over plain text, since they hold more.
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

// readContent reads content: a string, or parts as Mistral and others send
// them.
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

// contentPart reads a part of content. Consecutive deltas of a kind make one
// part.
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
	case "reference": // Mistral's citations are numbers of results of its own tools
		return dst
	}
	return c.completePart(dst, i, v)
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

// completePart reads a part that comes in one piece. A part that cannot be read
// is left out.
func (c *choice) completePart(dst []llm.Event, i int, v jsonedit.Value) []llm.Event {
	var r reader
	p := r.part("", v)
	switch part := p.(type) {
	case llm.Media:
		part.At = ""
		p = part
	case llm.Native:
		part.At, part.Raw = "", bytes.Clone(part.Raw)
		p = dialect.TextOfUnknown(part)
	}
	if r.Err != nil {
		return dst
	}
	return c.piece(dst, i, p)
}

// maxExtra is the limit of members kept of a choice that only this dialect has.
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

// complete reports whether nothing can follow: the arguments of calls may come
// after the finish reason.
func (c *choice) complete() bool {
	for _, call := range c.calls {
		if !call.ended && !call.text.Complete() {
			return false
		}
	}
	return c.audio == nil
}

// close ends all open parts.
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

// finish ends the choice. Further calls do nothing.
func (c *choice) finish(dst []llm.Event, i int) []llm.Event {
	if c.finished {
		return dst
	}
	dst = c.close(dst, i)
	c.finished = true
	return append(dst,
		llm.Event{Kind: llm.EventFinish, Choice: i, Stop: c.reason(), NativeFinishReason: c.said, StopText: c.stop, Extra: c.extra})
}

// reason returns the finish reason of the choice. Some providers send stop or
// nothing after tool calls, and a refusal has a field of its own.
func (c *choice) reason() llm.StopReason {
	stop := llm.StopEnd
	if c.said != "" {
		stop = dialect.StopReasonOf(c.said)
	}
	switch {
	case stop != llm.StopEnd:
		return stop
	case c.hasCalls():
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

// hasBegun reports whether the choice has content or a finish reason.
func (c *choice) hasBegun() bool {
	return c != nil && (c.stopped || c.next > 0 || len(c.calls) > 0 || c.audio != nil)
}

// brokeOff reports whether the choice has calls and no finish reason. If the
// provider sends none, the arguments of a call must be incomplete.
func (c *choice) brokeOff() bool {
	return c != nil && !c.stopped && slices.ContainsFunc(c.calls, func(call *openCall) bool {
		complete := call.ended || call.custom || call.text.Complete()
		return call.part != noPart && !(complete && c.d.noReason)
	})
}

// hasCalls reports whether a tool was called.
func (c *choice) hasCalls() bool {
	for _, call := range c.calls {
		if call.part != noPart {
			return true
		}
	}
	return false
}
