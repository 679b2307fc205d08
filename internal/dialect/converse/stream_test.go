package converse_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/converse"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
	"modelgate/internal/testing/dialecttest"
)

// lines makes a frame of each line: its type, then its data.
func lines(s string) (list []sse.Event) {
	for line := range strings.SplitSeq(strings.TrimSpace(s), "\n") {
		kind, data, _ := strings.Cut(strings.TrimSpace(line), " ")
		list = append(list, sse.Event{Type: []byte(kind), Data: []byte(data)})
	}
	return list
}

func TestStreamsEndAsTheProviderSays(t *testing.T) {
	const begun = "messageStart {\"role\":\"assistant\"}\ncontentBlockDelta {\"contentBlockIndex\":0,\"delta\":{\"text\":\"Hi\"}}\n"
	const stopped = begun + "contentBlockStop {\"contentBlockIndex\":0}\nmessageStop {\"stopReason\":\"end_turn\"}\n"
	for _, tt := range []struct {
		name, stream string
		whole        bool
		fault        string
		usage        bool
	}{
		{"with figures", stopped + `metadata {"usage":{"inputTokens":1,"outputTokens":2}}`, true, "", true},
		{"without figures", stopped, true, "", false},
		{"with figures before the end", begun + "metadata {\"usage\":{\"inputTokens\":1,\"outputTokens\":2}}\nmessageStop {\"stopReason\":\"end_turn\"}", true, "", true},
		{"with figures and no end", begun + `metadata {"usage":{"inputTokens":1,"outputTokens":2}}`, false, "", true},
		{"broken off", begun, false, "", false},
		{"throttled", begun + `throttlingException {"message":"Too many tokens"}`, false, "throttlingException: Too many tokens", false},
		{"an error of the service", begun + `InternalFailure {"message":"Oh"}`, false, "InternalFailure: Oh", false},
		{"an exception after which nothing counts", begun + "modelStreamErrorException {\"message\":\"m\"}\n" + stopped, false, "modelStreamErrorException: m", false},
		{"events that are new", stopped + "somethingNew {}\nmetadata {\"usage\":{\"inputTokens\":1,\"outputTokens\":2}}", true, "", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, fault, whole := assembled(t, lines(tt.stream), nil, dialect.RequestTarget{Model: nova})
			got := ""
			if fault != nil {
				got = fault.Type + ": " + fault.Message
			}
			if got != tt.fault || whole != tt.whole || r.Usage.Known != tt.usage {
				t.Errorf("fault %q, whole %t, usage %t; want %q, %t, %t", got, whole, r.Usage.Known, tt.fault, tt.whole, tt.usage)
			}
			if parts := r.Choices[0].Parts; len(parts) != 1 || parts[0].(llm.Text).Text != "Hi" {
				t.Errorf("parts %v", parts)
			}
			tap := converse.Dialect{}.NewTap(api.Converse)
			for _, frame := range lines(tt.stream) {
				tap.Event(frame)
			}
			finished := strings.Contains(tt.stream, "messageStop")
			terminated := finished && strings.Contains(tt.stream, "metadata")
			if seen := tap.Info(); seen.Finished != finished || seen.Terminated != terminated || (seen.Failed != "") != (tt.fault != "") || !seen.Begun || seen.Usage.Known != tt.usage {
				t.Errorf("the tap saw %+v", seen)
			}
		})
	}
}

func TestAFurtherMemberDoesNotHideAVariant(t *testing.T) {
	r, fault, whole := assembled(t, lines(`messageStart {"role":"assistant"}
		contentBlockDelta {"contentBlockIndex":0,"delta":{"new":1,"text":"Hi"}}
		contentBlockStart {"contentBlockIndex":1,"start":{"new":{},"toolUse":{"toolUseId":"c","name":"f"}}}
		contentBlockDelta {"contentBlockIndex":1,"delta":{"toolUse":{"input":"{}"},"new":null}}
		contentBlockStop {"contentBlockIndex":1}
		messageStop {"stopReason":"tool_use"}`), nil, dialect.RequestTarget{Model: nova})
	want := []llm.Part{llm.Text{Text: "Hi"}, llm.ToolCall{ID: "c", Name: "f", Arguments: "{}"}}
	if diff := cmp.Diff(want, r.Choices[0].Parts, dialecttest.Same()); diff != "" || fault != nil || !whole {
		t.Errorf("fault %v, complete %t, parts (-want +got):\n%s", fault, whole, diff)
	}
}

func TestResponsesByAForcedToolBecomeText(t *testing.T) {
	request := &llm.Request{Format: person}
	to := dialect.RequestTarget{Model: nova}
	const preface = `contentBlockDelta {"contentBlockIndex":0,"delta":{"text":"Here it is:"}}
		contentBlockStop {"contentBlockIndex":0}
		`
	const call = `contentBlockStart {"contentBlockIndex":1,"start":{"toolUse":{"toolUseId":"t1","name":"json_response"}}}
		contentBlockDelta {"contentBlockIndex":1,"delta":{"toolUse":{"input":"{\"age\""}}}
		contentBlockDelta {"contentBlockIndex":1,"delta":{"toolUse":{"input":":3}"}}}
		contentBlockStop {"contentBlockIndex":1}
		messageStop {"stopReason":"tool_use"}
		metadata {"usage":{"inputTokens":1,"outputTokens":2}}`
	const body = `{"output":{"message":{"content":[{"text":"Here it is:"},{"toolUse":{"toolUseId":"t1","name":"json_response","input":{"age":3}}}]}},"stopReason":"tool_use","usage":{"inputTokens":1,"outputTokens":2}}`
	whole, err := converse.Dialect{}.DecodeResponse([]byte(body), request, to)
	if err != nil {
		t.Fatal(err)
	}
	want := []llm.Choice{{Parts: []llm.Part{llm.Text{Text: `{"age":3}`}}, Stop: llm.StopEnd, NativeFinishReason: "tool_use"}}
	if diff := cmp.Diff(want, whole.Choices); diff != "" {
		t.Errorf("whole (-want +got):\n%s", diff)
	}
	streamed, _, _ := assembled(t, lines(preface+call), request, to)
	if diff := cmp.Diff(want, streamed.Choices); diff != "" {
		t.Errorf("streamed (-want +got):\n%s", diff)
	}
	alone, _, _ := assembled(t, lines(preface+`messageStop {"stopReason":"end_turn"}`), request, to)
	want = []llm.Choice{{Parts: []llm.Part{llm.Text{Text: "Here it is:"}}, Stop: llm.StopEnd, NativeFinishReason: "end_turn"}}
	if diff := cmp.Diff(want, alone.Choices); diff != "" {
		t.Errorf("without a call (-want +got):\n%s", diff)
	}
}

func TestACallNextToAForcedToolIsWaitedFor(t *testing.T) {
	const body = `{"output":{"message":{"content":[{"toolUse":{"toolUseId":"t1","name":"weather","input":{}}},{"toolUse":{"toolUseId":"t2","name":"json_response","input":{}}}]}},"stopReason":"tool_use"}`
	r, err := converse.Dialect{}.DecodeResponse([]byte(body), &llm.Request{Format: person, Tools: []llm.Tool{weather}}, dialect.RequestTarget{Model: nova})
	if err != nil || r.Choices[0].Stop != llm.StopTool || len(r.Choices[0].Parts) != 2 {
		t.Errorf("read %+v, %v", r, err)
	}
}

func TestSignaturesInPiecesAreOne(t *testing.T) {
	for _, tt := range []struct {
		first string
		want  llm.Signature
	}{
		{"ab", llm.Signature{Vendor: llm.Amazon, Value: "abcd"}},
		{"mg1.google.ab", llm.Signature{Vendor: llm.Google, Value: "abcd"}},
	} {
		r, _, _ := assembled(t, lines(`contentBlockDelta {"contentBlockIndex":0,"delta":{"reasoningContent":{"text":"t"}}}
			contentBlockDelta {"contentBlockIndex":0,"delta":{"reasoningContent":{"signature":"`+tt.first+`"}}}
			contentBlockDelta {"contentBlockIndex":0,"delta":{"reasoningContent":{"signature":"cd"}}}
			messageStop {"stopReason":"end_turn"}`), nil, dialect.RequestTarget{Model: nova})
		if got := r.Choices[0].Parts[0].(llm.Thinking).Signature; got != tt.want {
			t.Errorf("signature %+v, want %+v", got, tt.want)
		}
	}
}

func TestCallsComeBackUnderTheNamesOfTheClient(t *testing.T) {
	request := &llm.Request{Tools: []llm.Tool{{Name: "my tool/größe"}, {Name: "free", Custom: true}}}
	const stream = `contentBlockStart {"contentBlockIndex":0,"start":{"toolUse":{"toolUseId":"a","name":"my_tool_gr__e_4d91a36f"}}}
		contentBlockStop {"contentBlockIndex":0}
		contentBlockStart {"contentBlockIndex":1,"start":{"toolUse":{"toolUseId":"b","name":"free"}}}
		contentBlockDelta {"contentBlockIndex":1,"delta":{"toolUse":{"input":"{\"input\":\"x\\n"}}}
		contentBlockDelta {"contentBlockIndex":1,"delta":{"toolUse":{"input":"y\"}"}}}
		contentBlockStop {"contentBlockIndex":1}
		messageStop {"stopReason":"tool_use"}`
	const body = `{"output":{"message":{"content":[{"toolUse":{"toolUseId":"a","name":"my_tool_gr__e_4d91a36f","input":{}}},{"toolUse":{"toolUseId":"b","name":"free","input":{"input":"x\ny"}}}]}},"stopReason":"tool_use"}`
	want := []llm.Part{llm.ToolCall{ID: "a", Name: "my tool/größe"}, llm.ToolCall{ID: "b", Name: "free", Custom: true, Arguments: "x\ny"}}
	streamed, _, _ := assembled(t, lines(stream), request, dialect.RequestTarget{Model: nova})
	if diff := cmp.Diff(want, streamed.Choices[0].Parts); diff != "" {
		t.Errorf("streamed (-want +got):\n%s", diff)
	}
	whole, err := converse.Dialect{}.DecodeResponse([]byte(body), request, dialect.RequestTarget{Model: nova})
	if err != nil {
		t.Fatal(err)
	}
	want[0] = llm.ToolCall{ID: "a", Name: "my tool/größe", Arguments: "{}"}
	if diff := cmp.Diff(want, whole.Choices[0].Parts); diff != "" {
		t.Errorf("whole (-want +got):\n%s", diff)
	}
}

func TestSourcesFollowTheTextForClientsThatDidNotAskForThem(t *testing.T) {
	const body = `{"output":{"message":{"content":[{"citationsContent":{"content":[{"text":"Blue."}],"citations":[{"title":"Sky","location":{"web":{"url":"https://example.com"}},"sourceContent":[{"text":"is blue"}]}]}}]}},"stopReason":"end_turn"}`
	r, err := converse.Dialect{}.DecodeResponse([]byte(body), nil, dialect.RequestTarget{Model: sonnet45})
	if err != nil {
		t.Fatal(err)
	}
	got := r.Choices[0].Parts[0].(llm.Text)
	if c := got.Citations[0]; got.Text != "Blue." || c.URL != "https://example.com" || c.Title != "Sky" || c.Text != "is blue" {
		t.Errorf("read %+v", got)
	}
	asked := &llm.Request{Messages: []llm.Message{user(llm.Media{Kind: llm.Document, Cite: true})}}
	if out := string(converse.Dialect{}.EncodeResponse(nil, r, dialect.ResponseTarget{Request: asked})); !strings.Contains(out, `{"citationsContent":{"content":[{"text":"Blue."}],"citations":[{"title":"Sky"`) {
		t.Errorf("a client that asked gets %s", out)
	}
	if out := string(converse.Dialect{}.EncodeResponse(nil, r, dialect.ResponseTarget{})); !strings.Contains(out, `"content":[{"text":"Blue."},{"citationsContent":{"content":[],"citations":[{"title":"Sky"`) {
		t.Errorf("a client that did not gets %s", out)
	}
}

// streamed is what a client gets for events, a line for each message.
func streamed(t *testing.T, to dialect.ResponseTarget, events ...llm.Event) string {
	t.Helper()
	encoder := converse.Dialect{}.NewEncoder(to)
	var stream []byte
	for i := range events {
		stream = encoder.Encode(stream, &events[i])
	}
	list, err := frames(bytes.NewReader(stream))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, frame := range list {
		fmt.Fprintf(&out, "%s %s\n", frame.Type, frame.Data)
	}
	return out.String()
}

func TestEveryEventIsWrittenAtOnce(t *testing.T) {
	stops := &llm.Request{Extra: []llm.Member{{Name: "additionalModelResponseFieldPaths", Value: []byte(`["/delta/stop_sequence"]`)}}}
	got := streamed(
		t, dialect.ResponseTarget{Request: stops},
		llm.Event{Kind: llm.EventStart},
		llm.Event{Kind: llm.EventPartStart, Opened: llm.Thinking{}},
		llm.Event{Kind: llm.EventDelta, Text: "t"},
		llm.Event{Kind: llm.EventDelta, Signature: llm.Signature{Vendor: llm.Google, Value: "ab"}},
		llm.Event{Kind: llm.EventDelta, Signature: llm.Signature{Vendor: llm.Google, Value: "cd"}},
		llm.Event{Kind: llm.EventPartEnd},
		llm.Event{Kind: llm.EventPartStart, Part: 1, Opened: llm.Text{}},
		llm.Event{Kind: llm.EventPartEnd, Part: 1},
		llm.Event{Kind: llm.EventPartStart, Part: 2, Opened: llm.ToolCall{ID: "a", Name: "f", Signature: llm.Signature{Vendor: llm.Google, Value: "s"}}},
		llm.Event{Kind: llm.EventPartStart, Part: 3, Opened: llm.ToolCall{ID: "b", Name: "g", Custom: true}},
		llm.Event{Kind: llm.EventDelta, Part: 3, Text: `a "b"`},
		llm.Event{Kind: llm.EventDelta, Part: 2, Text: `{}`},
		llm.Event{Kind: llm.EventPartEnd, Part: 2},
		llm.Event{Kind: llm.EventPartEnd, Part: 3},
		llm.Event{Kind: llm.EventPartStart, Choice: 1, Part: 4, Opened: llm.Text{Text: "another choice"}},
		llm.Event{Kind: llm.EventFinish, Stop: llm.StopSequence, StopText: "END"},
		llm.Event{Kind: llm.EventUsage, Usage: llm.Usage{Known: true, Input: 3, CachedInput: 4, CacheWrite1h: 5, Output: 6, Reasoning: 1}},
		llm.Event{Kind: llm.EventEnd},
		llm.Event{Kind: llm.EventEnd},
	)
	const want = `messageStart {"role":"assistant"}
contentBlockDelta {"contentBlockIndex":0,"delta":{"reasoningContent":{"text":"t"}}}
contentBlockDelta {"contentBlockIndex":0,"delta":{"reasoningContent":{"signature":"mg1.google.ab"}}}
contentBlockDelta {"contentBlockIndex":0,"delta":{"reasoningContent":{"signature":"cd"}}}
contentBlockStop {"contentBlockIndex":0}
contentBlockDelta {"contentBlockIndex":1,"delta":{"reasoningContent":{"signature":"mg1.google.s"}}}
contentBlockStop {"contentBlockIndex":1}
contentBlockStart {"contentBlockIndex":2,"start":{"toolUse":{"toolUseId":"a","name":"f"}}}
contentBlockStart {"contentBlockIndex":3,"start":{"toolUse":{"toolUseId":"b","name":"g"}}}
contentBlockDelta {"contentBlockIndex":3,"delta":{"toolUse":{"input":"{\"input\":\""}}}
contentBlockDelta {"contentBlockIndex":3,"delta":{"toolUse":{"input":"a \\\"b\\\""}}}
contentBlockDelta {"contentBlockIndex":2,"delta":{"toolUse":{"input":"{}"}}}
contentBlockStop {"contentBlockIndex":2}
contentBlockDelta {"contentBlockIndex":3,"delta":{"toolUse":{"input":"\"}"}}}
contentBlockStop {"contentBlockIndex":3}
messageStop {"stopReason":"stop_sequence","additionalModelResponseFields":{"delta":{"stop_sequence":"END"}}}
metadata {"usage":{"inputTokens":3,"outputTokens":7,"totalTokens":19,"cacheReadInputTokens":4,"cacheWriteInputTokens":5,"cacheDetails":[{"ttl":"1h","inputTokens":5}]},"metrics":{"latencyMs":0}}
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFaultsOfStreamsAreExceptions(t *testing.T) {
	for _, tt := range []struct {
		fault llm.ProviderError
		want  string
	}{
		{llm.ProviderError{Type: "overloaded_error", Message: "Overloaded"}, `throttlingException {"message":"Overloaded"}`},
		{llm.ProviderError{Type: "throttlingException", Message: "m"}, `throttlingException {"message":"m"}`},
		{llm.ProviderError{Type: "invalid_request_error", Message: "m"}, `validationException {"message":"m"}`},
		{llm.ProviderError{Type: "server_error"}, `internalServerException {"message":"the provider reported an error without a message"}`},
	} {
		if got := streamed(t, dialect.ResponseTarget{}, llm.Event{Kind: llm.EventError, Fault: &tt.fault}, llm.Event{Kind: llm.EventEnd}); got != tt.want+"\n" {
			t.Errorf("%+v is written as %s, want %s", tt.fault, got, tt.want)
		}
	}
}

func TestErrorsAreThoseThatTheSDKsKnow(t *testing.T) {
	e := apierr.New(apierr.RateLimited, "slow down").WithParam("messages")
	if got, want := string(converse.Dialect{}.Error(e)), `{"message":"slow down","__type":"ThrottlingException","param":"messages","reason":"rate_limited","source":"gateway"}`; got != want {
		t.Errorf("Error = %s, want %s", got, want)
	}
	list, err := frames(bytes.NewReader(converse.Dialect{}.ErrorEvent(nil, apierr.New(apierr.UpstreamFailed, "gone"))))
	if err != nil || len(list) != 1 || string(list[0].Type) != "modelStreamErrorException" || string(list[0].Data) != `{"message":"gone"}` {
		t.Errorf("ErrorEvent = %v, %v", list, err)
	}
	for _, tt := range []struct {
		body   string
		status int
		want   string
	}{
		{`{"message":"bad"}`, 400, `{"message":"bad","source":"provider","provider":"p","__type":"ValidationException"}`},
		{`{"__type":"x","message":"bad"}`, 400, `{"__type":"x","message":"bad","source":"provider","provider":"p"}`},
		{`{"error":{"message":"bad"}}`, 401, `{"message":"p answered 401: bad","__type":"UnrecognizedClientException","source":"provider","provider":"p"}`},
		{``, 529, `{"message":"p answered 529 with an empty body","__type":"ThrottlingException","source":"provider","provider":"p"}`},
		{`<html>`, 502, `{"message":"p answered 502 with an empty body","__type":"ModelErrorException","source":"provider","provider":"p"}`},
		{`<html>`, 500, `{"message":"p answered 500 with an empty body","__type":"InternalServerException","source":"provider","provider":"p"}`},
	} {
		if got := string(converse.Dialect{}.ProviderError(nil, []byte(tt.body), "p", tt.status)); got != tt.want {
			t.Errorf("ProviderError(%s, %d) = %s, want %s", tt.body, tt.status, got, tt.want)
		}
	}
}

func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"system":[{"text":"s"},{"cachePoint":{"type":"default"}}],"messages":[{"role":"user","content":[{"text":"a"},{"image":{"format":"png","source":{"bytes":"QUJD"}}},{"document":{"format":"pdf","name":"d","source":{"content":[{"text":"t"}]},"citations":{"enabled":true}}}]},{"role":"assistant","content":[{"reasoningContent":{"reasoningText":{"text":"","signature":"mg1.google.x"}}},{"toolUse":{"toolUseId":"t","name":"f","input":{}}}]},{"role":"user","content":[{"toolResult":{"toolUseId":"t","content":[{"json":{}},{"text":"x"}],"status":"error"}}]}],"toolConfig":{"tools":[{"toolSpec":{"name":"f","inputSchema":{"json":{}}}},{"systemTool":{"name":"nova_grounding"}}],"toolChoice":{"any":{}}},"additionalModelRequestFields":{"thinking":{"type":"enabled","budget_tokens":1024},"output_config":{"effort":"low"},"anthropic_beta":["x"],"top_k":3},"inferenceConfig":{"maxTokens":3000,"stopSequences":["x"]}}`), sonnet45)
	f.Add([]byte(`{"messages":[],"outputConfig":{"textFormat":{"type":"json_schema","structure":{"jsonSchema":{"schema":"{\"type\":\"object\",\"anyOf\":[{}]}"}}}}}`), nova)
	f.Fuzz(func(t *testing.T, body []byte, model string) {
		r, err := converse.Dialect{}.DecodeRequest(body)
		if err != nil {
			return
		}
		out, _, err := converse.Dialect{}.EncodeRequest(nil, r, dialect.RequestTarget{Model: model})
		if err != nil {
			return
		}
		if _, err := (converse.Dialect{}).DecodeRequest(out); err != nil {
			t.Fatalf("%s\nis written as\n%s\nwhich is refused: %v", body, out, err)
		}
		r.Dialect = "chat"
		_, _, _ = converse.Dialect{}.EncodeRequest(nil, r, dialect.RequestTarget{Model: model}) // it may refuse, but not panic
	})
}

func FuzzResponse(f *testing.F) {
	f.Add([]byte(`{"output":{"message":{"role":"assistant","content":[{"text":"a"},{"reasoningContent":{"redactedContent":"QUJD"}},{"toolUse":{"toolUseId":"t","name":"json_response","input":{}}},{"citationsContent":{"content":[{"text":"x"}],"citations":[{}]}},{"image":{"format":"png","source":{"bytes":"QUJD"}}}]}},"stopReason":"tool_use","usage":{"inputTokens":1,"cacheDetails":[{"ttl":"1h","inputTokens":3}]},"metrics":{"latencyMs":1}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		converse.Dialect{}.NewTap(api.Converse).Body(body)
		request := &llm.Request{Format: person}
		r, err := converse.Dialect{}.DecodeResponse(body, request, dialect.RequestTarget{Model: nova})
		if err != nil {
			return
		}
		if _, err := (converse.Dialect{}).DecodeResponse(converse.Dialect{}.EncodeResponse(nil, r, dialect.ResponseTarget{Request: request}), request, dialect.RequestTarget{Model: nova}); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzStream(f *testing.F) {
	f.Add(`messageStart {}
contentBlockDelta {"contentBlockIndex":0,"delta":{"text":"a"}}
contentBlockDelta {"contentBlockIndex":0,"delta":{"reasoningContent":{"signature":"a"}}}
contentBlockStart {"contentBlockIndex":1,"start":{"toolUse":{"toolUseId":"t","name":"f","type":"server_tool_use"}}}
contentBlockDelta {"contentBlockIndex":1,"delta":{"toolUse":{"input":"{}"}}}
contentBlockStop {"contentBlockIndex":1}
contentBlockDelta {"contentBlockIndex":4,"delta":{"citation":{"title":"x"}}}
messageStop {"stopReason":"end_turn"}
metadata {"usage":{}}`, false)
	f.Add("contentBlockStart {\"start\":{\"toolUse\":{\"name\":\"json_response\"}}}\ncontentBlockDelta {\"contentBlockIndex\":7,\"delta\":{\"text\":\"a\"}}\nthrottlingException {}", true)
	f.Fuzz(func(t *testing.T, stream string, form bool) {
		request := &llm.Request{}
		if form {
			request.Format = person
		}
		d := converse.Dialect{}.NewDecoder(request, dialect.RequestTarget{Model: nova})
		tap := converse.Dialect{}.NewTap(api.Converse)
		var events []llm.Event
		for _, frame := range lines(stream) {
			tap.Event(frame)
			events = d.Decode(events, frame)
		}
		events = d.End(events)
		if why := dialecttest.CheckEventOrder(events); why != "" {
			t.Fatal(why)
		}
		streamed(t, dialect.ResponseTarget{Request: request}, events...)
	})
}

func BenchmarkTextDelta(b *testing.B) {
	frame := sse.Event{Type: []byte("contentBlockDelta"), Data: []byte(`{"contentBlockIndex":0,"delta":{"text":" word"},"p":"abcdefghijklm"}`)}
	start := sse.Event{Type: []byte("messageStart"), Data: []byte(`{"role":"assistant"}`)}
	b.Run("decode", func(b *testing.B) {
		d := converse.Dialect{}.NewDecoder(&llm.Request{}, dialect.RequestTarget{Model: nova})
		events := d.Decode(d.Decode(nil, start), frame)
		b.ReportAllocs()
		for b.Loop() {
			events = d.Decode(events[:0], frame)
		}
	})
	b.Run("encode", func(b *testing.B) {
		e := converse.Dialect{}.NewEncoder(dialect.ResponseTarget{})
		dst := e.Encode(nil, &llm.Event{Kind: llm.EventPartStart, Opened: llm.Text{}})
		delta := &llm.Event{Kind: llm.EventDelta, Text: " word"}
		b.ReportAllocs()
		for b.Loop() {
			dst = e.Encode(dst[:0], delta)
		}
	})
	b.Run("tap", func(b *testing.B) {
		tap := converse.Dialect{}.NewTap(api.Converse)
		b.ReportAllocs()
		for b.Loop() {
			tap.Event(frame)
		}
	})
}
