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
	"modelgate/internal/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/jsonedit"
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

// Error returns the body of e for an answer that has not begun: the chat
// dialect's, which is this protocol's too.
func (Dialect) Error(e *apierr.Error) []byte { return e.Body() }

// ErrorEvent appends e as the event that ends a stream. Its members are those
// of the protocol's error event; the official clients raise an error only when
// an error object stands beside them, as the provider itself sends it.
func (Dialect) ErrorEvent(dst []byte, e *apierr.Error) []byte {
	b := jsonedit.Append(append(dst, "event: error\ndata: "...))
	b.Open('{')
	b.Name("type")
	b.String("error")
	writeFault(&b, e)
	b.Name("sequence_number")
	b.Int(0)
	b.Name("error")
	b.Open('{')
	b.Name("type")
	b.String(e.Type())
	writeFault(&b, e)
	b.Close('}')
	b.Close('}')
	return append(b.Bytes(), "\n\n"...)
}

func writeFault(b *jsonedit.Builder, e *apierr.Error) {
	b.Name("code")
	b.String(e.CodeOrDefault())
	b.Name("message")
	b.String(e.Message)
	b.Name("param")
	if e.Param == "" {
		b.Null()
		return
	}
	b.String(e.Param)
}

// Terminator returns nil: the last event of a stream tells that it is whole.
func (Dialect) Terminator() []byte { return nil }

// NewTap returns a tap for one answer to op.
func (Dialect) NewTap(api.Operation) dialect.Tap { return &tap{} }
