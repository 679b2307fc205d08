package responses_test

import (
	"testing"

	"modelgate/internal/dialect"
	"modelgate/internal/dialect/responses"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
	"modelgate/internal/testing/dialecttest"
)

var textDelta = []byte(`{"type":"response.output_text.delta","sequence_number":10,"item_id":"msg_0123456789abcdef0123456789abcdef0000","output_index":0,"content_index":0,"delta":" and so on","logprobs":[],"obfuscation":"aBcDeFgH"}`)

func BenchmarkDecodeTextDelta(b *testing.B) {
	d := responses.Dialect{}.NewDecoder(nil, dialecttest.TargetOf("openai", ""))
	frame := sse.Event{Type: []byte("response.output_text.delta"), Data: textDelta}
	var events []llm.Event
	b.ReportAllocs()
	for b.Loop() {
		events = d.Decode(events[:0], frame)
	}
}

func BenchmarkEncodeTextDelta(b *testing.B) {
	e := responses.Dialect{}.NewEncoder(dialect.ResponseTarget{ID: "0123456789abcdef0123456789abcdef", Request: &llm.Request{}})
	var dst []byte
	dst = e.Encode(dst, &llm.Event{Kind: llm.EventStart, ID: "x"})
	dst = e.Encode(dst, &llm.Event{Kind: llm.EventPartStart, Opened: llm.Text{}})
	event := llm.Event{Kind: llm.EventDelta, Text: " and so on"}
	b.ReportAllocs()
	for b.Loop() {
		dst = e.Encode(dst[:0], &event)
	}
}

func BenchmarkTapTextDelta(b *testing.B) {
	tap := responses.Dialect{}.NewTap("responses")
	frame := sse.Event{Type: []byte("response.output_text.delta"), Data: textDelta}
	b.ReportAllocs()
	for b.Loop() {
		tap.Event(frame)
	}
}

func BenchmarkTapTextDeltaWithoutType(b *testing.B) {
	tap := responses.Dialect{}.NewTap("responses")
	frame := sse.Event{Data: textDelta}
	b.ReportAllocs()
	for b.Loop() {
		tap.Event(frame)
	}
}
