package ollama_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/ollama"
	"modelgate/internal/model/llm"
)

var target = dialect.RequestTarget{Provider: "ollama", Model: "qwen3:8b"}

func user(parts ...llm.Part) llm.Message { return llm.Message{Role: llm.User, Parts: parts} }

func words(s string) llm.Text { return llm.Text{Text: s} }

func adapted(name, note string) dialect.ParamChange {
	return dialect.ParamChange{Name: name, Outcome: dialect.Adapted, Note: note}
}

func dropped(name string) dialect.ParamChange {
	return dialect.ParamChange{Name: name, Outcome: dialect.Dropped}
}

var (
	clock  = llm.Tool{Name: "clock"}
	patch  = llm.Tool{Name: "patch", Custom: true}
	schema = json.RawMessage(`{"type":"object"}`)
)

const (
	clockTool = `{"type":"function","function":{"name":"clock","parameters":{"type":"object","properties":{}}}}`
	patchTool = `{"type":"function","function":{"name":"patch","parameters":{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}}}`
)

func extra(name, value string) llm.Member {
	return llm.Member{Name: name, Value: json.RawMessage(value)}
}

func TestParametersHaveTheirPlaceOrAFate(t *testing.T) {
	for _, tt := range []struct {
		name  string
		r     llm.Request
		want  string
		fates []dialect.ParamChange
	}{
		{"options", llm.Request{MaxTokens: new(int64(5)), Temperature: new(0.5), Stop: []string{"x"}}, `,"options":{"num_predict":5,"temperature":0.5,"stop":["x"]}`, nil},
		{"options in Ollama's words, of which the request's win", llm.Request{TopK: new(int64(1)), Extra: []llm.Member{
			extra("num_ctx", `8192`), extra("options", `{"num_ctx":1,"top_k":2,"mirostat":1}`), extra("keep_alive", `"5m"`), extra("store", `true`)}},
			`,"options":{"top_k":1,"num_ctx":8192,"mirostat":1},"keep_alive":"5m"`, []dialect.ParamChange{dropped("store")}},
		{"json", llm.Request{Format: llm.Format{Kind: llm.FormatJSON}}, `,"format":"json"`, nil},
		{"a schema", llm.Request{Format: llm.Format{Kind: llm.FormatSchema, Schema: schema}}, `,"format":{"type":"object"}`, nil},
		{"text is the usual", llm.Request{Format: llm.Format{Kind: llm.FormatText}}, ``, nil},
		{"no thinking", llm.Request{Reasoning: llm.Reasoning{Mode: llm.ThinkingDisabled, Effort: "high"}}, `,"think":false`, []dialect.ParamChange{dropped("reasoning_effort")}},
		{"a budget", llm.Request{Reasoning: llm.Reasoning{Mode: llm.ThinkingEnabled, Budget: new(int64(2000))}}, `,"think":true`, []dialect.ParamChange{adapted("thinking", "without a budget")}},
		{"an effort", llm.Request{Reasoning: llm.Reasoning{Effort: "medium"}}, `,"think":"medium"`, nil},
		{"an effort beyond", llm.Request{Reasoning: llm.Reasoning{Effort: "xhigh"}}, `,"think":"high"`, []dialect.ParamChange{adapted("reasoning_effort", "high")}},
		{"an effort of none", llm.Request{Reasoning: llm.Reasoning{Effort: "none"}}, `,"think":false`, nil},
		{"an effort that nobody knows", llm.Request{Reasoning: llm.Reasoning{Effort: "huge"}}, ``, []dialect.ParamChange{dropped("reasoning_effort")}},
		{"tools", llm.Request{Tools: []llm.Tool{clock, patch}}, `,"tools":[` + clockTool + `,` + patchTool + `]`, []dialect.ParamChange{adapted("custom tools", "a function with one string parameter")}},
		{"the choice of none", llm.Request{Tools: []llm.Tool{clock}, ToolChoice: llm.ToolChoice{Mode: llm.ChoiceNone}}, ``, []dialect.ParamChange{adapted("tool_choice", "no tools are offered")}},
		{"the choice of any", llm.Request{Tools: []llm.Tool{clock}, ToolChoice: llm.ToolChoice{Mode: llm.ChoiceRequired}}, `,"tools":[` + clockTool + `]`, []dialect.ParamChange{dropped("tool_choice")}},
		{"the choice of one", llm.Request{Tools: []llm.Tool{{Name: "other"}, clock}, ToolChoice: llm.ToolChoice{Mode: llm.ChoiceTool, Names: []string{"clock"}}}, `,"tools":[` + clockTool + `]`, []dialect.ParamChange{adapted("tool_choice", "only the allowed tools are sent")}},
		{"tools that run elsewhere", llm.Request{Tools: []llm.Tool{{Server: llm.WebSearch, At: "tools[0]"}, {Native: &llm.Native{}}}}, ``, []dialect.ParamChange{dropped("tools[0]"), dropped("tools")}},
		{"logprobs", llm.Request{Logprobs: new(true), TopLogprobs: new(int64(2))}, `,"logprobs":true,"top_logprobs":2`, nil},
		{"what has no place", llm.Request{User: "u", LogitBias: schema, ParallelTools: new(false), Cache: &llm.Cache{}}, ``,
			[]dialect.ParamChange{dropped("parallel_tool_calls"), dropped("logit_bias"), dropped("user"), dropped("cache_control")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.r.Messages = []llm.Message{user(words("Hello"))}
			body, fates, err := ollama.Dialect{}.EncodeRequest([]byte("x"), &tt.r, target)
			want := `x{"model":"qwen3:8b","messages":[{"role":"user","content":"Hello"}],"stream":false` + tt.want + `}`
			if err != nil || string(body) != want {
				t.Errorf("EncodeRequest =\n%s, %v, want\n%s", body, err, want)
			}
			if diff := cmp.Diff(tt.fates, fates); diff != "" {
				t.Errorf("fates (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMessagesTakeOllamasForm(t *testing.T) {
	for _, tt := range []struct {
		name     string
		messages []llm.Message
		want     string
	}{
		{"texts and images", []llm.Message{user(words("a"), llm.Media{Kind: llm.Image, Data: "AAAA"}, words("b"))}, `{"role":"user","content":"a\nb","images":["AAAA"]}`},
		{"a document of text", []llm.Message{user(llm.Media{Kind: llm.Document, Type: "text/plain", Data: "aGk=", Name: "n.txt"})}, `{"role":"user","content":"n.txt:\nhi"}`},
		{"a developer", []llm.Message{{Role: llm.Developer, Parts: []llm.Part{words("a")}}}, `{"role":"system","content":"a"}`},
		{"a loop of tools", []llm.Message{
			{Role: llm.Assistant, Parts: []llm.Part{llm.Thinking{Text: "hm"}, words("look"), llm.ToolCall{ID: "c1", Name: "clock"}, llm.ToolCall{ID: "c2", Name: "patch", Custom: true, Arguments: "x"}, llm.ToolCall{ID: "c3", Name: "clock", Arguments: `{"a":`}}},
			user(llm.ToolResult{ID: "c1", Parts: []llm.Part{words("noon"), llm.Media{Kind: llm.Image, Data: "AAAA"}}}, llm.ToolResult{ID: "c2", Name: "named", Failed: true, Parts: []llm.Part{words("no")}}, words("so?"))},
			`{"role":"assistant","content":"look","thinking":"hm","tool_calls":[{"id":"c1","function":{"index":0,"name":"clock","arguments":{}}},{"id":"c2","function":{"index":1,"name":"patch","arguments":{"input":"x"}}},{"id":"c3","function":{"index":2,"name":"clock","arguments":{"INVALID_JSON":"{\"a\":"}}}]},` +
				`{"role":"tool","content":"noon","images":["AAAA"],"tool_name":"clock","tool_call_id":"c1"},{"role":"tool","content":"Error:\nno","tool_name":"named","tool_call_id":"c2"},{"role":"user","content":"so?"}`},
		{"what only other dialects know", []llm.Message{user(llm.Native{Dialect: "messages"})}, `{"role":"user","content":""}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body, _, err := ollama.Dialect{}.EncodeRequest(nil, &llm.Request{Messages: tt.messages, Stream: true}, target)
			want := `{"model":"qwen3:8b","messages":[` + tt.want + `],"stream":true}`
			if err != nil || string(body) != want {
				t.Errorf("EncodeRequest =\n%s, %v, want\n%s", body, err, want)
			}
		})
	}
}

func TestRefusesWhatWouldChangeTheMeaning(t *testing.T) {
	const path = "messages[0].content[1]"
	for _, tt := range []struct {
		name  string
		part  llm.Part
		param string
		code  string
	}{
		{"audio", llm.Media{Kind: llm.Audio, Data: "AAAA", At: path}, path, dialect.CodeUnsupported},
		{"an image at an address", llm.Media{Kind: llm.Image, URL: "https://a.example/b.png", At: path}, path, dialect.CodeUnsupported},
		{"a PDF", llm.Media{Kind: llm.Document, Type: "application/pdf", Data: "AAAA", At: path}, path, dialect.CodeUnsupported},
		{"a document of images", llm.Media{Kind: llm.Document, Parts: []llm.Part{words("a"), llm.Media{}}, At: path}, path, dialect.CodeUnsupported},
		{"text that is none", llm.Media{Kind: llm.Document, Type: "text/plain", Data: "/w==", At: path}, path, dialect.CodeValue},
		{"film in a result", llm.ToolResult{Parts: []llm.Part{llm.Media{Kind: llm.Video, At: path}}}, path, dialect.CodeUnsupported},
	} {
		t.Run(tt.name, func(t *testing.T) {
			mustRefuse(t, &llm.Request{Messages: []llm.Message{user(tt.part)}}, tt.param, tt.code)
		})
	}
	t.Run("the choice of a tool that is not there", func(t *testing.T) {
		r := &llm.Request{Tools: []llm.Tool{clock}, ToolChoice: llm.ToolChoice{Mode: llm.ChoiceTool, Names: []string{"other"}}}
		mustRefuse(t, r, "tool_choice", dialect.CodeValue)
	})
}

func mustRefuse(t *testing.T, r *llm.Request, param, code string) {
	t.Helper()
	body, _, err := ollama.Dialect{}.EncodeRequest([]byte("x"), r, target)
	e, ok := errors.AsType[*apierr.Error](err)
	if !ok || e.Kind != apierr.Invalid || e.Param != param || e.Code != code || string(body) != "x" {
		t.Errorf("EncodeRequest = %s, %#v, want a refusal of %s with code %s", body, err, param, code)
	}
}

func TestEmbeddings(t *testing.T) {
	form, ok := ollama.Dialect{}.Translator(api.Embeddings, target)
	if _, more := (ollama.Dialect{}).Translator(api.Rerank, target); !ok || more {
		t.Fatalf("Form gives embeddings %t and rerank %t, want true and false", ok, more)
	}
	body, fates, err := form.Request(nil, []byte(`{"model":"m","input":["a",{"text":"b"}],"dimensions":8,"encoding_format":"base64","user":"u","truncate":null}`), target)
	want := `{"model":"qwen3:8b","input":["a","b"],"dimensions":8}`
	if err != nil || string(body) != want || !cmp.Equal(fates, []dialect.ParamChange{dropped("user")}) {
		t.Errorf("Request = %s, %v, %v, want %s", body, fates, err, want)
	}
	for asked, want := range map[string]string{
		`{}`:                           `[1.50,-2]`,
		`{"encoding_format":"base64"}`: `"AADAPwAAAMA="`,
	} {
		got, err := form.Response(nil, []byte(`{"embeddings":[[1.50,-2]],"prompt_eval_count":3}`), []byte(asked), target)
		want = `{"object":"list","data":[{"object":"embedding","index":0,"embedding":` + want + `}],"model":"qwen3:8b","usage":{"prompt_tokens":3,"total_tokens":3}}`
		if err != nil || string(got) != want {
			t.Errorf("Response = %s, %v, want %s", got, err, want)
		}
	}
	for body, param := range map[string]string{`[]`: "body", `{}`: "input", `{"input":[1]}`: "input[0]", `{"input":null}`: "input", `{"input":[[1]]}`: "input[0]"} {
		_, _, err := form.Request(nil, []byte(body), target)
		if e, ok := errors.AsType[*apierr.Error](err); !ok || e.Param != param {
			t.Errorf("Request of %s: %v, want a refusal of %s", body, err, param)
		}
	}
	for _, body := range []string{``, `{}`, `{"error":"no"}`} {
		if got, err := form.Response(nil, []byte(body), nil, target); err == nil {
			t.Errorf("Response(%s) = %s, want an error", body, got)
		}
	}
}

// Ollama documents no rule for names of tools, so they are sent as they are.
func TestToolNamesAreSentAsTheyAre(t *testing.T) {
	for _, name := range []string{"docs.readText", "1c probe", strings.Repeat("x", 200)} {
		r := &llm.Request{Tools: []llm.Tool{{Name: name}}}
		if sent, names, _ := dialect.FitToolNames(r, ollama.Dialect{}.ToolNames(r, dialect.RequestTarget{})); sent != r || names != nil {
			t.Errorf("%q is sent as %q", name, sent.Tools[0].Name)
		}
	}
}
