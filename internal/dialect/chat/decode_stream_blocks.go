package chat

import (
	"bytes"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// blockType returns the type of an element, which some providers leave out of
// deltas.
func blockType(v jsonedit.Value) string {
	typ, _ := v.Get("type")
	if word, _ := typ.Text(); word != "" {
		return word
	}
	for _, name := range [...]string{"text", "thinking"} {
		if _, ok := v.Get(name); ok {
			return name
		}
	}
	if _, ok := v.Get("signature"); ok {
		return "thinking"
	}
	return ""
}

// hasContentBlocks reports whether content_blocks hold text and thinking. If
// so, the plain fields repeat it.
func hasContentBlocks(raw []byte) (texts, thoughts bool) {
	v, err := jsonedit.ParseValue(raw)
	if err != nil {
		return false, false
	}
	for e := range v.Elements() {
		if delta, ok := e.Get("delta"); ok {
			e = delta
		}
		switch blockType(e) {
		case "text":
			texts = true
		case "thinking", "redacted_thinking":
			thoughts = true
		}
	}
	return texts, thoughts
}

// readBlocks reads content_blocks: complete parts in a message, and in a stream
// the deltas to the part of an index.
func (c *choice) readBlocks(dst []llm.Event, i int, raw []byte) []llm.Event {
	v, err := jsonedit.ParseValue(raw)
	if err != nil {
		return dst
	}
	for e := range v.Elements() {
		index, numbered := e.Get("index")
		delta, ok := e.Get("delta")
		if n, isInt := index.Int(); ok && numbered && isInt {
			dst = c.blockDelta(dst, i, n, delta)
			continue
		}
		dst = c.block(dst, i, e)
	}
	return dst
}

// block reads a complete element.
func (c *choice) block(dst []llm.Event, i int, v jsonedit.Value) []llm.Event {
	typ, _ := v.Get("type")
	word, _ := typ.Text()
	if word == "tool_use" { // is among the calls as well
		return dst
	}
	var r reader
	switch p := r.part("", v).(type) {
	case llm.Text:
		dst = c.openBlock(dst, i, textPart, llm.Text{Citations: p.Citations, Signature: p.Signature})
		c.cited = c.cited || len(p.Citations) > 0
		if p.Text != "" {
			dst = c.grow(dst, i, textPart, p.Text)
		}
		return dst
	case llm.Thinking:
		if p.Redacted {
			return c.piece(dst, i, p)
		}
		dst = c.openBlock(dst, i, thinkingPart, llm.Thinking{})
		if p.Text != "" {
			dst = c.grow(dst, i, thinkingPart, p.Text)
		}
		return c.sign(dst, i, p.Signature)
	}
	return c.completePart(dst, i, v)
}

// openBlock begins the part of an element, even while another part is open.
func (c *choice) openBlock(dst []llm.Event, i int, kind partKind, p llm.Part) []llm.Event {
	dst = c.endTextPart(dst, i)
	c.kind, c.thought = kind, llm.Thinking{}
	if kind == textPart {
		c.partAt = c.chars
	}
	dst, c.open = c.begin(dst, i, p)
	return dst
}

// blockDelta reads a delta to the element with that index. If another part has
// come since, it begins a new part.
func (c *choice) blockDelta(dst []llm.Event, i int, index int64, v jsonedit.Value) []llm.Event {
	if c.open != noPart && c.numbered && c.index == index {
		return c.growBlock(dst, i, v)
	}
	switch blockType(v) {
	case "text":
		dst = c.openBlock(dst, i, textPart, llm.Text{})
	case "thinking":
		dst = c.openBlock(dst, i, thinkingPart, llm.Thinking{})
	default:
		return c.completePart(dst, i, v)
	}
	c.numbered, c.index = true, index
	return c.growBlock(dst, i, v)
}

func (c *choice) growBlock(dst []llm.Event, i int, v jsonedit.Value) []llm.Event {
	for key, m := range v.Fields() {
		switch key.String() {
		case "text":
			if text, _ := m.Text(); text != "" && c.kind == textPart {
				dst = c.grow(dst, i, textPart, text)
			}
		case "thinking":
			if text, _ := m.Text(); text != "" && c.kind == thinkingPart {
				dst = c.grow(dst, i, thinkingPart, text)
			}
		case "signature":
			dst = c.blockSign(dst, i, llm.Anthropic, m)
		case "thought_signature":
			dst = c.blockSign(dst, i, llm.Google, m)
		case "citation":
			if c.kind == textPart {
				cite := messagesCitation(m)
				cite.Raw = bytes.Clone(cite.Raw)
				dst = c.cite(dst, i, &cite)
			}
		}
	}
	return dst
}

func (c *choice) blockSign(dst []llm.Event, i int, own llm.Vendor, v jsonedit.Value) []llm.Event {
	text, _ := v.Text()
	if c.thought.Signature.Vendor != "" { // later deltas are not marked again
		return c.sign(dst, i, llm.Signature{Vendor: c.thought.Signature.Vendor, Value: text})
	}
	s := dialect.ReadSignature(own, text)
	c.thought.Signature = s
	return c.sign(dst, i, s)
}
