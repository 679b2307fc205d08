package chat_test

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/dialect"
	"modelgate/internal/dialect/chat"
	"modelgate/internal/model/llm"
	"modelgate/internal/testing/dialecttest"
)

// thoughtful is a response as other dialects have them.
func thoughtful() *llm.Response {
	return &llm.Response{
		Dialect: "messages", ID: "msg_1", Model: "claude",
		Choices: []llm.Choice{{
			Parts: []llm.Part{
				llm.Thinking{Text: "Hm.", Signature: llm.Signature{Vendor: llm.Anthropic, Value: "sig"}},
				llm.Thinking{Redacted: true, Signature: llm.Signature{Vendor: llm.Google, Value: "dark"}},
				llm.Native{Dialect: "messages", Type: "server_tool_use", Raw: json.RawMessage(`{"type":"server_tool_use","id":"s"}`)},
				llm.Text{Text: "Yes."},
				llm.ToolCall{ID: "toolu_1", Name: "f", Signature: llm.Signature{Vendor: llm.Google, Value: "gs"}},
			},
			Stop: llm.StopTool, NativeFinishReason: "tool_use",
		}},
		Usage: llm.Usage{Known: true, Input: 1, CachedInput: 2, CacheWrite1h: 4, Output: 8, Reasoning: 16},
	}
}

func TestStrictResponsesHideFieldsBeyondTheDialect(t *testing.T) {
	const head = `{"id":"msg_1","object":"chat.completion","created":7,"model":"claude","choices":[{"index":0,"message":{"role":"assistant","content":"Yes.","refusal":null,`
	const call = `"tool_calls":[{"id":"toolu_1","type":"function","function":{"name":"f","arguments":"{}"}`
	const counts = `"usage":{"prompt_tokens":7,"completion_tokens":24,"total_tokens":31,"prompt_tokens_details":{"cached_tokens":2,"audio_tokens":0,"cache_write_tokens":4},` +
		`"completion_tokens_details":{"reasoning_tokens":16,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}`
	for _, tt := range []struct {
		name   string
		strict bool
		want   string
	}{
		{"strict", true, head + call + `}]},"logprobs":null,"finish_reason":"tool_calls"}],` + counts + `}}`},
		{"open", false, head + `"reasoning_content":"Hm.",` + call + `,"extra_content":{"google":{"thought_signature":"gs"}}}],` +
			`"content_blocks":[{"type":"thinking","thinking":"Hm.","signature":"sig"},{"type":"redacted_thinking","data":"mg1.google.dark"},` +
			`{"type":"server_tool_use","id":"s"},{"type":"text","text":"Yes."}]},"logprobs":null,"finish_reason":"tool_calls","native_finish_reason":"tool_use"}],` + counts +
			`,"cache_read_input_tokens":2,"cache_creation_input_tokens":4,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":4}}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := chat.Dialect{}.EncodeResponse(nil, thoughtful(), dialect.ResponseTarget{Strict: tt.strict, ID: "1", Created: 7})
			if diff := cmp.Diff(sorted(t, tt.want), sorted(t, string(got))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func streamOf(r *llm.Response, to dialect.ResponseTarget) string {
	e := chat.Dialect{}.NewEncoder(to)
	var out []byte
	for ev := range dialect.Replay(r) {
		out = e.Encode(out, &ev)
	}
	return string(out)
}

func TestUsageComesWhenItIsAskedFor(t *testing.T) {
	yes, no := true, false
	for _, tt := range []struct {
		name   string
		asked  *bool
		strict bool
		want   bool
	}{
		{"asked", &yes, true, true},
		{"not asked", nil, true, false},
		{"declined", &no, true, false},
		{"not asked, open", nil, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stream := streamOf(thoughtful(), dialect.ResponseTarget{Strict: tt.strict, Request: &llm.Request{IncludeUsage: tt.asked}})
			if got := strings.Contains(stream, `"choices":[],"usage":{"prompt_tokens":7`); got != tt.want {
				t.Errorf("usage comes: %t, want %t\n%s", got, tt.want, stream)
			}
			if !strings.HasSuffix(stream, "data: [DONE]\n\n") || strings.Count(stream, "[DONE]") != 1 {
				t.Errorf("the stream does not end with one terminator:\n%s", stream)
			}
			if strings.Contains(stream, "event:") {
				t.Errorf("the stream is not of data alone:\n%s", stream)
			}
		})
	}
}

func TestStrictStreamsHideWhatIsBeyondTheDialect(t *testing.T) {
	beyond := []string{"Hm.", "sig", "dark", "server_tool_use", "content_blocks", "reasoning_content", `"gs"`, "tool_use\"", "cache_read_input_tokens"}
	yes := true
	asked := &llm.Request{IncludeUsage: &yes}
	strict := streamOf(thoughtful(), dialect.ResponseTarget{Strict: true, Request: asked})
	open := streamOf(thoughtful(), dialect.ResponseTarget{Request: asked})
	for _, word := range beyond {
		if strings.Contains(strict, word) {
			t.Errorf("strictly, the stream holds %q:\n%s", word, strict)
		}
		if !strings.Contains(open, word) {
			t.Errorf("the stream does not hold %q:\n%s", word, open)
		}
	}
	for _, stream := range []string{strict, open} {
		if !strings.Contains(stream, `"function":{"arguments":"{}"}`) {
			t.Errorf("the call has no arguments that can be parsed:\n%s", stream)
		}
		for line := range strings.Lines(stream) {
			if strings.Contains(line, `"delta":`) && !strings.Contains(line, `"usage":null`) {
				t.Errorf("a chunk says nothing of usage: %s", line)
			}
		}
	}
}

func TestCallsEndInToolCallsWhateverTheProviderSays(t *testing.T) {
	r := thoughtful()
	r.Choices[0].Stop = llm.StopEnd
	if stream := streamOf(r, dialect.ResponseTarget{Strict: true}); !strings.Contains(stream, `"finish_reason":"tool_calls"`) {
		t.Errorf("the stream does not end in tool_calls:\n%s", stream)
	}
}

func TestSignaturesInPiecesAreMarkedOnce(t *testing.T) {
	piece := func(s string) *llm.Event {
		return &llm.Event{Kind: llm.EventDelta, Signature: llm.Signature{Vendor: llm.OpenAI, Value: s}}
	}
	e := chat.Dialect{}.NewEncoder(dialect.ResponseTarget{})
	var stream []byte
	for _, ev := range []*llm.Event{
		{Kind: llm.EventStart, ID: "a"}, {Kind: llm.EventPartStart, Opened: llm.Thinking{}}, piece("one"), piece("two"),
		{Kind: llm.EventPartEnd}, {Kind: llm.EventFinish, Stop: llm.StopEnd}, {Kind: llm.EventEnd},
	} {
		stream = e.Encode(stream, ev)
	}
	got, _, _ := decodeStream(t, "pieces", strings.NewReader(string(stream)), nil, dialect.RequestTarget{})
	want := []llm.Part{llm.Thinking{Signature: llm.Signature{Vendor: llm.OpenAI, Value: "onetwo"}}}
	if diff := cmp.Diff(want, got.Choices[0].Parts); diff != "" {
		t.Errorf("(-want +got):\n%s\n%s", diff, stream)
	}
}

func TestCitationsApplyToTheirPlaceInTheWhole(t *testing.T) {
	r := &llm.Response{Choices: []llm.Choice{{Parts: []llm.Part{
		llm.Text{Text: "é☃", Citations: []llm.Citation{{URL: "u", Start: 0, End: 1}}}, llm.Thinking{Text: "hm"},
		llm.Text{Text: "abc", Citations: []llm.Citation{{URL: "v", Start: 1, End: 2}}},
	}, Stop: llm.StopEnd}}}
	body := chat.Dialect{}.EncodeResponse(nil, r, dialect.ResponseTarget{})
	if got := dig(t, body, "choices", 0, "message", "annotations", 1, "url_citation", "start_index"); got != 3.0 {
		t.Errorf("the second citation begins at %v, want 3: %s", got, body)
	}
	back, err := chat.Dialect{}.DecodeResponse(body, nil, dialect.RequestTarget{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r.Choices[0].Parts, back.Choices[0].Parts, dialecttest.Same()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestImagesSurviveStrictness(t *testing.T) {
	r := &llm.Response{Choices: []llm.Choice{{Parts: []llm.Part{llm.Media{Kind: llm.Image, Type: "image/png", Data: "AAAA"}}, Stop: llm.StopEnd}}}
	body := chat.Dialect{}.EncodeResponse(nil, r, dialect.ResponseTarget{Strict: true})
	if got := dig(t, body, "choices", 0, "message", "content_blocks", 0, "image_url", "url"); got != "data:image/png;base64,AAAA" {
		t.Errorf("the image is %v in %s", got, body)
	}
	if stream := streamOf(r, dialect.ResponseTarget{Strict: true}); !strings.Contains(stream, "data:image/png;base64,AAAA") {
		t.Errorf("the image is not in %s", stream)
	}
}

func TestErrorsInStreamsAreOfTheDialect(t *testing.T) {
	e := chat.Dialect{}.NewEncoder(dialect.ResponseTarget{Strict: true, Provider: "anthropic"})
	got := e.Encode(nil, &llm.Event{Kind: llm.EventError, Fault: &llm.ProviderError{Type: "overloaded_error", Message: "busy"}})
	want := "data: " + `{"error":{"message":"busy","type":"overloaded_error","param":null,"code":null,"source":"provider"},"provider":"anthropic"}` + "\n\n"
	if string(got) != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestFinishReasonsMeanTheSameInBothDirections(t *testing.T) {
	for _, tt := range []struct {
		said string
		stop llm.StopReason
		want string // for a client
	}{
		{"stop", llm.StopEnd, "stop"}, {"length", llm.StopLength, "length"}, {"content_filter", llm.StopFilter, "content_filter"},
		{"end_turn", llm.StopEnd, "stop"}, {"max_tokens", llm.StopLength, "length"}, {"model_length", llm.StopLength, "length"},
		{"MAX_TOKENS", llm.StopLength, "length"}, {"SAFETY", llm.StopFilter, "content_filter"}, {"sensitive", llm.StopFilter, "content_filter"},
		{"eos", llm.StopEnd, "stop"}, {"refusal", llm.StopRefusal, "content_filter"}, {"pause_turn", llm.StopPause, "stop"},
		{"model_context_window_exceeded", llm.StopContext, "length"}, {"of the future", llm.StopOther, "length"},
		{"eos_token", llm.StopEnd, "stop"}, {"error", llm.StopFailed, "stop"}, {"insufficient_system_resource", llm.StopFailed, "stop"}, {"network_error", llm.StopFailed, "stop"}, {"abort", llm.StopFailed, "stop"},
	} {
		r, err := chat.Dialect{}.DecodeResponse([]byte(`{"id":"a","choices":[{"message":{"content":"x"},"finish_reason":"`+tt.said+`"}]}`), nil, dialect.RequestTarget{})
		if err != nil {
			t.Fatal(err)
		}
		if c := r.Choices[0]; c.Stop != tt.stop || c.NativeFinishReason != tt.said {
			t.Errorf("%s means %q, said %q; want %q", tt.said, c.Stop, c.NativeFinishReason, tt.stop)
		}
		if got := dig(t, chat.Dialect{}.EncodeResponse(nil, r, dialect.ResponseTarget{Strict: true}), "choices", 0, "finish_reason"); got != tt.want {
			t.Errorf("%s is %v for clients, want %s", tt.said, got, tt.want)
		}
	}
}

// lines makes a stream of chunks with the given choices.
func lines(choices ...string) string {
	var out strings.Builder
	for _, c := range choices {
		if strings.HasPrefix(c, "{\"index") || strings.HasPrefix(c, "{\"delta") {
			c = `{"id":"a","model":"m","choices":[` + c + `]}`
		}
		out.WriteString("data: " + c + "\n\n")
	}
	return out.String()
}

func TestStreamsAreReadAsProvidersSendThem(t *testing.T) {
	call := func(id, name, arguments string) llm.Part {
		return llm.ToolCall{ID: id, Name: name, Arguments: arguments}
	}
	for _, tt := range []struct {
		name   string
		stream string
		parts  []llm.Part
		stop   llm.StopReason
		whole  bool
	}{
		{
			"several calls without index, whole each", lines(`{"delta":{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}},{"id":"b","function":{"name":"g","arguments":"{\"x\":1}"}}]},"finish_reason":"tool_calls"}`, "[DONE]"),
			[]llm.Part{call("a", "f", "{}"), call("b", "g", `{"x":1}`)}, llm.StopTool, true,
		},
		{
			"several calls of one index", lines(`{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}}`, `{"delta":{"tool_calls":[{"index":0,"id":"b","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"stop"}`),
			[]llm.Part{call("a", "f", "{}"), call("b", "f", "{}")}, llm.StopTool, true,
		},
		{
			"arguments that interleave", lines(`{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}},{"index":1,"id":"b","function":{"name":"g","arguments":"{"}}]}}`,
				`{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"}"}},{"index":1,"function":{"arguments":"}"}}]}}`, `{"delta":{},"finish_reason":"tool_calls"}`, "[DONE]"),
			[]llm.Part{call("a", "f", "{}"), call("b", "g", "{}")}, llm.StopTool, true,
		},
		{
			"arguments after the finish reason", lines(`{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]},"finish_reason":"tool_calls"}`, `{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"}"}}]}}`, "[DONE]"),
			[]llm.Part{call("a", "f", "{}")}, llm.StopTool, true,
		},
		{
			"arguments before the name", lines(`{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"{"}}]}}`, `{"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"}"}}]}}`, `{"delta":{},"finish_reason":"tool_calls"}`, "[DONE]"),
			[]llm.Part{call("a", "f", "{}")}, llm.StopTool, true,
		},
		{
			"pieces without index", lines(`{"delta":{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{"}}]}}`, `{"delta":{"tool_calls":[{"function":{"arguments":"}"}}]}}`, `{"delta":{},"finish_reason":"tool_calls"}`, "[DONE]"),
			[]llm.Part{call("a", "f", "{}")}, llm.StopTool, true,
		},
		{
			"a brace in a text, and another call before the end",
			lines(`{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":\"\\\"}"}}]}}`, `{"delta":{"tool_calls":[{"index":1,"id":"b","function":{"name":"g","arguments":"{}"}}]}}`,
				`{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"}"}}]}}`, `{"delta":{},"finish_reason":"tool_calls"}`, "[DONE]"),
			[]llm.Part{call("a", "f", `{"x":"\"}"}`), call("b", "g", "{}")}, llm.StopTool, true,
		},
		{
			"citations of words after thinking of them again", lines(`{"delta":{"content":"é☃"}}`, `{"delta":{"reasoning":"hm"}}`, `{"delta":{"content":"abc"}}`,
				`{"delta":{"annotations":[{"type":"url_citation","url_citation":{"url":"u","start_index":3,"end_index":5}}]},"finish_reason":"stop"}`),
			[]llm.Part{llm.Text{Text: "é☃"}, llm.Thinking{Text: "hm"}, llm.Text{Text: "abc", Citations: []llm.Citation{{URL: "u", Start: 1, End: 3}}}}, llm.StopEnd, true,
		},
		{
			"sound after the finish reason", lines(`{"delta":{"audio":{"data":"QQ=="}},"finish_reason":"stop"}`, `{"delta":{"audio":{"data":"Qg=="}}}`, "[DONE]"),
			[]llm.Part{llm.Media{Kind: llm.Audio, Data: "QUI="}}, llm.StopEnd, true,
		},
		{
			"arguments as an object", lines(`{"delta":{"tool_calls":[{"index":0,"id":"a","type":"null","function":{"name":"f","arguments":{"x":[1]}}}]}}`, `{"delta":{},"finish_reason":"tool_calls"}`, "[DONE]"),
			[]llm.Part{call("a", "f", `{"x":[1]}`)}, llm.StopTool, true,
		},
		{
			"a function call", lines(`{"delta":{"function_call":{"name":"f","arguments":""}}}`, `{"delta":{"function_call":{"arguments":"{}"}},"finish_reason":"function_call"}`, "[DONE]"),
			[]llm.Part{call("call_3r09h9gv5a72q", "f", "{}")}, llm.StopTool, true,
		},
		{
			"thinking in either field, then words", lines(`{"delta":{"reasoning":"a","content":""}}`, `{"delta":{"reasoning_content":"b"}}`, `{"delta":{"content":"c"}}`, `{"delta":{},"finish_reason":"stop"}`),
			[]llm.Part{llm.Thinking{Text: "ab"}, llm.Text{Text: "c"}}, llm.StopEnd, true,
		},
		{
			"details of thinking", lines(`{"delta":{"reasoning":"a","reasoning_details":[{"type":"reasoning.summary","summary":"a","format":"openai-responses-v1","id":"rs"}]}}`,
				`{"delta":{"reasoning_details":[{"type":"reasoning.encrypted","data":"E","format":"openai-responses-v1","id":"rs"}]}}`, `{"delta":{"content":"c"},"finish_reason":"stop"}`),
			[]llm.Part{llm.Thinking{Text: "a", Summary: true, ID: "rs", Signature: llm.Signature{Vendor: llm.OpenAI, Value: "E"}}, llm.Text{Text: "c"}}, llm.StopEnd, true,
		},
		{
			"content in parts", lines(`{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"a"}]}]}}`, `{"delta":{"content":[{"type":"text","text":"b"}]}}`, `{"delta":{"content":"c"},"finish_reason":"stop"}`),
			[]llm.Part{llm.Thinking{Text: "a"}, llm.Text{Text: "bc"}}, llm.StopEnd, true,
		},
		{
			"what Azure says of the prompt first", lines(`{"id":"","model":"","choices":[],"prompt_filter_results":[]}`, `{"index":0,"delta":{"content":"a"},"content_filter_results":{},"finish_reason":"stop"}`, "[DONE]"),
			[]llm.Part{llm.Text{Text: "a"}}, llm.StopEnd, true,
		},
		{
			"sources of the complete response", lines(`{"id":"a","citations":["https://u"],"choices":[{"delta":{"content":"a"},"message":{"content":"the whole: a"},"finish_reason":"stop"}]}`),
			[]llm.Part{llm.Text{Text: "a", Citations: []llm.Citation{{URL: "https://u"}}}}, llm.StopEnd, true,
		},
		{"a response that breaks off", lines(`{"delta":{"content":"a"}}`), []llm.Part{llm.Text{Text: "a"}}, "", false},
		{"a refusal", lines(`{"delta":{"refusal":"no"}}`, `{"delta":{},"finish_reason":"stop"}`), []llm.Part{llm.Refusal{Text: "no"}}, llm.StopRefusal, true},
		{
			"sound in pieces that end in padding", lines(`{"delta":{"audio":{"id":"s","data":"QQ=="}}}`, `{"delta":{"audio":{"data":"QkM=","transcript":"hi"}}}`, `{"delta":{},"finish_reason":"stop"}`, "[DONE]"),
			[]llm.Part{llm.Media{
				Kind: llm.Audio, Data: base64.StdEncoding.EncodeToString([]byte("ABC")),
				Extra: []llm.Member{{Name: "id", Value: json.RawMessage(`"s"`)}, {Name: "transcript", Value: json.RawMessage(`"hi"`)}},
			}},
			llm.StopEnd, true,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, fault, whole := decodeStream(t, tt.name, strings.NewReader(tt.stream), nil, dialect.RequestTarget{})
			if fault != nil || whole != tt.whole || len(got.Choices) != 1 || got.ID != "a" {
				t.Fatalf("fault %v, whole %t, %d choices, id %q", fault, whole, len(got.Choices), got.ID)
			}
			if diff := cmp.Diff(tt.parts, got.Choices[0].Parts, dialecttest.Same()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got.Choices[0].Stop != tt.stop {
				t.Errorf("stop %q, want %q", got.Choices[0].Stop, tt.stop)
			}
		})
	}
}

func TestAnEmptyResponseIsNotComplete(t *testing.T) {
	for _, stream := range []string{"", lines(`{"id":"a","choices":[],"usage":{"prompt_tokens":1}}`), lines(`{"delta":{"content":"a"},"finish_reason":""}`)} {
		if _, fault, whole := decodeStream(t, stream, strings.NewReader(stream), nil, dialect.RequestTarget{}); fault != nil || whole {
			t.Errorf("%q: fault %v, whole %t", stream, fault, whole)
		}
	}
}

func TestUsageIsReadWhereverItStands(t *testing.T) {
	for _, stream := range []string{
		lines(`{"delta":{"content":"a"},"finish_reason":"stop"}`, `{"id":"a","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}`, "[DONE]"),
		lines(`{"delta":{"content":"a"},"finish_reason":"stop"}`, `{"id":"a","choices":[],"x_groq":{"usage":{"prompt_tokens":3,"completion_tokens":2}}}`, "[DONE]"),
		lines(`{"delta":{"content":"a"},"finish_reason":"stop","usage":{"prompt_tokens":3,"completion_tokens":2}}`, "[DONE]"),
		lines(`{"id":"a","usage":{"prompt_tokens":3,"completion_tokens":1},"choices":[{"delta":{"content":"a"}}]}`, `{"id":"a","usage":{"prompt_tokens":3,"completion_tokens":2},"choices":[{"delta":{},"finish_reason":"stop"}]}`, "[DONE]"),
	} {
		got, _, _ := decodeStream(t, stream, strings.NewReader(stream), nil, dialect.RequestTarget{})
		if want := (llm.Usage{Known: true, Input: 3, Output: 2}); got.Usage != want {
			t.Errorf("%s: usage %+v, want %+v", stream, got.Usage, want)
		}
	}
}

func TestFaultsInStreamsAreReported(t *testing.T) {
	for _, stream := range []string{
		lines(`{"delta":{"content":"a"}}`, `{"error":{"message":"busy","type":"t","code":503}}`, `{"delta":{"content":"b"}}`),
		lines(`{"object":"error","message":"busy","type":"t","code":503}`),
		"event: error\ndata: {\"message\":\"busy\",\"type\":\"t\",\"code\":503}\n\n",
	} {
		_, fault, whole := decodeStream(t, stream, strings.NewReader(stream), nil, dialect.RequestTarget{})
		if fault == nil || fault.Message != "busy" || fault.Type != "t" || fault.Code != "503" || whole {
			t.Errorf("%s: fault %+v, whole %t", stream, fault, whole)
		}
	}
	for _, body := range []string{`{"error":{"message":"busy"}}`, `{"id":"x"}`, `[]`, `nonsense`} {
		if r, err := (chat.Dialect{}).DecodeResponse([]byte(body), nil, dialect.RequestTarget{}); err == nil {
			t.Errorf("%s decodes to %+v, want an error", body, r)
		}
	}
}

// The members id, data, transcript and expires_at are required.
// https://platform.openai.com/docs/api-reference/chat/object#chat-object-choices-message-audio
func TestSpokenResponsesHaveAnExpiry(t *testing.T) {
	r := &llm.Response{Model: "m", Choices: []llm.Choice{{Parts: []llm.Part{llm.Media{Kind: llm.Audio, Data: "QUI="}}, Stop: llm.StopEnd}}}
	body := chat.Dialect{}.EncodeResponse(nil, r, dialect.ResponseTarget{ID: "1", Created: 7})
	var got struct {
		Choices []struct {
			Message struct {
				Audio map[string]any
			}
		}
	}
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"id": "audio_1", "data": "QUI=", "transcript": "", "expires_at": 7.0}
	if audio := got.Choices[0].Message.Audio; !maps.Equal(audio, want) {
		t.Errorf("audio = %v, want %v", audio, want)
	}
}
