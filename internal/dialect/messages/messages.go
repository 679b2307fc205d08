// Package messages is the dialect of the messages protocol of Anthropic's models.
//
// It promises that what the protocol can say survives a way through the neutral
// conversation, and that what it can't is told. A client of the protocol is
// taken at its word: what it asks is sent as it asked, within what the host
// takes. What comes from another dialect is fitted to the model: thinking,
// sampling, forms of answers. Which provider answers is left to the provider
// table and the pipeline.
//
// The protocol: https://docs.claude.com/en/api/messages
package messages

import (
	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/llm"
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
	vendor = llm.Anthropic // whose signatures are carried as they are
)

// Headers are the version of the protocol and the features that a client tries.
func (Dialect) Headers() []string { return []string{versionHeader, betaHeader} }

const (
	versionHeader = "Anthropic-Version"
	betaHeader    = "Anthropic-Beta"
)

// ContentType is that of server-sent events.
func (Dialect) ContentType() string { return "text/event-stream" }

// Terminator returns the event that ends every complete stream. Callers must
// not change it.
func (Dialect) Terminator() []byte { return terminator }

var terminator = []byte("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n")

// names are what the dialect calls parameters whose name is not the field's own.
var names = map[llm.Field]string{
	llm.FieldStop:          "stop_sequences",
	llm.FieldParallelTools: "tool_choice.disable_parallel_tool_use",
	llm.FieldFormat:        "output_config.format",
	llm.FieldEffort:        "output_config.effort",
	llm.FieldSummary:       "thinking.display",
	llm.FieldUser:          "metadata.user_id",
	llm.FieldParts:         "messages",
}
