package replicate

import (
	"modelgate/api"
	"modelgate/internal/dialect"
)

// Translator returns the translator of images.
func (Dialect) Translator(op api.Operation, _ dialect.RequestTarget) (dialect.Translator, bool) {
	if op != api.Images {
		return dialect.Translator{}, false
	}
	return dialect.Translator{Request: imageRequest, Response: imageResponse}, true
}
