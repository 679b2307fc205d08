// Package chat is the dialect of the chat protocol: chat completions, text
// completions, embeddings, images, speech and moderations, as the official
// clients of its vendor send them.
//
// It promises that Check refuses what the specification forbids and nothing that
// an official client sends, that a tap reads an answer in one pass without
// decoding or keeping it, and that a provider's own error object survives byte
// for byte. Which provider answers, and what happens to a parameter on the way
// to it, is left to the provider table and the pipeline.
package chat

import "modelgate/internal/dialect"

// Dialect is the chat dialect as clients see it.
type Dialect struct{}

var _ dialect.ClientDialect = Dialect{}

// Terminator returns the event that ends every complete stream. Callers must
// not change it.
func (Dialect) Terminator() []byte { return terminator }

var terminator = []byte("data: [DONE]\n\n")

// Headers are none: what clients of the dialect may send along they name in
// x-gateway-forward-headers.
func (Dialect) Headers() []string { return nil }

// ContentType is that of server-sent events.
func (Dialect) ContentType() string { return "text/event-stream" }
