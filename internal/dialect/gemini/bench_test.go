package gemini_test

import (
	"testing"

	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/gemini"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
)

var delta = sse.Event{Data: []byte(`{"candidates":[{"content":{"parts":[{"text":" a few more words of the response"}],"role":"model"},"index":0}],"usageMetadata":{"promptTokenCount":26,"candidatesTokenCount":23,"totalTokenCount":181,"promptTokensDetails":[{"modality":"TEXT","tokenCount":26}],"thoughtsTokenCount":132},"modelVersion":"gemini-3-flash-preview","responseId":"dqHOab6xGLzWodAPkPuViA4"}`)}

func BenchmarkDecodeTextDelta(b *testing.B) {
	dec := gemini.Dialect{}.NewDecoder(nil, flash3)
	events := dec.Decode(nil, delta)
	b.ReportAllocs()
	for b.Loop() {
		events = dec.Decode(events[:0], delta)
	}
}

func BenchmarkEncodeTextDelta(b *testing.B) {
	enc := gemini.Dialect{}.NewEncoder(dialect.ResponseTarget{})
	out := enc.Encode(nil, &llm.Event{Kind: llm.EventStart, ID: "dqHOab6xGLzWodAPkPuViA4", Model: "gemini-3-flash-preview"})
	out = enc.Encode(out, &llm.Event{Kind: llm.EventPartStart, Opened: llm.Text{}})
	e := &llm.Event{Kind: llm.EventDelta, Text: " a few more words of the response"}
	b.ReportAllocs()
	for b.Loop() {
		out = enc.Encode(out[:0], e)
	}
}

func BenchmarkTapTextDelta(b *testing.B) {
	tap := gemini.Dialect{}.NewTap(api.Generate)
	b.ReportAllocs()
	for b.Loop() {
		tap.Event(delta)
	}
}
