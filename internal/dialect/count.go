package dialect

import (
	"errors"
	"slices"

	"modelgate/internal/format/jsonedit"
	"modelgate/internal/model/llm"
)

// ClientCounter is implemented by dialects whose clients can ask for the number
// of tokens of a request. It is optional.
type ClientCounter interface {
	// DecodeCountRequest reads a token counting request, as DecodeRequest reads
	// a request.
	DecodeCountRequest(body []byte) (*llm.Request, error)

	// EncodeCountResponse appends the response.
	EncodeCountResponse(dst []byte, tokens int64) []byte
}

// ProviderCounter is implemented by dialects whose providers count the tokens
// of a request. It is optional.
type ProviderCounter interface {
	// EncodeCountRequest appends the body of a token counting request. Its
	// results are like those of EncodeRequest.
	EncodeCountRequest(dst []byte, r *llm.Request, to RequestTarget) ([]byte, []ParamChange, error)

	// DecodeCountResponse reads the response.
	DecodeCountResponse(body []byte) (tokens int64, err error)
}

// AppendMembers writes the members of a body that have one of the names, in the
// body's order.
func AppendMembers(b *jsonedit.Builder, body []byte, names ...string) error {
	var d jsonedit.Doc
	if err := d.Scan(body); err != nil {
		return err
	}
	for key, v := range d.Members() {
		if slices.Contains(names, key.String()) {
			b.Key(key.String())
			b.Raw(v.Raw())
		}
	}
	return nil
}

var errNoCount = errors.New("the response has no number of tokens")

// ReadCount returns the number in the first of the members of a response that has one.
func ReadCount(body []byte, members ...string) (int64, error) {
	v, err := jsonedit.ParseValue(body)
	if err != nil {
		return 0, err
	}
	for _, name := range members {
		n, _ := v.Get(name)
		if tokens, ok := n.Int(); ok {
			return tokens, nil
		}
	}
	return 0, errNoCount
}
