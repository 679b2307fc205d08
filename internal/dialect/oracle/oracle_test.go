package oracle_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/oracle"
	"modelgate/internal/format/sse"
	"modelgate/internal/model/llm"
	"modelgate/internal/testing/dialecttest"
)

var target = dialect.RequestTarget{Provider: "oracle", Model: "xai.grok-4"}

func user(parts ...llm.Part) llm.Message { return llm.Message{Role: llm.User, Parts: parts} }

func words(s string) llm.Text { return llm.Text{Text: s} }

func adapted(name, note string) dialect.ParamChange {
	return dialect.ParamChange{Name: name, Outcome: dialect.Adapted, Note: note}
}

func dropped(name string) dialect.ParamChange {
	return dialect.ParamChange{Name: name, Outcome: dialect.Dropped}
}

var schema = json.RawMessage(`{"type":"object"}`)

const clockTool = `{"type":"FUNCTION","name":"clock","parameters":{"type":"object","properties":{}}}`

func TestParametersHaveTheirPlaceOrAFate(t *testing.T) {
	clock := llm.Tool{Name: "clock"}
	for _, tt := range []struct {
		name  string
		r     llm.Request
		want  string
		fates []dialect.ParamChange
	}{
		{"a stream tells usage", llm.Request{Stream: true}, `,"isStream":true,"streamOptions":{"isIncludeUsage":true}`, nil},
		{"the limit of models that think", llm.Request{MaxTokens: new(int64(5)), Names: map[llm.Field]string{llm.FieldMaxTokens: "max_completion_tokens"}}, `,"maxCompletionTokens":5`, nil},
		{"logprobs alone are one", llm.Request{Logprobs: new(true)}, `,"logProbs":1`, nil},
		{"no logprobs", llm.Request{Logprobs: new(false)}, ``, nil},
		{"a budget is an effort", llm.Request{Reasoning: llm.Reasoning{Mode: llm.ThinkingEnabled, Budget: new(int64(2000))}}, `,"reasoningEffort":"MEDIUM"`, []dialect.ParamChange{adapted("thinking", "reasoningEffort MEDIUM")}},
		{"no thinking", llm.Request{Reasoning: llm.Reasoning{Mode: llm.ThinkingDisabled}}, `,"reasoningEffort":"NONE"`, []dialect.ParamChange{adapted("thinking", "reasoningEffort NONE")}},
		{"thinking as the model likes", llm.Request{Reasoning: llm.Reasoning{Mode: llm.ThinkingAdaptive}}, ``, []dialect.ParamChange{adapted("thinking", "as the model decides")}},
		{"an effort beyond", llm.Request{Reasoning: llm.Reasoning{Effort: "max"}}, `,"reasoningEffort":"HIGH"`, []dialect.ParamChange{adapted("reasoning_effort", "high")}},
		{"an effort that nobody knows", llm.Request{Reasoning: llm.Reasoning{Effort: "huge"}}, ``, []dialect.ParamChange{dropped("reasoning_effort")}},
		{"a tier that Oracle has not", llm.Request{ServiceTier: "flex"}, ``, []dialect.ParamChange{dropped("service_tier")}},
		{"a schema", llm.Request{Format: llm.Format{Kind: llm.FormatSchema, Schema: schema, Description: "d", Strict: new(true)}},
			`,"responseFormat":{"type":"JSON_SCHEMA","jsonSchema":{"name":"answer","description":"d","schema":{"type":"object"},"isStrict":true}}`, nil},
		{"the choice of one tool", llm.Request{Tools: []llm.Tool{clock}, ToolChoice: llm.ToolChoice{Mode: llm.ChoiceTool, Names: []string{"clock"}}}, `,"tools":[` + clockTool + `],"toolChoice":{"type":"FUNCTION","name":"clock"}`, nil},
		{"the choice among few", llm.Request{Tools: []llm.Tool{{Name: "other"}, clock}, ToolChoice: llm.ToolChoice{Mode: llm.ChoiceRequired, Names: []string{"clock"}}},
			`,"tools":[` + clockTool + `],"toolChoice":{"type":"REQUIRED"}`, []dialect.ParamChange{adapted("tool_choice", "only the allowed tools are sent")}},
		{"tools of other kinds", llm.Request{Tools: []llm.Tool{{Server: llm.WebSearch}, {Name: "patch", Custom: true, Strict: new(true)}}},
			`,"tools":[{"type":"FUNCTION","name":"patch","parameters":{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}}]`,
			[]dialect.ParamChange{dropped("tools"), adapted("custom tools", "a function with one string parameter"), dropped("strict")}},
		{"Oracle's own", llm.Request{Extra: []llm.Member{{Name: "is_echo", Value: json.RawMessage(`true`)}, {Name: "store", Value: json.RawMessage(`true`)}}}, `,"isEcho":true`, []dialect.ParamChange{dropped("store")}},
		{"what has no place", llm.Request{User: "u", Cache: &llm.Cache{}, Modalities: []string{"audio"}, Speech: schema}, ``, []dialect.ParamChange{dropped("modalities"), dropped("audio"), dropped("user"), dropped("cache_control")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.r.Messages = []llm.Message{user(words("Hello"))}
			body, fates, err := oracle.Dialect{}.EncodeRequest([]byte("x"), &tt.r, target)
			want := `x{"servingMode":{"servingType":"ON_DEMAND","modelId":"xai.grok-4"},"chatRequest":{"apiFormat":"GENERIC","messages":[{"role":"USER","content":[{"type":"TEXT","text":"Hello"}]}]` + tt.want + `}}`
			if err != nil || string(body) != want {
				t.Errorf("EncodeRequest =\n%s, %v, want\n%s", body, err, want)
			}
			if diff := cmp.Diff(tt.fates, fates); diff != "" {
				t.Errorf("fates (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEndpointsAndCompartmentsAreNamed(t *testing.T) {
	to := dialect.RequestTarget{Model: "ocid1.generativeaiendpoint.oc1.a"}
	r := &llm.Request{Messages: []llm.Message{user()}, Extra: []llm.Member{{Name: "compartment_id", Value: json.RawMessage(`"ocid1.compartment"`)}}}
	body, fates, err := oracle.Dialect{}.EncodeRequest(nil, r, to)
	want := `{"compartmentId":"ocid1.compartment","servingMode":{"servingType":"DEDICATED","endpointId":"ocid1.generativeaiendpoint.oc1.a"},"chatRequest":{"apiFormat":"GENERIC","messages":[{"role":"USER","content":[{"type":"TEXT","text":""}]}]}}`
	if err != nil || fates != nil || string(body) != want {
		t.Errorf("EncodeRequest = %s, %v, %v, want %s", body, fates, err, want)
	}
}

func TestRefusesWhatWouldChangeTheMeaning(t *testing.T) {
	const path = "messages[0].content[1]"
	for _, tt := range []struct {
		name  string
		r     llm.Request
		param string
	}{
		{"a file of another host", llm.Request{Messages: []llm.Message{user(llm.Media{Kind: llm.Document, FileID: "f", At: path})}}, path},
		{"data of no type", llm.Request{Messages: []llm.Message{user(llm.Media{Kind: llm.Image, Data: "AAAA", At: path})}}, path},
		{"an image in a result", llm.Request{Messages: []llm.Message{user(llm.ToolResult{Parts: []llm.Part{llm.Media{Kind: llm.Image, At: path}}})}}, path},
		{"an image that the model made", llm.Request{Messages: []llm.Message{{Role: llm.Assistant, Parts: []llm.Part{llm.Media{Kind: llm.Image, At: path}}}}}, path},
		{"a document of images", llm.Request{Messages: []llm.Message{user(llm.Media{Kind: llm.Document, Parts: []llm.Part{llm.Media{}}, At: path})}}, path},
		{"the choice of a tool that is not there", llm.Request{ToolChoice: llm.ToolChoice{Mode: llm.ChoiceTool, Names: []string{"x"}}}, "tool_choice"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body, _, err := oracle.Dialect{}.EncodeRequest([]byte("x"), &tt.r, target)
			e, ok := errors.AsType[*apierr.Error](err)
			if !ok || e.Kind != apierr.Invalid || e.Param != tt.param || string(body) != "x" {
				t.Errorf("EncodeRequest = %s, %#v, want a refusal of %s", body, err, tt.param)
			}
		})
	}
}

func TestResultsAndDocumentsAreReported(t *testing.T) {
	r := &llm.Request{Messages: []llm.Message{
		{Role: llm.Assistant, Parts: []llm.Part{llm.Thinking{Text: "hm"}, llm.ToolCall{ID: "c", Name: "patch", Custom: true, Arguments: "x"}}},
		user(llm.ToolResult{ID: "c", Failed: true, Parts: []llm.Part{words("no")}}, llm.Media{Kind: llm.Document, Text: "d", Name: "n"}),
	}}
	body, fates, err := oracle.Dialect{}.EncodeRequest(nil, r, target)
	want := `"messages":[{"role":"ASSISTANT","content":[],"toolCalls":[{"id":"c","type":"FUNCTION","name":"patch","arguments":"{\"input\":\"x\"}"}]},` +
		`{"role":"TOOL","toolCallId":"c","content":[{"type":"TEXT","text":"Error:"},{"type":"TEXT","text":"no"}]},{"role":"USER","content":[{"type":"TEXT","text":"n:\nd"}]}]}}`
	if err != nil || !strings.HasSuffix(string(body), want) {
		t.Errorf("EncodeRequest = %s, %v, want it to end in %s", body, err, want)
	}
	if diff := cmp.Diff([]dialect.ParamChange{{Name: "messages.thinking", Outcome: dialect.Ignored, Note: "the target does not read it"}, adapted("failed tool results", "described as text"), adapted("content", "documents as text")}, fates); diff != "" {
		t.Errorf("fates (-want +got):\n%s", diff)
	}
}

func TestCompleteResponses(t *testing.T) {
	body := `{"modelId":"m","chatResponse":{"timeCreated":"2025-01-02T03:04:05.6Z","choices":[{"index":0,"message":{"content":[{"type":"TEXT","text":"a"},{"type":"TEXT","text":"b"},{"type":"TEXT","text":"c"}]},"finishReason":"MAX_TOKENS"}]}}`
	want := &llm.Response{Dialect: "oracle", Model: "m", Created: 1735787045, Choices: []llm.Choice{{Parts: []llm.Part{words("abc")}, Stop: llm.StopLength, NativeFinishReason: "MAX_TOKENS"}}}
	got, err := oracle.Dialect{}.DecodeResponse([]byte(body), nil, target)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("DecodeResponse fails with %v or differs (-want +got):\n%s", err, diff)
	}
	for _, body := range []string{``, `{}`, `{"code":"404","message":"no"}`, `{"chatResponse":{"choices":[]}}`} {
		if r, err := (oracle.Dialect{}).DecodeResponse([]byte(body), nil, target); err == nil {
			t.Errorf("DecodeResponse(%s) = %+v, want an error", body, r)
		}
	}
}

func TestStreams(t *testing.T) {
	const hi = `{"index":0,"message":{"content":[{"type":"TEXT","text":"hi"}]}}`
	for _, tt := range []struct {
		name  string
		lines []string
		whole bool
		fault string
	}{
		{"calls whose pieces have no id", []string{`{"message":{"toolCalls":[{"id":"c","name":"clock"}]}}`, `{"message":{"toolCalls":[{"arguments":"{}"}]}}`, `{"finishReason":"tool_calls"}`, `[DONE]`}, true, ""},
		{"it breaks off", []string{hi, `{"pad":"a"}`, `nonsense`}, false, ""},
		{"one choice of two breaks off", []string{hi, `{"index":1,"message":{"content":[{"text":"x"}]}}`, `{"index":0,"finishReason":"stop"}`, `{"index":-1,"finishReason":"stop"}`, `{"index":1e9,"finishReason":"stop"}`}, false, ""},
		{"an error", []string{hi, `{"code":"500","message":"out of luck"}`, hi}, false, "out of luck"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := oracle.Dialect{}.NewDecoder(nil, target)
			var events []llm.Event
			for _, line := range tt.lines {
				events = d.Decode(events, sse.Event{Data: []byte(line)})
			}
			events = d.End(events)
			var a dialect.Assembler
			for i := range events {
				a.Add(&events[i])
			}
			r, fault, whole := a.Response()
			said := ""
			if fault != nil {
				said = fault.Message
			}
			if why := dialecttest.CheckEventOrder(events); why != "" || whole != tt.whole || said != tt.fault {
				t.Errorf("order %q, whole %t, fault %q, want in order, %t and %q", why, whole, said, tt.whole, tt.fault)
			}
			if call, ok := r.Choices[0].Parts[0].(llm.ToolCall); ok && call.Arguments != "{}" {
				t.Errorf("arguments = %q, want {}", call.Arguments)
			}
		})
	}
}

var asked = &llm.Request{Tools: []llm.Tool{{Name: "patch", Custom: true}}}

func FuzzResponse(f *testing.F) {
	f.Add([]byte(`{"modelId":"m","chatResponse":{"timeCreated":1.5,"choices":[{"message":{"content":[{"type":"TEXT","text":"a"}],"reasoningContent":"b","toolCalls":[{"id":"c","name":"patch","arguments":"{\"input\":\"\"}"}]},"finishReason":"stop","logprobs":{"tokens":["a"],"tokenLogprobs":[1],"topLogprobs":[{"a":1}]}}],"usage":{"promptTokens":1,"promptTokensDetails":{"cachedTokens":5}}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := oracle.Dialect{}.DecodeResponse(body, asked, target)
		if err == nil && (len(r.Choices) == 0 || r.Usage.Input < 0 || r.Usage.Output < 0 || r.Created < 0) {
			t.Errorf("DecodeResponse = %+v", r)
		}
	})
}

func FuzzStream(f *testing.F) {
	f.Add([]byte("{\"index\":0,\"message\":{\"content\":[{\"type\":\"TEXT\",\"text\":\"a\"}],\"toolCalls\":[{\"id\":\"c\",\"name\":\"patch\",\"arguments\":\"{\"}]}}\n{\"index\":1,\"message\":{\"refusal\":\"a\"}}\n{\"finishReason\":\"stop\"}\n{\"usage\":{\"promptTokens\":1}}"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		d := oracle.Dialect{}.NewDecoder(asked, target)
		var events []llm.Event
		for line := range bytes.Lines(stream) {
			events = d.Decode(events, sse.Event{Data: line})
		}
		if why := dialecttest.CheckEventOrder(d.End(events)); why != "" {
			t.Error(why)
		}
	})
}

// BenchmarkTextDelta is what one piece of text costs.
func BenchmarkTextDelta(b *testing.B) {
	d := oracle.Dialect{}.NewDecoder(nil, target)
	frame := sse.Event{Data: []byte(`{"index":0,"message":{"role":"ASSISTANT","content":[{"type":"TEXT","text":" colorful"}]},"pad":"aaaaaaaaa"}`)}
	var events []llm.Event
	b.ReportAllocs()
	for b.Loop() {
		events = d.Decode(events[:0], frame)
	}
}
