package messages

import (
	"bytes"
	"slices"
	"unicode/utf8"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// openBlock is the state of an open block.
type openBlock struct {
	index int64
	kind  streamKind
	part  int // number of its part, once it has begun
	begun bool

	sign  string            // signature of thinking so far
	start jsonedit.Value    // the block as in its start event
	text  []byte            // arguments or input that are not emitted in pieces
	fed   bool              // has received a piece of arguments
	cites []llm.Citation    // of a text, until its length is known
	runes int               // characters of the text so far
	more  []collectedMember // of a block that only this dialect has
}

func (s *openBlock) isCall() bool { return s.kind == streamCall || s.kind == streamFree }

type streamKind uint8

const (
	streamText     streamKind = iota
	streamThinking            // begins with the first text
	streamCall                // the arguments of a tool call
	streamOutput              // arguments of the forced tool, which are text
	streamFree                // arguments of a function that replaces a tool with text input: collected
	streamNative              // collected
)

// maxOpen is the limit of open blocks: real streams have one.
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
	s := &openBlock{index: e.index}
	switch kind := f.word("type"); kind {
	case "text":
		list, sign := citationsOf(f.get("citations"))
		text := f.word("text")
		s.cites, s.runes = list, utf8.RuneCountInString(text)
		dst = d.startPart(d.flush(dst), s, llm.Text{Text: text, Signature: sign})
	case "thinking":
		dst = d.flush(dst)
		s.kind, s.sign = streamThinking, f.word("signature")
		if text := f.word("thinking"); text != "" {
			dst = d.startPart(dst, s, llm.Thinking{Text: text})
		}
	case "tool_use":
		dst = d.startCall(dst, s, f)
	case "redacted_thinking":
		return d.emitPart(d.flush(dst), d.blockReader.block(e.block))
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

// startCall begins a tool call, or the text that it stands for.
func (d *streamDecoder) startCall(dst []llm.Event, s *openBlock, f fields) []llm.Event {
	s.kind = streamCall
	switch part := d.blockReader.call(f, "").(type) {
	case llm.Text:
		s.kind = streamOutput
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

func (d *streamDecoder) startPart(dst []llm.Event, s *openBlock, p llm.Part) []llm.Event {
	s.begun, s.part = true, d.next
	d.next++
	return append(dst, llm.Event{Kind: llm.EventPartStart, Part: s.part, Opened: p})
}

// find returns the position of the open block with an index, or -1.
func (d *streamDecoder) find(index int64) int {
	for i := len(d.open) - 1; i >= 0; i-- {
		if d.open[i].index == index {
			return i
		}
	}
	return -1
}

// delta decodes a delta to a block.
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
			s.cites = append(s.cites, citationOf(v))
		case k.Is("partial_json"):
			dst = s.argue(dst, v)
		}
	}
	return dst
}

// add appends a piece of text.
func (s *openBlock) add(dst []llm.Event, v jsonedit.Value) []llm.Event {
	text, _ := v.Text()
	if text == "" {
		return dst
	}
	s.runes += utf8.RuneCountInString(text)
	return append(dst, llm.Event{Kind: llm.EventDelta, Part: s.part, Text: text})
}

func (d *streamDecoder) think(dst []llm.Event, s *openBlock, v jsonedit.Value) []llm.Event {
	if text, _ := v.TextBytes(); len(text) == 0 {
		return dst
	}
	if !s.begun {
		dst = d.startPart(dst, s, llm.Thinking{})
	}
	return s.add(dst, v)
}

// argue appends a piece of arguments.
func (s *openBlock) argue(dst []llm.Event, v jsonedit.Value) []llm.Event {
	switch s.kind {
	case streamCall, streamOutput:
		n := len(dst)
		dst = s.add(dst, v)
		s.fed = s.fed || len(dst) > n
	case streamFree:
		piece, _ := v.TextBytes()
		s.text = append(s.text, piece...)
	}
	return dst
}

// grow adds a delta to a block that only this dialect has: pieces of input are
// joined, and so are pieces of text.
func (s *openBlock) grow(delta jsonedit.Value) {
	for _, m := range fieldsOf(delta).unknown("type") {
		v := valueOf(m.Value)
		piece, isText := v.TextBytes()
		if isText && m.Name == "partial_json" {
			s.text = append(s.text, piece...)
			continue
		}
		if g := s.member(m.Name); isText && g != nil {
			g.text = append(g.text, piece...)
		} else if g != nil {
			g.raw = slices.Clone(m.Value)
		}
	}
}

// collectedMember is a member of a block that arrived in pieces of text or
// complete.
type collectedMember struct {
	name      string
	text, raw []byte
}

// member returns the collected member of that name, which starts with its value
// in the start event; nil if there are too many.
func (s *openBlock) member(name string) *collectedMember {
	for i := range s.more {
		if s.more[i].name == name {
			return &s.more[i]
		}
	}
	if len(s.more) == maxMembers {
		return nil
	}
	text, _ := inside(s.start, name).TextBytes()
	s.more = append(s.more, collectedMember{name: name, text: slices.Clone(text)})
	return &s.more[len(s.more)-1]
}

// native returns the complete block in the form that it has in a complete
// response.
func (s *openBlock) native() llm.Native {
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

// close emits the rest of the open block at i, and its end.
func (d *streamDecoder) close(dst []llm.Event, i int) []llm.Event {
	s := d.open[i]
	d.open = slices.Delete(d.open, i, i+1)
	switch s.kind {
	case streamText:
		setSpan(s.cites, s.runes)
		for i := range s.cites {
			dst = append(dst, llm.Event{Kind: llm.EventDelta, Part: s.part, Citation: &s.cites[i]})
		}
	case streamThinking:
		if !s.begun {
			return d.closeSilent(dst, s)
		}
		if s.sign != "" {
			dst = append(dst, llm.Event{Kind: llm.EventDelta, Part: s.part, Signature: dialect.ReadSignature(vendor, s.sign)})
		}
	case streamCall, streamOutput:
		if !s.fed {
			if input, _ := s.start.Get("input"); input.Kind() == jsonedit.Object && len(input.Raw()) > len(emptyObject) {
				dst = append(dst, llm.Event{Kind: llm.EventDelta, Part: s.part, Text: string(input.Raw())})
			}
		}
	case streamFree:
		if text := dialect.UnwrapText(string(s.text)); text != "" {
			dst = append(dst, llm.Event{Kind: llm.EventDelta, Part: s.part, Text: text})
		}
	case streamNative:
		return d.emitPart(dst, dialect.TextOfUnknown(s.native()))
	}
	return append(dst, llm.Event{Kind: llm.EventPartEnd, Part: s.part})
}

// closeSilent ends thinking for which no text has been emitted.
func (d *streamDecoder) closeSilent(dst []llm.Event, s *openBlock) []llm.Event {
	part := llm.Thinking{Signature: dialect.ReadSignature(vendor, s.sign)}
	if part.Signature.Vendor == llm.Google && !d.finished {
		d.held = &part
		return dst
	}
	return d.emitPart(dst, part)
}
