package attempt

import (
	"runtime"
	"strings"
	"testing"

	"modelgate/internal/base/bytepool"
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/chat"
	"modelgate/internal/dialect/cohere"
	"modelgate/internal/dialect/converse"
	"modelgate/internal/dialect/gemini"
	"modelgate/internal/dialect/messages"
	"modelgate/internal/dialect/responses"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
	"modelgate/internal/pipeline/exchange"
)

// repeat returns n values of a JSON array.
func repeat(n int, s string) string { return strings.TrimSuffix(strings.Repeat(s+",", n), ",") }

// heap returns the bytes of the heap that are in use.
func heap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

const smallParts = 4_000

var responsesOfSmallParts = []struct {
	name  string
	codec dialect.ProviderCodec
	body  string
}{
	{"chat: tool calls", chat.Dialect{}, `{"choices":[{"index":0,"message":{"role":"assistant","tool_calls":[` + repeat(smallParts, `{"id":"a","function":{"name":"f","arguments":"{}"}}`) + `]},"finish_reason":"stop"}]}`},
	{"chat: annotations", chat.Dialect{}, `{"choices":[{"index":0,"message":{"role":"assistant","content":"a","annotations":[` + repeat(smallParts, `{"type":"url_citation","url_citation":{"url":"a"}}`) + `]},"finish_reason":"stop"}]}`},
	{"chat: probabilities", chat.Dialect{}, `{"choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop","logprobs":{"content":[` + repeat(smallParts, `{"token":"a","logprob":-1,"top_logprobs":[{"token":"a","logprob":-1},{"token":"b","logprob":-2}]}`) + `]}}]}`},
	{"chat: unknown fields", chat.Dialect{}, `{` + repeat(smallParts, `"x":1`) + `,"choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}]}`},
	{"messages: texts", messages.Dialect{}, `{"type":"message","content":[` + repeat(smallParts, `{"type":"text","text":"a"}`) + `],"stop_reason":"end_turn"}`},
	{"messages: tool calls", messages.Dialect{}, `{"type":"message","content":[` + repeat(smallParts, `{"type":"tool_use","id":"","name":"","input":{}}`) + `],"stop_reason":"end_turn"}`},
	{"gemini: texts and thoughts", gemini.Dialect{}, `{"candidates":[{"content":{"parts":[` + repeat(smallParts/2, `{"text":"a"},{"text":"a","thought":true}`) + `]},"finishReason":"STOP"}]}`},
	{"gemini: calls", gemini.Dialect{}, `{"candidates":[{"content":{"parts":[` + repeat(smallParts, `{"functionCall":{"name":"a"}}`) + `]},"finishReason":"STOP"}]}`},
	{"gemini: numbers", gemini.Dialect{}, `{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP","groundingMetadata":{"groundingChunks":[{"web":{"uri":"a"}}],"groundingSupports":[{"segment":{"endIndex":1},"groundingChunkIndices":[` + repeat(100*smallParts, "0") + `]}]}}]}`},
	{"converse: texts", converse.Dialect{}, `{"output":{"message":{"role":"assistant","content":[` + repeat(smallParts, `{"text":"a"}`) + `]}},"stopReason":"end_turn","usage":{}}`},
	{"responses: messages", responses.Dialect{}, `{"status":"completed","output":[` + repeat(smallParts, `{"type":"message","content":[{"type":"output_text","text":"a"}]}`) + `]}`},
	{"responses: calls", responses.Dialect{}, `{"status":"completed","output":[` + repeat(smallParts, `{"type":"function_call"}`) + `]}`},
	{"cohere: texts", cohere.Dialect{}, `{"message":{"role":"assistant","content":[` + repeat(smallParts, `{"type":"text","text":"a"}`) + `]},"finish_reason":"COMPLETE"}`},
}

var clients = map[string]dialect.ClientCodec{
	"chat": chat.Dialect{}, "messages": messages.Dialect{}, "responses": responses.Dialect{}, "gemini": gemini.Dialect{}, "converse": converse.Dialect{},
}

func TestTranslatedResponsesTakeNoMoreMemoryThanCounted(t *testing.T) {
	for _, tt := range responsesOfSmallParts {
		body, request := []byte(tt.body), new(llm.Request)
		for name, client := range clients {
			if testing.Short() && name != "responses" && name != "messages" {
				continue // each takes several collections
			}
			before := heap()
			r, err := tt.codec.DecodeResponse(body, request, dialect.RequestTarget{Provider: "p", Model: "m"})
			if err != nil {
				t.Fatalf("%s: %v", tt.name, err)
			}
			encoded := client.EncodeResponse(make([]byte, 0, lengthOf(r)), r, dialect.ResponseTarget{Request: request})
			took, counted := heap()-before, translationSize(body)
			if took > counted {
				t.Errorf("%s for a %s client take %d bytes, counted are %d", tt.name, name, took, counted)
			}
			runtime.KeepAlive(encoded)

			encoder := client.NewEncoder(dialect.ResponseTarget{Request: request})
			stream := make([]byte, 0, lengthOf(r))
			var e llm.Event
			for e = range dialect.Replay(r) {
				stream = encoder.Encode(stream, &e)
			}
			encoded = nil
			if took, counted = heap()-before, streamedSize(body); took > counted {
				t.Errorf("%s for a %s client that wants a stream take %d bytes, counted are %d", tt.name, name, took, counted)
			}
			runtime.KeepAlive(stream)
			runtime.KeepAlive(encoder)
			runtime.KeepAlive(r)
		}
	}
}

var eventsOfSmallParts = []struct {
	name  string
	codec dialect.ProviderCodec
	typ   string
	data  string
}{
	{"chat: tool calls", chat.Dialect{}, "", `{"choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[` + repeat(smallParts, `{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}`) + `]},"finish_reason":"tool_calls"}]}`},
	{"gemini: texts and thoughts", gemini.Dialect{}, "", `{"candidates":[{"content":{"parts":[` + repeat(smallParts/2, `{"text":"a"},{"text":"a","thought":true}`) + `]}}]}`},
	{"gemini: calls", gemini.Dialect{}, "", `{"candidates":[{"content":{"parts":[` + repeat(smallParts, `{"functionCall":{"name":"a"}}`) + `]}}]}`},
	{"responses: calls", responses.Dialect{}, "response.completed", `{"type":"response.completed","response":{"status":"completed","output":[` + repeat(smallParts, `{"type":"function_call"}`) + `]}}`},
}

func TestEventsOfStreamsTakeNoMoreMemoryThanCounted(t *testing.T) {
	for _, tt := range eventsOfSmallParts {
		for name, client := range clients {
			data := []byte(tt.data)
			before := heap()
			m := &streamMemory{Reader: &exchange.Replay{Events: []sse.Event{{Raw: data, Data: data, Type: []byte(tt.typ)}}}, pool: bytepool.New(0), translated: true}
			request := new(llm.Request)
			stream := &translation{
				src: m, dec: tt.codec.NewDecoder(request, dialect.RequestTarget{Provider: "p", Model: "m"}),
				enc: client.NewEncoder(dialect.ResponseTarget{Request: request}),
			}
			if _, err := stream.Next(); err != nil {
				t.Fatalf("%s: %v", tt.name, err)
			}
			took := heap() - before
			if counted := int(m.pool.Used()); took > counted {
				t.Errorf("%s for a %s client take %d bytes, counted are %d", tt.name, name, took, counted)
			}
			m.release()
			if used := m.pool.Used(); used != 0 {
				t.Errorf("%s: %d bytes are counted after the stream", tt.name, used)
			}
			runtime.KeepAlive(stream)
		}
	}
}

// BenchmarkTranslationSize shows what the count costs next to the decoding of the
// same body.
func BenchmarkTranslationSize(b *testing.B) {
	usual := []byte(`{"choices":[{"index":0,"message":{"role":"assistant","content":"` + strings.Repeat("word ", 800) + `"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`)
	for _, tt := range []struct {
		name string
		body []byte
	}{{"usual", usual}, {"small parts", []byte(responsesOfSmallParts[0].body)}} {
		b.Run(tt.name+"/count", func(b *testing.B) {
			for b.Loop() {
				translationSize(tt.body)
			}
		})
		b.Run(tt.name+"/decode", func(b *testing.B) {
			for b.Loop() {
				if _, err := (chat.Dialect{}).DecodeResponse(tt.body, new(llm.Request), dialect.RequestTarget{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
