// Package oracle is the dialect of Oracle's generative AI service: its chat in
// the GENERIC format, and in the COHERE format for the models of Cohere.
//
// It promises that what the protocol can say survives a way through the neutral
// conversation, and that what it can't is told. Signatures of requests and which
// provider answers are left to others.
package oracle

import (
	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/llm"
)

// Dialect is the dialect as providers see it.
type Dialect struct{}

var _ dialect.ProviderCodec = Dialect{}

const name = string(api.DialectOracle)

// EncodeRequest appends the body of a request to /20231130/actions/chat.
// https://docs.oracle.com/iaas/api/#/en/generative-ai-inference/20231130/ChatResult/Chat
func (Dialect) EncodeRequest(dst []byte, r *llm.Request, to dialect.RequestTarget) ([]byte, []dialect.ParamChange, error) {
	return encodeRequest(dst, r, to)
}

// DecodeResponse reads a complete response.
func (Dialect) DecodeResponse(body []byte, r *llm.Request, to dialect.RequestTarget) (*llm.Response, error) {
	return decodeResponse(body, r, to)
}

// NewDecoder returns a decoder for one streamed answer.
func (Dialect) NewDecoder(r *llm.Request, to dialect.RequestTarget) dialect.StreamDecoder {
	if isCohere(r, to) {
		return &cohereDecoder{r: r, model: to.Model}
	}
	return &decoder{custom: customOf(r), model: to.Model}
}
