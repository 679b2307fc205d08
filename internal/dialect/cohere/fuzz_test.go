package cohere_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"modelgate/api"
	"modelgate/internal/dialect/cohere"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
	"modelgate/internal/testing/dialecttest"
)

var asked = &llm.Request{
	Tools:  []llm.Tool{{Name: "clock"}, {Name: "patch", Custom: true}},
	Format: llm.Format{Kind: llm.FormatSchema, Schema: json.RawMessage(`{}`)},
}

func FuzzResponse(f *testing.F) {
	f.Add([]byte(`{"id":"a","message":{"content":[{"type":"text","text":"a"}],"tool_plan":"p","tool_calls":[{"id":"c","function":{"name":"patch","arguments":"{\"input\":\"\"}"}}],"citations":[{"start":1,"content_index":0}]},"finish_reason":"COMPLETE","usage":{"tokens":{"input_tokens":1e300}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := cohere.Dialect{}.DecodeResponse(body, asked, target)
		if err == nil && (len(r.Choices) != 1 || r.Usage.Input < 0 || r.Usage.Prompt() < 0) {
			t.Errorf("DecodeResponse = %+v", r)
		}
	})
}

func FuzzStream(f *testing.F) {
	f.Add([]byte("{\"type\":\"message-start\",\"id\":\"a\"}\n{\"type\":\"content-start\",\"index\":0,\"delta\":{\"message\":{\"content\":{\"type\":\"text\"}}}}\n" +
		"{\"type\":\"content-delta\",\"index\":0,\"delta\":{\"message\":{\"content\":{\"text\":\"a\"}}}}\n{\"type\":\"citation-start\",\"delta\":{\"message\":{\"citations\":{\"start\":1}}}}\n" +
		"{\"type\":\"tool-plan-delta\",\"delta\":{\"message\":{\"tool_plan\":\"a\"}}}\n{\"type\":\"tool-call-start\",\"index\":0,\"delta\":{\"message\":{\"tool_calls\":{\"function\":{\"name\":\"patch\"}}}}}\n" +
		"{\"type\":\"tool-call-delta\",\"index\":0,\"delta\":{\"message\":{\"tool_calls\":{\"function\":{\"arguments\":\"null\"}}}}}\n{\"type\":\"message-end\",\"delta\":{\"finish_reason\":\"COMPLETE\"}}"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		d := cohere.Dialect{}.NewDecoder(asked, target)
		var events []llm.Event
		for line := range bytes.Lines(stream) {
			events = d.Decode(events, sse.Event{Data: line})
		}
		if why := dialecttest.CheckEventOrder(d.End(events)); why != "" {
			t.Error(why)
		}
	})
}

func FuzzForms(f *testing.F) {
	f.Add([]byte(`{"input":["a",{"image":{"base64":"AAAA"}}],"dimensions":1}`), []byte(`{"embeddings":{"float":[[1]]}}`))
	f.Add([]byte(`{"query":"q","documents":["a",{"b":1}],"rank_fields":["b"],"return_documents":true,"top_n":1}`), []byte(`{"results":[{"index":0,"relevance_score":0.5}]}`))
	f.Fuzz(func(t *testing.T, request, response []byte) {
		for _, op := range []api.Operation{api.Embeddings, api.Rerank} {
			if body, _, err := form(t, op).Request(nil, request, embedder); err == nil && !json.Valid(body) {
				t.Errorf("Request of %s = %s", request, body)
			}
			if body, err := form(t, op).Response(nil, response, request, embedder); err == nil && !json.Valid(body) {
				t.Errorf("Response of %s = %s", response, body)
			}
		}
	})
}

// BenchmarkTextDelta is what one piece of text costs.
func BenchmarkTextDelta(b *testing.B) {
	d := cohere.Dialect{}.NewDecoder(nil, target)
	frame := sse.Event{Data: []byte(`{"type":"content-delta","index":0,"delta":{"message":{"content":{"text":" colorful"}}}}`)}
	var events []llm.Event
	b.ReportAllocs()
	for b.Loop() {
		events = d.Decode(events[:0], frame)
	}
}
