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

import (
	"modelgate/api"
	"modelgate/internal/apierr"
	"modelgate/internal/dialect"
)

// Dialect is the chat dialect as clients see it.
type Dialect struct{}

var _ dialect.ClientDialect = Dialect{}

// Error returns the body of e for an answer that has not begun.
func (Dialect) Error(e *apierr.Error) []byte { return e.Body() }

// ErrorEvent appends e as an event that ends a stream: a data field with an
// error object, which the official clients raise as an error.
func (Dialect) ErrorEvent(dst []byte, e *apierr.Error) []byte {
	dst = append(dst, "data: "...)
	dst = append(dst, e.Body()...)
	return append(dst, "\n\n"...)
}

// Terminator returns the event that ends every complete stream. Callers must
// not change it.
func (Dialect) Terminator() []byte { return terminator }

var terminator = []byte("data: [DONE]\n\n")

// NewTap returns a tap for one answer to op.
func (Dialect) NewTap(op api.Operation) dialect.Tap { return &tap{op: op} }
