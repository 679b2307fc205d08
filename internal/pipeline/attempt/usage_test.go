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
	"modelgate/internal/model/llm"
)

// Counters of a stream count up, and some providers tell them with every event:
// the largest are those of the response, and a report that comes late and says less
// takes nothing away.
func TestReportsOfUsageAreNotAddedUp(t *testing.T) {
	for _, tt := range []struct {
		name   string
		client dialect.ClientDialect
		events []sse.Event
		want   llm.Usage
	}{
		{"chat", chat.Dialect{}, []sse.Event{
			{Data: []byte(`{"choices":[{"index":0,"delta":{"content":"a"}}],"usage":{"prompt_tokens":10,"completion_tokens":1,"total_tokens":11}}`)},
			{Data: []byte(`{"choices":[{"index":0,"delta":{"content":"b"}}],"usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12,"prompt_tokens_details":{"cached_tokens":4}}}`)},
			{Data: []byte(`{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":7,"total_tokens":17,"completion_tokens_details":{"reasoning_tokens":5}}}`)},
			{Data: []byte(`{"choices":[],"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}`)},
		}, llm.Usage{Input: 6, CachedInput: 4, Output: 2, Reasoning: 5, Known: true}},
		{"messages", messages.Dialect{}, []sse.Event{
			{Type: []byte("message_start"), Data: []byte(`{"type":"message_start","message":{"usage":{"input_tokens":10,"cache_read_input_tokens":4,"cache_creation_input_tokens":3,"output_tokens":1}}}`)},
			{Type: []byte("message_delta"), Data: []byte(`{"type":"message_delta","delta":{},"usage":{"output_tokens":5}}`)},
			{Type: []byte("message_delta"), Data: []byte(`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":10,"cache_read_input_tokens":4,"cache_creation_input_tokens":3,"output_tokens":7}}`)},
		}, llm.Usage{Input: 10, CachedInput: 4, CacheWrite5m: 3, Output: 7, Known: true}},
		{"gemini", gemini.Dialect{}, []sse.Event{
			{Data: []byte(`{"usageMetadata":{"promptTokenCount":10,"cachedContentTokenCount":4,"thoughtsTokenCount":5,"totalTokenCount":15}}`)},
			{Data: []byte(`{"usageMetadata":{"promptTokenCount":10,"cachedContentTokenCount":4,"thoughtsTokenCount":5,"candidatesTokenCount":1,"totalTokenCount":16}}`)},
			{Data: []byte(`{"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":2,"totalTokenCount":12}}`)},
		}, llm.Usage{Input: 6, CachedInput: 4, Output: 2, Reasoning: 5, Known: true}},
		{"converse", converse.Dialect{}, []sse.Event{
			{Type: []byte("metadata"), Data: []byte(`{"usage":{"inputTokens":10,"outputTokens":1,"totalTokens":11}}`)},
			{Type: []byte("metadata"), Data: []byte(`{"usage":{"inputTokens":6,"cacheReadInputTokens":4,"outputTokens":7,"totalTokens":17}}`)},
			{Type: []byte("metadata"), Data: []byte(`{"usage":{"inputTokens":0,"outputTokens":0,"totalTokens":0}}`)},
		}, llm.Usage{Input: 6, CachedInput: 4, Output: 7, Known: true}},
		{"responses", responses.Dialect{}, []sse.Event{
			{Type: []byte("response.created"), Data: []byte(`{"type":"response.created","response":{"usage":{"input_tokens":10,"output_tokens":0}}}`)},
			{Type: []byte("response.completed"), Data: []byte(`{"type":"response.completed","response":{"status":"completed","usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":4},"output_tokens":7,"output_tokens_details":{"reasoning_tokens":5}}}}`)},
		}, llm.Usage{Input: 6, CachedInput: 4, Output: 2, Reasoning: 5, Known: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tap := tt.client.NewTap(api.Chat)
			for range 2 { // a stream that is reported twice adds nothing
				for _, e := range tt.events {
					tap.Event(e)
				}
			}
			if got := tap.Info().Usage; got != tt.want {
				t.Errorf("usage = %+v, want %+v", got, tt.want)
			}
		})
	}
}
