package converse

import (
	"modelgate/api"
	"modelgate/internal/dialect"
)

// Form returns the translation of embeddings and images, which go by InvokeModel
// in the form of each model family.
func (Dialect) Form(op api.Operation, to dialect.Target) (dialect.Form, bool) {
	return dialect.Form{}, false
}
