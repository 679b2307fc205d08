// Package gemini is the dialect of Google's generateContent, as used by the
// Gemini API and Vertex AI.
//
// It guarantees that a translation through the neutral model keeps what the
// protocol can express and records what it cannot. The model and streaming are
// set in the path of a request, which the caller writes along with credentials.
// It does not choose a provider or apply the provider's quirks; see the
// provider table and pipeline.
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

// Headers returns the headers that identify the client or tune how Vertex AI
// serves the request.
// https://cloud.google.com/vertex-ai/generative-ai/docs/provisioned-throughput/use-provisioned-throughput
func (Dialect) Headers() []string {
	return []string{"X-Goog-Api-Client", "X-Server-Timeout", "X-Vertex-Ai-Llm-Request-Type", "X-Vertex-Ai-Llm-Shared-Request-Type"}
}

// ContentType returns the type of server-sent events.
func (Dialect) ContentType() string { return "text/event-stream" }

// ModelField returns the member modelVersion, which is by definition the name
// of the model that was served.
// https://ai.google.dev/api/generate-content#generatecontentresponse
func (Dialect) ModelField() dialect.ModelField { return modelField }

var modelField = dialect.ModelField{Body: []string{"modelVersion"}, Event: []string{"modelVersion"}, Default: api.ModelServed}

// Terminator returns nil: a stream is complete if it ends after a finish
// reason.
func (Dialect) Terminator() []byte { return nil }
