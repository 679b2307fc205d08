package chat_test

import (
	"testing"

	"modelgate/internal/dialect"
	"modelgate/internal/dialect/chat"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
	"modelgate/internal/testing/dialecttest"
)

// BenchmarkStreamDelta takes one chunk of text, or of arguments, through decoder
// and encoder.
func BenchmarkStreamDelta(b *testing.B) {
	const head = `{"id":"chatcmpl-BBqXiGTUyf1ZlcTXAZWqFLM","object":"chat.completion.chunk","created":1742165690,"model":"gpt-4o-2024-08-06","service_tier":"default","system_fingerprint":"fp_f9f4fb6dbf","choices":[{"index":0,"delta":`
	const tail = `,"logprobs":null,"finish_reason":null}],"usage":null}`
	for _, bm := range []struct {
		name, first, delta string
		strict             bool
	}{
		{"text", `{"role":"assistant","content":""}`, `{"content":" word"}`, true},
		{"text with blocks", `{"role":"assistant","content":""}`, `{"content":" word"}`, false},
		{"arguments", `{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"f","arguments":""}}]}`, `{"tool_calls":[{"index":0,"function":{"arguments":"\"ci"}}]}`, true},
	} {
		b.Run(bm.name, func(b *testing.B) {
			d := chat.Dialect{}.NewDecoder(nil, dialecttest.TargetOf("openai", ""))
			e := chat.Dialect{}.NewEncoder(dialect.ResponseTarget{Strict: bm.strict, ID: "1"})
			chunk := sse.Event{Data: []byte(head + bm.delta + tail)}
			var events []llm.Event
			var out []byte
			for _, ev := range d.Decode(nil, sse.Event{Data: []byte(head + bm.first + tail)}) {
				out = e.Encode(out, &ev)
			}
			b.ReportAllocs()
			for b.Loop() {
				events = d.Decode(events[:0], chunk)
				out = out[:0]
				for i := range events {
					out = e.Encode(out, &events[i])
				}
			}
			if len(out) == 0 {
				b.Fatal("nothing came out")
			}
		})
	}
}
