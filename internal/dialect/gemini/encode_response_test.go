package gemini_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"modelgate/api"
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/gemini"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
	"modelgate/internal/testing/dialecttest"
)

// frames makes a stream of the candidates' contents.
func frames(data ...string) string {
	var b strings.Builder
	for _, d := range data {
		b.WriteString("data: " + d + "\r\n\r\n")
	}
	return b.String()
}

// candidate is a frame of one candidate with these parts, and what follows them.
func candidate(parts, rest string) string {
	return `{"candidates":[{"content":{"role":"model","parts":[` + parts + `]}` + rest + `}],"responseId":"r"}`
}

func mustStream(t *testing.T, r *llm.Request, to dialect.RequestTarget, data ...string) *llm.Response {
	t.Helper()
	res, fault, whole := streamed(t, strings.NewReader(frames(data...)), r, to)
	if fault != nil || !whole {
		t.Fatalf("fault %v, whole %t", fault, whole)
	}
	return res
}

func TestAllPartsOfAChunkAreRead(t *testing.T) {
	res := mustStream(t, nil, flash3,
		candidate(`{"text":"a"},{"functionCall":{"name":"f","args":{"x": 1}},"thoughtSignature":"cw=="},{"functionCall":{"id":"own","name":"g"}}`, ""),
		candidate(`{"functionCall":{"name":"f"}}`, ""),
		candidate(`{"inlineData":{"mimeType":"image/png","data":"AAAA"}},{"inlineData":{"mimeType":"image/png","data":"BBBB"},"thoughtSignature":"aQ=="},{"text":"","thoughtSignature":"dA=="}`, ""),
		`{"candidates":[{"content":{},"finishReason":"STOP"}]}`)
	id := "call_" + res.Choices[0].Parts[1].(llm.ToolCall).ID[len("call_"):len(res.Choices[0].Parts[1].(llm.ToolCall).ID)-2] + "_"
	want := []llm.Part{
		llm.Text{Text: "a"},
		llm.ToolCall{ID: id + "0", Name: "f", Arguments: `{"x":1}`, Signature: llm.Signature{Vendor: llm.Google, Value: "cw=="}},
		llm.ToolCall{ID: "own", Name: "g", Arguments: `{}`},
		llm.ToolCall{ID: id + "2", Name: "f", Arguments: `{}`},
		llm.Media{Kind: llm.Image, Type: "image/png", Data: "AAAA"},
		llm.Thinking{Signature: llm.Signature{Vendor: llm.Google, Value: "aQ=="}},
		llm.Media{Kind: llm.Image, Type: "image/png", Data: "BBBB"},
		llm.Text{Signature: llm.Signature{Vendor: llm.Google, Value: "dA=="}},
	}
	if diff := cmp.Diff(want, res.Choices[0].Parts, dialecttest.Same()); diff != "" {
		t.Errorf("parts (-want +got):\n%s", diff)
	}
	if res.Choices[0].Stop != llm.StopTool {
		t.Errorf("stop = %s, want %s", res.Choices[0].Stop, llm.StopTool)
	}
}

func TestCallsWithoutIdsAreNumberedAlikeInAnyTransport(t *testing.T) {
	call := `{"functionCall":{"name":"f"}}`
	one := mustStream(t, nil, flash3, candidate(call, ""), candidate(call, `,"finishReason":"STOP"`))
	whole, err := gemini.Dialect{}.DecodeResponse([]byte(candidate(call+","+call, `,"finishReason":"STOP"`)), nil, flash3)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(whole.Choices, one.Choices); diff != "" {
		t.Errorf("whole and streamed (-whole +streamed):\n%s", diff)
	}
}

func TestSeveralChoicesAreKeptApart(t *testing.T) {
	body := `{"candidates":[{"index":1,"content":{"parts":[{"text":"b"}]},"finishReason":"MAX_TOKENS"},{"index":0,"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}]}`
	res, err := gemini.Dialect{}.DecodeResponse([]byte(body), nil, flash2)
	if err != nil {
		t.Fatal(err)
	}
	want := []llm.Choice{{Parts: []llm.Part{llm.Text{Text: "a"}}, Stop: llm.StopEnd, NativeFinishReason: "STOP"}, {Parts: []llm.Part{llm.Text{Text: "b"}}, Stop: llm.StopLength, NativeFinishReason: "MAX_TOKENS"}}
	if diff := cmp.Diff(want, res.Choices); diff != "" {
		t.Errorf("choices (-want +got):\n%s", diff)
	}
}

func TestARefusedPromptIsAFilteredChoice(t *testing.T) {
	body := `{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":4},"modelVersion":"m","responseId":"r"}`
	res, err := gemini.Dialect{}.DecodeResponse([]byte(body), nil, flash2)
	if err != nil {
		t.Fatal(err)
	}
	if c := res.Choices[0]; len(res.Choices) != 1 || c.Stop != llm.StopFilter || c.NativeFinishReason != "SAFETY" || len(c.Parts) > 0 {
		t.Errorf("choices = %+v, want one that was filtered", res.Choices)
	}
	again := gemini.Dialect{}.EncodeResponse(nil, res, dialect.ResponseTarget{})
	if candidates := object(mustJSON(t, string(again)))["candidates"]; candidates != nil {
		t.Errorf("written again, the response is %s, want no candidates", again)
	}
}

func TestAForcedFormIsTextAgain(t *testing.T) {
	r := &llm.Request{
		Dialect: "chat", Tools: []llm.Tool{{Name: "f"}},
		Format: llm.Format{Kind: llm.FormatSchema, Schema: json.RawMessage(`{"type":"object"}`)},
	}
	res := mustStream(t, r, flash2, candidate(`{"functionCall":{"name":"json_response","args":{"a":1}}}`, `,"finishReason":"STOP"`))
	want := []llm.Choice{{Parts: []llm.Part{llm.Text{Text: `{"a":1}`}}, Stop: llm.StopEnd, NativeFinishReason: "STOP"}}
	if diff := cmp.Diff(want, res.Choices); diff != "" {
		t.Errorf("choices (-want +got):\n%s", diff)
	}
}

func TestCustomToolsGetTheirText(t *testing.T) {
	r := &llm.Request{Dialect: "responses", Tools: []llm.Tool{{Name: "patch", Custom: true}}}
	res := mustStream(t, r, vertex3, candidate(`{"functionCall":{"id":"i","name":"patch","willContinue":true}}`, ""),
		candidate(`{"functionCall":{"partialArgs":[{"jsonPath":"$.input","stringValue":"a\n","willContinue":true}],"willContinue":true}}`, ""),
		candidate(`{"functionCall":{"partialArgs":[{"jsonPath":"$.input","stringValue":"\"b\""}]}}`, `,"finishReason":"STOP"`))
	want := []llm.Part{llm.ToolCall{ID: "i", Name: "patch", Custom: true, Arguments: "a\n\"b\""}}
	if diff := cmp.Diff(want, res.Choices[0].Parts); diff != "" {
		t.Errorf("parts (-want +got):\n%s", diff)
	}
}

func TestArgumentsInPieces(t *testing.T) {
	for _, tt := range []struct{ name, pieces, want string }{
		{"nested", `{"jsonPath":"$.a.b[0].c","stringValue":"x","willContinue":true},{"jsonPath":"$.a.b[0].c","stringValue":"y"},{"jsonPath":"$.a.b[0].d","numberValue":1.5},{"jsonPath":"$.a.b[1].c","boolValue":true},{"jsonPath":"$.e","nullValue":"NULL_VALUE"}`,
			`{"a":{"b":[{"c":"xy","d":1.5},{"c":true}]},"e":null}`},
		{"names in brackets", `{"jsonPath":"$['a.b'][\"c\"]","numberValue":1},{"jsonPath":"$.d[0][0]","numberValue":2},{"jsonPath":"$.d[0][1]","numberValue":3},{"jsonPath":"$.d[1][0]","numberValue":4}`, `{"a.b":{"c":1},"d":[[2,3],[4]]}`},
		{"a string that is never closed", `{"jsonPath":"$.a","stringValue":"x","willContinue":true}`, `{"a":"x"}`},
		{"what makes no sense", `{"jsonPath":"$.a","numberValue":1},{"jsonPath":"$.a","numberValue":2},{"jsonPath":"$.a.b","numberValue":3},{"jsonPath":"$[0]","numberValue":4},{"jsonPath":"a","numberValue":5},{"jsonPath":"$.b"},{"jsonPath":"$.c[x]","numberValue":6}`, `{"a":1}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res := mustStream(t, nil, vertex3, candidate(`{"functionCall":{"name":"f","willContinue":true}}`, ""),
				candidate(`{"functionCall":{"partialArgs":[`+tt.pieces+`],"willContinue":true}}`, ""), candidate(`{"functionCall":{}}`, `,"finishReason":"STOP"`))
			if got := res.Choices[0].Parts[0].(llm.ToolCall).Arguments; got != tt.want {
				t.Errorf("arguments = %s, want %s", got, tt.want)
			}
		})
	}
}

func TestSourcesAreCountedInCharacters(t *testing.T) {
	res := mustStream(t, nil, flash2, candidate(`{"text":"Zürich ist schön."}`, ""),
		candidate(`{"text":""}`, `,"finishReason":"STOP","groundingMetadata":{"groundingChunks":[{"web":{"uri":"https://a.example","title":"A"}}],"groundingSupports":[{"segment":{"startIndex":8,"endIndex":11,"text":"ist"},"groundingChunkIndices":[0,1,-1]}]}`))
	got := res.Choices[0].Parts[0].(llm.Text).Citations
	want := []llm.Citation{{URL: "https://a.example", Title: "A", Text: "ist", Start: 7, End: 10}}
	if diff := cmp.Diff(want, got, dialecttest.Same()); diff != "" {
		t.Errorf("citations (-want +got):\n%s", diff)
	}
	res.Dialect, res.Choices[0].Extra = "", nil
	body := gemini.Dialect{}.EncodeResponse(nil, res, dialect.ResponseTarget{})
	if !strings.Contains(string(body), `"segment":{"startIndex":8,"endIndex":11,"text":"ist"}`) {
		t.Errorf("written again: %s, want the place in bytes", body)
	}
}

func TestErrorsInsideStreams(t *testing.T) {
	const broken = `{"error":{"code":503,"message":"too busy","status":"UNAVAILABLE"}}`
	for name, stream := range map[string]string{"an object": frames(candidate(`{"text":"a"}`, ""), broken), "a list": frames("[" + broken + "]")} {
		_, fault, whole := streamed(t, strings.NewReader(stream), nil, flash2)
		if whole || fault == nil || fault.Message != "too busy" || fault.Type != "UNAVAILABLE" || fault.Code != "503" {
			t.Errorf("%s: fault %+v, whole %t", name, fault, whole)
		}
		out := gemini.Dialect{}.NewEncoder(dialect.ResponseTarget{}).Encode(nil, &llm.Event{Kind: llm.EventError, Fault: fault})
		want := "data: {\"error\":{\"code\":503,\"message\":\"too busy\",\"status\":\"UNAVAILABLE\",\"details\":[],\"source\":\"provider\"}}\r\n\r\n"
		if string(out) != want {
			t.Errorf("%s: the client gets %q, want %q", name, out, want)
		}
		tap := gemini.Dialect{}.NewTap(api.Generate)
		tap.Event(sse.Event{Data: []byte(broken)})
		if tap.Info().Failed != "too busy" || tap.Info().Finished {
			t.Errorf("%s: tap saw %+v", name, tap.Info())
		}
	}
}

func TestAStreamWithoutReasonIsNotWhole(t *testing.T) {
	res, fault, whole := streamed(t, strings.NewReader(frames(candidate(`{"text":"a"}`, ""))), nil, flash2)
	if whole || fault != nil || len(res.Choices[0].Parts) != 1 {
		t.Errorf("whole %t, fault %v, parts %v", whole, fault, res.Choices[0].Parts)
	}
}

func TestMalformedResponsesAreRefused(t *testing.T) {
	for _, body := range []string{"", "null", "{}", `{"candidates":[]}`, `{"error":{"message":"x"}}`, "<html>"} {
		if res, err := (gemini.Dialect{}).DecodeResponse([]byte(body), nil, flash2); err == nil {
			t.Errorf("DecodeResponse(%s) = %+v, want an error", body, res)
		}
	}
}

func TestReasons(t *testing.T) {
	for said, want := range map[string]llm.StopReason{
		"STOP": llm.StopEnd, "RECITATION": llm.StopFilter, "MALFORMED_FUNCTION_CALL": llm.StopFailed, "UNEXPECTED_TOOL_CALL": llm.StopFailed, "TOO_MANY_TOOL_CALLS": llm.StopFailed,
		"MALFORMED_RESPONSE": llm.StopFailed, "OTHER": llm.StopOther, "SOMETHING_NEW": llm.StopOther, "MAX_TOKENS": llm.StopLength,
		"SAFETY": llm.StopFilter, "MODEL_ARMOR": llm.StopFilter, "IMAGE_PROHIBITED_CONTENT": llm.StopFilter,
	} {
		res := mustStream(t, nil, flash2, candidate(`{"text":"a"}`, `,"finishReason":"`+said+`"`))
		if got := res.Choices[0].Stop; got != want {
			t.Errorf("%s: stop = %s, want %s", said, got, want)
		}
	}
	for stop, want := range map[llm.StopReason]string{
		llm.StopEnd: "STOP", llm.StopSequence: "STOP", llm.StopTool: "STOP", llm.StopPause: "STOP", llm.StopLength: "MAX_TOKENS",
		llm.StopContext: "MAX_TOKENS", llm.StopFilter: "SAFETY", llm.StopRefusal: "SAFETY",
	} {
		body := gemini.Dialect{}.EncodeResponse(nil, &llm.Response{Choices: []llm.Choice{{Stop: stop, NativeFinishReason: "end_turn"}}}, dialect.ResponseTarget{})
		if !strings.Contains(string(body), `"finishReason":"`+want+`"`) {
			t.Errorf("%s is written as %s, want %s", stop, body, want)
		}
	}
}

func TestAStreamForClients(t *testing.T) {
	events := []llm.Event{
		{Kind: llm.EventStart, ID: "r", Model: "m"},
		{Kind: llm.EventPartStart, Opened: llm.ToolCall{ID: "1", Name: "f"}},
		{Kind: llm.EventPartStart, Part: 1, Opened: llm.ToolCall{ID: "2", Name: "g"}},
		{Kind: llm.EventDelta, Part: 1, Text: `{"b"`},
		{Kind: llm.EventDelta, Part: 1, Text: `:2}`},
		{Kind: llm.EventPartEnd, Part: 1},
		{Kind: llm.EventDelta, Text: `{"a":1}`},
		{Kind: llm.EventPartEnd},
		{Kind: llm.EventPartStart, Part: 2, Opened: llm.Text{}},
		{Kind: llm.EventDelta, Part: 2, Text: "x"},
		{Kind: llm.EventPartEnd, Part: 2},
		{Kind: llm.EventFinish, Stop: llm.StopTool},
		{Kind: llm.EventUsage, Usage: llm.Usage{Known: true, Input: 3, CachedInput: 1, CacheWrite5m: 2, Output: 4, Reasoning: 5}},
		{Kind: llm.EventEnd},
	}
	enc := gemini.Dialect{}.NewEncoder(dialect.ResponseTarget{})
	var got []byte
	for i := range events {
		got = enc.Encode(got, &events[i])
	}
	const tail = `,"modelVersion":"m","responseId":"r"}`
	want := frames(
		`{"candidates":[{"content":{"parts":[{"functionCall":{"id":"1","name":"f","args":{"a":1}},"thoughtSignature":"bWcxLm5vbmUuLQ=="}],"role":"model"},"index":0}]`+tail,
		`{"candidates":[{"content":{"parts":[{"functionCall":{"id":"2","name":"g","args":{"b":2}}}],"role":"model"},"index":0}]`+tail,
		`{"candidates":[{"content":{"parts":[{"text":"x"}],"role":"model"},"index":0}]`+tail,
		`{"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":6,"cachedContentTokenCount":1,"candidatesTokenCount":4,"thoughtsTokenCount":5,"totalTokenCount":15}`+tail)
	if string(got) != want {
		t.Errorf("the stream is\n%s, want\n%s", got, want)
	}
}

func TestErrorsOfTheGateway(t *testing.T) {
	e := dialect.Invalid("contents[0]", dialect.CodeValue, "must be good")
	want := `{"error":{"code":400,"message":"contents[0]: must be good","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"invalid_value","domain":"modelgate"},` +
		`{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[{"field":"contents[0]","description":"contents[0]: must be good"}]}],"source":"gateway"}}`
	if got := string(gemini.Dialect{}.Error(e)); got != want {
		t.Errorf("Error = %s, want %s", got, want)
	}
	if got := string(gemini.Dialect{}.ErrorEvent(nil, e)); got != "data: "+want+"\r\n\r\n" {
		t.Errorf("ErrorEvent = %s", got)
	}
}

func TestErrorsOfProvidersOfOtherDialects(t *testing.T) {
	for body, message := range map[string]string{
		"":                           "anthropic answered 429 with an empty body",
		`{"error":{"message":"no"}}`: "anthropic answered 429: no",
		"<html><body>no</body>":      "anthropic answered 429: no",
	} {
		want := `{"error":{"code":429,"message":"` + message + `","status":"RESOURCE_EXHAUSTED","details":[],"source":"provider"},"provider":"anthropic"}`
		if got := string(gemini.Dialect{}.ProviderError(nil, []byte(body), "anthropic", 429)); got != want {
			t.Errorf("ProviderError(%s) = %s, want %s", body, got, want)
		}
	}
	list := `[{"error":{"source":"elsewhere","code":429,"message":"no","status":"RESOURCE_EXHAUSTED"}}]`
	want := `{"error":{"code":429,"message":"no","status":"RESOURCE_EXHAUSTED","source":"provider"},"provider":"google"}`
	if got := string(gemini.Dialect{}.ProviderError(nil, []byte(list), "google", 429)); got != want {
		t.Errorf("ProviderError of a list = %s, want %s", got, want)
	}
}

func TestTextAfterASignatureIsAPartOfItsOwn(t *testing.T) {
	res := mustStream(t, nil, flash3, candidate(`{"text":"a"}`, ""), candidate(`{"text":"b","thoughtSignature":"cw=="},{"text":"c"}`, `,"finishReason":"STOP"`))
	want := []llm.Part{llm.Text{Text: "ab", Signature: llm.Signature{Vendor: llm.Google, Value: "cw=="}}, llm.Text{Text: "c"}}
	if diff := cmp.Diff(want, res.Choices[0].Parts); diff != "" {
		t.Errorf("parts (-want +got):\n%s", diff)
	}
}

func TestUsageIsReportedOnceItChanges(t *testing.T) {
	dec := gemini.Dialect{}.NewDecoder(nil, flash2)
	var told []llm.Usage
	for _, usage := range []string{
		`"promptTokenCount":9,"cachedContentTokenCount":4,"promptTokensDetails":[{"modality":"AUDIO","tokenCount":5}],"cacheTokensDetails":[{"modality":"AUDIO","tokenCount":3}]`,
		`"promptTokenCount":9`, `"promptTokenCount":9,"candidatesTokenCount":2,"thoughtsTokenCount":1`, `"candidatesTokenCount":1,"trafficType":"ON_DEMAND"`, `"toolUsePromptTokenCount":10`,
	} {
		for _, e := range dec.Decode(nil, sse.Event{Data: []byte(`{"candidates":[{"index":0}],"usageMetadata":{` + usage + `}}`)}) {
			if e.Kind == llm.EventUsage {
				told = append(told, e.Usage)
			}
		}
	}
	want := []llm.Usage{
		{Known: true, Input: 3, CachedInput: 4, InputAudio: 2},
		{Known: true, Input: 3, CachedInput: 4, InputAudio: 2, Output: 2, Reasoning: 1},
		{Known: true, Input: 3, CachedInput: 4, InputAudio: 2, Output: 1, Reasoning: 1},
		{Known: true, Input: 13, CachedInput: 4, InputAudio: 2, Output: 1, Reasoning: 1},
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}

func TestSignaturesOfMediaAreGivenOn(t *testing.T) {
	const parts = `{"text":"t","thought":true},{"inlineData":{"mimeType":"image/png","data":"AAAA"},"thoughtSignature":"cw=="}`
	res, err := gemini.Dialect{}.DecodeResponse([]byte(candidate(parts, `,"finishReason":"STOP"`)), nil, flash3)
	if err != nil {
		t.Fatal(err)
	}
	enc := gemini.Dialect{}.NewEncoder(dialect.ResponseTarget{})
	var stream []byte
	for e := range dialect.Replay(res) {
		stream = enc.Encode(stream, &e)
	}
	want := list(mustJSON(t, "["+parts+"]"))
	if diff := cmp.Diff(want, partsOf(t, gemini.Dialect{}.EncodeResponse(nil, res, dialect.ResponseTarget{}))); diff != "" {
		t.Errorf("whole (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(append(want, map[string]any{"text": ""}), streamedParts(t, stream)); diff != "" {
		t.Errorf("streamed (-want +got):\n%s", diff)
	}
}

func TestTapWaitsForEachChoiceAndForContent(t *testing.T) {
	tap := gemini.Dialect{}.NewTap(api.Generate)
	for _, step := range []struct {
		data            string
		begun, finished bool
	}{
		{`{"candidates":[{"content":{"parts":[{"text":"","thought":true,"thoughtSignature":"cw=="}]},"index":1}]}`, false, false},
		{`{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}]}`, true, false},
		{`{"candidates":[{"index":1,"finishReason":"MAX_TOKENS"}]}`, true, true},
	} {
		tap.Event(sse.Event{Data: []byte(step.data)})
		if seen := tap.Info(); seen.Begun != step.begun || seen.Finished != step.finished {
			t.Errorf("after %s: begun %t, finished %t", step.data, seen.Begun, seen.Finished)
		}
	}
	if seen := tap.Info(); seen.Finish != "STOP" {
		t.Errorf("finish = %q, want that of the first choice", seen.Finish)
	}
}
