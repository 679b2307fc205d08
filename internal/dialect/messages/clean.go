package messages

import (
	"bytes"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// Clean returns the edit that removes the thinking and the signatures of other
// vendors' models from a request, and gives calls the ids that the protocol allows: clients send
// back what they received, and this vendor rejects what its models did not write. It is for
// bodies that are forwarded as received. Most need no edit, which costs two searches.
func (Dialect) Clean(body *jsonedit.Doc, to dialect.RequestTarget) ([]jsonedit.Edit, []dialect.ParamChange) {
	edits, changes := disableThinking(body, to)
	ids := dialect.NewCallIDFitter(dialect.PlainCallID, body.Bytes(), "tool_use_id")
	if ids == nil && !maybeForeign(body.Bytes()) {
		return edits, changes
	}
	edits = append(edits, dialect.EditElements(body, "messages", "content", func(block jsonedit.Value) []byte {
		if isForeignThinking(block) {
			return nil
		}
		return ids.Fit(withoutTextSignature(block), "tool_use_id", "id")
	})...)
	return edits, append(changes, ids.Changes("messages")...)
}

// disableThinking returns the edits that disable thinking with a budget if the model would
// refuse to continue the turn with it.
func disableThinking(body *jsonedit.Doc, to dialect.RequestTarget) ([]jsonedit.Edit, []dialect.ParamChange) {
	thinking, _ := body.Find("thinking")
	list, _ := body.Find("messages")
	if !isClaude(to) || thinking.TextOf("type") != string(llm.ThinkingEnabled) || !blockKinds.LackThinking(list) {
		return nil, nil
	}
	edits := []jsonedit.Edit{{Name: "thinking", Value: dialect.ThinkingDisabledObject}}
	if v, ok := body.Find("context_management"); ok {
		edits = append(edits, jsonedit.Edit{Name: "context_management", Value: dialect.WithoutClearThinking(v.Raw())})
	}
	return edits, []dialect.ParamChange{{Name: "thinking", Outcome: dialect.Adapted, Note: dialect.ThinkingDisabled}}
}

// blockKinds are the kinds of blocks that matter for thinking.
var blockKinds = dialect.Blocks{Type: "type", Result: "tool_result", Thinking: []string{"thinking", "redacted_thinking"},
	IsForeign: isForeignThinking}

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
