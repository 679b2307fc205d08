package gemini

import (
	"bytes"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/format/grammar"
	"modelgate/internal/format/jsonedit"
)

// Check rejects a body that is not a request of the protocol. The rest is
// checked by DecodeRequest and the provider.
func (Dialect) Check(op api.Operation, body *jsonedit.Doc) *apierr.Error {
	switch {
	case op == api.GenerateCount && hasRequest(body):
		return countBody.Check(body).WithoutSent().Error(": ")
	case op == api.Generate, op == api.GenerateCount:
		return generateBody.Check(body).WithoutSent().Error(": ")
	}
	return nil
}

// hasRequest reports whether the contents to count are part of a complete
// request inside the body.
func hasRequest(body *jsonedit.Doc) bool {
	for key := range body.Members() {
		if camel(key) == requestMember {
			return true
		}
	}
	return false
}

var (
	aList   = grammar.ByKind{Array: grammar.Any{}, Object: grammar.Any{}, What: "an array"}
	aNumber = grammar.ByKind{Number: grammar.Any{}, Text: grammar.Any{}, What: "a number"}

	generateBody = newBody(true)
	countBody    = newBody(false)

	generationConfig = grammar.Object{Spell: spell, Members: []grammar.Member{
		{Name: "temperature", Rule: aNumber},
		{Name: "topP", Rule: aNumber},
		{Name: "topK", Rule: aNumber},
		{Name: "candidateCount", Rule: aNumber},
		{Name: "maxOutputTokens", Rule: aNumber},
		{Name: "seed", Rule: aNumber},
		{Name: "presencePenalty", Rule: aNumber},
		{Name: "frequencyPenalty", Rule: aNumber},
		{Name: "logprobs", Rule: aNumber},
		{Name: "responseLogprobs", Rule: grammar.Bool{}},
		{Name: "responseMimeType", Rule: grammar.Text{}},
		{Name: "thinkingConfig", Rule: grammar.Object{}},
		{Name: "speechConfig", Rule: grammar.Object{}},
	}}

	contents = grammar.ByKind{What: "an array", Object: grammar.Any{}, Array: grammar.List{
		Each: grammar.Object{What: "a content with role and parts"}, Empty: "must contain at least one content",
	}}
)

func newBody(needsContents bool) *grammar.Body {
	body := grammar.NewBody([]grammar.Member{
		{Name: "contents", Rule: contents, Required: needsContents, Send: "an array of contents with role and parts"},
		{Name: "tools", Rule: aList},
		{Name: "safetySettings", Rule: aList},
		{Name: "systemInstruction", Rule: grammar.ByKind{Text: grammar.Any{}, Object: grammar.Any{}, What: "a content"}},
		{Name: "generationConfig", Rule: generationConfig},
		{Name: "toolConfig", Rule: grammar.Object{}},
		{Name: "labels", Rule: grammar.Object{}},
		{Name: "cachedContent", Rule: grammar.Text{}},
	})
	body.Spell = spell
	return body
}

// spell returns a key in lower camel case.
func spell(key []byte) []byte {
	if bytes.IndexByte(key, '_') < 0 {
		return key
	}
	return []byte(camelText(string(key)))
}

// Defaults returns nil: null is the same as absent.
func (Dialect) Defaults(api.Operation, *jsonedit.Doc) []jsonedit.Edit { return nil }
