package responses

import (
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
)

var _ dialect.ForeignContentCleaner = Dialect{}

// Clean implements dialect.ForeignContentCleaner: clients send back the items
// that they received, and a provider rejects thinking that its models did not
// encrypt. The vendor rejects long ids, of items too.
func (Dialect) Clean(body *jsonedit.Doc, to dialect.RequestTarget) ([]jsonedit.Edit, []dialect.ParamChange) {
	b := body.Bytes()
	members := [...]string{"call_id", "id"}
	searched := 1
	foreign := dialect.MayContainMarkedSignature(b, `id"`)
	if foreign { // most bodies have neither, and are searched once
		searched, foreign = 2, dialect.MayContainMarkedSignature(b)
	}
	ids := dialect.NewCallIDFitter(callIDs(to), b, members[:searched]...)
	if ids == nil && !foreign {
		return nil, nil
	}
	edits := dialect.EditElements(body, "input", "", func(item jsonedit.Value) []byte {
		if item.TextOf("type") == "reasoning" && dialect.IsMarkedSignature(item.TextOf("encrypted_content")) {
			return nil
		}
		return ids.Fit(item.Raw(), "call_id", "id", "approval_request_id")
	})
	return edits, ids.Changes("input")
}

// callIDs returns the rule for ids of items and calls that a provider documents.
func callIDs(to dialect.RequestTarget) dialect.NameRule {
	if profileOf(to).Vendor {
		return dialect.ShortCallID
	}
	return dialect.AnyCallID
}
