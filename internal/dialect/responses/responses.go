// Package responses is the dialect of the responses protocol of OpenAI.
//
// It promises that what the protocol can say survives a way through the neutral
// conversation, and that what it can't is told. Answers that are kept at the
// provider (previous_response_id, conversation, background) can't be translated
// and are refused. Which provider answers is left to the provider table and the
// pipeline.
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

// own is what the neutral conversation calls this dialect.
const own = string(api.DialectResponses)

// Headers are none: what clients of the dialect may send along they name in
// x-gateway-forward-headers.
func (Dialect) Headers() []string { return nil }

// ContentType is that of server-sent events.
func (Dialect) ContentType() string { return "text/event-stream" }

// Terminator returns nil: the last event of a stream tells that it is whole.
func (Dialect) Terminator() []byte { return nil }
