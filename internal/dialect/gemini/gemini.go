// Package gemini is the dialect of Google's generateContent, as the Gemini API
// and Vertex AI speak it.
//
// It promises that what the protocol can say survives a way through the neutral
// conversation, and that what it can't is told. The model and whether to stream
// are in the path of a request, which the caller writes, as it does
// credentials. Which provider answers is left to the provider table and the
// pipeline.
//
// https://ai.google.dev/api/generate-content
package gemini

import (
	"modelgate/api"
	"modelgate/internal/dialect"
)

// Dialect is the dialect as clients and providers see it.
type Dialect struct{}

var (
	_ dialect.ClientDialect             = Dialect{}
	_ dialect.ProviderCodec             = Dialect{}
	_ dialect.OperationTranslator       = Dialect{}
	_ dialect.ClientOperationTranslator = Dialect{}
	_ dialect.ClientCounter             = Dialect{}
	_ dialect.ProviderCounter           = Dialect{}
)

const own = string(api.DialectGemini)

// Headers are those that tell of the client or tune how Vertex AI serves it.
// https://cloud.google.com/vertex-ai/generative-ai/docs/provisioned-throughput/use-provisioned-throughput
func (Dialect) Headers() []string {
	return []string{"X-Goog-Api-Client", "X-Server-Timeout", "X-Vertex-Ai-Llm-Request-Type", "X-Vertex-Ai-Llm-Shared-Request-Type"}
}

// ContentType is that of server-sent events.
func (Dialect) ContentType() string { return "text/event-stream" }

// Terminator is nil: a stream is whole when it ends after a finish reason.
func (Dialect) Terminator() []byte { return nil }
