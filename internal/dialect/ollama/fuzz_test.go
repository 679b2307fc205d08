package ollama_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"modelgate/api"
	"modelgate/internal/dialect/ollama"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
	"modelgate/internal/testing/dialecttest"
)

var asked = &llm.Request{Tools: []llm.Tool{clock, patch}}

func FuzzResponse(f *testing.F) {
	f.Add([]byte(`{"model":"m","created_at":"2024-05-24T20:57:43Z","message":{"content":"a","thinking":"b","tool_calls":[{"function":{"name":"patch","arguments":{"input":"a"}}}]},"done":true,"logprobs":[{"token":"a","logprob":-1,"bytes":[1],"top_logprobs":[{}]}],"eval_count":1}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := ollama.Dialect{}.DecodeResponse(body, asked, target)
		if err == nil && (len(r.Choices) != 1 || r.Usage.Input < 0 || r.Created < 0) {
			t.Errorf("DecodeResponse = %+v", r)
		}
	})
}

func FuzzStream(f *testing.F) {
	f.Add([]byte("{\"message\":{\"thinking\":\"a\"}}\n{\"message\":{\"content\":\"a\"},\"logprobs\":[{}]}\n{\"message\":{\"tool_calls\":[{\"function\":{\"name\":\"patch\",\"arguments\":\"a\"}}]}}\n{\"done\":true}\n{\"error\":\"a\"}"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		d := ollama.Dialect{}.NewDecoder(asked, target)
		var events []llm.Event
		for line := range bytes.Lines(stream) {
			events = d.Decode(events, sse.Event{Data: line})
		}
		if why := dialecttest.CheckEventOrder(d.End(events)); why != "" {
			t.Error(why)
		}
	})
}

func FuzzEmbeddings(f *testing.F) {
	f.Add([]byte(`{"input":["a",{"text":"b"}],"dimensions":1,"encoding_format":"base64"}`), []byte(`{"embeddings":[[1]]}`))
	f.Fuzz(func(t *testing.T, request, response []byte) {
		form, _ := ollama.Dialect{}.Translator(api.Embeddings, target)
		if body, _, err := form.Request(nil, request, target); err == nil && !json.Valid(body) {
			t.Errorf("Request of %s = %s", request, body)
		}
		if body, err := form.Response(nil, response, request, target); err == nil && !json.Valid(body) {
			t.Errorf("Response of %s = %s", response, body)
		}
	})
}

// BenchmarkTextDelta is what one piece of text costs.
func BenchmarkTextDelta(b *testing.B) {
	d := ollama.Dialect{}.NewDecoder(nil, target)
	frame := sse.Event{Data: []byte(`{"model":"llama3","created_at":"2024-05-24T20:57:43.447542Z","message":{"role":"assistant","content":" colorful"},"done":false}`)}
	var events []llm.Event
	b.ReportAllocs()
	for b.Loop() {
		events = d.Decode(events[:0], frame)
	}
}
