package messages

import (
	"maps"
	"slices"
	"strconv"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// pending is a part that has not been written to its end.
type pending struct {
	part  llm.Part
	open  bool // its block is being written
	ended bool

	text  []byte // received while another part was being written
	cites []*llm.Citation
	sign  llm.Signature
	json  dialect.JSONEnd // of a call
}

func (e *streamEncoder) partStart(dst []byte, ev *llm.Event) []byte {
	p := &pending{part: ev.Opened}
	e.parts = append(e.parts, p)
	switch part := ev.Opened.(type) {
	case llm.Text:
		p.text, p.sign = []byte(part.Text), part.Signature
		for i := range part.Citations {
			p.cites = append(p.cites, &part.Citations[i])
		}
	case llm.Refusal:
		p.text = []byte(part.Text)
	case llm.Thinking:
		p.text, p.sign = []byte(part.Text), part.Signature
	case llm.ToolCall:
		p.text, p.sign = []byte(part.Arguments), part.Signature
		p.json.Read(part.Arguments)
	}
	if len(e.parts) == 1 {
		return e.openBlock(dst, p)
	}
	return e.skipComplete(e.overtake(dst))
}

// maxAside is the limit of the parts of thinking that text overtakes while they are open.
const maxAside = 64

// overtake opens the block of a text that begins while only thinking is open: a reader
// waits for the text, and some providers end the thinking with the response. What follows
// of the thinking becomes a block of its own.
func (e *streamEncoder) overtake(dst []byte) []byte {
	last := len(e.parts) - 1
	switch e.parts[last].part.(type) {
	case llm.Text, llm.Refusal:
	default:
		return dst
	}
	before := e.parts[:last]
	for _, p := range before {
		if _, ok := p.part.(llm.Thinking); !ok || len(e.aside)+last > maxAside {
			return dst
		}
	}
	if before[0].open {
		dst = e.closeBlock(dst, before[0])
		before[0].sign = llm.Signature{}
	}
	if e.aside == nil {
		e.aside = map[int]*pending{}
	}
	for i, p := range before {
		e.aside[e.first+i] = p
	}
	e.parts, e.first = e.parts[last:], e.first+last
	return e.openBlock(dst, e.parts[0])
}

// writeAside writes the rest of thinking that text has overtaken, unless it may grow.
// all says that nothing grows any more. No block is open.
func (e *streamEncoder) writeAside(dst []byte, all bool) []byte {
	for _, number := range slices.Sorted(maps.Keys(e.aside)) {
		p := e.aside[number]
		if !all && !p.ended {
			continue
		}
		delete(e.aside, number)
		if len(p.text) > 0 || p.sign.Value != "" {
			dst = e.closeBlock(e.openBlock(dst, p), p)
		}
	}
	return dst
}

// skipComplete moves to the next part if the first is a call with complete
// arguments, which nothing can follow.
func (e *streamEncoder) skipComplete(dst []byte) []byte {
	for len(e.parts) > 1 && e.parts[0].json.Complete() {
		e.parts[0].ended = true
		dst = e.advance(dst)
	}
	return dst
}

func (e *streamEncoder) find(part int) *pending {
	if part < e.first {
		return e.aside[part]
	}
	if i := part - e.first; i >= 0 && i < len(e.parts) {
		return e.parts[i]
	}
	return nil
}

func (e *streamEncoder) delta(dst []byte, ev *llm.Event) []byte {
	p := e.find(ev.Part)
	if p == nil || p.ended {
		return dst
	}
	if ev.Signature.Vendor != "" {
		p.sign = llm.Signature{Vendor: ev.Signature.Vendor, Value: p.sign.Value + ev.Signature.Value}
	}
	call, called := p.part.(llm.ToolCall)
	if called && !call.Custom {
		p.json.Read(ev.Text)
	}
	if len(e.parts) == 0 || p != e.parts[0] {
		p.text = append(p.text, ev.Text...)
		if ev.Citation != nil {
			p.cites = append(p.cites, ev.Citation)
		}
		return e.skipComplete(dst)
	}
	dst = e.piece(dst, p, ev.Text)
	if ev.Citation != nil {
		dst = e.cite(dst, ev.Citation)
	}
	if called && p.json.Complete() {
		return e.skipComplete(dst)
	}
	return dst
}

func (e *streamEncoder) partEnd(dst []byte, part int) []byte {
	p := e.find(part)
	if p == nil {
		return dst
	}
	p.ended = true
	if len(e.parts) == 0 {
		return e.writeAside(dst, false)
	}
	return e.advance(dst)
}

// advance ends the parts at the front that have ended, and opens the next.
func (e *streamEncoder) advance(dst []byte) []byte {
	for len(e.parts) > 0 && e.parts[0].ended {
		dst = e.next(dst)
	}
	return dst
}

// next ends the part at the front, and opens the next. A call that broke off gets
// no end of its JSON.
func (e *streamEncoder) next(dst []byte) []byte {
	dst = e.closeBlock(dst, e.parts[0])
	e.parts = e.parts[1:]
	e.first++
	dst = e.writeAside(dst, false)
	if len(e.parts) > 0 {
		dst = e.openBlock(dst, e.parts[0])
	}
	return dst
}

// openBlock writes the start of a part's block and the content received so far.
func (e *streamEncoder) openBlock(dst []byte, p *pending) []byte {
	switch part := p.part.(type) {
	case llm.Text, llm.Refusal:
		_, refused := part.(llm.Refusal)
		e.ending.refused = e.ending.refused || refused
		b := e.openStart(dst)
		openText(&b, "")
		b.Close('}')
		dst = e.opened(&b, p)
	case llm.Thinking:
		if part.Redacted {
			b := e.openStart(dst)
			writeRedacted(&b, part.Signature)
			return e.opened(&b, p)
		}
		b := e.openStart(dst)
		writeThinking(&b, "", llm.Signature{})
		dst = e.opened(&b, p)
	case llm.ToolCall:
		dst = e.openCall(dst, p, &part)
	case llm.Media:
		if !(Dialect{}).HoldsMedia(&part, e.to) {
			return dst
		}
		b := e.openStart(dst)
		writeMedia(&b, &part)
		return e.opened(&b, p)
	case llm.Native:
		return e.openNative(dst, p, &part)
	default:
		return dst
	}
	dst = e.piece(dst, p, string(p.text))
	p.text = nil
	for _, c := range p.cites {
		dst = e.cite(dst, c)
	}
	return dst
}

// openCall writes the start of a call, preceded by thinking with its signature
// if it has one.
func (e *streamEncoder) openCall(dst []byte, p *pending, c *llm.ToolCall) []byte {
	e.ending.called = true
	if p.sign.Value != "" {
		b := e.openStart(dst)
		writeThinking(&b, "", llm.Signature{})
		dst = e.opened(&b, &pending{})
		dst = e.signature(dst, p.sign)
		dst = e.blockStop(dst)
	}
	b := e.openStart(dst)
	openCall(&b, c, callID(c.ID, e.calls, e.to))
	e.calls++
	b.Name("input")
	b.Raw(emptyObject)
	b.Close('}')
	dst = e.opened(&b, p)
	if c.Custom {
		dst = e.arguments(dst, `{"`+customInput+`":"`)
	}
	return dst
}

// openNative writes a complete block. The input of a server tool follows its
// start as a delta, where clients expect it.
func (e *streamEncoder) openNative(dst []byte, p *pending, n *llm.Native) []byte {
	if n.Dialect != own {
		return dst
	}
	raw, input := []byte(n.Raw), inside(valueOf(n.Raw), "input")
	if input.Kind() == jsonedit.Object && len(input.Raw()) > len(emptyObject) {
		var d jsonedit.Doc
		if d.Scan(raw) == nil {
			raw = d.Apply(nil, jsonedit.Edit{Name: "input", Value: emptyObject})
		}
	} else {
		input = jsonedit.Value{}
	}
	b := e.openStart(dst)
	b.Raw(raw)
	dst = e.opened(&b, p)
	if input.Raw() != nil {
		dst = e.arguments(dst, string(input.Raw()))
	}
	return dst
}

// closeBlock writes the end of a part's block, and the members that precede it.
func (e *streamEncoder) closeBlock(dst []byte, p *pending) []byte {
	if !p.open {
		return dst
	}
	p.open = false
	switch part := p.part.(type) {
	case llm.Thinking:
		if p.sign.Value != "" && !part.Redacted {
			dst = e.signature(dst, p.sign)
		}
	case llm.ToolCall:
		if part.Custom && p.ended {
			dst = e.arguments(dst, `"}`)
		}
	case llm.Text:
		if p.sign.Value != "" {
			dst = e.citation(dst, func(b *jsonedit.Builder) { writeTextSignature(b, p.sign) })
		}
	}
	return e.blockStop(dst)
}

// piece writes a delta to the open block of p.
func (e *streamEncoder) piece(dst []byte, p *pending, text string) []byte {
	if text == "" || !p.open {
		return dst
	}
	switch part := p.part.(type) {
	case llm.Text, llm.Refusal:
		return e.pieceOf(dst, `{"type":"text_delta","text":`, text)
	case llm.Thinking:
		if !part.Redacted {
			return e.pieceOf(dst, `{"type":"thinking_delta","thinking":`, text)
		}
	case llm.ToolCall:
		if part.Custom {
			quoted := jsonedit.AppendString(nil, text)
			text = string(quoted[1 : len(quoted)-1])
		}
		return e.arguments(dst, text)
	}
	return dst
}

func (e *streamEncoder) arguments(dst []byte, text string) []byte {
	return e.pieceOf(dst, `{"type":"input_json_delta","partial_json":`, text)
}

func (e *streamEncoder) signature(dst []byte, s llm.Signature) []byte {
	return e.pieceOf(dst, `{"type":"signature_delta","signature":`, dialect.MarkSignature(vendor, s))
}

// pieceOf writes a delta that begins with begin and ends with text.
func (e *streamEncoder) pieceOf(dst []byte, begin, text string) []byte {
	dst = e.openDelta(dst)
	dst = append(dst, begin...)
	dst = jsonedit.AppendString(dst, text)
	return append(dst, "}}\n\n"...)
}

func (e *streamEncoder) cite(dst []byte, c *llm.Citation) []byte {
	return e.citation(dst, func(b *jsonedit.Builder) { writeCitation(b, c) })
}

// citation writes a delta with a citation.
func (e *streamEncoder) citation(dst []byte, write func(b *jsonedit.Builder)) []byte {
	dst = e.openDelta(dst)
	b := jsonedit.AppendLine(dst)
	b.Open('{')
	b.Name("type")
	b.String("citations_delta")
	b.Name("citation")
	write(&b)
	b.Close('}')
	return append(b.Bytes(), "}\n\n"...)
}

// openDelta writes the start of a delta to the open block.
func (e *streamEncoder) openDelta(dst []byte) []byte {
	dst = append(dst, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":"...)
	dst = strconv.AppendInt(dst, int64(e.index), 10)
	return append(dst, `,"delta":`...)
}

// openStart writes the start of a block's start event.
func (e *streamEncoder) openStart(dst []byte) jsonedit.Builder {
	b := openEvent(dst, "content_block_start")
	b.Name("index")
	b.Int(int64(e.index))
	b.Name("content_block")
	return b
}

func (e *streamEncoder) opened(b *jsonedit.Builder, p *pending) []byte {
	p.open = true
	return closeEvent(b)
}

// blockStop ends the open block.
func (e *streamEncoder) blockStop(dst []byte) []byte {
	b := openEvent(dst, "content_block_stop")
	b.Name("index")
	b.Int(int64(e.index))
	e.index++
	return closeEvent(&b)
}
