package cohere_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/cohere"
	"modelgate/internal/model/llm"
)

var target = dialect.RequestTarget{Provider: "cohere", Model: "command-a-03-2025"}

func user(parts ...llm.Part) llm.Message {
	return llm.Message{Role: llm.User, Parts: parts, At: "messages[0]"}
}

func words(s string) llm.Text { return llm.Text{Text: s} }

var (
	weather = llm.Tool{Name: "weather", Description: "Tells it", Schema: json.RawMessage(`{"type":"object"}`), At: "tools[0]"}
	clock   = llm.Tool{Name: "clock", At: "tools[1]"}
	schema  = json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"}}}`)
)

const hello = `"model":"command-a-03-2025","messages":[{"role":"user","content":"Hello"}]`

const weatherTool = `{"type":"function","function":{"name":"weather","description":"Tells it","parameters":{"type":"object"}}}`

const clockTool = `{"type":"function","function":{"name":"clock","parameters":{"type":"object","properties":{}}}}`

func adapted(name, note string) dialect.ParamChange {
	return dialect.ParamChange{Name: name, Outcome: dialect.Adapted, Note: note}
}

func dropped(name string) dialect.ParamChange {
	return dialect.ParamChange{Name: name, Outcome: dialect.Dropped}
}

func TestParametersHaveTheirPlaceOrAFate(t *testing.T) {
	for _, tt := range []struct {
		name  string
		r     llm.Request
		want  string
		fates []dialect.ParamChange
	}{
		{"max tokens and stream", llm.Request{MaxTokens: new(int64(5)), Stream: true}, `"max_tokens":5,"stream":true`, nil},
		{"top_p of one is the most that Cohere takes", llm.Request{TopP: new(1.0)}, `"p":0.99`, []dialect.ParamChange{adapted("top_p", "0.99")}},
		{"top_k", llm.Request{TopK: new(int64(40))}, `"k":40`, nil},
		{"top_k beyond the most", llm.Request{TopK: new(int64(900))}, `"k":500`, []dialect.ParamChange{adapted("top_k", "500")}},
		{"penalties below zero", llm.Request{FrequencyPenalty: new(-1.0), PresencePenalty: new(0.5)}, `"frequency_penalty":0,"presence_penalty":0.5`, []dialect.ParamChange{adapted("frequency_penalty", "0")}},
		{"seed", llm.Request{Seed: new(int64(7))}, `"seed":7`, nil},
		{"a negative seed", llm.Request{Seed: new(int64(-7))}, ``, []dialect.ParamChange{dropped("seed")}},
		{"six stop sequences", llm.Request{Stop: []string{"1", "2", "3", "4", "5", "6"}}, `"stop_sequences":["1","2","3","4","5"]`, []dialect.ParamChange{adapted("stop", "the first 5")}},
		{"logprobs", llm.Request{Logprobs: new(true), TopLogprobs: new(int64(3))}, `"logprobs":true`, []dialect.ParamChange{dropped("top_logprobs")}},
		{"the effort becomes a budget", llm.Request{Reasoning: llm.Reasoning{Effort: "medium"}}, `"thinking":{"type":"enabled","token_budget":9830}`, []dialect.ParamChange{adapted("reasoning_effort", "token_budget 9830")}},
		{"no effort means no thinking", llm.Request{Reasoning: llm.Reasoning{Effort: "none"}}, `"thinking":{"type":"disabled"}`, nil},
		{"a budget wins over the effort", llm.Request{Reasoning: llm.Reasoning{Mode: llm.ThinkingEnabled, Budget: new(int64(2000)), Effort: "low"}}, `"thinking":{"type":"enabled","token_budget":2000}`, []dialect.ParamChange{dropped("reasoning_effort")}},
		{"thinking as the model likes", llm.Request{Reasoning: llm.Reasoning{Mode: llm.ThinkingAdaptive}}, `"thinking":{"type":"enabled"}`, nil},
		{"what has no place", llm.Request{LogitBias: schema, User: "u", ServiceTier: "auto", ParallelTools: new(false), Metadata: schema, Verbosity: "low", Speech: schema, Modalities: []string{"text", "audio"}, Cache: &llm.Cache{}},
			``, []dialect.ParamChange{dropped("parallel_tool_calls"), dropped("logit_bias"), dropped("verbosity"), dropped("modalities"), dropped("audio"), dropped("user"), dropped("metadata"), dropped("service_tier"), dropped("cache_control")}},
		{"what is the usual anyway", llm.Request{N: new(int64(1)), ParallelTools: new(true), Modalities: []string{"text"}}, ``, nil},
		{"Cohere's own parameters", llm.Request{Extra: []llm.Member{{Name: "safety_mode", Value: json.RawMessage(`"OFF"`)}, {Name: "store", Value: json.RawMessage(`true`)}, {Name: "k", Value: json.RawMessage(`3`)}}}, `"safety_mode":"OFF","k":3`, []dialect.ParamChange{dropped("store")}},
		{"json", llm.Request{Format: llm.Format{Kind: llm.FormatJSON}}, `"response_format":{"type":"json_object"}`, nil},
		{"a schema stands bare", llm.Request{Format: llm.Format{Kind: llm.FormatSchema, Name: "x", Schema: schema, Strict: new(true)}}, `"response_format":{"type":"json_object","json_schema":` + string(schema) + `}`, nil},
		{"json next to tools", llm.Request{Tools: []llm.Tool{clock}, Format: llm.Format{Kind: llm.FormatJSON}}, `"tools":[` + clockTool + `]`, []dialect.ParamChange{dropped("response_format")}},
		{"a schema next to tools is a tool", llm.Request{Tools: []llm.Tool{clock}, Format: llm.Format{Kind: llm.FormatSchema, Description: "It", Schema: schema}},
			`"tools":[` + clockTool + `,{"type":"function","function":{"name":"json_response","description":"It","parameters":` + string(schema) + `}}],"tool_choice":"REQUIRED"`, []dialect.ParamChange{adapted("response_format", "forced tool")}},
		{"a schema next to tools that are not to be called", llm.Request{Tools: []llm.Tool{clock}, ToolChoice: llm.ToolChoice{Mode: llm.ChoiceNone}, Format: llm.Format{Kind: llm.FormatSchema, Description: "It", Schema: schema}},
			`"tools":[{"type":"function","function":{"name":"json_response","description":"It","parameters":` + string(schema) + `}}],"tool_choice":"REQUIRED"`, []dialect.ParamChange{adapted("response_format", "forced tool")}},
		{"the choice of none", llm.Request{Tools: []llm.Tool{clock}, ToolChoice: llm.ToolChoice{Mode: llm.ChoiceNone}}, `"tools":[` + clockTool + `],"tool_choice":"NONE"`, nil},
		{"auto is left out", llm.Request{Tools: []llm.Tool{clock}, ToolChoice: llm.ToolChoice{Mode: llm.ChoiceAuto}}, `"tools":[` + clockTool + `]`, nil},
		{"the choice of one tool offers only it", llm.Request{Tools: []llm.Tool{weather, clock}, ToolChoice: llm.ToolChoice{Mode: llm.ChoiceTool, Names: []string{"weather"}}},
			`"tools":[` + weatherTool + `],"tool_choice":"REQUIRED"`, []dialect.ParamChange{adapted("tool_choice", "only the allowed tools are sent")}},
		{"strict for all", llm.Request{Tools: []llm.Tool{{Name: "clock", Strict: new(true)}}}, `"tools":[` + clockTool + `],"strict_tools":true`, nil},
		{"strict for some", llm.Request{Tools: []llm.Tool{clock, {Name: "weather", Description: "Tells it", Schema: weather.Schema, Strict: new(true), At: "tools[1]"}}}, `"tools":[` + clockTool + `,` + weatherTool + `]`, []dialect.ParamChange{dropped("strict")}},
		{"a tool that runs at another provider", llm.Request{Tools: []llm.Tool{{Server: llm.WebSearch, At: "tools[0]"}}}, ``, []dialect.ParamChange{dropped("tools[0]")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.r.Messages = []llm.Message{user(words("Hello"))}
			body, fates, err := cohere.Dialect{}.EncodeRequest([]byte("x"), &tt.r, target)
			want := "x{" + hello
			if tt.want != "" {
				want += "," + tt.want
			}
			if err != nil || string(body) != want+"}" {
				t.Errorf("EncodeRequest =\n%s, %v, want\n%s}", body, err, want)
			}
			if diff := cmp.Diff(tt.fates, fates); diff != "" {
				t.Errorf("fates (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMessagesTakeCoheresForm(t *testing.T) {
	call := llm.ToolCall{ID: "c1", Name: "weather", Arguments: `{"a":1}`}
	for _, tt := range []struct {
		name string
		m    llm.Message
		want string
	}{
		{"texts", user(words("a"), words("b")), `[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]`},
		{"an image", user(llm.Media{Kind: llm.Image, Type: "image/webp", Data: "AAAA", Detail: "low"}), `[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/webp;base64,AAAA","detail":"low"}}]}]`},
		{"a developer", llm.Message{Role: llm.Developer, Parts: []llm.Part{words("a")}}, `[{"role":"system","content":"a"}]`},
		{"thinking", llm.Message{Role: llm.Assistant, Parts: []llm.Part{llm.Thinking{Text: "hm", Signature: llm.Signature{Vendor: llm.Google, Value: "s"}}, words("a")}},
			`[{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"a"}]}]`},
		{"thinking that none can read", llm.Message{Role: llm.Assistant, Parts: []llm.Part{llm.Thinking{Redacted: true}, words("a")}}, `[{"role":"assistant","content":"a"}]`},
		{"calls and the plan before", llm.Message{Role: llm.Assistant, Parts: []llm.Part{llm.Thinking{Text: "I will"}, words("look"), call, llm.ToolCall{ID: "c2", Name: "clock"}}},
			`[{"role":"assistant","tool_plan":"I will\nlook","tool_calls":[{"id":"c1","type":"function","function":{"name":"weather","arguments":"{\"a\":1}"}},{"id":"c2","type":"function","function":{"name":"clock","arguments":"{}"}}]}]`},
		{"a call of a custom tool", llm.Message{Role: llm.Assistant, Parts: []llm.Part{llm.ToolCall{ID: "c1", Name: "patch", Arguments: "a\n", Custom: true}}},
			`[{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"patch","arguments":"{\"input\":\"a\\n\"}"}}]}]`},
		{"results are alone, in their place", user(words("before"), llm.ToolResult{ID: "c1", Parts: []llm.Part{words("sun")}}, llm.ToolResult{ID: "c2"}, words("after")),
			`[{"role":"user","content":"before"},{"role":"tool","tool_call_id":"c1","content":"sun"},{"role":"tool","tool_call_id":"c2","content":""},{"role":"user","content":"after"}]`},
		{"a result of pieces is documents", user(llm.ToolResult{ID: "c1", Failed: true, Parts: []llm.Part{words("a"), llm.Media{Kind: llm.Document, Text: "b", Name: "n"}}}),
			`[{"role":"tool","tool_call_id":"c1","content":[{"type":"document","document":{"data":"Error: a"}},{"type":"document","document":{"data":{"text":"b","title":"n"}}}]}]`},
		{"what only other dialects know", user(llm.Native{Dialect: "messages", Raw: schema}, words("a")), `[{"role":"user","content":"a"}]`},
		{"nothing that is left", user(llm.Native{Dialect: "messages", Raw: schema}), `[{"role":"user","content":""}]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body, _, err := cohere.Dialect{}.EncodeRequest(nil, &llm.Request{Messages: []llm.Message{tt.m}}, target)
			want := `{"model":"command-a-03-2025","messages":` + tt.want + `}`
			if err != nil || string(body) != want {
				t.Errorf("EncodeRequest =\n%s, %v, want\n%s", body, err, want)
			}
		})
	}
}

func TestDocumentsAreNextToTheMessages(t *testing.T) {
	r := &llm.Request{
		Messages: []llm.Message{user(
			llm.Media{Kind: llm.Document, Type: "text/plain", Data: "aGk=", Name: "hi.txt", At: "messages[0].content[0]"},
			llm.Media{Kind: llm.Document, Parts: []llm.Part{words("x"), words("y")}, Context: "c", At: "messages[0].content[1]"},
			words("Sum it up"))},
		Format: llm.Format{Kind: llm.FormatSchema, Schema: schema},
		Extra:  []llm.Member{{Name: "documents", Value: json.RawMessage(`["own", {"data":{}}]`)}},
	}
	body, fates, err := cohere.Dialect{}.EncodeRequest(nil, r, target)
	want := `{"model":"command-a-03-2025","messages":[{"role":"user","content":"Sum it up"}],` +
		`"tools":[{"type":"function","function":{"name":"json_response","description":"Gives the final answer. Call it with the answer once you have it.","parameters":` + string(schema) + `}}],"tool_choice":"REQUIRED",` +
		`"documents":["own",{"data":{}},{"data":{"text":"hi","title":"hi.txt"}},{"data":{"text":"x\ny","context":"c"}}]}`
	if err != nil || string(body) != want {
		t.Errorf("EncodeRequest =\n%s, %v, want\n%s", body, err, want)
	}
	told := []dialect.ParamChange{adapted("content", "documents next to the messages"), adapted("response_format", "forced tool")}
	if diff := cmp.Diff(told, fates); diff != "" {
		t.Errorf("fates (-want +got):\n%s", diff)
	}
}

func TestRefusesWhatWouldChangeTheMeaning(t *testing.T) {
	const path = "messages[0].content[1]"
	for _, tt := range []struct {
		name  string
		r     llm.Request
		param string
		code  string
	}{
		{"audio", llm.Request{Messages: []llm.Message{user(llm.Media{Kind: llm.Audio, Data: "AAAA", At: path})}}, path, dialect.CodeUnsupported},
		{"an image of another host", llm.Request{Messages: []llm.Message{user(llm.Media{Kind: llm.Image, FileID: "f", At: path})}}, path, dialect.CodeUnsupported},
		{"an image in a bucket", llm.Request{Messages: []llm.Message{user(llm.Media{Kind: llm.Image, URL: "gs://a/b", At: path})}}, path, dialect.CodeUnsupported},
		{"a PDF", llm.Request{Messages: []llm.Message{user(llm.Media{Kind: llm.Document, Type: "application/pdf", Data: "AAAA", At: path})}}, path, dialect.CodeUnsupported},
		{"text that is none", llm.Request{Messages: []llm.Message{user(llm.Media{Kind: llm.Document, Type: "text/plain", Data: "/w==", At: path})}}, path, dialect.CodeValue},
		{"a document of images", llm.Request{Messages: []llm.Message{user(llm.Media{Kind: llm.Document, Parts: []llm.Part{llm.Media{}}, At: path})}}, path, dialect.CodeUnsupported},
		{"an image in a result", llm.Request{Messages: []llm.Message{user(llm.ToolResult{ID: "c", Parts: []llm.Part{llm.Media{Kind: llm.Image, At: path}}})}}, path, dialect.CodeUnsupported},
		{"an image that the model made", llm.Request{Messages: []llm.Message{{Role: llm.Assistant, Parts: []llm.Part{llm.Media{Kind: llm.Image, At: path}}}}}, path, dialect.CodeUnsupported},
		{"the choice of a tool that is not there", llm.Request{Tools: []llm.Tool{clock}, ToolChoice: llm.ToolChoice{Mode: llm.ChoiceTool, Names: []string{"weather"}}}, "tool_choice", dialect.CodeValue},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body, _, err := cohere.Dialect{}.EncodeRequest([]byte("x"), &tt.r, target)
			e, ok := errors.AsType[*apierr.Error](err)
			if !ok || e.Kind != apierr.Invalid || e.Param != tt.param || e.Code != tt.code || string(body) != "x" {
				t.Errorf("EncodeRequest = %s, %#v, want a refusal of %s with code %s", body, err, tt.param, tt.code)
			}
		})
	}
}
