package converse

import (
	"modelgate/internal/dialect"
	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// DecodeCountRequest reads a token counting request, which contains the request
// to count. The body of another API in it is for Bedrock only.
// https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_CountTokens.html
func (d Dialect) DecodeCountRequest(body []byte) (*llm.Request, error) {
	v, err := jsonedit.ParseValue(body)
	if err != nil {
		return nil, dialect.Invalid("input", dialect.CodeType, "must be in a JSON object")
	}
	input, _ := v.Get("input")
	if _, ok := input.Get("invokeModel"); ok {
		return nil, dialect.Invalid("input.invokeModel", dialect.CodeUnsupported, "is counted only by Bedrock; send input.converse")
	}
	inner, _ := input.Get("converse")
	if inner.Kind() != jsonedit.Object {
		return nil, dialect.Invalid("input.converse", dialect.CodeType, "must be an object with the request to count")
	}
	return d.DecodeRequest(inner.Raw())
}

// EncodeCountResponse appends the response to it.
func (Dialect) EncodeCountResponse(dst []byte, tokens int64) []byte {
	b := jsonedit.Append(dst)
	b.Open('{')
	b.Name("inputTokens")
	b.Int(tokens)
	b.Close('}')
	return b.Bytes()
}

// EncodeCountRequest appends the body of a request to count the tokens of r.
// https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_CountTokens.html
func (d Dialect) EncodeCountRequest(dst []byte, r *llm.Request, to dialect.RequestTarget) ([]byte, []dialect.ParamChange, error) {
	body, fates, err := d.EncodeRequest(nil, r, to)
	if err != nil {
		return dst, nil, err
	}
	b := jsonedit.Append(dst)
	b.Open('{')
	b.Name("input")
	b.Open('{')
	b.Name("converse")
	b.Open('{')
	if err := dialect.AppendMembers(&b, body, "messages", "system", "toolConfig", "additionalModelRequestFields"); err != nil {
		return dst, nil, err
	}
	b.Close('}')
	b.Close('}')
	b.Close('}')
	return b.Bytes(), fates, nil
}

// DecodeCountResponse reads the response to it.
func (Dialect) DecodeCountResponse(body []byte) (int64, error) {
	return dialect.ReadCount(body, "inputTokens")
}

// Foundation returns the model id in a name, without the region or the ARN of
// an inference profile that AWS defines. Other names are returned unchanged.
func Foundation(name string) string {
	m := modelOf(name)
	if m.vendor == "" {
		return name
	}
	return m.vendor + "." + m.id
}
