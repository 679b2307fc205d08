package gemini

import (
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// requestMember is the member of a token counting request that holds a complete
// request instead of only its contents.
const requestMember = "generateContentRequest"

// DecodeCountRequest reads a token counting request: it is the request to
// count, or contains it.
// https://ai.google.dev/api/tokens#method:-models.counttokens
func (d Dialect) DecodeCountRequest(body []byte) (*llm.Request, error) {
	v, err := jsonedit.ParseValue(body)
	if err == nil {
		if inner := field(v, requestMember); inner.Kind() == jsonedit.Object {
			return d.DecodeRequest(inner.Raw())
		}
	}
	return d.DecodeRequest(body)
}

// EncodeCountResponse appends the response to it.
func (Dialect) EncodeCountResponse(dst []byte, tokens int64) []byte {
	b := jsonedit.Append(dst)
	b.Open('{')
	number(&b, "totalTokens", tokens)
	b.Close('}')
	return b.Bytes()
}

// EncodeCountRequest appends the body of a request to count the tokens of r.
// The Gemini API takes a complete request inside; Vertex AI takes only the
// members that have tokens.
// https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/count-tokens
func (d Dialect) EncodeCountRequest(dst []byte, r *llm.Request, to dialect.RequestTarget) ([]byte, []dialect.ParamChange, error) {
	body, fates, err := d.EncodeRequest(nil, r, to)
	if err != nil {
		return dst, nil, err
	}
	b := jsonedit.Append(dst)
	b.Open('{')
	counted := []string{"contents", "systemInstruction", "tools", "generationConfig"}
	if !to.Vertex {
		b.Name(requestMember)
		b.Open('{')
		text(&b, "model", collected(to.Model))
		counted = append(counted, "toolConfig")
	}
	if err := dialect.AppendMembers(&b, body, counted...); err != nil {
		return dst, nil, err
	}
	if !to.Vertex {
		b.Close('}')
	}
	b.Close('}')
	return b.Bytes(), fates, nil
}

// DecodeCountResponse reads the response to it.
func (Dialect) DecodeCountResponse(body []byte) (int64, error) {
	return dialect.ReadCount(body, "totalTokens")
}
