package chat_test

import (
	"strings"
	"testing"

	"modelgate/internal/dialect"
	"modelgate/internal/dialect/chat"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
	"modelgate/internal/testing/dialecttest"
)

const patch = "*** Begin \"Patch\"\n+é"

// Codex has tools that take text. A provider that knows functions alone gets one
// of one text, and the client its text back, whole and streamed.
func TestATextToolIsAFunctionOfOneTextElsewhere(t *testing.T) {
	r := &llm.Request{
		Dialect: "responses", Model: "m",
		Tools:      []llm.Tool{{Name: "apply_patch", Custom: true, Grammar: []byte(`{"type":"text"}`), At: "tools[0]"}},
		ToolChoice: llm.ToolChoice{Mode: llm.ChoiceTool, Names: []string{"apply_patch"}, Custom: true},
		Messages: []llm.Message{
			{Role: llm.User, Parts: []llm.Part{llm.Text{Text: "go"}}},
			{Role: llm.Assistant, Parts: []llm.Part{llm.ToolCall{ID: "c1", Name: "apply_patch", Custom: true, Arguments: patch}}},
			{Role: llm.User, Parts: []llm.Part{llm.ToolResult{ID: "c1", Custom: true, Parts: []llm.Part{llm.Text{Text: "done"}}}}},
		},
	}
	to := dialecttest.TargetOf("groq", "m")
	body, fates, err := chat.Dialect{}.EncodeRequest(nil, r, to)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"tools":[{"type":"function","function":{"name":"apply_patch","parameters":{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}}}]`,
		`"tool_choice":{"type":"function","function":{"name":"apply_patch"}}`,
		`"arguments":"{\"input\":\"*** Begin \\\"Patch\\\"\\n+é\"}"`,
	} {
		if !strings.Contains(string(body), want) {
			t.Errorf("the body lacks %s: %s", want, body)
		}
	}
	if strings.Contains(string(body), "custom") || len(fates) == 0 || fates[0].Outcome != dialect.Adapted {
		t.Errorf("fates %v of %s", fates, body)
	}

	const call = `{"id":"c2","type":"function","function":{"name":"apply_patch","arguments":"{\"input\":\"*** Begin \\\"Patch\\\"\\n+é\"}"}}`
	whole, err := chat.Dialect{}.DecodeResponse([]byte(`{"id":"x","choices":[{"index":0,"message":{"role":"assistant","tool_calls":[`+call+`]},"finish_reason":"tool_calls"}]}`), r, to)
	if err != nil {
		t.Fatal(err)
	}
	want := llm.ToolCall{ID: "c2", Name: "apply_patch", Custom: true, Arguments: patch}
	if got := whole.Choices[0].Parts[0].(llm.ToolCall); got.Arguments != want.Arguments || !got.Custom || got.ID != want.ID {
		t.Errorf("whole: %+v, want %+v", got, want)
	}

	dec := chat.Dialect{}.NewDecoder(r, to)
	var all dialect.Assembler
	for _, piece := range []string{`"id":"c2","function":{"name":"apply_patch","arguments":""}`, `"function":{"arguments":"{\"input\":\"*** Begin \\\"Pa"}`, `"function":{"arguments":"tch\\\"\\n+é\"}"}`} {
		data := []byte(`{"id":"x","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,` + piece + `}]}}]}`)
		for _, e := range dec.Decode(nil, sse.Event{Data: data}) {
			all.Add(&e)
		}
	}
	for _, e := range dec.Decode(nil, sse.Event{Data: []byte(`{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`)}) {
		all.Add(&e)
	}
	for _, e := range append(dec.Decode(nil, sse.Event{Data: []byte("[DONE]")}), dec.End(nil)...) {
		all.Add(&e)
	}
	streamed, _, done := all.Response()
	if got := streamed.Choices[0].Parts[0].(llm.ToolCall); got.Arguments != patch || !got.Custom || !done {
		t.Errorf("streamed: %+v, whole %t", got, done)
	}
}

func TestFreeTextComesBack(t *testing.T) {
	for _, text := range []string{"", "plain", patch, `{"input":"inner"}`, "\x00"} {
		if got := dialect.UnwrapText(dialect.WrapText(text)); got != text {
			t.Errorf("%q came back as %q", text, got)
		}
	}
	for arguments, want := range map[string]string{`{"other":1}`: `{"other":1}`, "not JSON": "not JSON", `{"input":5}`: `{"input":5}`} {
		if got := dialect.UnwrapText(arguments); got != want {
			t.Errorf("UnwrapText(%q) = %q, want %q", arguments, got, want)
		}
	}
}
