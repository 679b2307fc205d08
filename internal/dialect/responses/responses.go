// Package responses is the dialect of OpenAI's responses protocol.
//
// It guarantees that a translation through the neutral model keeps what the
// protocol can express and records what it cannot. Requests that refer to
// responses stored at the provider (previous_response_id, conversation,
// background) cannot be translated and are rejected. It does not choose a
// provider; see the provider table and pipeline.
//
// https://platform.openai.com/docs/api-reference/responses
package responses

import (
	"modelgate/api"
	"modelgate/internal/dialect"
)

// Dialect is the dialect as clients and providers see it.
type Dialect struct{}

var (
	_ dialect.ClientDialect = Dialect{}
	_ dialect.ProviderCodec = Dialect{}
)

// own is the name of this dialect in the neutral model.
const own = string(api.DialectResponses)

// Headers returns the header that turns on beta features, without which fields of
// theirs are rejected.
func (Dialect) Headers() []string { return []string{"Openai-Beta"} }

// ContentType returns the type of server-sent events.
func (Dialect) ContentType() string { return "text/event-stream" }

// ModelField returns the member model of a response, which several events of a
// stream contain. Its clients read from it who served them.
func (Dialect) ModelField() dialect.ModelField { return modelField }

var modelField = dialect.ModelField{Body: []string{"model"}, Event: []string{"response", "model"}, Default: api.ModelServed}

// Terminator returns nil: the last event of a stream marks it as complete.
func (Dialect) Terminator() []byte { return nil }
