package messages

import (
	"bytes"

	"modelgate/internal/dialect"
	"modelgate/internal/jsonedit"
	"modelgate/internal/llm"
)

// Clean returns the edit that removes the thinking and the signatures of other
// vendors' models from a request: clients send back what they received, and this vendor rejects
// thinking that its models did not sign. It is for bodies that are forwarded as
// received. Most need no edit, which costs one search.
func (Dialect) Clean(body *jsonedit.Doc, _ dialect.RequestTarget) []jsonedit.Edit {
	if !maybeForeign(body.Bytes()) {
		return nil
	}
	list, _ := body.Find("messages")
	if list.Kind() != jsonedit.Array {
		return nil
	}
	var b jsonedit.Builder
	changed := false
	b.Open('[')
	for m := range list.Elements() {
		raw := withoutForeign(m)
		changed = changed || len(raw) != len(m.Raw())
		if raw != nil {
			b.Raw(raw)
		}
	}
	b.Close(']')
	if !changed {
		return nil
	}
	return []jsonedit.Edit{{Name: "messages", Value: b.Bytes()}}
}

// maybeForeign looks for a signature that is marked or empty.
func maybeForeign(b []byte) bool {
	if dialect.MayContainMarkedSignature(b) {
		return true
	}
	if !jsonedit.StringBegins(b, signatureKey) {
		return false
	}
	for {
		i := bytes.Index(b, []byte(signatureKey))
		if i < 0 {
			return false
		}
		b = bytes.TrimLeft(b[i+len(signatureKey):], " \t\r\n:")
		if bytes.HasPrefix(b, emptyText) {
			return true
		}
	}
}

var (
	signatureKey = `signature"`
	emptyText    = []byte(`""`)
)

// withoutForeign returns a message without thinking of other vendors: unchanged
// if it has none, nil if it has nothing else.
func withoutForeign(m jsonedit.Value) []byte {
	content, _ := m.Get("content")
	var b jsonedit.Builder
	kept, changed := 0, false
	b.Open('[')
	for block := range content.Elements() {
		if isForeignThinking(block) {
			changed = true
			continue
		}
		kept++
		raw := withoutTextSignature(block)
		changed = changed || len(raw) != len(block.Raw())
		b.Raw(raw)
	}
	b.Close(']')
	switch {
	case !changed:
		return m.Raw()
	case kept == 0:
		return nil
	}
	var d jsonedit.Doc
	if d.Scan(m.Raw()) != nil {
		return m.Raw()
	}
	return d.Apply(nil, jsonedit.Edit{Name: "content", Value: b.Bytes()})
}

// withoutTextSignature returns a block without the citation that holds the
// signature of its text.
func withoutTextSignature(block jsonedit.Value) []byte {
	var list jsonedit.Builder
	kept, all := 0, 0
	list.Open('[')
	for c := range inside(block, "citations").Elements() {
		all++
		if !isTextSignature(c) {
			kept++
			list.Raw(c.Raw())
		}
	}
	list.Close(']')
	var d jsonedit.Doc
	if kept == all || d.Scan(block.Raw()) != nil {
		return block.Raw()
	}
	edit := jsonedit.Edit{Name: "citations"}
	if kept > 0 {
		edit.Value = list.Bytes()
	}
	return d.Apply(nil, edit)
}

// isForeignThinking reports whether a block is thinking that no model of this
// vendor signed.
func isForeignThinking(block jsonedit.Value) bool {
	kind, _ := inside(block, "type").TextBytes()
	name := ""
	switch string(kind) {
	case "thinking":
		name = "signature"
	case "redacted_thinking":
		name = "data"
	default:
		return false
	}
	text, _ := inside(block, name).Text()
	return !usable(llm.Thinking{Signature: dialect.ReadSignature(vendor, text)})
}
