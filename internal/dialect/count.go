package dialect

import (
	"modelgate/internal/jsonedit"
	"modelgate/internal/llm"
)

// ClientCounter is what a dialect offers whose clients ask how many tokens a
// request has. It is optional.
type ClientCounter interface {
	// DecodeCountRequest reads the question, as DecodeRequest reads a request.
	DecodeCountRequest(body []byte) (*llm.Request, error)

	// EncodeCountResponse appends the answer.
	EncodeCountResponse(dst []byte, tokens int64) []byte
}

// ProviderCounter is what a dialect offers whose providers tell how many tokens a
// request has. It is optional.
type ProviderCounter interface {
	// EncodeCountRequest appends the body of the question, as EncodeRequest does
	// that of a request.
	EncodeCountRequest(dst []byte, r *llm.Request, to RequestTarget) ([]byte, []ParamChange, error)

	// DecodeCountResponse reads the answer.
	DecodeCountResponse(body []byte) (tokens int64, err error)
}

// AppendMembers writes those members of a body that have one of the names, in
// the body's order.
func AppendMembers(b *jsonedit.Builder, body []byte, names ...string) error {
	var d jsonedit.Doc
	if err := d.Scan(body); err != nil {
		return err
	}
	for key, v := range d.Members() {
		if contains(names, key.String()) {
			b.Key(key.String())
			b.Raw(v.Raw())
		}
	}
	return nil
}
