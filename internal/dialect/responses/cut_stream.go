package responses

import (
	"bytes"
	"slices"
	"strings"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
)

// NewCutter returns a cutter for one response.
func (Dialect) NewCutter(*jsonedit.Doc) dialect.StreamCutter { return new(cutter) }

// cutter ends streams of the dialect. It keeps the response object and its items,
// which the last event repeats.
type cutter struct {
	writer   streamEncoder // has the next sequence number
	response []byte        // of the last event that had it
	items    []*cutItem    // in order
}

// cutItem is an item of the output.
type cutItem struct {
	index int64
	raw   []byte // as it began, or as it ended
	ended bool
	parts []*cutPart
	kind  *cutKind // of the deltas of an item without parts; nil without a delta
	text  []byte   // added up from them
}

// cutPart is a part of an item that has not ended.
type cutPart struct {
	kind  *cutKind
	index int64
	ended bool
	raw   []byte // as it ended
	text  []byte
	notes [][]byte // annotations
}

// cutKind is how the dialect streams a kind of text.
type cutKind struct {
	name   string // of the events: response.NAME.delta and response.NAME.done
	field  string // of the text in the part or item, and in the event of its end
	list   string // of parts in the item; empty if the item has the text itself
	number string // of the part in an event
	typ    string // of the part
	parts  string // of the events of parts: response.PARTS.added and response.PARTS.done
}

// cutKinds are the kinds of text in streams.
// https://platform.openai.com/docs/api-reference/responses-streaming
var cutKinds = []cutKind{
	{"output_text", "text", "content", "content_index", "output_text", "content_part"},
	{"refusal", "refusal", "content", "content_index", "refusal", "content_part"},
	{"reasoning_text", "text", "content", "content_index", "reasoning_text", "content_part"},
	{"reasoning_summary_text", "text", "summary", "summary_index", "summary_text", "reasoning_summary_part"},
	{name: "function_call_arguments", field: "arguments"},
	{name: "custom_tool_call_input", field: "input"},
	{name: "mcp_call_arguments", field: "arguments"},
	{name: "code_interpreter_call_code", field: "code"},
}

func kindBy(field func(*cutKind) string, value string) *cutKind {
	i := slices.IndexFunc(cutKinds, func(k cutKind) bool { return field(&k) == value })
	if i < 0 {
		return nil
	}
	return &cutKinds[i]
}

// Read reads an event that the client receives.
func (c *cutter) Read(e sse.Event) int {
	v, err := jsonedit.ParseValue(e.Data)
	if err != nil {
		return 0
	}
	typ := v.TextOf("type")
	if n, ok := v.Get("sequence_number"); ok {
		n, _ := n.Int()
		c.writer.seq = n + 1
	}
	if r, ok := v.Get("response"); ok {
		c.response = bytes.Clone(r.Raw())
		return 0
	}
	index := countIn(v, "output_index")
	it := c.item(index)
	switch {
	case typ == "response.output_item.added" && it == nil:
		it = &cutItem{index: index}
		c.items = append(c.items, it)
		fallthrough
	case typ == "response.output_item.done" && it != nil:
		item, _ := v.Get("item")
		it.raw, it.ended = bytes.Clone(item.Raw()), strings.HasSuffix(typ, "done")
		return len(it.raw)
	case it == nil || it.ended:
		return 0
	}
	return it.read(typ, v)
}

// read reads an event of the item. It returns how many bytes of it are kept.
func (it *cutItem) read(typ string, v jsonedit.Value) int {
	if name, ok := strings.CutSuffix(strings.TrimPrefix(typ, "response."), ".delta"); ok {
		k := kindBy(func(k *cutKind) string { return k.name }, name)
		if k == nil {
			return 0
		}
		text := v.TextOf("delta")
		if p := it.part(k, v); p != nil {
			p.text = append(p.text, text...)
		} else {
			it.kind, it.text = k, append(it.text, text...)
		}
		return len(text)
	}
	value, hasPart := v.Get("part")
	note, hasNote := v.Get("annotation")
	switch {
	case hasPart:
		if k := kindBy(func(k *cutKind) string { return k.typ }, value.TextOf("type")); k != nil {
			p := it.part(k, v)
			if p.ended = strings.HasSuffix(typ, ".done"); p.ended {
				p.raw = bytes.Clone(value.Raw())
			}
		}
		return len(value.Raw())
	case hasNote:
		if p := it.part(&cutKinds[0], v); p != nil {
			p.notes = append(p.notes, bytes.Clone(note.Raw()))
		}
		return len(note.Raw())
	}
	return 0
}

// part returns the part that an event is about. It is nil for an item that has the
// text itself.
func (it *cutItem) part(k *cutKind, v jsonedit.Value) *cutPart {
	if k.list == "" {
		return nil
	}
	index := countIn(v, k.number)
	for _, p := range it.parts {
		if p.index == index && p.kind.list == k.list {
			return p
		}
	}
	p := &cutPart{kind: k, index: index}
	it.parts = append(it.parts, p)
	return p
}

func (c *cutter) item(index int64) *cutItem {
	for _, it := range slices.Backward(c.items) {
		if it.index == index {
			return it
		}
	}
	return nil
}

// Cut appends the events that end the stream. Calls get no end.
func (c *cutter) Cut(dst []byte, u llm.Usage) []byte {
	output := jsonedit.AppendLine(nil)
	output.Open('[')
	for _, it := range c.items {
		if !it.ended {
			dst = c.cutItem(dst, it)
		}
		output.Raw(it.raw)
	}
	output.Close(']')
	usage := jsonedit.AppendLine(nil)
	writeUsage(&usage, u)
	b := jsonedit.AppendLine(c.writer.frame(dst, "response.incomplete"))
	b.Name("response")
	b.Raw(with(c.response, []jsonedit.Edit{
		{Name: "status", Value: []byte(`"incomplete"`)},
		{Name: "incomplete_details", Value: []byte(`{"reason":"max_output_tokens"}`)},
		{Name: "output", Value: output.Bytes()},
		{Name: "usage", Value: usage.Bytes()},
	}))
	return endFrame(&b)
}

// cutItem ends the parts of an item, and the item unless it is a call, which
// clients would run.
func (c *cutter) cutItem(dst []byte, it *cutItem) []byte {
	item, _ := jsonedit.ParseValue(it.raw)
	edits := []jsonedit.Edit{{Name: "status", Value: []byte(`"incomplete"`)}}
	lists := map[string][]byte{}
	for _, p := range it.parts {
		if !p.ended {
			dst = c.cutPart(dst, it.index, item.TextOf("id"), p)
		}
		lists[p.kind.list] = append(append(lists[p.kind.list], ','), p.raw...)
	}
	for name, list := range lists {
		list[0] = '['
		edits = append(edits, jsonedit.Edit{Name: name, Value: append(list, ']')})
	}
	if it.kind != nil {
		edits = append(edits, jsonedit.Edit{Name: it.kind.field, Value: jsonedit.AppendString(nil, string(it.text))})
	}
	it.raw = with(it.raw, edits)
	if kind := item.TextOf("type"); kind != "message" && kind != "reasoning" {
		return dst
	}
	b := jsonedit.AppendLine(c.writer.frame(dst, "response.output_item.done"))
	b.Name("output_index")
	b.Int(it.index)
	b.Name("item")
	b.Raw(it.raw)
	return endFrame(&b)
}

// cutPart ends a part.
func (c *cutter) cutPart(dst []byte, item int64, id string, p *cutPart) []byte {
	k, list := p.kind, func(b *jsonedit.Builder, values [][]byte) {
		b.Open('[')
		for _, v := range values {
			b.Raw(v)
		}
		b.Close(']')
	}
	begin := func(typ string) jsonedit.Builder {
		b := jsonedit.AppendLine(c.writer.frame(dst, "response."+typ+".done"))
		b.Name("item_id")
		b.String(id)
		b.Name("output_index")
		b.Int(item)
		b.Name(k.number)
		b.Int(p.index)
		return b
	}
	part := jsonedit.AppendLine(nil)
	part.Open('{')
	part.Name("type")
	part.String(k.typ)
	b := begin(k.name)
	if k.typ == "output_text" {
		part.Name("annotations")
		list(&part, p.notes)
		for _, b := range []*jsonedit.Builder{&part, &b} {
			b.Name("logprobs")
			list(b, nil)
		}
	}
	for _, b := range []*jsonedit.Builder{&part, &b} {
		b.Name(k.field)
		b.String(string(p.text))
	}
	part.Close('}')
	p.raw, dst = part.Bytes(), endFrame(&b)
	b = begin(k.parts)
	b.Name("part")
	b.Raw(p.raw)
	return endFrame(&b)
}

// with returns an object with edits. Another value stays as it is.
func with(raw []byte, edits []jsonedit.Edit) []byte {
	var doc jsonedit.Doc
	if len(raw) == 0 {
		raw = []byte("{}")
	}
	if doc.Scan(raw) != nil {
		return raw
	}
	return doc.Apply(nil, edits...)
}
