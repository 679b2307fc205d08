package gemini

import (
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
)

var _ dialect.ForeignContentCleaner = Dialect{}

// signatureNames are the two spellings of the member that holds a signature.
var signatureNames = [...]string{"thoughtSignature", "thought_signature"}

// Clean implements dialect.ForeignContentCleaner: clients send back the parts
// that they received, and Google rejects a signature that is not base64.
// Thinking of other vendors' models is removed; their calls and text stay, with
// the signature that Google accepts for calls which its models did not make.
// https://ai.google.dev/gemini-api/docs/thought-signatures
func (Dialect) Clean(body *jsonedit.Doc, _ dialect.RequestTarget) ([]jsonedit.Edit, []dialect.ParamChange) {
	if b := body.Bytes(); !jsonedit.StringBegins(b, markBegins) && !dialect.MayContainMarkedSignature(b) {
		return nil, nil
	}
	return dialect.EditElements(body, "contents", "parts", cleanPart), nil
}

func cleanPart(part jsonedit.Value) []byte {
	name := ""
	for _, spelling := range signatureNames {
		if v, ok := part.Get(spelling); ok {
			if text, _ := v.Text(); dialect.IsMarkedSignature(plain(text)) {
				name = spelling
			}
		}
	}
	if name == "" {
		return part.Raw()
	}
	thought, _ := part.Get("thought")
	words, _ := part.Get("text")
	text, said := words.Text()
	if is, _ := thought.Bool(); is || said && text == "" {
		return nil
	}
	var d jsonedit.Doc
	if d.Scan(part.Raw()) != nil {
		return part.Raw()
	}
	edit := jsonedit.Edit{Name: name}
	if !said {
		edit.Value = jsonedit.AppendString(nil, dummySignature)
	}
	return d.Apply(nil, edit)
}
