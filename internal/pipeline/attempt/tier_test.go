package attempt_test

import (
	"testing"

	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/chat"
	"modelgate/internal/dialect/converse"
	"modelgate/internal/dialect/gemini"
	"modelgate/internal/dialect/messages"
	"modelgate/internal/dialect/responses"
	"modelgate/internal/format/sse"
)

func TestTheTierOfAResponseIsRead(t *testing.T) {
	for _, tt := range []struct {
		name   string
		client dialect.ClientDialect
		body   string
		want   string
	}{
		{"chat", chat.Dialect{}, `{"choices":[],"service_tier":"flex"}`, "flex"},
		{"chat, as ever", chat.Dialect{}, `{"choices":[],"service_tier":"default"}`, ""},
		{"chat, null", chat.Dialect{}, `{"choices":[],"service_tier":null}`, ""},
		{"chat, no word", chat.Dialect{}, `{"choices":[],"service_tier":{"a":1},"model":"m"}`, ""},
		{"messages", messages.Dialect{}, `{"type":"message","usage":{"input_tokens":1,"service_tier":"priority"}}`, "priority"},
		{"messages of a batch", messages.Dialect{}, `{"type":"message","usage":{"service_tier":"batch"}}`, "batch"},
		{"messages, fast", messages.Dialect{}, `{"type":"message","usage":{"service_tier":"standard","speed":"fast"}}`, "fast"},
		{"messages, not fast", messages.Dialect{}, `{"type":"message","usage":{"service_tier":"standard","speed":"standard"}}`, ""},
		{"responses", responses.Dialect{}, `{"status":"completed","service_tier":"flex","output":[]}`, "flex"},
		{"gemini", gemini.Dialect{}, `{"usageMetadata":{"promptTokenCount":1,"serviceTier":"flex"}}`, "flex"},
		{"gemini at the cloud", gemini.Dialect{}, `{"usageMetadata":{"trafficType":"ON_DEMAND_PRIORITY"}}`, "priority"},
		{"gemini at the cloud, as ever", gemini.Dialect{}, `{"usageMetadata":{"trafficType":"ON_DEMAND"}}`, ""},
		{"gemini, bought ahead", gemini.Dialect{}, `{"usageMetadata":{"trafficType":"PROVISIONED_THROUGHPUT"}}`, "provisioned"},
		{"converse", converse.Dialect{}, `{"output":{},"usage":{"inputTokens":1},"serviceTier":{"type":"flex"}}`, "flex"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tap := tt.client.NewTap(api.Chat)
			tap.Body([]byte(tt.body))
			if got := tap.Info().Tier; got != tt.want {
				t.Errorf("tier of %s = %q, want %q", tt.body, got, tt.want)
			}
		})
	}
}

// Streams begin with the tier that was asked for and end with the one that it was.
func TestTheLastTierOfAStreamCounts(t *testing.T) {
	event := func(kind, data string) sse.Event { return sse.Event{Type: []byte(kind), Data: []byte(data)} }
	for _, tt := range []struct {
		name   string
		client dialect.ClientDialect
		events []sse.Event
		want   string
	}{
		{"chat", chat.Dialect{}, []sse.Event{event("", `{"choices":[],"service_tier":"auto"}`), event("", `{"choices":[],"service_tier":"priority"}`), event("", `{"choices":[]}`)}, "priority"},
		{"responses, not served as asked", responses.Dialect{}, []sse.Event{
			event("response.created", `{"type":"response.created","response":{"service_tier":"flex"}}`),
			event("response.completed", `{"type":"response.completed","response":{"service_tier":"default","status":"completed"}}`),
		}, ""},
		{"messages", messages.Dialect{}, []sse.Event{
			event("message_start", `{"type":"message_start","message":{"usage":{"service_tier":"priority"}}}`),
			event("message_delta", `{"type":"message_delta","delta":{},"usage":{"output_tokens":5}}`),
		}, "priority"},
		{"messages, told at the end", messages.Dialect{}, []sse.Event{
			event("message_start", `{"type":"message_start","message":{"usage":{"input_tokens":5}}}`),
			event("message_delta", `{"type":"message_delta","delta":{},"usage":{"output_tokens":5,"speed":"fast"}}`),
		}, "fast"},
		{"converse", converse.Dialect{}, []sse.Event{event("metadata", `{"usage":{"inputTokens":1},"serviceTier":{"type":"priority"}}`)}, "priority"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tap := tt.client.NewTap(api.Chat)
			for _, e := range tt.events {
				tap.Event(e)
			}
			if got := tap.Info().Tier; got != tt.want {
				t.Errorf("tier = %q, want %q", got, tt.want)
			}
		})
	}
}
