package converse

import (
	"bytes"
	"encoding/base64"

	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

var _ dialect.ForeignContentCleaner = Dialect{}

// markBegins is the start of a marked signature in base64.
var markBegins = base64.StdEncoding.EncodeToString([]byte("mg1"))

// Clean implements dialect.ForeignContentCleaner: clients send back the blocks
// that they received. A model rejects thinking that it did not sign, sources without
// the text that they are for, and ids of calls in another form.
func (Dialect) Clean(body *jsonedit.Doc, to dialect.RequestTarget) ([]jsonedit.Edit, []dialect.ParamChange) {
	m := modelOf(to.KnownModel())
	edits, changes := disableThinking(body, m)
	ids := dialect.NewCallIDFitter(m.callIDs(), body.Bytes(), "toolUseId")
	if b := body.Bytes(); ids == nil && !dialect.MayContainMarkedSignature(b) && !jsonedit.StringBegins(b, markBegins) &&
		!bytes.Contains(b, sourcesBegin) {
		return edits, changes
	}
	edits = append(edits, dialect.EditElements(body, "messages", "content", func(block jsonedit.Value) []byte {
		if isForeignThinking(block) {
			return nil
		}
		if sources, ok := block.Get("citationsContent"); ok && cited(sources).Text == "" {
			return nil
		}
		raw := ids.FitInner(block.Raw(), "toolUse", "toolUseId")
		return ids.FitInner(raw, "toolResult", "toolUseId")
	})...)
	return edits, append(changes, ids.Changes("messages")...)
}

// isForeignThinking reports whether a block is thinking of another vendor's model.
func isForeignThinking(block jsonedit.Value) bool {
	reasoning, _ := block.Get("reasoningContent")
	text, _ := reasoning.Get("reasoningText")
	if dialect.IsMarkedSignature(text.TextOf("signature")) {
		return true
	}
	data, err := base64.StdEncoding.DecodeString(reasoning.TextOf("redactedContent"))
	return err == nil && dialect.IsMarkedSignature(string(data))
}

// disableThinking returns the edits that disable Claude's thinking with a budget if the model
// would refuse to continue the turn with it.
func disableThinking(body *jsonedit.Doc, m model) ([]jsonedit.Edit, []dialect.ParamChange) {
	fields, _ := body.Find(additionalFields)
	thinking, _ := fields.Get("thinking")
	list, _ := body.Find("messages")
	if !m.claude() || thinking.TextOf("type") != string(llm.ThinkingEnabled) || !blockKinds.LackThinking(list) {
		return nil, nil
	}
	var d jsonedit.Doc
	if d.Scan(fields.Raw()) != nil {
		return nil, nil
	}
	edits := []jsonedit.Edit{{Name: "thinking", Value: dialect.ThinkingDisabledObject}}
	if v, ok := d.Find("context_management"); ok {
		edits = append(edits, jsonedit.Edit{Name: "context_management", Value: dialect.WithoutClearThinking(v.Raw())})
	}
	return []jsonedit.Edit{{Name: additionalFields, Value: d.Apply(nil, edits...)}},
		[]dialect.ParamChange{{Name: additionalFields + ".thinking", Outcome: dialect.Adapted, Note: dialect.ThinkingDisabled}}
}

// blockKinds are the kinds of blocks that matter for thinking.
var blockKinds = dialect.Blocks{Result: "toolResult", Thinking: []string{"reasoningContent"}, IsForeign: isForeignThinking}

// sourcesBegin is the name of the blocks with sources.
var sourcesBegin = []byte(`"citationsContent"`)
