package cohere

import (
	"modelgate/api"
	"modelgate/internal/dialect"
)

// Translator returns the translator of embeddings or rerank.
func (Dialect) Translator(op api.Operation, _ dialect.RequestTarget) (dialect.Translator, bool) {
	switch op {
	case api.Embeddings:
		return dialect.Translator{Request: embedRequest, Response: embedResponse}, true
	case api.Rerank:
		return dialect.Translator{Request: rerankRequest, Response: rerankResponse}, true
	}
	return dialect.Translator{}, false
}
