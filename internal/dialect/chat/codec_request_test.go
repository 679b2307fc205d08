package chat_test

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/chat"
	"modelgate/internal/model/llm"
	"modelgate/internal/testing/dialecttest"
)

// agent is a request as the messages dialect would decode it, in the middle of a
// loop of tool calls.
func agent() *llm.Request {
	return &llm.Request{
		Dialect: "messages",
		Names:   map[llm.Field]string{llm.FieldStop: "stop_sequences"},
		Messages: []llm.Message{
			{Role: llm.System, Parts: []llm.Part{llm.Text{Text: "Be brief.", Cache: &llm.Cache{}}}},
			{Role: llm.User, Parts: []llm.Part{llm.Text{Text: "What is on this page?"}}},
			{Role: llm.Assistant, Parts: []llm.Part{
				llm.Thinking{Text: "I look.", Signature: llm.Signature{Vendor: llm.Anthropic, Value: "sig"}},
				llm.Text{Text: "Looking."},
				llm.ToolCall{ID: "toolu_01A", Name: "look", Arguments: `{"page":1}`},
				llm.ToolCall{ID: "toolu_01B", Name: "look"},
			}},
			{Role: llm.User, Parts: []llm.Part{
				llm.ToolResult{ID: "toolu_01A", Parts: []llm.Part{llm.Text{Text: "a cat"}, llm.Media{Kind: llm.Image, Type: "image/png", Data: "AAAA"}}},
				llm.ToolResult{ID: "toolu_01B", Parts: []llm.Part{llm.Text{Text: "no such page"}}, Failed: true},
				llm.Text{Text: "Go on."},
			}},
		},
		Tools:      []llm.Tool{{Name: "look", Schema: json.RawMessage(`{"type":"object"}`)}, {Name: "skip", Schema: json.RawMessage(`{"type":"object"}`)}},
		ToolChoice: llm.ToolChoice{Mode: llm.ChoiceTool, Names: []string{"look"}},
		MaxTokens:  new(int64(100)),
		Reasoning:  llm.Reasoning{Mode: llm.ThinkingEnabled, Budget: new(int64(4000))},
		Format:     llm.Format{Kind: llm.FormatSchema, Schema: json.RawMessage(`{"type":"object"}`)},
		Stream:     true,
	}
}

func TestRequestsAreEncodedInTheProvidersManner(t *testing.T) {
	const calls = `"tool_calls":[{"id":"toolu_01A","type":"function","function":{"name":"look","arguments":"{\"page\":1}"}},{"id":"toolu_01B","type":"function","function":{"name":"look","arguments":"{}"}}]`
	const results = `{"role":"tool","tool_call_id":"toolu_01A","content":"a cat"},{"role":"tool","tool_call_id":"toolu_01B","content":"Error: no such page"},` +
		`{"role":"user","content":[{"type":"text","text":"What the tool call toolu_01A gave:"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}},{"type":"text","text":"Go on."}]}`
	const head = `{"role":"system","content":"Be brief."},{"role":"user","content":"What is on this page?"}`
	const schema = `"response_format":{"type":"json_schema","json_schema":{"name":"response","schema":{"type":"object"}}}`
	const tools = `"tools":[{"type":"function","function":{"name":"look","parameters":{"type":"object"}}},{"type":"function","function":{"name":"skip","parameters":{"type":"object"}}}]`
	const named = `"tool_choice":{"type":"function","function":{"name":"look"}}`
	const stream = `"max_tokens":100,"stream":true,"stream_options":{"include_usage":true}`
	moved := dialect.ParamChange{Name: "content", Outcome: dialect.Adapted, Note: "media of tool results are in a user message"}
	uncached := dialect.ParamChange{Name: "cache_control", Outcome: dialect.Dropped}
	unread := dialect.ParamChange{Name: "messages.thinking", Outcome: dialect.Ignored, Note: "the target does not read it"}
	for _, tt := range []struct {
		name  string
		to    dialect.RequestTarget
		want  string
		fates []dialect.ParamChange
	}{
		{
			"the vendor's thinking model takes an effort", dialecttest.TargetOf("openai", "gpt-5.2"),
			`{"model":"gpt-5.2","messages":[` + head + `,{"role":"assistant","content":"Looking.",` + calls + `},` + results + `],` +
				tools + `,` + named + `,` + schema + `,"reasoning_effort":"medium",` + stream + `}`,
			[]dialect.ParamChange{uncached, unread, moved, {Name: "thinking", Outcome: dialect.Adapted, Note: "reasoning_effort medium"}},
		},
		{
			"another model of the vendor does not think", dialecttest.TargetOf("openai", "gpt-4o"),
			`{"model":"gpt-4o","messages":[` + head + `,{"role":"assistant","content":"Looking.",` + calls + `},` + results + `],` +
				tools + `,` + named + `,` + schema + `,` + stream + `}`,
			[]dialect.ParamChange{uncached, unread, moved, {Name: "thinking", Outcome: dialect.Dropped}},
		},
		{
			"DeepSeek wants its thoughts back", dialecttest.TargetOf("deepseek", "deepseek-chat"),
			`{"model":"deepseek-chat","messages":[{"role":"system","content":"Answer with JSON alone, of this JSON Schema:\n{\"type\":\"object\"}"},` +
				head + `,{"role":"assistant","content":"Looking.",` + calls + `},` + results + `],` +
				tools + `,` + named + `,"response_format":{"type":"json_object"},"thinking":{"type":"enabled"},"reasoning_effort":"medium",` + stream + `}`,
			[]dialect.ParamChange{
				uncached, unread, moved,
				{Name: "response_format", Outcome: dialect.Adapted, Note: "json_object, with the schema in a system message"},
				{Name: "thinking", Outcome: dialect.Adapted, Note: "enabled"},
			},
		},
		{
			"OpenRouter takes the details that the model's vendor signed", dialecttest.TargetOf("openrouter", "anthropic/claude-sonnet-4.5"),
			`{"model":"anthropic/claude-sonnet-4.5","messages":[{"role":"system","content":[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}]},` +
				`{"role":"user","content":"What is on this page?"},{"role":"assistant","content":"Looking.",` +
				`"reasoning_details":[{"type":"reasoning.text","text":"I look.","signature":"sig","format":"anthropic-claude-v1","index":0}],` + calls + `},` + results + `],` +
				tools + `,` + named + `,` + schema + `,` + stream + `}`,
			[]dialect.ParamChange{moved, {Name: "thinking", Outcome: dialect.Dropped}}, // with 100 tokens
		},
		{
			"OpenRouter is sent no vendor the signature of another", dialecttest.TargetOf("openrouter", "google/gemini-3-pro"),
			`{"model":"google/gemini-3-pro","messages":[{"role":"system","content":[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}]},` +
				`{"role":"user","content":"What is on this page?"},{"role":"assistant","content":"Looking.",` +
				`"reasoning_details":[{"type":"reasoning.text","text":"I look.","format":"google-gemini-v1","index":0}],` + calls + `},` + results + `],` +
				tools + `,` + named + `,` + schema + `,` + stream + `}`,
			[]dialect.ParamChange{moved, {Name: "thinking", Outcome: dialect.Dropped}}, // with 100 tokens
		},
		{
			"Z.ai chooses its tools itself", dialecttest.TargetOf("z-ai", "glm-5"),
			`{"model":"glm-5","messages":[{"role":"system","content":"Answer with JSON alone, of this JSON Schema:\n{\"type\":\"object\"}"},` +
				head + `,{"role":"assistant","content":"Looking.",` + calls + `},` + results + `],` +
				tools + `,"response_format":{"type":"json_object"},"thinking":{"type":"enabled"},` + stream + `}`,
			[]dialect.ParamChange{
				uncached, unread, moved, {Name: "tool_choice", Outcome: dialect.Dropped},
				{Name: "response_format", Outcome: dialect.Adapted, Note: "json_object, with the schema in a system message"},
				{Name: "thinking", Outcome: dialect.Adapted, Note: "enabled"},
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, fates, err := chat.Dialect{}.EncodeRequest(nil, agent(), tt.to)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(sorted(t, tt.want), sorted(t, string(got))); diff != "" {
				t.Errorf("body (-want +got):\n%s\n%s", diff, got)
			}
			if diff := cmp.Diff(tt.fates, fates); diff != "" {
				t.Errorf("fates (-want +got):\n%s", diff)
			}
		})
	}
}

// sorted returns a JSON text with its members in order.
func sorted(t *testing.T, body string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestThoughtsOfAToolLoopGoBack(t *testing.T) {
	r := agent()
	last := &r.Messages[3]
	last.Parts = last.Parts[:2] // the results alone: the loop goes on
	r.Format = llm.Format{}
	for _, tt := range []struct {
		to   dialect.RequestTarget
		path []any
		want any
	}{
		{dialecttest.TargetOf("deepseek", "deepseek-chat"), []any{"messages", 2, "reasoning_content"}, "I look."},
		{dialecttest.TargetOf("mistral-ai", "magistral"), []any{"messages", 2, "content", 0, "thinking", 0, "text"}, "I look."},
		{dialecttest.TargetOf("mistral-ai", "magistral"), []any{"messages", 2, "content", 1, "text"}, "Looking."},
		{dialecttest.TargetOf("mistral-ai", "magistral"), []any{"tool_choice"}, "any"},
		{dialecttest.TargetOf("openai", "gpt-4o"), []any{"messages", 2, "reasoning_content"}, nil},
	} {
		body, _, err := chat.Dialect{}.EncodeRequest(nil, r, tt.to)
		if err != nil {
			t.Fatal(err)
		}
		if got := dig(t, body, tt.path...); got != tt.want {
			t.Errorf("%s: %v = %v, want %v", tt.to.Provider, tt.path, got, tt.want)
		}
	}
}

// dig returns a value inside a JSON text, nil when there is none.
func dig(t *testing.T, body []byte, path ...any) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	for _, step := range path {
		switch at := v.(type) {
		case map[string]any:
			name, _ := step.(string)
			v = at[name]
		case []any:
			n, ok := step.(int)
			if !ok || n >= len(at) {
				return nil
			}
			v = at[n]
		default:
			return nil
		}
	}
	return v
}

func TestMistralGetsIdsOfItsForm(t *testing.T) {
	body, _, err := chat.Dialect{}.EncodeRequest(nil, agent(), dialecttest.TargetOf("mistral-ai", "mistral-large"))
	if err != nil {
		t.Fatal(err)
	}
	first, _ := dig(t, body, "messages", 2, "tool_calls", 0, "id").(string)
	second, _ := dig(t, body, "messages", 2, "tool_calls", 1, "id").(string)
	if form := regexp.MustCompile(`^[a-zA-Z0-9]{9}$`); !form.MatchString(first) || !form.MatchString(second) || first == second {
		t.Errorf("ids %q and %q, want two of nine letters and digits", first, second)
	}
	if got := dig(t, body, "messages", 3, "tool_call_id"); got != first {
		t.Errorf("the result is for %v, want %q", got, first)
	}
	tools, _ := dig(t, body, "tools").([]any)
	if len(tools) != 1 {
		t.Errorf("%d tools, want only the one that must be called", len(tools))
	}
}

func TestUnsupportedElementsAreRefusedByTheirPath(t *testing.T) {
	media := func(m llm.Media) *llm.Request {
		m.At = "messages[0].content[0]"
		return &llm.Request{Dialect: "messages", Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{m}}}}
	}
	for _, tt := range []struct {
		name     string
		r        *llm.Request
		provider string
		path     string
	}{
		{"a file of another provider", media(llm.Media{Kind: llm.Image, FileID: "f"}), "groq", "messages[0].content[0]"},
		{"a cloud's storage", media(llm.Media{Kind: llm.Image, URL: "gs://a/b"}), "openai", "messages[0].content[0]"},
		{"video for the vendor", media(llm.Media{Kind: llm.Video, Data: "AAAA"}), "openai", "messages[0].content[0]"},
		{"a document by address", media(llm.Media{Kind: llm.Document, URL: "https://a/b.pdf"}), "openai", "messages[0].content[0]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := chat.Dialect{}.EncodeRequest(nil, tt.r, dialecttest.TargetOf(tt.provider, "m"))
			refusal, ok := errors.AsType[*apierr.Error](err)
			if !ok || refusal.Param != tt.path || refusal.Code != dialect.CodeUnsupported {
				t.Errorf("EncodeRequest: %v, want a refusal of %s", err, tt.path)
			}
		})
	}
}

func TestMalformedRequestsAreRefusedByTheirPath(t *testing.T) {
	for _, tt := range []struct{ name, body, path, code string }{
		{"result without a call", `{"messages":[{"role":"tool","tool_call_id":"x","content":"1"}]}`, "messages[0].tool_call_id", dialect.CodeValue},
		{"result without an id", `{"messages":[{"role":"tool","content":"1"}]}`, "messages[0].tool_call_id", dialect.CodeMissing},
		{"result without an id, of a tool that nothing called", `{"messages":[{"role":"tool","name":"f","content":"1"}]}`, "messages[0].tool_call_id", dialect.CodeMissing},
		{"function that was not called", `{"messages":[{"role":"function","name":"f","content":"1"}]}`, "messages[0].name", dialect.CodeValue},
		{"unknown role", `{"messages":[{"role":"robot","content":"1"}]}`, "messages[0].role", dialect.CodeValue},
		{"broken base64", `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,A*A"}}]}]}`, "messages[0].content[0].image_url.url", dialect.CodeValue},
		{"sound that is not base64", `{"messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"?","format":"wav"}}]}]}`, "messages[0].content[0].input_audio.data", dialect.CodeValue},
		{"an address of no scheme", `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"cat.png"}}]}]}`, "messages[0].content[0].image_url.url", dialect.CodeValue},
		{"a schema that is none", `{"messages":[],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":[]}}}]}`, "tools[0].function.parameters.properties", dialect.CodeType},
		{"an over-long name", `{"messages":[],"tools":[{"type":"function","function":{"name":"` + string(make200()) + `"}}]}`, "tools[0].function.name", dialect.CodeValue},
		{"a call without a name", `{"messages":[{"role":"assistant","tool_calls":[{"id":"a","function":{}}]}]}`, "messages[0].tool_calls[0]", dialect.CodeMissing},
		{"content of a wrong type", `{"messages":[{"role":"user","content":5}]}`, "messages[0].content", dialect.CodeType},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := chat.Dialect{}.DecodeRequest([]byte(tt.body))
			refusal, ok := errors.AsType[*apierr.Error](err)
			if !ok || refusal.Param != tt.path || refusal.Code != tt.code || refusal.Kind != apierr.Invalid {
				t.Errorf("DecodeRequest: %#v, want %s at %s", err, tt.code, tt.path)
			}
		})
	}
}

func make200() []byte {
	b := make([]byte, 200)
	for i := range b {
		b[i] = 'n'
	}
	return b
}

func TestFunctionsBecomeTools(t *testing.T) {
	r, err := chat.Dialect{}.DecodeRequest([]byte(`{"model":"m","max_completion_tokens":5,"functions":[{"name":"f","parameters":{"type":"object"}}],"function_call":{"name":"f"},
		"messages":[{"role":"user","content":"go"},{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}},{"role":"function","name":"f","content":"1"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	call := r.Messages[1].Parts[0].(llm.ToolCall)
	result := r.Messages[2].Parts[0].(llm.ToolResult)
	if call.ID == "" || call.ID != result.ID || r.ToolChoice.Mode != llm.ChoiceTool || r.Tools[0].Name != "f" {
		t.Errorf("call %+v, result %+v, choice %+v, tools %+v", call, result, r.ToolChoice, r.Tools)
	}
	if got := r.NameOf(llm.FieldTools) + " " + r.NameOf(llm.FieldMaxTokens); got != "functions max_completion_tokens" {
		t.Errorf("the client's words are %q", got)
	}
	to := dialect.ResponseTarget{Strict: true, Request: r, ID: "1"}
	response := &llm.Response{Choices: []llm.Choice{{Parts: []llm.Part{llm.ToolCall{ID: "x", Name: "f", Arguments: `{"a":1}`}}, Stop: llm.StopTool}}}
	body := chat.Dialect{}.EncodeResponse(nil, response, to)
	if dig(t, body, "choices", 0, "message", "function_call", "arguments") != `{"a":1}` ||
		dig(t, body, "choices", 0, "finish_reason") != "function_call" || dig(t, body, "choices", 0, "message", "tool_calls") != nil {
		t.Errorf("the client of functions got %s", body)
	}
}

func TestForeignParametersAreReported(t *testing.T) {
	r := &llm.Request{
		Dialect: "responses", TopK: new(int64(3)), Verbosity: "low", Metadata: json.RawMessage(`{}`), ServiceTier: "auto",
		Stop:  []string{"1", "2", "3", "4", "5"},
		Extra: []llm.Member{{Name: "prompt_cache_key", Value: json.RawMessage(`"k"`)}, {Name: "truncation", Value: json.RawMessage(`"auto"`)}},
	}
	dropped := func(name string) dialect.ParamChange {
		return dialect.ParamChange{Name: name, Outcome: dialect.Dropped}
	}
	for _, tt := range []struct {
		provider string
		want     []dialect.ParamChange
	}{
		{"openai", []dialect.ParamChange{dropped("top_k"), {Name: "stop", Outcome: dialect.Adapted, Note: "the first 4"}, dropped("truncation")}},
		{"openai-compatible", []dialect.ParamChange{dropped("verbosity"), dropped("metadata"), dropped("service_tier"), dropped("prompt_cache_key"), dropped("truncation")}},
	} {
		_, fates, err := chat.Dialect{}.EncodeRequest(nil, r, dialecttest.TargetOf(tt.provider, "m"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, fates); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.provider, diff)
		}
	}
}

func TestRequestsMeanWhatTheirSpellingsMean(t *testing.T) {
	const user = `"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"URL"}}]}]`
	for _, tt := range []struct {
		name, body string
		got        func(*llm.Request) any
		want       any
	}{
		{"the newer limit wins", `{"max_completion_tokens":5,"max_tokens":9,"messages":[]}`, func(r *llm.Request) any { return *r.MaxTokens }, int64(5)},
		{"any is required", `{"tool_choice":"any","messages":[]}`, func(r *llm.Request) any { return r.ToolChoice.Mode }, llm.ChoiceRequired},
		{"a schema of json_object", `{"response_format":{"type":"json_object","schema":{"type":"object"}},"messages":[]}`, func(r *llm.Request) any { return string(r.Format.Kind) + string(r.Format.Schema) }, `json_schema{"type":"object"}`},
		{"json_object without a schema", `{"response_format":{"type":"json_object","schema":null},"messages":[]}`, func(r *llm.Request) any { return string(r.Format.Kind) + string(r.Format.Schema) }, `json_object`},
		{"a schema without wrapper", `{"response_format":{"type":"json_schema","json_schema":{"type":"object"}},"messages":[]}`, func(r *llm.Request) any { return string(r.Format.Schema) }, `{"type":"object"}`},
		{"a document in an image's place", strings.Replace("{"+user+"}", "URL", "data:application/pdf;base64,AAAA", 1), kindOfFirst, llm.Document},
		{"a film by its address", strings.Replace("{"+user+"}", "URL", "https://a/b.mp4?x=1", 1), kindOfFirst, llm.Video},
		{"an address that does not tell", strings.Replace("{"+user+"}", "URL", "https://a/b", 1), kindOfFirst, llm.Image},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := chat.Dialect{}.DecodeRequest([]byte(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			if got := tt.got(r); got != tt.want {
				t.Errorf("%s means %v, want %v", tt.body, got, tt.want)
			}
		})
	}
}

func kindOfFirst(r *llm.Request) any { return r.Messages[0].Parts[0].(llm.Media).Kind }

func TestDevelopersAreSystemToAllButTheVendor(t *testing.T) {
	r := &llm.Request{
		Dialect: "responses", Reasoning: llm.Reasoning{Mode: llm.ThinkingDisabled},
		Messages: []llm.Message{{Role: llm.Developer, Parts: []llm.Part{llm.Text{Text: "x"}}}},
	}
	for _, tt := range []struct{ provider, model, role, effort string }{
		{"openai", "gpt-5.2", "developer", "none"},
		{"x-ai", "grok-4", "system", "none"},
	} {
		body, _, err := chat.Dialect{}.EncodeRequest(nil, r, dialecttest.TargetOf(tt.provider, tt.model))
		if err != nil {
			t.Fatal(err)
		}
		if got := dig(t, body, "messages", 0, "role"); got != tt.role {
			t.Errorf("%s: role %v, want %s", tt.provider, got, tt.role)
		}
		if got := dig(t, body, "reasoning_effort"); got != tt.effort {
			t.Errorf("%s: effort %v, want %s", tt.provider, got, tt.effort)
		}
	}
}

// Some hosts write empty objects in place of null, and their clients send them
// back.
func TestEmptyObjectsInAMessageAreAbsent(t *testing.T) {
	r, err := chat.Dialect{}.DecodeRequest([]byte(`{"model":"m","messages":[{"role":"user","content":"Go."},
		{"role":"assistant","content":"","audio":{"data":"","expires_at":0,"id":"","transcript":""},"function_call":{"arguments":"","name":""},
			"tool_calls":[{"id":"c1","type":"function","custom":{"input":"","name":""},"function":{"name":"f","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":"c1","content":"done"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	parts := r.Messages[1].Parts
	if len(parts) != 1 {
		t.Fatalf("the assistant's turn has the parts %+v, want one call", parts)
	}
	if call, ok := parts[0].(llm.ToolCall); !ok || call.Name != "f" || call.Custom {
		t.Errorf("the call is %+v, want one of the function f", parts[0])
	}
}

func TestEmptyStopSequencesMeanNone(t *testing.T) {
	for stop, want := range map[string]string{`""`: "", `[""]`: "", `["","END"]`: "END", `"END"`: "END", `[]`: ""} {
		r, err := chat.Dialect{}.DecodeRequest([]byte(`{"model":"m","messages":[{"role":"user","content":"x"}],"stop":` + stop + `}`))
		if err != nil || strings.Join(r.Stop, ",") != want {
			t.Errorf("stop %s: %q, %v, want %q", stop, r.Stop, err, want)
		}
	}
}
