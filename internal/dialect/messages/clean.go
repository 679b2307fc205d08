package messages

import (
	"bytes"

	"modelgate/internal/dialect"
	"modelgate/internal/jsonedit"
	"modelgate/internal/llm"
)

// Clean returns the edit that removes the thinking of other vendors' models
// from a request: clients send back what they received, and this vendor rejects
// thinking that its models did not sign. It is for bodies that are forwarded as
// received. Most need no edit, which costs one search.
func (Dialect) Clean(body *jsonedit.Doc) []jsonedit.Edit {
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
	if bytes.Contains(b, markBegin) {
		return true
	}
	for {
		i := bytes.Index(b, signatureKey)
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
	markBegin               = []byte(`"mg1.`) // as written by dialect.MarkSignature
	signatureKey, emptyText = []byte(`"signature"`), []byte(`""`)
)

// withoutForeign returns a message without thinking of other vendors: unchanged
// if it has none, nil if it has nothing else.
func withoutForeign(m jsonedit.Value) []byte {
	content, _ := m.Get("content")
	var b jsonedit.Builder
	kept, all := 0, 0
	b.Open('[')
	for block := range content.Elements() {
		all++
		if !isForeignThinking(block) {
			kept++
			b.Raw(block.Raw())
		}
	}
	b.Close(']')
	switch kept {
	case all:
		return m.Raw()
	case 0:
		return nil
	}
	var d jsonedit.Doc
	if d.Scan(m.Raw()) != nil {
		return m.Raw()
	}
	return d.Apply(nil, jsonedit.Edit{Name: "content", Value: b.Bytes()})
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
