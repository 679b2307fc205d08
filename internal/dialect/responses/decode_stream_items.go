package responses

import (
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// added begins an item.
func (d *streamDecoder) added() {
	v := d.find("item")
	k := kinds[v.TextOf("type")]
	index := int64(len(d.items))
	if d.find("output_index").Kind() == jsonedit.Number {
		index = d.number("output_index")
	}
	it := d.item(index, k)
	it.id = v.TextOf("id")
	if len(it.content) > 0 {
		return
	}
	if it.kind == kindCall || it.kind == kindCustom {
		c := callOf(v, it.kind == kindCustom, d.asked)
		c.Arguments = "" // follow in deltas
		d.open(it, grown{}, c)
	}
}

// contentAdded begins a part of a message.
func (d *streamDecoder) contentAdded() {
	it := d.item(d.outputIndex(kindMessage), kindMessage)
	if it.kind == kindMessage && !it.closed {
		d.openContent(it, d.number("content_index"), d.find("part"))
	}
}

func (d *streamDecoder) openContent(it *incoming, index int64, v jsonedit.Value) *grown {
	if g := it.at(index); g != nil {
		return g
	}
	switch v.TextOf("type") {
	case "output_text":
		return d.open(it, grown{index: index}, llm.Text{})
	case "refusal":
		return d.open(it, grown{index: index}, llm.Refusal{})
	}
	return nil
}

func (d *streamDecoder) contentEnded() {
	it := d.item(d.outputIndex(kindMessage), kindMessage)
	if it.kind == kindMessage && !it.closed {
		d.endContent(it, d.number("content_index"), d.find("part"))
	}
}

// endContent ends a part of a message, after adding what its deltas left out.
func (d *streamDecoder) endContent(it *incoming, index int64, v jsonedit.Value) {
	g := d.openContent(it, index, v)
	if g == nil || g.ended {
		return
	}
	text := v.TextOf("text")
	if v.TextOf("type") == "refusal" {
		text = v.TextOf("refusal")
	}
	d.addMissing(g, text)
	if list, _ := v.Get("logprobs"); !g.logprobs && len(list.Raw()) > 2 {
		d.emit(llm.Event{Kind: llm.EventDelta, Part: g.part, Logprobs: logprobs(list)})
	}
	n := 0
	list, _ := v.Get("annotations")
	for e := range list.Elements() {
		if n++; n > g.cites {
			d.addCitation(g, e)
		}
	}
	d.end(g)
}

// addMissing emits the end of a complete text that did not arrive in deltas. If
// the text differs from the deltas, it is ignored: the client has already
// received them.
func (d *streamDecoder) addMissing(g *grown, text string) {
	if len(text) <= g.length || g.length > 0 && sum(0, text[:g.length]) != g.sum {
		return
	}
	rest := text[g.length:]
	g.add(rest)
	d.emit(llm.Event{Kind: llm.EventDelta, Part: g.part, Text: rest})
}

// endItem ends an item, after adding what its events left out.
func (d *streamDecoder) endItem() {
	v := d.find("item")
	k := kinds[v.TextOf("type")]
	d.completeItem(d.item(d.outputIndex(k), k), v)
}

func (d *streamDecoder) completeItem(it *incoming, v jsonedit.Value) {
	if it.closed || it.kind != kinds[v.TextOf("type")] {
		return
	}
	switch it.kind {
	case kindMessage:
		content, _ := v.Get("content")
		n := int64(0)
		for e := range content.Elements() {
			d.endContent(it, n, e)
			n++
		}
	case kindThinking:
		d.endThinking(it, v)
	case kindCall, kindCustom:
		if len(it.content) == 0 {
			c := callOf(v, it.kind == kindCustom, d.asked)
			c.Arguments = ""
			d.open(it, grown{}, c)
		}
		d.addMissing(it.last(), v.TextOf(argumentsOf(it.kind == kindCustom)))
	default:
		for _, p := range partsOf(v, d.vendor, d.asked) {
			d.open(it, grown{}, clonePart(p))
		}
	}
	d.closeItem(it)
}

// clonePart returns a complete part without views of the frame.
func clonePart(p llm.Part) llm.Part {
	switch part := p.(type) {
	case llm.Native:
		part.Raw = copied(part.Raw)
		return part
	case llm.Media:
		for i, m := range part.Extra {
			part.Extra[i].Value = copied(m.Value)
		}
		return part
	}
	return p
}

// endThinking ends thinking, whose signature comes with the complete item.
func (d *streamDecoder) endThinking(it *incoming, v jsonedit.Value) {
	for _, p := range thoughts(v, d.vendor) {
		t := p.(llm.Thinking)
		g := it.thinkingPart(t.Summary)
		if g == nil && t.Text == "" {
			g = it.last()
		}
		if g == nil {
			d.end(it.last())
			opened := llm.Thinking{Summary: t.Summary, ID: t.ID, Redacted: t.Redacted}
			if t.Redacted {
				opened.Signature, t.Signature = t.Signature, llm.Signature{}
			}
			g = d.open(it, grown{summary: t.Summary}, opened)
		}
		if !g.ended {
			d.addMissing(g, t.Text)
		}
		if t.Signature.Value != "" {
			g = it.last()
			d.emit(llm.Event{Kind: llm.EventDelta, Part: g.part, Signature: t.Signature})
		}
	}
}

// thinkingPart returns the item's part with its summary or its text.
func (it *incoming) thinkingPart(summary bool) *grown {
	for i := range it.content {
		if it.content[i].summary == summary {
			return &it.content[i]
		}
	}
	return nil
}

func (d *streamDecoder) closeItem(it *incoming) {
	if it.closed {
		return
	}
	it.closed = true
	for i := range it.content {
		d.end(&it.content[i])
	}
}

func (d *streamDecoder) closeAll() {
	for _, it := range d.items {
		d.closeItem(it)
	}
}

// completed ends the response, after adding the items that had no events.
func (d *streamDecoder) completed() {
	v := d.find("response")
	d.begin(v)
	a := readOutcome(v)
	n := int64(0)
	for e := range a.output.Elements() {
		d.completeItem(d.item(n, kinds[e.TextOf("type")]), e)
		n++
	}
	d.closeAll()
	if a.status == "" {
		a.status = "completed"
	}
	var ends []llm.Part
	if d.stop != nil {
		ends = append(ends, d.stop)
	}
	stop, said := a.stop(ends)
	d.emit(llm.Event{Kind: llm.EventFinish, Stop: stop, NativeFinishReason: said})
	if u := readUsage(a.usage); u.Known || u.Invalid {
		d.emit(llm.Event{Kind: llm.EventUsage, Usage: u})
	}
	d.emit(llm.Event{Kind: llm.EventEnd})
	d.over = true
}

// failed ends the response with the error in its response object.
func (d *streamDecoder) failed() {
	v := d.find("response")
	d.begin(v)
	a := readOutcome(v)
	if u := readUsage(a.usage); u.Known || u.Invalid {
		d.emit(llm.Event{Kind: llm.EventUsage, Usage: u})
	}
	d.fault(a.failed)
}

// errorEvent reads an error event in either of its forms: with the members of
// the error, or with an error object.
func (d *streamDecoder) errorEvent() {
	if e := d.find("error"); e.Kind() == jsonedit.Object {
		d.fault(e)
		return
	}
	v, err := jsonedit.ParseValue(d.doc.Bytes())
	if err == nil {
		d.fault(v)
	}
}

// fault emits an error, which ends the response.
func (d *streamDecoder) fault(v jsonedit.Value) {
	f := &llm.ProviderError{Type: v.TextOf("type"), Code: v.TextOf("code"), Message: dialect.ErrorMessage(v.Raw()), Raw: copied(v.Raw())}
	if f.Message == "" {
		f.Message = failure(nil)
	}
	if f.Type == "error" {
		f.Type = ""
	}
	d.emit(llm.Event{Kind: llm.EventError, Fault: f})
	d.over = true
}
