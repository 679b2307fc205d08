package gemini

import (
	"modelgate/api"
	"modelgate/internal/dialect"
)

// Form returns the translation of an operation.
func (Dialect) Form(op api.Operation, to dialect.Target) (dialect.Form, bool) {
	return dialect.Form{}, false
}
