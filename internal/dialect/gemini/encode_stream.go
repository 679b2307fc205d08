package gemini

import (
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// NewEncoder returns an encoder for one streamed response.
func (Dialect) NewEncoder(to dialect.ResponseTarget) dialect.StreamEncoder {
	return &streamEncoder{to: to}
}

// streamEncoder writes the frames of one response. Each frame has the form of a
// response with the new content only; the last one has the finish reasons and
// the usage.
type streamEncoder struct {
	to      dialect.ResponseTarget
	head    []byte // written after the candidates of each frame
	extra   []llm.Member
	usage   llm.Usage
	choices []writing
}

// writing is the state of one choice.
type writing struct {
	index    int
	parts    parts
	open     []unsentCall // calls that are not written yet, by part number
	thinking map[int]bool // the open parts of thinking
	thought  bool         // the last part is thinking with text
	said     []byte       // the last text
	cites    []llm.Citation
	finish   *llm.Event
}

// unsentCall collects the arguments of a call, since the protocol only has
// complete calls.
type unsentCall struct {
	part  int
	call  llm.ToolCall
	args  []byte
	ended bool
}

// Encode appends the frames for an event.
func (w *streamEncoder) Encode(dst []byte, e *llm.Event) []byte {
	switch e.Kind {
	case llm.EventStart:
		b := jsonedit.AppendLine(nil)
		b.Open('{')
		appendHead(&b, e.ID, e.Model, w.to)
		w.head = b.Bytes()[1:]
		w.extra = e.Extra
	case llm.EventPartStart:
		return w.start(dst, e)
	case llm.EventDelta:
		return w.delta(dst, e)
	case llm.EventPartEnd:
		return w.end(dst, e)
	case llm.EventFinish:
		finish := *e
		w.choice(e.Choice).finish = &finish
	case llm.EventUsage:
		w.usage = e.Usage
	case llm.EventError:
		return appendFault(dst, e.Fault)
	case llm.EventEnd:
		return w.last(dst)
	}
	return dst
}

func (w *streamEncoder) choice(i int) *writing {
	for len(w.choices) <= i {
		w.choices = append(w.choices, writing{index: len(w.choices)})
	}
	return &w.choices[i]
}

// frame appends a frame with one candidate, whose parts are written by write.
func (w *streamEncoder) frame(dst []byte, c *writing, logprobs []llm.Logprob, write func(*jsonedit.Builder)) []byte {
	b := jsonedit.AppendLine(append(dst, `data: {"candidates":[`...))
	b.Open('{')
	c.parts.open(&b)
	write(&b)
	b.Close(']')
	text(&b, "role", roleModel)
	b.Close('}')
	number(&b, "index", int64(c.index))
	appendLogprobs(&b, logprobs)
	b.Close('}')
	return w.tail(append(b.Bytes(), ']', ','))
}

func (w *streamEncoder) tail(dst []byte) []byte {
	if w.head == nil {
		b := jsonedit.AppendLine(nil)
		b.Open('{')
		appendHead(&b, "", "", w.to)
		w.head = b.Bytes()[1:]
	}
	return append(append(dst, w.head...), "}\r\n\r\n"...)
}

// start handles the start of a part: complete parts are written, text follows
// in deltas.
func (w *streamEncoder) start(dst []byte, e *llm.Event) []byte {
	c := w.choice(e.Choice)
	c.thought = false
	switch p := e.Opened.(type) {
	case llm.Text:
		c.said = c.said[:0]
		c.cites = append(c.cites[:0], p.Citations...)
		return w.piece(dst, c, p.Text, marked(p.Signature, false), nil)
	case llm.Refusal:
		return w.piece(dst, c, p.Text, "", nil)
	case llm.Thinking:
		if p.Redacted {
			return w.frame(dst, c, nil, func(b *jsonedit.Builder) { c.parts.write(b, p) })
		}
		if c.thinking == nil {
			c.thinking = map[int]bool{}
		}
		c.thinking[e.Part] = true
		return w.thought(dst, c, p.Text, p.Signature)
	case llm.ToolCall:
		g := unsentCall{part: e.Part, call: p}
		c.open = append(c.open, g)
		return dst
	case llm.Native:
		if p.Dialect != own {
			return dst
		}
	case llm.Media:
		if !(Dialect{}).HoldsMedia(&p, w.to) {
			return dst
		}
	}
	return w.frame(dst, c, nil, func(b *jsonedit.Builder) { c.parts.write(b, e.Opened) })
}

func (w *streamEncoder) delta(dst []byte, e *llm.Event) []byte {
	c := w.choice(e.Choice)
	for i := range c.open {
		if g := &c.open[i]; g.part == e.Part {
			g.args = append(g.args, e.Text...)
			if e.Signature.Value != "" {
				g.call.Signature = joinSignatures(g.call.Signature, e.Signature)
			}
			return dst
		}
	}
	if c.thinking[e.Part] {
		return w.thought(dst, c, e.Text, e.Signature)
	}
	if e.Citation != nil {
		c.cites = append(c.cites, *e.Citation)
	}
	c.said = append(c.said, e.Text...)
	return w.piece(dst, c, e.Text, marked(e.Signature, false), e.Logprobs)
}

func joinSignatures(a, b llm.Signature) llm.Signature {
	return llm.Signature{Vendor: b.Vendor, Value: a.Value + b.Value}
}

// piece writes a delta of text.
func (w *streamEncoder) piece(dst []byte, c *writing, words, sign string, logprobs []llm.Logprob) []byte {
	if words == "" && sign == "" && len(logprobs) == 0 {
		return dst
	}
	return w.frame(dst, c, logprobs, func(b *jsonedit.Builder) { c.parts.words(b, words, false, sign) })
}

// thought writes a delta of thinking. The signature of thinking without text is
// held back for the next part.
func (w *streamEncoder) thought(dst []byte, c *writing, words string, s llm.Signature) []byte {
	switch {
	case words != "":
		c.thought = true
	case s.Value == "":
		return dst
	case s.Vendor == llm.Google && !c.thought:
		c.parts.pending += s.Value
		return dst
	}
	return w.frame(dst, c, nil, func(b *jsonedit.Builder) { c.parts.words(b, words, true, marked(s, false)) })
}

// end handles the end of a part. Calls are written in the order in which they
// began.
func (w *streamEncoder) end(dst []byte, e *llm.Event) []byte {
	c := w.choice(e.Choice)
	delete(c.thinking, e.Part)
	for i := range c.open {
		if c.open[i].part == e.Part {
			c.open[i].ended = true
		}
	}
	for len(c.open) > 0 && c.open[0].ended {
		g := &c.open[0]
		g.call.Arguments += string(g.args)
		dst = w.frame(dst, c, nil, func(b *jsonedit.Builder) { c.parts.call(b, g.call) })
		c.open = c.open[1:]
	}
	return dst
}

// last writes the final frame.
func (w *streamEncoder) last(dst []byte) []byte {
	b := jsonedit.AppendLine(append(dst, `data: `...))
	b.Open('{')
	b.Name("candidates")
	b.Open('[')
	for i := range w.choices {
		w.finish(&b, &w.choices[i])
	}
	b.Close(']')
	if w.usage.Known {
		appendUsage(&b, w.usage)
	}
	for _, m := range w.extra {
		if responseFields[m.Name] {
			b.Key(m.Name)
			b.Raw(m.Value)
		}
	}
	return w.tail(append(b.Bytes(), ','))
}

// finish writes the end of a choice.
func (w *streamEncoder) finish(b *jsonedit.Builder, c *writing) {
	b.Open('{')
	c.parts.n = 0
	c.parts.open(b)
	c.parts.close(b)
	if e := c.finish; e != nil && (e.Stop != "" || e.NativeFinishReason != "") {
		text(b, "finishReason", reasonOf(e.Stop, e.NativeFinishReason))
	}
	if len(c.open) > 0 {
		appendBroken(b, c.open[0].call.Name)
	}
	number(b, "index", int64(c.index))
	grounded := false
	if c.finish != nil {
		for _, m := range c.finish.Extra {
			if candidateFields[m.Name] {
				grounded = grounded || m.Name == "groundingMetadata"
				b.Key(m.Name)
				b.Raw(m.Value)
			}
		}
	}
	if len(c.cites) > 0 && !grounded {
		appendGrounding(b, c.cites, string(c.said))
	}
	b.Close('}')
}
