// Package cohere is the dialect of Cohere's chat, embeddings and rerank, version 2.
//
// It promises that what the protocol can say survives a way through the neutral
// conversation, and that what it can't is told. Which provider answers is left
// to the provider table and the pipeline.
package cohere

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

const name = string(api.DialectCohere)

// EncodeRequest appends the body of a request to /v2/chat.
// https://docs.cohere.com/reference/chat
func (Dialect) EncodeRequest(dst []byte, r *llm.Request, to dialect.RequestTarget) ([]byte, []dialect.ParamChange, error) {
	return encodeRequest(dst, r, to)
}

// DecodeResponse reads a complete response.
func (Dialect) DecodeResponse(body []byte, r *llm.Request, to dialect.RequestTarget) (*llm.Response, error) {
	return decodeResponse(body, r, to)
}

// NewDecoder returns a decoder for one streamed answer.
func (Dialect) NewDecoder(r *llm.Request, to dialect.RequestTarget) dialect.StreamDecoder {
	return newDecoder(r, to)
}

// Translator returns the translation of embeddings and of rerank.
func (Dialect) Translator(op api.Operation, _ dialect.RequestTarget) (dialect.Translator, bool) {
	switch op {
	case api.Embeddings:
		return dialect.Translator{Request: embedRequest, Response: embedResponse}, true
	case api.Rerank:
		return dialect.Translator{Request: rerankRequest, Response: rerankResponse}, true
	}
	return dialect.Translator{}, false
}
