package ollama

import (
	"modelgate/api"
	"modelgate/internal/dialect"
)

// Translator returns the translator of embeddings.
func (Dialect) Translator(op api.Operation, _ dialect.RequestTarget) (dialect.Translator, bool) {
	if op != api.Embeddings {
		return dialect.Translator{}, false
	}
	return dialect.Translator{Request: embedRequest, Response: embedResponse}, true
}
