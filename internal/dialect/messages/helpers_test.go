package messages_test

import (
	"modelgate/internal/dialect/messages"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
	"modelgate/internal/testing/dialecttest"
)

var anthropic = dialecttest.TargetOf("anthropic", "claude-sonnet-4-5")

// decodeAll runs frames through one decoder.
func decodeAll(frames ...sse.Event) (events []llm.Event) {
	d := messages.Dialect{}.NewDecoder(nil, anthropic)
	for _, f := range frames {
		events = d.Decode(events, f)
	}
	return d.End(events)
}
