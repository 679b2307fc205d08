package converse

import (
	"bytes"
	"encoding/base64"

	"modelgate/internal/dialect"
	"modelgate/internal/jsonedit"
)

var _ dialect.ForeignContentCleaner = Dialect{}

// markBegins is the start of a marked signature in base64.
var markBegins = base64.StdEncoding.EncodeToString([]byte("mg1"))

// Clean implements dialect.ForeignContentCleaner: clients send back the blocks
// that they received. A model rejects thinking that it did not sign, sources without
// the text that they are for, and ids of calls in another form.
func (Dialect) Clean(body *jsonedit.Doc, to dialect.RequestTarget) ([]jsonedit.Edit, []dialect.ParamChange) {
	ids := dialect.NewCallIDFitter(modelOf(to.KnownModel()).callIDs(), body.Bytes(), "toolUseId")
	if b := body.Bytes(); ids == nil && !dialect.MayContainMarkedSignature(b) && !jsonedit.StringBegins(b, markBegins) && !bytes.Contains(b, sourcesBegin) {
		return nil, nil
	}
	edits := dialect.EditElements(body, "messages", "content", func(block jsonedit.Value) []byte {
		reasoning, _ := block.Get("reasoningContent")
		text, _ := reasoning.Get("reasoningText")
		if dialect.IsMarkedSignature(word(text, "signature")) {
			return nil
		}
		if data, err := base64.StdEncoding.DecodeString(word(reasoning, "redactedContent")); err == nil && dialect.IsMarkedSignature(string(data)) {
			return nil
		}
		if sources, ok := block.Get("citationsContent"); ok && cited(sources).Text == "" {
			return nil
		}
		raw := ids.FitWithin(block.Raw(), "toolUse", "toolUseId")
		return ids.FitWithin(raw, "toolResult", "toolUseId")
	})
	return edits, ids.Changes("messages")
}

// sourcesBegin is the name of the blocks with sources.
var sourcesBegin = []byte(`"citationsContent"`)
