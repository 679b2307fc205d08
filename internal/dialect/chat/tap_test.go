package chat_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/chat"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
)

func stream(events ...string) string {
	return "data: " + strings.Join(events, "\n\ndata: ") + "\n\n"
}

func chunk(index, delta, reason string) string {
	return `{"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":` + index + `,"delta":` + delta + `,"finish_reason":` + reason + `}]}`
}

func TestTapFollowsAStream(t *testing.T) {
	m := func(s dialect.ResponseInfo) dialect.ResponseInfo { s.Model = "m"; return s }
	for _, tt := range []struct {
		name   string
		events []string
		want   dialect.ResponseInfo
	}{
		{"a role without content", []string{chunk("0", `{"role":"assistant","content":""}`, "null")}, m(dialect.ResponseInfo{})},
		{"null content is none", []string{chunk("0", `{"content":null,"tool_calls":[ ],"refusal":null}`, "null")}, m(dialect.ResponseInfo{})},
		{"content", []string{chunk("0", `{"content":"x"}`, "null")}, m(dialect.ResponseInfo{Begun: true})},
		{"tool call", []string{chunk("0", `{"tool_calls":[{"index":0}]}`, "null")}, m(dialect.ResponseInfo{Begun: true})},
		{"function call", []string{chunk("0", `{"function_call":{"name":"f"}}`, "null")}, m(dialect.ResponseInfo{Begun: true})},
		{"reasoning_content", []string{chunk("0", `{"reasoning_content":"x"}`, "null")}, m(dialect.ResponseInfo{Begun: true})},
		{"reasoning", []string{chunk("0", `{"reasoning":"x"}`, "null")}, m(dialect.ResponseInfo{Begun: true})},
		{"refusal", []string{chunk("0", `{"refusal":"x"}`, "null")}, m(dialect.ResponseInfo{Begun: true})},
		{"content that speaks of usage and errors", []string{chunk("0", `{"content":"\"usage\":{\"prompt_tokens\":5},\"error\":{} \\"}`, `"stop"`)}, m(dialect.ResponseInfo{Begun: true, Finish: "stop", Finished: true})},
		{"content in parts with brackets", []string{chunk("0", `{"content":["]"]}`, `"stop"`)}, m(dialect.ResponseInfo{Begun: true, Finish: "stop", Finished: true})},
		{"finish", []string{chunk("0", `{}`, `"stop"`)}, m(dialect.ResponseInfo{Finish: "stop", Finished: true})},
		{"empty finish", []string{chunk("0", `{}`, `""`)}, m(dialect.ResponseInfo{})},
		{"finish is kept", []string{chunk("0", `{}`, `"length"`), chunk("0", `{}`, `null`)}, m(dialect.ResponseInfo{Finish: "length", Finished: true})},
		{"one of two finished", []string{chunk("0", `{}`, "null"), chunk("1", `{}`, `"stop"`)}, m(dialect.ResponseInfo{Finish: "stop"})},
		{"both finished, first counts", []string{chunk("1", `{}`, `"length"`), chunk("0", `{}`, `"stop"`)}, m(dialect.ResponseInfo{Finish: "stop", Finished: true})},
		{"choice 64 counts", []string{chunk("0", `{}`, `"stop"`), chunk("64", `{}`, "null")}, m(dialect.ResponseInfo{Finish: "stop"})},
		{"choices without an index are in order", []string{`{"model":"m","choices":[{"finish_reason":"a"},{"finish_reason":null}]}`}, m(dialect.ResponseInfo{Finish: "a"})},
		{"no choices", []string{`{"model":"m","choices":[]}`}, m(dialect.ResponseInfo{})},
		{"terminated", []string{chunk("0", `{}`, `"stop"`), "[DONE]"}, m(dialect.ResponseInfo{Finish: "stop", Finished: true, Terminated: true})},
		{"first model counts", []string{`{"model":""}`, `{"model":"m"}`, `{"model":"other"}`}, m(dialect.ResponseInfo{})},
		{"error", []string{`{"error":{"message":"too\nbad","code":500}}`}, dialect.ResponseInfo{Failed: "too bad"}},
		{"error of null", []string{`{"error":null}`}, dialect.ResponseInfo{}},
		{"error as a string", []string{`{"error":"bad"}`}, dialect.ResponseInfo{Failed: "bad"}},
		{"error without a message", []string{`{"error":{}}`}, dialect.ResponseInfo{Failed: "{}"}},
		{"error object of vLLM", []string{`{"object":"error","message":"bad","code":400}`}, dialect.ResponseInfo{Failed: "bad"}},
		{"cut chunk", []string{`{"model":"m","choices":[{"index":0,"delta":{"content":"abc`}, m(dialect.ResponseInfo{})},
		{"cut number", []string{`{"model":"m","usage":{"prompt_tokens":5,"completion_tokens":12`}, m(dialect.ResponseInfo{Usage: llm.Usage{Known: true, Input: 5}})},
		{"nonsense", []string{`}{`, `[[[`, `"`, `{"choices":[}]}`, `{"usage":[]}`, `{"choices":{}}`, `nul`, ``}, dialect.ResponseInfo{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := readAll(t, api.Chat, strings.NewReader(stream(tt.events...)))
			if diff := cmp.Diff(tt.want, got, uncounted); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestTapTakesErrorEventsForFailures(t *testing.T) {
	got := readAll(t, api.Chat, strings.NewReader("event: error\ndata: {\"message\":\"overloaded\"}\n\n: comment\n\n"))
	if want := (dialect.ResponseInfo{Failed: "overloaded"}); got != want {
		t.Errorf("Seen = %+v, want %+v", got, want)
	}
}

func TestTapFollowsStreamsWithoutChoices(t *testing.T) {
	for _, tt := range []struct {
		name   string
		op     api.Operation
		events []string
		want   dialect.ResponseInfo
	}{
		{"image", api.Images, []string{`{"type":"image_generation.partial_image","b64_json":"AA"}`}, dialect.ResponseInfo{Begun: true}},
		{"image done", api.Images, []string{`{"type":"image_generation.completed","b64_json":"AA","usage":{"total_tokens":30,"input_tokens":10,"output_tokens":20,"input_tokens_details":{"text_tokens":10,"image_tokens":0}}}`},
			dialect.ResponseInfo{Begun: true, Finished: true, Usage: llm.Usage{Known: true, Input: 10, Output: 20}}},
		{"transcript done", api.AudioTranscriptions, []string{`{"type":"transcript.text.delta","delta":"a"}`, `{"type":"transcript.text.done","text":"a","usage":{"type":"tokens","input_tokens":14,"input_token_details":{"text_tokens":4,"audio_tokens":10},"output_tokens":2,"total_tokens":16}}`},
			dialect.ResponseInfo{Begun: true, Finished: true, Usage: llm.Usage{Known: true, Input: 4, InputAudio: 10, Output: 2}}},
		{"text chunk", api.Completions, []string{`{"object":"text_completion","choices":[{"text":"a","index":0,"logprobs":null,"finish_reason":"length"}]}`},
			dialect.ResponseInfo{Begun: true, Finished: true, Finish: "length"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, readAll(t, tt.op, strings.NewReader(stream(tt.events...))), uncounted); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestTapReadsBodies(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		op         api.Operation
		want       dialect.ResponseInfo
	}{
		{"chat", `{"model":"m","choices":[{"index":0,"message":{"content":"x"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}`, api.Chat,
			dialect.ResponseInfo{Model: "m", Begun: true, Finished: true, Finish: "stop", Usage: llm.Usage{Known: true, Input: 1, Output: 2}}},
		{"chat without finish", `{"choices":[{"message":{"content":"x"}}]}`, api.Chat, dialect.ResponseInfo{Begun: true}},
		{"chat that is an error", `{"error":{"message":"no"}}`, api.Chat, dialect.ResponseInfo{Failed: "no"}},
		{"embeddings", `{"data":[{"embedding":[0.1,-2e3]}],"model":"e","usage":{"prompt_tokens":4,"total_tokens":4}}`, api.Embeddings,
			dialect.ResponseInfo{Model: "e", Begun: true, Finished: true, Usage: llm.Usage{Known: true, Input: 4}}},
		{"embeddings that are an error", `{"error":"no"}`, api.Embeddings, dialect.ResponseInfo{Failed: "no"}},
		{"transcription by duration", `{"text":"a","usage":{"type":"duration","seconds":3}}`, api.AudioTranscriptions, dialect.ResponseInfo{AudioMillis: 3000, Begun: true, Finished: true}},
		{"speech", "ID3\x04", api.AudioSpeech, dialect.ResponseInfo{Begun: true, Finished: true}},
		{"nothing", "", api.AudioSpeech, dialect.ResponseInfo{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tap := chat.Dialect{}.NewTap(tt.op)
			tap.Body([]byte(tt.body))
			if diff := cmp.Diff(tt.want, *tap.Info(), uncounted); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestTapPartsUsageWithoutOverlap(t *testing.T) {
	for _, tt := range []struct {
		name, usage string
		want        llm.Usage
	}{
		{"openai", `"usage":{"prompt_tokens":100,"completion_tokens":50,"total_tokens":150,"prompt_tokens_details":{"cached_tokens":60,"audio_tokens":10},"completion_tokens_details":{"reasoning_tokens":20,"audio_tokens":5,"accepted_prediction_tokens":1}}`,
			llm.Usage{Input: 30, CachedInput: 60, InputAudio: 10, Output: 25, Reasoning: 20, OutputAudio: 5}},
		{"deepseek", `"usage":{"prompt_tokens":563,"completion_tokens":116,"total_tokens":679,"prompt_cache_hit_tokens":512,"prompt_cache_miss_tokens":51}`,
			llm.Usage{Input: 51, CachedInput: 512, Output: 116}},
		{"mistral", `"usage":{"prompt_tokens":64,"total_tokens":70,"completion_tokens":6,"num_cached_tokens":32}`,
			llm.Usage{Input: 32, CachedInput: 32, Output: 6}},
		{"groq", `"usage":null,"x_groq":{"id":"r","usage":{"prompt_tokens":7,"completion_tokens":8,"total_tokens":15}}`,
			llm.Usage{Input: 7, Output: 8}},
		{"openrouter cache write", `"usage":{"prompt_tokens":50,"completion_tokens":1,"total_tokens":51,"prompt_tokens_details":{"cached_tokens":10,"cache_write_tokens":30}}`,
			llm.Usage{Input: 10, CachedInput: 10, CacheWrite5m: 30, Output: 1}},
		{"messages fields inside the prompt", `"usage":{"prompt_tokens":50,"completion_tokens":1,"total_tokens":51,"cache_read_input_tokens":10,"cache_creation_input_tokens":30}`,
			llm.Usage{Input: 10, CachedInput: 10, CacheWrite5m: 30, Output: 1}},
		{"messages fields next to the prompt", `"usage":{"prompt_tokens":50,"completion_tokens":1,"total_tokens":91,"cache_read_input_tokens":10,"cache_creation_input_tokens":30,"cache_creation":{"ephemeral_5m_input_tokens":10,"ephemeral_1h_input_tokens":20}}`,
			llm.Usage{Input: 50, CachedInput: 10, CacheWrite5m: 10, CacheWrite1h: 20, Output: 1}},
		{"messages fields larger than the prompt", `"usage":{"prompt_tokens":5,"completion_tokens":1,"total_tokens":6,"cache_read_input_tokens":10}`,
			llm.Usage{Input: 5, CachedInput: 10, Output: 1}},
		{"xai counts reasoning separately", `"usage":{"prompt_tokens":291,"completion_tokens":26,"total_tokens":506,"prompt_tokens_details":{"cached_tokens":244},"completion_tokens_details":{"reasoning_tokens":189}}`,
			llm.Usage{Input: 47, CachedInput: 244, Output: 26, Reasoning: 189}},
		{"gemini leaves reasoning out", `"usage":{"prompt_tokens":35,"completion_tokens":12,"total_tokens":109}`,
			llm.Usage{Input: 35, Output: 12, Reasoning: 62}},
		{"parts larger than the whole", `"usage":{"prompt_tokens":5,"completion_tokens":5,"total_tokens":10,"prompt_tokens_details":{"cached_tokens":9,"audio_tokens":9},"completion_tokens_details":{"reasoning_tokens":9}}`,
			llm.Usage{CachedInput: 5, Reasoning: 5}},
		{"a fraction of zeros", `"usage":{"prompt_tokens":7.0,"completion_tokens":2}`, llm.Usage{Input: 7, Output: 2}},
		{"a negative, a giant", `"usage":{"prompt_tokens":7,"completion_tokens":-5,"total_tokens":99999999999999999999}`,
			llm.Usage{Input: 7, Invalid: true}},
		{"a negative number of cached tokens", `"usage":{"prompt_tokens":7,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":-7}}`,
			llm.Usage{Input: 7, Output: 5, Invalid: true}},
		{"zero is known", `"usage":{"prompt_tokens":0,"completion_tokens":0}`, llm.Usage{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.want.Known = !tt.want.Invalid
			got := readAll(t, api.Chat, strings.NewReader(stream(`{"choices":[],`+tt.usage+`}`))).Usage
			if diff := cmp.Diff(tt.want, got, uncounted); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestTapTakesTheLargestOfCumulativeUsage(t *testing.T) {
	got := readAll(t, api.Chat, strings.NewReader(stream(
		`{"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10}}`,
		`{"usage":{"prompt_tokens":9,"completion_tokens":7,"total_tokens":16}}`,
		`{"usage":{"prompt_tokens":0,"completion_tokens":3,"total_tokens":3}}`,
		`{"usage":null}`)))
	if want := (llm.Usage{Input: 9, Output: 7, Known: true}); got.Usage != want {
		t.Errorf("Usage = %+v, want %+v", got.Usage, want)
	}
}

// chunk240 is a chunk as they come by the hundred.
var chunk240 = []byte(`{"id":"chatcmpl-BvN0oTMhmXjbXPpCkUBhA","object":"chat.completion.chunk","created":1752847200,"model":"gpt-4o-2024-08-06","service_tier":"default","system_fingerprint":"fp_07871e2ad8","choices":[{"index":0,"delta":{"content":" hello"},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"T3AO"}`)

var body8K = []byte(`{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"gpt-4o","choices":[{"index":0,"message":{"role":"assistant","content":"` +
	strings.Repeat(`A sentence of a response, with a line end.\n`, 180) +
	`","refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0}}}`)

func TestTapAllocatesNothingPerChunk(t *testing.T) {
	tap := chat.Dialect{}.NewTap(api.Chat)
	e := sse.Event{Data: chunk240}
	tap.Event(e)
	if n := testing.AllocsPerRun(100, func() { tap.Event(e) }); n != 0 {
		t.Errorf("Event allocates %v times, want never", n)
	}
}

func BenchmarkTapChunk(b *testing.B) {
	tap := chat.Dialect{}.NewTap(api.Chat)
	e := sse.Event{Data: chunk240}
	b.SetBytes(int64(len(chunk240)))
	b.ReportAllocs()
	for b.Loop() {
		tap.Event(e)
	}
}

func BenchmarkTapBody(b *testing.B) {
	b.SetBytes(int64(len(body8K)))
	b.ReportAllocs()
	for b.Loop() {
		chat.Dialect{}.NewTap(api.Chat).Body(body8K)
	}
}

func FuzzTap(f *testing.F) {
	f.Add(chunk240, false)
	f.Add([]byte(`{"usage":{"prompt_tokens":5,"prompt_tokens_details":{"cached_tokens":9}},"error":{"message":"x"}}`), true)
	f.Add([]byte(`{"choices":[{"index":3,"finish_reason":"a\"","delta":{"content":[{}]}}]}`), false)
	f.Add([]byte(`{"type":"`), false)
	f.Fuzz(func(t *testing.T, b []byte, whole bool) {
		for _, op := range []api.Operation{api.Chat, api.Images} {
			tap := chat.Dialect{}.NewTap(op)
			if whole {
				tap.Body(b)
			} else {
				tap.Event(sse.Event{Data: b, Type: []byte("error")})
			}
			u := tap.Info().Usage
			for _, n := range []int64{u.Input, u.CachedInput, u.CacheWrite5m, u.CacheWrite1h, u.Output, u.Reasoning, u.InputAudio, u.OutputAudio} {
				if n < 0 {
					t.Fatalf("usage of %q is negative: %+v", b, u)
				}
			}
		}
	})
}

// What the total has beyond its parts was spent on reasoning in a conversation
// and is input elsewhere. Usage may come before the choices.
func TestTapTellsConversationsThatPassThroughByTheirChoices(t *testing.T) {
	const counters = `"usage":{"prompt_tokens":5,"completion_tokens":1,"total_tokens":10}`
	for _, tt := range []struct {
		name, body string
		want       llm.Usage
	}{
		{"choices last", `{` + counters + `,"choices":[{"finish_reason":"stop"}]}`, llm.Usage{Known: true, Input: 5, Output: 1, Reasoning: 4}},
		{"no choices", `{` + counters + `,"data":[]}`, llm.Usage{Known: true, Input: 9, Output: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tap := chat.Dialect{}.NewTap(api.Proxy)
			tap.Body([]byte(tt.body))
			if diff := cmp.Diff(tt.want, tap.Info().Usage); diff != "" {
				t.Errorf("usage of %s (-want +got):\n%s", tt.body, diff)
			}
		})
	}
}
