package responses

import (
	"modelgate/internal/dialect"
	"modelgate/internal/jsonedit"
)

var _ dialect.Cleaner = Dialect{}

// Clean implements dialect.Cleaner: clients send back the items that they were
// given, and a provider refuses thinking that its models did not encrypt.
func (Dialect) Clean(body *jsonedit.Doc) []jsonedit.Edit {
	if !dialect.MaybeMarked(body.Bytes()) {
		return nil
	}
	return dialect.Sift(body, "input", "", func(item jsonedit.Value) []byte {
		if textOf(item, "type") == "reasoning" && dialect.Marked(textOf(item, "encrypted_content")) {
			return nil
		}
		return item.Raw()
	})
}
