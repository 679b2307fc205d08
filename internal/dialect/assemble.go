package dialect

import (
	"iter"
	"strings"

	"modelgate/internal/model/llm"
)

// Assembler builds the complete response from the events of a streamed one. The zero
// value is ready for use by one goroutine.
type Assembler struct {
	res   llm.Response
	parts []*open           // of all choices; pointers, since builders must not be copied
	open  map[partKey]*open // the latest part of each number
	err   *llm.ProviderError
	ended bool
}

// partKey names a part of a stream.
type partKey struct{ choice, number int }

// open is a part that still grows.
type open struct {
	choice int
	part   llm.Part
	text   strings.Builder
	vendor llm.Vendor // of the signature; empty if the deltas had none
	sign   strings.Builder
	cites  []llm.Citation
}

// Add adds the next event.
func (a *Assembler) Add(e *llm.Event) {
	switch e.Kind {
	case llm.EventStart:
		a.res.ID, a.res.Model, a.res.Created = e.ID, e.Model, e.Created
		a.res.ServiceTier, a.res.Fingerprint = e.ServiceTier, e.Fingerprint
		a.res.Extra = append(a.res.Extra, e.Extra...)
	case llm.EventPartStart:
		a.choice(e.Choice)
		p := &open{choice: e.Choice, part: e.Opened}
		a.parts = append(a.parts, p)
		if a.open == nil {
			a.open = make(map[partKey]*open)
		}
		a.open[partKey{e.Choice, e.Part}] = p
	case llm.EventDelta:
		a.grow(e)
	case llm.EventFinish:
		c := a.choice(e.Choice)
		c.Stop, c.NativeFinishReason, c.StopText = e.Stop, e.NativeFinishReason, e.StopText
		c.Extra = append(c.Extra, e.Extra...)
	case llm.EventUsage:
		a.res.Usage = e.Usage
	case llm.EventError:
		a.err = e.Fault
	case llm.EventEnd:
		a.ended = true
	}
}

func (a *Assembler) choice(i int) *llm.Choice {
	for len(a.res.Choices) <= i {
		a.res.Choices = append(a.res.Choices, llm.Choice{})
	}
	return &a.res.Choices[i]
}

func (a *Assembler) grow(e *llm.Event) {
	p, ok := a.open[partKey{e.Choice, e.Part}]
	if !ok {
		return
	}
	p.text.WriteString(e.Text)
	if e.Signature.Vendor != "" {
		p.vendor = e.Signature.Vendor
		p.sign.WriteString(e.Signature.Value)
	}
	if e.Citation != nil {
		p.cites = append(p.cites, *e.Citation)
	}
	c := a.choice(e.Choice)
	c.Logprobs = append(c.Logprobs, e.Logprobs...)
}

// Response returns the response so far. fault is the error that the provider
// reported in the middle of it; complete is true after EventEnd.
func (a *Assembler) Response() (r *llm.Response, fault *llm.ProviderError, complete bool) {
	res := a.res
	res.Choices = append([]llm.Choice(nil), a.res.Choices...)
	for i := range a.parts {
		p := a.parts[i]
		c := &res.Choices[p.choice]
		c.Parts = append(c.Parts, p.complete()) // the copy starts without parts
	}
	return &res, a.err, a.ended
}

// complete returns the part including all of its deltas.
func (p *open) complete() llm.Part {
	switch part := p.part.(type) {
	case llm.Text:
		part.Text += p.text.String()
		part.Citations = append(part.Citations, p.cites...)
		part.Signature = p.signature(part.Signature)
		return part
	case llm.Thinking:
		part.Text += p.text.String()
		part.Signature = p.signature(part.Signature)
		return part
	case llm.Refusal:
		part.Text += p.text.String()
		return part
	case llm.ToolCall:
		part.Arguments += p.text.String()
		part.Signature = p.signature(part.Signature)
		return part
	}
	return p.part
}

// signature returns the signature that the part began with, extended by its
// deltas.
func (p *open) signature(first llm.Signature) llm.Signature {
	if p.vendor == "" {
		return first
	}
	return llm.Signature{Vendor: p.vendor, Value: first.Value + p.sign.String()}
}

// Replay returns the events of a complete response, as if the provider had
// streamed it in one piece.
func Replay(r *llm.Response) iter.Seq[llm.Event] {
	return func(yield func(llm.Event) bool) {
		more := yield(llm.Event{
			Kind: llm.EventStart, ID: r.ID, Model: r.Model, Created: r.Created,
			ServiceTier: r.ServiceTier, Fingerprint: r.Fingerprint, Extra: r.Extra,
		})
		for i := 0; more && i < len(r.Choices); i++ {
			more = replayChoice(yield, i, &r.Choices[i])
		}
		_ = more && yield(llm.Event{Kind: llm.EventUsage, Usage: r.Usage}) && yield(llm.Event{Kind: llm.EventEnd})
	}
}

func replayChoice(yield func(llm.Event) bool, i int, c *llm.Choice) (more bool) {
	logprobs := c.Logprobs
	for n, p := range c.Parts {
		start := llm.Event{Kind: llm.EventPartStart, Choice: i, Part: n, Opened: p}
		delta := llm.Event{Kind: llm.EventDelta, Choice: i, Part: n}
		switch part := p.(type) {
		case llm.Text:
			delta.Text, delta.Logprobs, logprobs = part.Text, logprobs, nil
			part.Text = ""
			start.Opened = part
		case llm.Thinking:
			delta.Text, delta.Signature = part.Text, part.Signature
			if !part.Redacted {
				part.Text, part.Signature = "", llm.Signature{}
			} else {
				delta = llm.Event{}
			}
			start.Opened = part
		case llm.Refusal:
			delta.Text = part.Text
			start.Opened = llm.Refusal{}
		case llm.ToolCall:
			delta.Text = part.Arguments
			part.Arguments = ""
			start.Opened = part
		}
		if !yield(start) {
			return false
		}
		if filled := delta.Text != "" || delta.Signature.Vendor != "" || delta.Logprobs != nil; filled && !yield(delta) {
			return false
		}
		if c, ok := p.(llm.ToolCall); ok && c.Broken {
			continue
		}
		if !yield(llm.Event{Kind: llm.EventPartEnd, Choice: i, Part: n}) {
			return false
		}
	}
	return yield(llm.Event{Kind: llm.EventFinish, Choice: i, Stop: c.Stop, NativeFinishReason: c.NativeFinishReason, StopText: c.StopText,
		Extra: c.Extra})
}
