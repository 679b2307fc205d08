package gemini

import (
	"errors"

	"modelgate/internal/dialect"
	"modelgate/internal/jsonedit"
	"modelgate/internal/llm"
)

// wholeRequest is the member of a question for tokens that holds a request with
// all that is beside its contents.
const wholeRequest = "generateContentRequest"

// DecodeCountRequest reads a client's question for the tokens of a request,
// which is the request or holds it.
// https://ai.google.dev/api/tokens#method:-models.counttokens
func (d Dialect) DecodeCountRequest(body []byte) (*llm.Request, error) {
	v, err := jsonedit.ParseValue(body)
	if err == nil {
		if inner := field(v, wholeRequest); inner.Kind() == jsonedit.Object {
			return d.DecodeRequest(inner.Raw())
		}
	}
	return d.DecodeRequest(body)
}

// EncodeCountResponse appends the answer to it.
func (Dialect) EncodeCountResponse(dst []byte, tokens int64) []byte {
	b := jsonedit.Append(dst)
	b.Open('{')
	number(&b, "totalTokens", tokens)
	b.Close('}')
	return b.Bytes()
}

// EncodeCountRequest appends the body of a question for the tokens of r. The
// Gemini API takes a request inside; Vertex AI takes the members that have tokens.
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
		b.Name(wholeRequest)
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

var errNoCount = errors.New("gemini: the answer holds no number of tokens")

// DecodeCountResponse reads the answer to it.
func (Dialect) DecodeCountResponse(body []byte) (int64, error) {
	v, err := jsonedit.ParseValue(body)
	if err != nil {
		return 0, err
	}
	n, _ := v.Get("totalTokens")
	tokens, ok := n.Int()
	if !ok {
		return 0, errNoCount
	}
	return tokens, nil
}
