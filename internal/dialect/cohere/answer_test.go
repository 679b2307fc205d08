package cohere_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/dialect"
	"modelgate/internal/dialect/cohere"
	"modelgate/internal/model/llm"
	"modelgate/internal/testing/dialecttest"
)

// streamed reads events written as lines of data.
func streamed(t testing.TB, r *llm.Request, lines ...string) ([]llm.Event, *llm.Response, *llm.ProviderError, bool) {
	t.Helper()
	frames, err := dialecttest.ServerSentEvents(strings.NewReader("data: " + strings.Join(lines, "\n\ndata: ") + "\n\n"))
	if err != nil {
		t.Fatal(err)
	}
	d := cohere.Dialect{}.NewDecoder(r, target)
	var events []llm.Event
	for _, f := range frames {
		events = d.Decode(events, f)
	}
	events = d.End(events)
	var a dialect.Assembler
	for i := range events {
		a.Add(&events[i])
	}
	res, fault, whole := a.Response()
	return events, res, fault, whole
}

func TestCompleteResponses(t *testing.T) {
	emulating := &llm.Request{Tools: []llm.Tool{clock, {Name: "patch", Custom: true}}, Format: llm.Format{Kind: llm.FormatSchema, Schema: schema}}
	for _, tt := range []struct {
		name, body string
		want       llm.Choice
		usage      llm.Usage
	}{
		{"null arguments are none", `{"message":{"tool_calls":[{"id":"c","function":{"name":"clock","arguments":"null"}}]},"finish_reason":"TOOL_CALL"}`,
			llm.Choice{Parts: []llm.Part{llm.ToolCall{ID: "c", Name: "clock"}}, Stop: llm.StopTool, NativeFinishReason: "TOOL_CALL"}, llm.Usage{}},
		{"calls without the word for it", `{"message":{"tool_calls":[{"id":"c","function":{"name":"clock","arguments":"{}"}}]},"finish_reason":"COMPLETE"}`,
			llm.Choice{Parts: []llm.Part{llm.ToolCall{ID: "c", Name: "clock", Arguments: "{}"}}, Stop: llm.StopTool, NativeFinishReason: "COMPLETE"}, llm.Usage{}},
		{"the tool for the format is the text", `{"message":{"tool_plan":"p","tool_calls":[{"id":"c","function":{"name":"json_response","arguments":"{\"a\":\"b\"}"}}]},"finish_reason":"TOOL_CALL"}`,
			llm.Choice{Parts: []llm.Part{llm.Thinking{Text: "p"}, words(`{"a":"b"}`)}, Stop: llm.StopEnd, NativeFinishReason: "TOOL_CALL"}, llm.Usage{}},
		{"a custom tool gets its text", `{"message":{"tool_calls":[{"id":"c","function":{"name":"patch","arguments":"{\"input\":\"a\\nb\"}"}}]},"finish_reason":"TOOL_CALL"}`,
			llm.Choice{Parts: []llm.Part{llm.ToolCall{ID: "c", Name: "patch", Custom: true, Arguments: "a\nb"}}, Stop: llm.StopTool, NativeFinishReason: "TOOL_CALL"}, llm.Usage{}},
		{"billed units where tokens are missing", `{"message":{"content":"hi"},"finish_reason":"MAX_TOKENS","usage":{"billed_units":{"input_tokens":12.0,"output_tokens":3}}}`,
			llm.Choice{Parts: []llm.Part{words("hi")}, Stop: llm.StopLength, NativeFinishReason: "MAX_TOKENS"}, llm.Usage{Input: 12, Output: 3, Known: true}},
		{"cached tokens are part of the input", `{"message":{"content":"hi"},"finish_reason":"STOP_SEQUENCE","usage":{"billed_units":{"input_tokens":1},"tokens":{"input_tokens":9,"output_tokens":3},"cached_tokens":8}}`,
			llm.Choice{Parts: []llm.Part{words("hi")}, Stop: llm.StopSequence, NativeFinishReason: "STOP_SEQUENCE"}, llm.Usage{Input: 1, CachedInput: 8, Output: 3, Known: true}},
		{"logprobs of a piece add up", `{"message":{"content":[{"type":"text","text":"hi"}]},"finish_reason":"COMPLETE","logprobs":[{"text":"hi","token_ids":[1,2],"logprobs":[-0.5,-0.25]}]}`,
			llm.Choice{Parts: []llm.Part{words("hi")}, Stop: llm.StopEnd, NativeFinishReason: "COMPLETE", Logprobs: []llm.Logprob{{Token: "hi", Logprob: -0.75}}}, llm.Usage{}},
		{"a partial answer that the model gave up", `{"message":{"content":"hi"},"finish_reason":"TIMEOUT"}`, llm.Choice{Parts: []llm.Part{words("hi")}, Stop: llm.StopFailed, NativeFinishReason: "TIMEOUT"}, llm.Usage{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := cohere.Dialect{}.DecodeResponse([]byte(tt.body), emulating, target)
			want := &llm.Response{Dialect: "cohere", Model: target.Model, Choices: []llm.Choice{tt.want}, Usage: tt.usage}
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("DecodeResponse fails with %v or differs (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestCitationsBelongToTheirText(t *testing.T) {
	const cite = `{"start":1,"end":3,"text":"un","sources":[{"type":"document","document":{"title":"T","url":"https://a.example"}}],"content_index":1}`
	body := `{"message":{"content":[{"type":"thinking","thinking":"t"},{"type":"text","text":"sun"}],"citations":[` + cite + `,{"type":"PLAN","start":0}]},"finish_reason":"COMPLETE"}`
	got, err := cohere.Dialect{}.DecodeResponse([]byte(body), nil, target)
	if err != nil {
		t.Fatal(err)
	}
	_, inStream, _, _ := streamed(t, nil,
		`{"type":"content-start","index":0,"delta":{"message":{"content":{"type":"thinking","thinking":"t"}}}}`, `{"type":"content-end","index":0}`,
		`{"type":"content-start","index":1,"delta":{"message":{"content":{"type":"text","text":"sun"}}}}`, `{"type":"content-end","index":1}`,
		`{"type":"citation-start","index":0,"delta":{"message":{"citations":`+cite+`}}}`, `{"type":"citation-end","index":0}`,
		`{"type":"message-end","delta":{"finish_reason":"COMPLETE"}}`)
	want := []llm.Part{llm.Thinking{Text: "t"}, llm.Text{Text: "sun", Citations: []llm.Citation{{
		URL: "https://a.example", Title: "T", Text: "un", Start: 1, End: 3, Raw: []byte(cite), Dialect: "cohere"}}}}
	if diff := cmp.Diff(want, got.Choices[0].Parts); diff != "" {
		t.Errorf("whole (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, inStream.Choices[0].Parts); diff != "" {
		t.Errorf("streamed (-want +got):\n%s", diff)
	}
}

func TestMalformedResponsesAreErrors(t *testing.T) {
	for _, body := range []string{``, `[]`, `{}`, `{"message":"too many requests"}`, `{"message":{"content":"a"},"finish_reason":"ERROR","error":"why"}`} {
		if r, err := (cohere.Dialect{}).DecodeResponse([]byte(body), nil, target); err == nil {
			t.Errorf("DecodeResponse(%s) = %+v, want an error", body, r)
		}
	}
}

func TestStreamedCallsOfEveryKind(t *testing.T) {
	r := &llm.Request{Tools: []llm.Tool{clock, {Name: "patch", Custom: true}}, Format: llm.Format{Kind: llm.FormatSchema, Schema: schema}}
	start := func(n, name string) string {
		return `{"type":"tool-call-start","index":` + n + `,"delta":{"message":{"tool_calls":{"id":"c` + n + `","function":{"name":"` + name + `","arguments":""}}}}}`
	}
	add := func(n, text string) string {
		return `{"type":"tool-call-delta","index":` + n + `,"delta":{"message":{"tool_calls":{"function":{"arguments":"` + text + `"}}}}}`
	}
	events, got, fault, whole := streamed(t, r, `{"type":"message-start","id":"m1"}`,
		`{"type":"tool-plan-delta","delta":{"message":{"tool_plan":"I "}}}`, `{"type":"tool-plan-delta","delta":{"message":{"tool_plan":"will"}}}`,
		start("0", "clock"), start("1", "patch"), start("2", "json_response"), start("3", "clock"),
		add("1", `{\"input\":`), add("0", "null"), add("2", "{"), add("1", `\"x\"}`), add("2", "}"), add("3", "null"), add("3", "able"),
		`{"type":"tool-call-end","index":1}`, `{"type":"message-end","delta":{"finish_reason":"TOOL_CALL","usage":{"tokens":{"input_tokens":2,"output_tokens":1}}}}`, `[DONE]`)
	if why := dialecttest.CheckEventOrder(events); why != "" || fault != nil || !whole {
		t.Fatalf("%s, fault %v, whole %t, want a response in order", why, fault, whole)
	}
	want := &llm.Response{ID: "m1", Model: target.Model, Usage: llm.Usage{Input: 2, Output: 1, Known: true}, Choices: []llm.Choice{{
		Parts: []llm.Part{
			llm.Thinking{Text: "I will"}, llm.ToolCall{ID: "c0", Name: "clock"}, llm.ToolCall{ID: "c1", Name: "patch", Custom: true, Arguments: "x"},
			words("{}"), llm.ToolCall{ID: "c3", Name: "clock", Arguments: "nullable"},
		},
		Stop: llm.StopTool, NativeFinishReason: "TOOL_CALL",
	}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the stream holds another answer (-want +got):\n%s", diff)
	}
}

func TestACallThatBeginsTwiceIsTwoCalls(t *testing.T) {
	const start = `{"type":"tool-call-start","index":0,"delta":{"message":{"tool_calls":{"id":"c","function":{"name":"clock","arguments":"{}"}}}}}`
	events, got, _, whole := streamed(t, nil, start, start, `{"type":"message-end","delta":{"finish_reason":"TOOL_CALL"}}`)
	if why := dialecttest.CheckEventOrder(events); why != "" || !whole || len(got.Choices[0].Parts) != 2 {
		t.Errorf("order %q, whole %t, parts %v, want two calls in order", why, whole, got.Choices[0].Parts)
	}
}

func TestStreamsThatFail(t *testing.T) {
	const hi = `{"type":"content-start","index":0,"delta":{"message":{"content":{"type":"text","text":"hi"}}}}`
	for _, tt := range []struct {
		name  string
		lines []string
		fault string
	}{
		{"an error as before admission", []string{hi, `{"message":"internal server error","id":"x"}`, hi}, "internal server error"},
		{"the end says why", []string{hi, `{"type":"message-end","delta":{"finish_reason":"ERROR","error":"no more"}}`}, "no more"},
		{"it breaks off", []string{hi, `{"type":"debug","prompt":"x"}`, `{nonsense`}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			events, _, fault, whole := streamed(t, nil, tt.lines...)
			said := ""
			if fault != nil {
				said = fault.Message
			}
			if why := dialecttest.CheckEventOrder(events); why != "" || whole || said != tt.fault {
				t.Errorf("order %q, whole %t, fault %q, want in order, not whole, and %q", why, whole, said, tt.fault)
			}
		})
	}
}

func TestTextComesOutAtOnce(t *testing.T) {
	d := cohere.Dialect{}.NewDecoder(nil, target)
	frames, _ := dialecttest.ServerSentEvents(strings.NewReader("event: content-delta\ndata: {\"index\":0,\"delta\":{\"message\":{\"content\":{\"text\":\"a\"}}},\"logprobs\":{\"text\":\"a\",\"logprobs\":[-1]}}\n\n"))
	got := d.Decode(nil, frames[0])
	want := []llm.Event{
		{Kind: llm.EventStart, Model: target.Model}, {Kind: llm.EventPartStart, Opened: llm.Text{}},
		{Kind: llm.EventDelta, Text: "a", Logprobs: []llm.Logprob{{Token: "a", Logprob: -1}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Decode (-want +got):\n%s", diff)
	}
}
