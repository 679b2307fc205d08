// Package chat is the dialect of the chat protocol: chat completions, text
// completions, embeddings, images, speech and moderations.
//
// It guarantees that Check rejects what the specification forbids and nothing
// that an official client sends, that a tap reads a response in one pass
// without decoding or keeping it, and that a provider's own error object is
// forwarded byte for byte. It does not choose a provider or apply the
// provider's quirks; see the provider table and pipeline.
package chat

import (
	"modelgate/api"
	"modelgate/internal/dialect"
)

// Dialect is the chat dialect as clients see it.
type Dialect struct{}

var _ dialect.ClientDialect = Dialect{}

// Terminator returns the event that ends every complete stream. Callers must
// not change it.
func (Dialect) Terminator() []byte { return terminator }

var terminator = []byte("data: [DONE]\n\n")

// Headers returns nil: clients of the dialect list the headers to forward in
// x-gateway-forward-headers.
func (Dialect) Headers() []string { return nil }

// ContentType returns the type of server-sent events.
func (Dialect) ContentType() string { return "text/event-stream" }

// ModelField returns the member model of responses and chunks. Its clients read
// from it who served them.
func (Dialect) ModelField() dialect.ModelField { return modelField }

var modelField = dialect.ModelField{Body: []string{"model"}, Event: []string{"model"}, Default: api.ModelServed}
