package responses

import (
	"modelgate/internal/dialect"
	"modelgate/internal/jsonedit"
)

var _ dialect.ForeignContentCleaner = Dialect{}

// Clean implements dialect.ForeignContentCleaner: clients send back the items
// that they received, and a provider rejects thinking that its models did not
// encrypt.
func (Dialect) Clean(body *jsonedit.Doc, _ dialect.RequestTarget) []jsonedit.Edit {
	if !dialect.MayContainMarkedSignature(body.Bytes()) {
		return nil
	}
	return dialect.EditElements(body, "input", "", func(item jsonedit.Value) []byte {
		if textOf(item, "type") == "reasoning" && dialect.IsMarkedSignature(textOf(item, "encrypted_content")) {
			return nil
		}
		return item.Raw()
	})
}
