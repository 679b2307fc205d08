package messages

import (
	"slices"
	"unicode/utf8"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// messages reads the conversation, the system prompt first.
func (d *requestDecoder) messages() {
	if !d.system.IsNull() {
		parts := d.content("system", d.system, inSystem)
		d.req.Messages = append(d.req.Messages, llm.Message{Role: llm.System, Parts: parts, At: "system"})
	}
	if d.list.IsNull() {
		d.RefuseMissing("messages", "an array of messages")
	}
	for path, e := range d.Elements("messages", d.list) {
		d.message(path, e)
	}
}

// place is the place of a block in a request. It decides which blocks are
// allowed.
type place uint8

const (
	inUser place = 1 << iota
	inAssistant
	inSystem
	inResult
	inDocument

	anywhere = inUser | inAssistant | inSystem | inResult | inDocument
)

var roles = map[string]struct {
	role llm.Role
	place
}{
	"user":      {llm.User, inUser},
	"assistant": {llm.Assistant, inAssistant},
	"system":    {llm.System, inSystem},
}

func (d *requestDecoder) message(path string, v jsonedit.Value) {
	f := d.object(path, v)
	role, ok := roles[d.needed(path, "role", f)]
	if !ok {
		d.Refuse(path+".role", dialect.CodeValue, `must be "user", "assistant" or "system"`)
		return
	}
	content := f.get("content")
	d.req.Messages = append(d.req.Messages, llm.Message{
		Role: role.role, Parts: d.content(path+".content", content, role.place),
		Extra: f.unknown("role", "content"), At: path,
	})
}

// content reads a string or an array of blocks.
func (d *requestDecoder) content(path string, v jsonedit.Value, in place) []llm.Part {
	switch v.Kind() {
	case jsonedit.String:
		text, _ := v.Text()
		return []llm.Part{llm.Text{Text: text}}
	case jsonedit.Array:
		return d.blocks(path, v, in)
	case jsonedit.Null:
		d.RefuseMissing(path, "a string or an array of blocks")
	default:
		d.RefuseKind(path, "a string or an array of blocks", v)
	}
	return nil
}

func (d *requestDecoder) blocks(path string, v jsonedit.Value, in place) []llm.Part {
	var parts []llm.Part
	held := heldSignatures{texts: true}
	i := 0
	for e := range v.Elements() {
		if d.Err != nil {
			return nil
		}
		parts = held.join(parts, d.block(dialect.At(path, i), e, in))
		i++
	}
	return held.flush(parts)
}

// block holds the function that reads a type of block, and the places where it
// is allowed.
type block struct {
	read func(d *requestDecoder, path string, f fields) llm.Part
	in   place
}

func (d *requestDecoder) block(path string, v jsonedit.Value, in place) llm.Part {
	f := d.object(path, v)
	kind := d.needed(path, "type", f)
	b, known := blockOf(kind)
	if !known {
		return d.nativeBlock(kind, path, v)
	}
	if b.in&in == 0 {
		d.Refuse(path+".type", dialect.CodeValue, "a block of type %s is not allowed here", kind)
		return nil
	}
	return b.read(d, path, f)
}

// nativeBlock reads a block that only this dialect has. The definition of a tool
// in it is added to the tools of the request.
func (d *requestDecoder) nativeBlock(kind, path string, v jsonedit.Value) llm.Part {
	n := dialect.MessagesBlock(kind, v, path)
	tool, _ := v.Get("tool")
	if definition, ok := tool.Get("definition"); ok && kind == "tool_addition" {
		added := d.tool(path+".tool.definition", definition)
		added.InMessage = true
		d.req.Tools = append(d.req.Tools, added)
		n.Parts = []llm.Part{}
	}
	return n
}

// blockOf returns the block for a type, and false for types that only this
// dialect has.
func blockOf(kind string) (b block, ok bool) {
	switch kind {
	case "text":
		b = block{(*requestDecoder).textBlock, anywhere}
	case "image":
		b = block{(*requestDecoder).image, anywhere &^ inSystem}
	case "document":
		b = block{(*requestDecoder).document, inUser | inResult | inAssistant}
	case "search_result":
		b = block{(*requestDecoder).searchResult, inUser | inResult}
	case "tool_use":
		b = block{(*requestDecoder).toolUse, inAssistant}
	case "tool_result":
		b = block{(*requestDecoder).toolResult, inUser}
	case "thinking":
		b = block{(*requestDecoder).thinkingBlock, inAssistant}
	case "redacted_thinking":
		b = block{(*requestDecoder).redacted, inAssistant}
	}
	return b, b.read != nil
}

func (d *requestDecoder) textBlock(path string, f fields) llm.Part {
	list, sign := citationsOf(f.get("citations"))
	d.lose(path, f, "type", "text", "citations", "cache_control")
	setSpan(list, utf8.RuneCountInString(f.word("text")))
	return llm.Text{
		Text: d.needed(path, "text", f), Citations: list, Signature: sign,
		Cache: d.cacheOf(path, f),
	}
}

// citationsOf reads the citations of a text, and the signature among them.
func citationsOf(v jsonedit.Value) (list []llm.Citation, sign llm.Signature) {
	for e := range v.Elements() {
		if isTextSignature(e) {
			title, _ := inside(e, signatureTitle).Text()
			sign = dialect.ReadSignature(vendor, title)
			continue
		}
		list = append(list, citationOf(e))
	}
	return list, sign
}

// setSpan sets the range that citations support, which is the block of n
// characters that they are in.
func setSpan(list []llm.Citation, n int) {
	for i := range list {
		list[i].End = n
	}
}

func citationOf(v jsonedit.Value) llm.Citation {
	f := fieldsOf(v)
	c := llm.Citation{URL: f.word("url"), Title: f.word("title"), Text: f.word("cited_text"), Raw: slices.Clone(v.Raw()), Dialect: own}
	if c.Title == "" {
		c.Title = f.word("document_title")
	}
	return c
}

func (d *requestDecoder) thinkingBlock(path string, f fields) llm.Part {
	d.lose(path, f, "type", "thinking", "signature")
	return llm.Thinking{
		Text:      d.needed(path, "thinking", f),
		Signature: dialect.ReadSignature(vendor, d.textOf(path, "signature", f)),
	}
}

func (d *requestDecoder) redacted(path string, f fields) llm.Part {
	data := d.needed(path, "data", f)
	d.lose(path, f, "type", "data")
	return llm.Thinking{Redacted: true, Signature: dialect.ReadSignature(vendor, data)}
}

func (d *requestDecoder) toolUse(path string, f fields) llm.Part {
	id := d.needed(path, "id", f)
	// An id may be reused in later turns, and some clients do so.
	turn := len(d.req.Messages)
	if last, known := d.calls[id]; known && last == turn {
		d.Refuse(path+".id", dialect.CodeValue, "another tool_use of the message has this id")
	}
	d.calls[id] = turn
	input := f.get("input")
	if input.IsNull() {
		d.RefuseKind(path+".input", "an object", input)
	}
	return llm.ToolCall{
		ID: id, Name: d.toolName(path+".name", f.get("name")), Arguments: dialect.Arguments(input),
		Cache: d.cacheOf(path, f),
		Extra: f.unknown("type", "id", "name", "input", "cache_control"), At: path,
	}
}

func (d *requestDecoder) toolResult(path string, f fields) llm.Part {
	id := d.needed(path, "tool_use_id", f)
	if _, known := d.calls[id]; !known {
		d.Refuse(path+".tool_use_id", dialect.CodeValue, "no tool_use before has this id")
	}
	r := llm.ToolResult{
		ID: id, Failed: d.Flag(path+".is_error", f.get("is_error")),
		Cache: d.cacheOf(path, f),
		Extra: f.unknown("type", "tool_use_id", "content", "is_error", "cache_control"), At: path,
	}
	if content := f.get("content"); !content.IsNull() {
		r.Parts = d.content(path+".content", content, inResult)
	}
	return r
}

// heldSignatures collects signatures that are in thinking blocks of their own,
// because the protocol has no other place for them.
type heldSignatures struct {
	part  *llm.Thinking
	texts bool // including signatures of text
}

// join appends p. The signature of a tool call precedes it in thinking without
// text. The signature of text follows it in redacted thinking in histories from
// before it was a citation.
func (h *heldSignatures) join(parts []llm.Part, p llm.Part) []llm.Part {
	if call, ok := p.(llm.ToolCall); ok && h.part != nil {
		call.Signature, h.part = h.part.Signature, nil
		return append(parts, call)
	}
	parts = h.flush(parts)
	t, ok := p.(llm.Thinking)
	if !ok || t.Text != "" || t.Signature.Vendor != llm.Google {
		if p == nil {
			return parts
		}
		return append(parts, p)
	}
	if n := len(parts); t.Redacted && n > 0 && h.texts {
		if text, ok := parts[n-1].(llm.Text); ok {
			text.Signature = t.Signature
			parts[n-1] = text
			return parts
		}
	}
	if t.Redacted {
		return append(parts, p)
	}
	kept := t // copied so that only a held-back part is allocated on the heap
	h.part = &kept
	return parts
}

// flush appends a held-back signature that no tool call followed.
func (h *heldSignatures) flush(parts []llm.Part) []llm.Part {
	if h.part != nil {
		parts = append(parts, *h.part)
		h.part = nil
	}
	return parts
}
