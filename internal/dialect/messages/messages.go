// Package messages is the dialect of the messages protocol of Anthropic's
// models.
//
// It guarantees that a translation through the neutral model keeps what the
// protocol can express and records what it cannot. Requests of clients of this
// dialect are sent as received, within what the host accepts; requests of other
// dialects are adapted to the model: thinking, sampling, response formats. It
// does not choose a provider; see the provider table and pipeline.
//
// The protocol: https://docs.claude.com/en/api/messages
package messages

import (
	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/model/llm"
)

// Dialect is the dialect as clients and providers see it.
type Dialect struct{}

var (
	_ dialect.ClientDialect         = Dialect{}
	_ dialect.ProviderCodec         = Dialect{}
	_ dialect.ForeignContentCleaner = Dialect{}
	_ dialect.ClientCounter         = Dialect{}
	_ dialect.ProviderCounter       = Dialect{}
)

const (
	own    = string(api.DialectMessages)
	vendor = llm.Anthropic // signatures of this vendor are sent unmarked
)

// Headers returns the headers with the protocol version and the client's beta
// features.
func (Dialect) Headers() []string { return []string{versionHeader, betaHeader} }

const (
	versionHeader = "Anthropic-Version"
	betaHeader    = "Anthropic-Beta"
)

// ContentType returns the type of server-sent events.
func (Dialect) ContentType() string { return "text/event-stream" }

// ModelField returns the member model of a message. Claude Code sends thinking
// back only to the model that it believes to have made it: if the name differs
// from the one that it requested, it drops the signed thinking, and the next
// turn is refused.
func (Dialect) ModelField() dialect.ModelField { return modelField }

var modelField = dialect.ModelField{
	Body: []string{"model"}, Event: []string{"message", "model"}, FirstOnly: true, Default: api.ModelRequested,
}

// Terminator returns the event that ends every complete stream. Callers must
// not change it.
func (Dialect) Terminator() []byte { return terminator }

var terminator = []byte("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n")

// names maps request fields to their names in this dialect, where those differ.
var names = map[llm.Field]string{
	llm.FieldStop:          "stop_sequences",
	llm.FieldParallelTools: "tool_choice.disable_parallel_tool_use",
	llm.FieldFormat:        "output_config.format",
	llm.FieldEffort:        "output_config.effort",
	llm.FieldSummary:       "thinking.display",
	llm.FieldUser:          "metadata.user_id",
	llm.FieldParts:         "messages",
	llm.FieldHistory:       "messages.thinking",

	llm.FieldThinkingObject: "thinking",
}
