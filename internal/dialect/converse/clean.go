package converse

import (
	"encoding/base64"

	"modelgate/internal/dialect"
	"modelgate/internal/jsonedit"
)

var _ dialect.ForeignContentCleaner = Dialect{}

// markBegins is the start of a marked signature in base64.
var markBegins = base64.StdEncoding.EncodeToString([]byte("mg1"))

// Clean implements dialect.ForeignContentCleaner: clients send back the blocks
// that they received, and a model rejects thinking that it did not sign.
func (Dialect) Clean(body *jsonedit.Doc, _ dialect.RequestTarget) []jsonedit.Edit {
	if b := body.Bytes(); !dialect.MayContainMarkedSignature(b) && !jsonedit.StringBegins(b, markBegins) {
		return nil
	}
	return dialect.EditElements(body, "messages", "content", func(block jsonedit.Value) []byte {
		reasoning, _ := block.Get("reasoningContent")
		text, _ := reasoning.Get("reasoningText")
		if dialect.IsMarkedSignature(word(text, "signature")) {
			return nil
		}
		if data, err := base64.StdEncoding.DecodeString(word(reasoning, "redactedContent")); err == nil && dialect.IsMarkedSignature(string(data)) {
			return nil
		}
		return block.Raw()
	})
}
