// Package ollama is the dialect of Ollama's own chat and embeddings.
//
// It promises that what the protocol can say survives a way through the neutral
// conversation, and that what it can't is told. Which provider answers is left
// to the provider table and the pipeline.
package ollama

import (
	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/llm"
)

// Dialect is the dialect as providers see it.
type Dialect struct{}

var (
	_ dialect.ProviderCodec       = Dialect{}
	_ dialect.OperationTranslator = Dialect{}
)

const name = string(api.DialectOllama)

// EncodeRequest appends the body of a request to /api/chat.
// https://docs.ollama.com/api/chat
func (Dialect) EncodeRequest(dst []byte, r *llm.Request, to dialect.RequestTarget) ([]byte, []dialect.ParamChange, error) {
	return encodeRequest(dst, r, to)
}

// DecodeResponse reads a complete response.
func (Dialect) DecodeResponse(body []byte, r *llm.Request, to dialect.RequestTarget) (*llm.Response, error) {
	return decodeResponse(body, r, to)
}

// NewDecoder returns a decoder for one streamed answer, of which each line of
// JSON is a frame.
func (Dialect) NewDecoder(r *llm.Request, _ dialect.RequestTarget) dialect.StreamDecoder {
	return newDecoder(r)
}

// Translator returns the translation of embeddings.
func (Dialect) Translator(op api.Operation, _ dialect.RequestTarget) (dialect.Translator, bool) {
	if op != api.Embeddings {
		return dialect.Translator{}, false
	}
	return dialect.Translator{Request: embedRequest, Response: embedResponse}, true
}
