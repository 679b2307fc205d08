package messages

import (
	"bytes"
	"slices"

	"modelgate/internal/dialect"
	"modelgate/internal/jsonedit"
	"modelgate/internal/llm"
)

// streamed is a block that is open.
type streamed struct {
	index int64
	kind  streamKind
	part  int // its number, once it has begun
	begun bool

	sign  string         // of thinking, as far as it has come
	start jsonedit.Value // the block as it began
	text  []byte         // arguments or input that are not given out piece by piece
	fed   bool           // a piece of arguments has come
	more  []grown        // of a block that only this dialect knows
}

type streamKind uint8

const (
	streamText     streamKind = iota
	streamThinking            // begins with its first word
	streamCall                // the arguments of a tool call
	streamAnswer              // the same of the forced tool: they are text
	streamFree                // the same of a tool of free text: kept until whole
	streamNative              // kept until whole
)

// maxOpen is how many blocks may be open: real streams have one.
const maxOpen = 64

func (d *streamDecoder) blockStart(dst []llm.Event, e *event) []llm.Event {
	if d.finished || e.block.Kind() != jsonedit.Object {
		return dst
	}
	if i := d.find(e.index); i >= 0 {
		dst = d.close(dst, i)
	} else if len(d.open) == maxOpen {
		dst = d.close(dst, 0)
	}
	f := fieldsOf(e.block)
	s := &streamed{index: e.index}
	switch kind := f.word("type"); kind {
	case "text":
		dst = d.startPart(d.flush(dst), s, llm.Text{Text: f.word("text"), Citations: citationsOf(f.get("citations"))})
	case "thinking":
		dst = d.flush(dst)
		s.kind, s.sign = streamThinking, f.word("signature")
		if text := f.word("thinking"); text != "" {
			dst = d.startPart(dst, s, llm.Thinking{Text: text})
		}
	case "tool_use":
		dst = d.startCall(dst, s, f)
	case "redacted_thinking":
		return d.whole(d.flush(dst), d.reply.block(e.block))
	case "":
		return dst
	default:
		dst = d.flush(dst)
		s.kind = streamNative
	}
	s.start = valueOf(slices.Clone(e.block.Raw()))
	d.open = append(d.open, s)
	return dst
}

// startCall begins a call of a tool, or the text that it stands for.
func (d *streamDecoder) startCall(dst []llm.Event, s *streamed, f fields) []llm.Event {
	s.kind = streamCall
	switch part := d.reply.call(f, "").(type) {
	case llm.Text:
		s.kind = streamAnswer
		return d.startPart(d.flush(dst), s, part)
	case llm.ToolCall:
		if part.Custom {
			s.kind = streamFree
		}
		if d.held != nil {
			part.Signature, d.held = d.held.Signature, nil
		}
		return d.startPart(dst, s, part)
	}
	return dst
}

func (d *streamDecoder) startPart(dst []llm.Event, s *streamed, p llm.Part) []llm.Event {
	s.begun, s.part = true, d.next
	d.next++
	return append(dst, llm.Event{Kind: llm.EventPartStart, Part: s.part, Opened: p})
}

// find returns where the open block of an index stands, or -1.
func (d *streamDecoder) find(index int64) int {
	for i := len(d.open) - 1; i >= 0; i-- {
		if d.open[i].index == index {
			return i
		}
	}
	return -1
}

// delta reads what is added to a block.
func (d *streamDecoder) delta(dst []llm.Event, e *event) []llm.Event {
	i := d.find(e.index)
	if i < 0 {
		return dst
	}
	s := d.open[i]
	if s.kind == streamNative {
		s.grow(e.delta)
		return dst
	}
	for k, v := range e.delta.Fields() {
		switch {
		case k.Is("text") && s.kind == streamText:
			dst = s.add(dst, v)
		case k.Is("thinking") && s.kind == streamThinking:
			dst = d.think(dst, s, v)
		case k.Is("signature") && s.kind == streamThinking:
			text, _ := v.Text()
			s.sign += text
		case k.Is("citation") && s.kind == streamText:
			c := citationOf(v)
			dst = append(dst, llm.Event{Kind: llm.EventDelta, Part: s.part, Citation: &c})
		case k.Is("partial_json"):
			dst = s.argue(dst, v)
		}
	}
	return dst
}

// add appends a piece of text.
func (s *streamed) add(dst []llm.Event, v jsonedit.Value) []llm.Event {
	text, _ := v.Text()
	if text == "" {
		return dst
	}
	return append(dst, llm.Event{Kind: llm.EventDelta, Part: s.part, Text: text})
}

func (d *streamDecoder) think(dst []llm.Event, s *streamed, v jsonedit.Value) []llm.Event {
	if text, _ := v.TextBytes(); len(text) == 0 {
		return dst
	}
	if !s.begun {
		dst = d.startPart(dst, s, llm.Thinking{})
	}
	return s.add(dst, v)
}

// argue appends a piece of arguments.
func (s *streamed) argue(dst []llm.Event, v jsonedit.Value) []llm.Event {
	switch s.kind {
	case streamCall, streamAnswer:
		n := len(dst)
		dst = s.add(dst, v)
		s.fed = s.fed || len(dst) > n
	case streamFree:
		piece, _ := v.TextBytes()
		s.text = append(s.text, piece...)
	}
	return dst
}

// grow adds to a block that only this dialect knows: pieces of its input are
// joined, and so are pieces of text.
func (s *streamed) grow(delta jsonedit.Value) {
	for _, m := range fieldsOf(delta).rest("type") {
		v := valueOf(m.Value)
		piece, isText := v.TextBytes()
		if isText && m.Name == "partial_json" {
			s.text = append(s.text, piece...)
			continue
		}
		if g := s.grown(m.Name); isText && g != nil {
			g.text = append(g.text, piece...)
		} else if g != nil {
			g.raw = slices.Clone(m.Value)
		}
	}
}

// grown is a member of a block that came in pieces of text, or whole.
type grown struct {
	name      string
	text, raw []byte
}

// grown returns what is added to a member, which begins with what the block had
// of it; nil when there are too many.
func (s *streamed) grown(name string) *grown {
	for i := range s.more {
		if s.more[i].name == name {
			return &s.more[i]
		}
	}
	if len(s.more) == maxMembers {
		return nil
	}
	text, _ := inside(s.start, name).TextBytes()
	s.more = append(s.more, grown{name: name, text: slices.Clone(text)})
	return &s.more[len(s.more)-1]
}

// native returns the whole block as it would have been in an answer that is not
// streamed.
func (s *streamed) native() llm.Native {
	kind, _ := inside(s.start, "type").Text()
	n := llm.Native{Dialect: own, Type: kind, Raw: s.start.Raw()}
	var edits []jsonedit.Edit
	for _, g := range s.more {
		value := g.raw
		if value == nil {
			value = jsonedit.AppendString(nil, string(g.text))
		}
		edits = append(edits, jsonedit.Edit{Name: g.name, Value: value})
	}
	if input := bytes.TrimSpace(s.text); len(input) > 0 && valueOf(input).Kind() == jsonedit.Object {
		edits = append(edits, jsonedit.Edit{Name: "input", Value: input})
	}
	var d jsonedit.Doc
	if len(edits) > 0 && d.Scan(n.Raw) == nil {
		n.Raw = d.Apply(nil, edits...)
	}
	return n
}

func (d *streamDecoder) blockStop(dst []llm.Event, index int64) []llm.Event {
	if i := d.find(index); i >= 0 {
		return d.close(dst, i)
	}
	return dst
}

// close gives out what is missing of the open block at i, and its end.
func (d *streamDecoder) close(dst []llm.Event, i int) []llm.Event {
	s := d.open[i]
	d.open = slices.Delete(d.open, i, i+1)
	switch s.kind {
	case streamThinking:
		if !s.begun {
			return d.closeSilent(dst, s)
		}
		if s.sign != "" {
			dst = append(dst, llm.Event{Kind: llm.EventDelta, Part: s.part, Signature: dialect.ReadSignature(vendor, s.sign)})
		}
	case streamCall, streamAnswer:
		if !s.fed {
			input, _ := s.start.Get("input")
			if input.Kind() != jsonedit.Object {
				input = valueOf(emptyObject)
			}
			dst = append(dst, llm.Event{Kind: llm.EventDelta, Part: s.part, Text: string(input.Raw())})
		}
	case streamFree:
		if text := dialect.UnwrapText(string(s.text)); text != "" {
			dst = append(dst, llm.Event{Kind: llm.EventDelta, Part: s.part, Text: text})
		}
	case streamNative:
		return d.whole(dst, s.native())
	}
	return append(dst, llm.Event{Kind: llm.EventPartEnd, Part: s.part})
}

// closeSilent ends thinking of which no word was told.
func (d *streamDecoder) closeSilent(dst []llm.Event, s *streamed) []llm.Event {
	part := llm.Thinking{Signature: dialect.ReadSignature(vendor, s.sign)}
	if part.Signature.Vendor == llm.Google && !d.finished {
		d.held = &part
		return dst
	}
	return d.whole(dst, part)
}
