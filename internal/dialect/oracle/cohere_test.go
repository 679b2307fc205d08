package oracle_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/oracle"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
)

var commandR = dialect.RequestTarget{Provider: "oracle", Model: "cohere.command-r-plus-08-2024"}

func said(role llm.Role, parts ...llm.Part) llm.Message { return llm.Message{Role: role, Parts: parts} }

func txt(s string) llm.Text { return llm.Text{Text: s} }

// cohereBody is the chatRequest and the fates of a request.
func cohereBody(t *testing.T, r llm.Request, to dialect.RequestTarget) string {
	t.Helper()
	r.Dialect = "chat"
	body, fates, err := oracle.Dialect{}.EncodeRequest(nil, &r, to)
	if err != nil {
		return "refused: " + err.Error()
	}
	var v struct{ ChatRequest json.RawMessage }
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	var out strings.Builder
	out.WriteString(string(v.ChatRequest))
	for _, f := range fates {
		out.WriteString(fmt.Sprintf(" | %s %s %s", f.Name, f.Outcome, f.Note))
	}
	return out.String()
}

func TestModelsOfCohereAreAskedInTheirFormat(t *testing.T) {
	one, half := int64(1), 0.5
	yes := true
	hi := []llm.Message{said(llm.User, txt("hi"))}
	schema := json.RawMessage(`{"type":"object","properties":{"city":{"type":"string","description":"where"},"days":{"type":"integer","minimum":1}},"required":["city"]}`)
	asked := []llm.Message{
		said(llm.System, txt("be kind")), said(llm.Developer, txt("be brief")), said(llm.User, txt("weather?")),
		said(llm.Assistant, llm.Thinking{Text: "hm"}, txt("I look"), llm.ToolCall{ID: "a", Name: "f", Arguments: `{"city":"Bern"}`}, llm.ToolCall{ID: "b", Name: "g"}),
	}
	results := said(llm.User, llm.ToolResult{ID: "a", Parts: []llm.Part{txt(`{"sun":true}`)}}, llm.ToolResult{ID: "b", Failed: true, Parts: []llm.Part{txt("broke")}})
	const before = `"chatHistory":[{"role":"USER","message":"weather?"},{"role":"CHATBOT","message":"I look","toolCalls":[{"name":"f","parameters":{"city":"Bern"}},{"name":"g","parameters":{}}]}`
	const given = `[{"call":{"name":"f","parameters":{"city":"Bern"}},"outputs":[{"sun":true}]},{"call":{"name":"g","parameters":{}},"outputs":[{"error":"broke"}]}]`
	for _, tt := range []struct {
		name string
		r    llm.Request
		want string
	}{
		{"words", llm.Request{Messages: hi}, `{"apiFormat":"COHERE","message":"hi"}`},
		{"turns", llm.Request{Messages: []llm.Message{said(llm.User, txt("a"), txt("b")), said(llm.Assistant, txt("c")), said(llm.System, txt("s")), said(llm.User, txt("d"))}},
			`{"apiFormat":"COHERE","message":"d","chatHistory":[{"role":"USER","message":"a\nb"},{"role":"CHATBOT","message":"c"},{"role":"SYSTEM","message":"s"}]}`},
		{"results at the end", llm.Request{Messages: append(asked[:4:4], results)},
			`{"apiFormat":"COHERE","message":"",` + before + `],"preambleOverride":"be kind\n\nbe brief","toolResults":` + given + `} | messages.thinking ignored the target does not read it | failed tool results adapted described as text`},
		{"results before words", llm.Request{Messages: append(asked[:4:4], results, said(llm.User, txt("and?")))},
			`{"apiFormat":"COHERE","message":"and?",` + before + `,{"role":"TOOL","toolResults":` + given + `}],"preambleOverride":"be kind\n\nbe brief"} | messages.thinking ignored the target does not read it | failed tool results adapted described as text`},
		{"words before results", llm.Request{Messages: append(asked[2:4:4], said(llm.User, txt("wait")), said(llm.User, llm.ToolResult{ID: "b", Failed: true, Parts: []llm.Part{txt(`{"a":1}`)}}))},
			`{"apiFormat":"COHERE","message":"",` + before + `,{"role":"USER","message":"wait"}],"toolResults":[{"call":{"name":"g","parameters":{}},"outputs":[{"error":"{\"a\":1}"}]}]} | messages.thinking ignored the target does not read it | failed tool results adapted described as text`},
		{"tools", llm.Request{Messages: hi, Tools: []llm.Tool{{Name: "f", Description: "d", Schema: schema, Strict: &yes}, {Name: "g"}, {Name: "c", Custom: true}}, ToolChoice: llm.ToolChoice{Mode: llm.ChoiceRequired}},
			`{"apiFormat":"COHERE","message":"hi","tools":[{"name":"f","description":"d","parameterDefinitions":{"city":{"type":"str","description":"where","isRequired":true},"days":{"type":"int"}}},{"name":"g","description":"g","parameterDefinitions":{}},{"name":"c","description":"c","parameterDefinitions":{"input":{"type":"str","isRequired":true}}}]} | tool_choice dropped  | strict dropped  | tools adapted only names, types and descriptions of parameters | custom tools adapted a function with one string parameter`},
		{"no tools", llm.Request{Messages: hi, Tools: []llm.Tool{{Name: "g"}}, ToolChoice: llm.ToolChoice{Mode: llm.ChoiceNone}}, `{"apiFormat":"COHERE","message":"hi"} | tool_choice adapted no tools are offered`},
		{"sampling", llm.Request{Messages: hi, MaxTokens: &one, Temperature: &half, TopP: &half, TopK: &one, FrequencyPenalty: &half, PresencePenalty: &half, Seed: &one, Stop: []string{"x"}, Stream: true},
			`{"apiFormat":"COHERE","message":"hi","maxTokens":1,"temperature":0.5,"topP":0.5,"topK":1,"frequencyPenalty":0.5,"presencePenalty":0.5,"seed":1,"stopSequences":["x"],"isStream":true}`},
		{"a form", llm.Request{Messages: hi, Format: llm.Format{Kind: llm.FormatSchema, Schema: schema}}, `{"apiFormat":"COHERE","message":"hi","responseFormat":{"type":"JSON_OBJECT","schema":` + string(schema) + `}}`},
		{"plain", llm.Request{Messages: hi, Format: llm.Format{Kind: llm.FormatText}}, `{"apiFormat":"COHERE","message":"hi","responseFormat":{"type":"TEXT"}}`},
		{"what has no place", llm.Request{Messages: hi, Logprobs: &yes, Verbosity: "low", User: "u", Metadata: json.RawMessage(`{}`), Reasoning: llm.Reasoning{Effort: "low"}, ServiceTier: "flex"},
			`{"apiFormat":"COHERE","message":"hi"} | logprobs dropped  | reasoning_effort dropped  | verbosity dropped  | service_tier dropped  | metadata dropped  | user dropped `},
		{"an image", llm.Request{Messages: []llm.Message{said(llm.User, txt("hi"), llm.Media{Kind: llm.Image, URL: "https://a.example", At: "here"})}}, `refused: here: provider "oracle" does not support this with model "cohere.command-r-plus-08-2024": image: its format takes text alone`},
		{"a result without its call", llm.Request{Messages: []llm.Message{said(llm.User, llm.ToolResult{ID: "x", At: "here"})}}, `refused: here: is the result of a call that is not in the conversation`},
		{"a response begun", llm.Request{Messages: []llm.Message{said(llm.User, txt("hi")), said(llm.Assistant, txt("I"))}}, `refused: content: provider "oracle" does not support this with model "cohere.command-r-plus-08-2024": a conversation that does not end with words of the user or results of tools`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := cohereBody(t, tt.r, commandR); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestTheClientNamesTheFormatOfAnEndpoint(t *testing.T) {
	endpoint := dialect.RequestTarget{Provider: "oracle", Model: "ocid1.generativeaiendpoint.oc1.x"}
	for value, want := range map[string]string{`"COHERE"`: "COHERE", `"GENERIC"`: "GENERIC", `null`: "GENERIC"} {
		got := cohereBody(t, llm.Request{Messages: []llm.Message{said(llm.User, txt("hi"))}, Extra: []llm.Member{{Name: "api_format", Value: json.RawMessage(value)}}}, endpoint)
		if !strings.HasPrefix(got, `{"apiFormat":"`+want+`"`) || strings.Contains(got, "dropped") {
			t.Errorf("api_format %s: %s, want %s", value, got, want)
		}
	}
}

// streamed decodes events as a stream.
func streamed(r *llm.Request, events ...string) (*llm.Response, *llm.ProviderError, bool) {
	var all dialect.Assembler
	dec := oracle.Dialect{}.NewDecoder(r, commandR)
	var out []llm.Event
	for _, e := range events {
		out = dec.Decode(out, sse.Event{Data: []byte(e)})
	}
	for _, e := range dec.End(out) {
		all.Add(&e)
	}
	return all.Response()
}

func TestResponsesInCoheresFormatAreTheSameCompleteAndStreamed(t *testing.T) {
	asked := &llm.Request{
		Messages: []llm.Message{said(llm.Assistant, llm.ToolCall{ID: "call_1", Name: "f"})},
		Tools:    []llm.Tool{{Name: "f"}, {Name: "c", Custom: true}},
	}
	const usage = `"usage":{"promptTokens":3,"completionTokens":4,"totalTokens":7}`
	for _, tt := range []struct {
		name, whole string
		events      []string
		want        llm.Choice
	}{
		{"words", `{"apiFormat":"COHERE","text":"Hello you","finishReason":"COMPLETE",` + usage + `}`,
			[]string{`{"apiFormat":"COHERE","text":"Hello"}`, `{"apiFormat":"COHERE","text":" you"}`, `{"apiFormat":"COHERE","text":"Hello you","chatHistory":[],"finishReason":"COMPLETE",` + usage + `}`},
			llm.Choice{Parts: []llm.Part{txt("Hello you")}, Stop: llm.StopEnd, NativeFinishReason: "COMPLETE"}},
		{"words at once", `{"text":"Hello","finishReason":"MAX_TOKENS",` + usage + `}`, []string{`{"text":"Hello","finishReason":"MAX_TOKENS",` + usage + `}`},
			llm.Choice{Parts: []llm.Part{txt("Hello")}, Stop: llm.StopLength, NativeFinishReason: "MAX_TOKENS"}},
		{"calls", `{"text":"I look","finishReason":"COMPLETE","toolCalls":[{"name":"f","parameters":{"a":1}},{"name":"c","parameters":{"input":"x"}},{"name":"f"}],` + usage + `}`,
			[]string{`{"text":"I look"}`, `{"toolCalls":[{"name":"f","parameters":{"a":1}},{"name":"c","parameters":{"input":"x"}},{"name":"f"}]}`, `{"text":"I look","finishReason":"COMPLETE","toolCalls":[{"name":"f","parameters":{"a":1}}],` + usage + `}`},
			llm.Choice{Parts: []llm.Part{txt("I look"), llm.ToolCall{ID: "call_2", Name: "f", Arguments: `{"a":1}`}, llm.ToolCall{ID: "call_3", Name: "c", Arguments: "x", Custom: true}, llm.ToolCall{ID: "call_4", Name: "f", Arguments: `{}`}}, Stop: llm.StopTool, NativeFinishReason: "COMPLETE"}},
		{"toxic", `{"text":"","finishReason":"ERROR_TOXIC",` + usage + `}`, []string{`{"finishReason":"ERROR_TOXIC",` + usage + `}`}, llm.Choice{Stop: llm.StopFilter, NativeFinishReason: "ERROR_TOXIC"}},
		{"too long", `{"finishReason":"ERROR_LIMIT",` + usage + `}`, []string{`{"finishReason":"ERROR_LIMIT",` + usage + `}`}, llm.Choice{Stop: llm.StopContext, NativeFinishReason: "ERROR_LIMIT"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := &llm.Response{Model: commandR.Model, Choices: []llm.Choice{tt.want}, Usage: llm.Usage{Known: true, Input: 3, Output: 4}}
			whole, err := oracle.Dialect{}.DecodeResponse([]byte(`{"modelId":"`+commandR.Model+`","chatResponse":`+tt.whole+`}`), asked, commandR)
			if err != nil {
				t.Fatal(err)
			}
			whole.Dialect = ""
			if diff := cmp.Diff(want, whole); diff != "" {
				t.Errorf("whole (-want +got):\n%s", diff)
			}
			got, fault, ended := streamed(asked, tt.events...)
			if diff := cmp.Diff(want, got); diff != "" || fault != nil || !ended {
				t.Errorf("streamed: fault %v, ended %t (-want +got):\n%s", fault, ended, diff)
			}
		})
	}
}

func TestFailuresInTheFormatOfCohereAreReported(t *testing.T) {
	if _, fault, _ := streamed(nil, `{"text":"a"}`, `{"code":"429","message":"slow down"}`, `{"text":"b"}`); fault == nil || fault.Message != "slow down" || fault.Code != "429" {
		t.Errorf("an error: %+v", fault)
	}
	if _, fault, _ := streamed(nil, `{"finishReason":"ERROR","errorMessage":"broke"}`); fault == nil || fault.Message != "broke" {
		t.Errorf("a reason that is one: %+v", fault)
	}
	if _, _, ended := streamed(nil, `{"text":"a"}`); ended {
		t.Error("a response without its reason is complete")
	}
	if r, _, _ := streamed(nil, `x`, `[]`, `{}`, `{"text":1,"toolCalls":{"a":1}}`); len(r.Choices) != 0 {
		t.Errorf("another object gave %+v", r)
	}
	for _, body := range []string{`{"chatResponse":{"finishReason":"ERROR","errorMessage":"broke"}}`, `{"chatResponse":{"text":"a"}}`, `{}`, `{`} {
		if r, err := (oracle.Dialect{}).DecodeResponse([]byte(body), nil, commandR); err == nil {
			t.Errorf("%s gave %+v", body, r)
		} else if _, ok := errors.AsType[*apierr.Error](err); ok {
			t.Errorf("%s: %v is the client's fault", body, err)
		}
	}
}
