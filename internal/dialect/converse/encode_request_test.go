package converse_test

import (
	"fmt"
	"strings"
	"testing"

	"modelgate/internal/dialect"
	"modelgate/internal/dialect/converse"
	"modelgate/internal/model/llm"
)

const (
	sonnet45 = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
	sonnet46 = "us.anthropic.claude-sonnet-4-6"
	sonnet37 = "anthropic.claude-3-7-sonnet-20250219-v1:0"
	opus47   = "global.anthropic.claude-opus-4-7"
	nova     = "amazon.nova-lite-v1:0"
	nova2    = "us.amazon.nova-2-lite-v1:0"
	llama    = "meta.llama3-1-8b-instruct-v1:0"
	mistral  = "mistral.mistral-large-2407-v1:0"
	gptOSS   = "openai.gpt-oss-120b-1:0"
	titan    = "amazon.titan-text-express-v1"
)

func user(parts ...llm.Part) llm.Message { return llm.Message{Role: llm.User, Parts: parts} }

func assistant(parts ...llm.Part) llm.Message { return llm.Message{Role: llm.Assistant, Parts: parts} }

func text(s string) llm.Part { return llm.Text{Text: s} }

// encoded is the encoding of a request of the chat dialect: the body, then the
// fates, or the refusal alone.
func encoded(r llm.Request, model string) string {
	if r.Dialect == "" {
		r.Dialect = "chat"
	}
	if r.Messages == nil {
		r.Messages = []llm.Message{user(text("Hi"))}
	}
	body, fates, err := converse.Dialect{}.EncodeRequest(nil, &r, dialect.RequestTarget{Provider: "bedrock", Model: model})
	if err != nil {
		return "refused: " + err.Error()
	}
	var out strings.Builder
	out.WriteString(strings.TrimPrefix(string(body), `{"messages":[{"role":"user","content":[{"text":"Hi"}]}]`))
	for _, f := range fates {
		out.WriteString(fmt.Sprintf(" | %s %s %s", f.Name, f.Outcome, f.Note))
	}
	return out.String()
}

var weather = llm.Tool{Name: "weather", Schema: []byte(`{"type":"object","properties":{"city":{"type":"string"}}}`)}

const weatherSpec = `{"toolSpec":{"name":"weather","inputSchema":{"json":{"type":"object","properties":{"city":{"type":"string"}}}}}}`

var person = llm.Format{Kind: llm.FormatSchema, Name: "person", Schema: []byte(`{"type":"object","properties":{"age":{"type":"integer","minimum":0}}}`)}

func TestParametersHaveTheNamesOfTheModel(t *testing.T) {
	for _, tt := range []struct {
		name  string
		model string
		r     llm.Request
		want  string
	}{
		{
			"sampling", nova, llm.Request{MaxTokens: new(int64(5)), Temperature: new(0.5), TopP: new(0.25), Stop: []string{"END"}, TopK: new(int64(9))},
			`,"inferenceConfig":{"maxTokens":5,"temperature":0.5,"topP":0.25,"stopSequences":["END"]},"additionalModelRequestFields":{"inferenceConfig":{"topK":9}}}`,
		},
		{
			"Claude takes one of temperature and topP", sonnet45, llm.Request{Temperature: new(0.0), TopP: new(0.5), TopK: new(int64(0))},
			`,"inferenceConfig":{"temperature":0},"additionalModelRequestFields":{"top_k":0}} | top_p dropped `,
		},
		{"newest Claude takes none", opus47, llm.Request{Temperature: new(0.5), TopK: new(int64(1))}, `} | temperature dropped  | top_k dropped `},
		{"temperature above 1", llama, llm.Request{Temperature: new(1.5)}, `,"inferenceConfig":{"temperature":1}} | temperature adapted 1 (maximum)`},
		{"top_k of other families", llama, llm.Request{TopK: new(int64(1))}, `} | top_k dropped `},
		{
			"what has no place", llama, llm.Request{Seed: new(int64(1)), User: "u", Verbosity: "low", ParallelTools: new(false), Extra: []llm.Member{{Name: "store", Value: []byte("true")}}},
			`} | seed dropped  | verbosity dropped  | user dropped  | store dropped `,
		},
		{"several choices", sonnet45, llm.Request{N: new(int64(2))}, `refused: n: provider "bedrock" does not support this with model "us.anthropic.claude-sonnet-4-5-20250929-v1:0": it gives one response to a request`},
		{"user of Claude", sonnet45, llm.Request{User: "u"}, `,"additionalModelRequestFields":{"metadata":{"user_id":"u"}}}`},
		{"penalties of Cohere", "cohere.command-r-v1:0", llm.Request{PresencePenalty: new(0.5)}, `,"additionalModelRequestFields":{"presence_penalty":0.5}}`},
		{"penalties of J2", "ai21.j2-ultra-v1", llm.Request{PresencePenalty: new(0.5)}, `,"additionalModelRequestFields":{"presencePenalty":{"scale":0.5}}}`},
		{"tiers", nova, llm.Request{ServiceTier: "auto"}, `,"serviceTier":{"type":"default"}} | service_tier adapted default`},
		{"unknown tier", nova, llm.Request{ServiceTier: "turbo"}, `} | service_tier dropped `},
		{"metadata", nova, llm.Request{Metadata: []byte(`{"team":"blue"}`)}, `,"requestMetadata":{"team":"blue"}}`},
		{"metadata in other letters", nova, llm.Request{Metadata: []byte(`{"team":"größe"}`)}, `} | metadata dropped `},
		{
			"stop sequence is reported", sonnet45, llm.Request{Stop: []string{"END", " "}},
			`,"inferenceConfig":{"stopSequences":["END"]},"additionalModelResponseFieldPaths":["/delta/stop_sequence"]} | stop adapted blank sequences removed`,
		},
		{
			"parameters of the provider in other spellings", nova, llm.Request{Extra: []llm.Member{
				{Name: "guardrail_config", Value: []byte(`{"guardrailIdentifier":"g","guardrailVersion":"1"}`)},
				{Name: "performance_config", Value: []byte(`{"latency":"optimized"}`)},
				{Name: "additional_model_request_fields", Value: []byte(`{"x":1}`)},
			}},
			`,"additionalModelRequestFields":{"x":1},"guardrailConfig":{"guardrailIdentifier":"g","guardrailVersion":"1"},"performanceConfig":{"latency":"optimized"}}`,
		},
		{
			"beta flags", sonnet45, llm.Request{Extra: []llm.Member{{Name: "anthropic_beta", Value: []byte(`"context-1m-2025-08-07, files-api-2025-04-14"`)}}},
			`,"additionalModelRequestFields":{"anthropic_beta":["context-1m-2025-08-07"]}} | anthropic_beta.files-api-2025-04-14 dropped `,
		},
		{
			"the client's own field wins", sonnet45, llm.Request{TopK: new(int64(3)), Extra: []llm.Member{{Name: "additionalModelRequestFields", Value: []byte(`{"top_k":7}`)}}},
			`,"additionalModelRequestFields":{"top_k":7}}`,
		},
		{"prompt cache", sonnet45, llm.Request{Messages: []llm.Message{user(text("Hello"))}, Cache: &llm.Cache{TTL: "1h"}}, `{"messages":[{"role":"user","content":[{"text":"Hello"},{"cachePoint":{"type":"default","ttl":"1h"}}]}]} | cache_control adapted a cache point after the last message`},
		{"prompt cache of others", llama, llm.Request{Cache: &llm.Cache{}}, `} | cache_control dropped `},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := encoded(tt.r, tt.model); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestThinkingIsAskedForAsTheModelKnowsIt(t *testing.T) {
	effort := func(s string) llm.Request { return llm.Request{Reasoning: llm.Reasoning{Effort: s}} }
	enabled := func(budget int64) llm.Request {
		return llm.Request{Reasoning: llm.Reasoning{Mode: llm.ThinkingEnabled, Budget: &budget}}
	}
	limited := effort("high")
	limited.MaxTokens = new(int64(10000))
	tight := enabled(5000)
	tight.MaxTokens = new(int64(2000))
	level := enabled(2000)
	level.MaxTokens = new(int64(2000))
	tiny := enabled(5000)
	tiny.MaxTokens = new(int64(900))
	with := enabled(2000)
	with.Temperature, with.Tools, with.ToolChoice = new(0.5), []llm.Tool{weather}, llm.ToolChoice{Mode: llm.ChoiceRequired}
	claudes := effort("low")
	claudes.Dialect = "messages"
	for _, tt := range []struct {
		name  string
		model string
		r     llm.Request
		want  string
	}{
		{"adaptive", sonnet46, effort("minimal"), `,"additionalModelRequestFields":{"thinking":{"type":"adaptive"},"output_config":{"effort":"low"}}} | reasoning_effort adapted low`},
		{"adaptive to the most", sonnet46, effort("xhigh"), `,"additionalModelRequestFields":{"thinking":{"type":"adaptive"},"output_config":{"effort":"max"}}} | reasoning_effort adapted max`},
		{"an effort alone of a client of Claude", sonnet46, claudes, `,"additionalModelRequestFields":{"output_config":{"effort":"low"}}}`},
		{"a share of the limit", sonnet37, limited, `,"inferenceConfig":{"maxTokens":10000},"additionalModelRequestFields":{"thinking":{"type":"enabled","budget_tokens":8000}}} | reasoning_effort adapted a budget of 8000 tokens`},
		{"a budget without a limit", sonnet37, effort("medium"), `,"inferenceConfig":{"maxTokens":12288},"additionalModelRequestFields":{"thinking":{"type":"enabled","budget_tokens":8192}}} | reasoning_effort adapted a budget of 8192 tokens`},
		{"none", sonnet46, effort("none"), `,"additionalModelRequestFields":{"thinking":{"type":"disabled"}}}`},
		{"a model that does not think", "anthropic.claude-3-5-sonnet-20241022-v2:0", effort("high"), `} | reasoning_effort dropped `},
		{"a budget over the limit", sonnet45, tight, `,"inferenceConfig":{"maxTokens":2000},"additionalModelRequestFields":{"thinking":{"type":"enabled","budget_tokens":1999}}} | thinking adapted a budget of 1999 tokens`},
		{"a budget at the limit", sonnet45, level, `,"inferenceConfig":{"maxTokens":2000},"additionalModelRequestFields":{"thinking":{"type":"enabled","budget_tokens":1999}}} | thinking adapted a budget of 1999 tokens`},
		{"no room to think", sonnet45, tiny, `,"inferenceConfig":{"maxTokens":900}} | thinking dropped `},
		{
			"thinking forbids force and sampling", sonnet45, with,
			`,"inferenceConfig":{"maxTokens":6096},"toolConfig":{"tools":[` + weatherSpec + `],"toolChoice":{"auto":{}}},"additionalModelRequestFields":{"thinking":{"type":"enabled","budget_tokens":2000}}} | temperature dropped  | tool_choice adapted auto`,
		},
		{"nova 2", nova2, effort("medium"), `,"additionalModelRequestFields":{"reasoningConfig":{"type":"enabled","maxReasoningEffort":"medium"}}}`},
		{"nova 2 thinking hard has no limits", nova2, limited, `,"additionalModelRequestFields":{"reasoningConfig":{"type":"enabled","maxReasoningEffort":"high"}}} | max_tokens dropped `},
		{"nova 1", nova, effort("medium"), `} | reasoning_effort dropped `},
		{"gpt-oss", gptOSS, effort("xhigh"), `,"additionalModelRequestFields":{"reasoning_effort":"high"}} | reasoning_effort adapted high`},
		{"gpt-oss with a budget", gptOSS, enabled(500), `,"additionalModelRequestFields":{"reasoning_effort":"low"}} | thinking adapted effort low`},
		{"llama", llama, enabled(2000), `} | thinking dropped `},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := encoded(tt.r, tt.model); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestToolsAndFormsAreAskedForAsTheModelKnowsThem(t *testing.T) {
	tools := func(choice llm.ToolChoice) llm.Request {
		return llm.Request{Tools: []llm.Tool{weather}, ToolChoice: choice}
	}
	one := llm.ToolChoice{Mode: llm.ChoiceTool, Names: []string{"weather"}}
	form := llm.Request{Format: person}
	both := llm.Request{Format: person, Tools: []llm.Tool{weather}}
	odd := llm.Request{Tools: []llm.Tool{{Name: "my tool/größe"}, {Name: "free", Custom: true, At: "tools[1]"}, {Native: &llm.Native{Dialect: "messages", Type: "web_search_20250305", Raw: []byte(`{"type":"web_search_20250305","name":"web_search"}`)}, Server: llm.WebSearch, At: "tools[2]"}}}
	computer := llm.Request{Tools: []llm.Tool{{At: "tools[0]", Native: &llm.Native{Dialect: "chat", Type: "computer", Raw: []byte(`{"type":"computer","computer":{"name":"computer_20250124","display_width_px":800}}`)}}}}
	history := llm.Request{Messages: []llm.Message{
		user(text("Hi")), assistant(llm.ToolCall{ID: "call|1", Name: "weather"}), user(llm.ToolResult{ID: "call|1", Parts: []llm.Part{text("sun")}}),
	}}
	const asked = `{"messages":[{"role":"user","content":[{"text":"Hi"}]},{"role":"assistant","content":[{"toolUse":{"toolUseId":"call_1_c26e9779","name":"weather","input":{}}}]},{"role":"user","content":[{"toolResult":{"toolUseId":"call_1_c26e9779","content":[{"text":"sun"}]}}]}]`
	for _, tt := range []struct {
		name  string
		model string
		r     llm.Request
		want  string
	}{
		{"required", sonnet45, tools(llm.ToolChoice{Mode: llm.ChoiceRequired}), `,"toolConfig":{"tools":[` + weatherSpec + `],"toolChoice":{"any":{}}}}`},
		{"named", nova, tools(one), `,"toolConfig":{"tools":[` + weatherSpec + `],"toolChoice":{"tool":{"name":"weather"}}}}`},
		{"named, where names can't be", mistral, tools(one), `,"toolConfig":{"tools":[` + weatherSpec + `],"toolChoice":{"any":{}}}} | tool_choice adapted any (only this tool is sent)`},
		{"named among others, where names can't be", mistral, llm.Request{Tools: []llm.Tool{{Name: "other"}, weather}, ToolChoice: one}, `,"toolConfig":{"tools":[` + weatherSpec + `],"toolChoice":{"any":{}}}} | tool_choice adapted any (only this tool is sent)`},
		{"strict, where it is taken", sonnet45, llm.Request{Tools: []llm.Tool{{Name: "f", Strict: new(true)}}}, `,"toolConfig":{"tools":[{"toolSpec":{"name":"f","inputSchema":{"json":{"type":"object","properties":{}}},"strict":true}}]}}`},
		{"strict, where it is not", opus47, llm.Request{Tools: []llm.Tool{{Name: "f", Strict: new(true), At: "tools[0]"}}}, `,"toolConfig":{"tools":[{"toolSpec":{"name":"f","inputSchema":{"json":{"type":"object","properties":{}}}}}]}} | tools[0].strict dropped `},
		{"a form with forms inside", sonnet45, llm.Request{Format: llm.Format{Kind: llm.FormatSchema, Schema: []byte(`{"oneOf":[{"type":"object"},{"type":"array","items":{"type":"object","additionalProperties":true}}]}`)}}, `,"outputConfig":{"textFormat":{"type":"json_schema","structure":{"jsonSchema":{"schema":"{\"anyOf\":[{\"additionalProperties\":false,\"type\":\"object\"},{\"type\":\"array\",\"items\":{\"additionalProperties\":false,\"type\":\"object\"}}]}"}}}}}`},
		{"required, where nothing is", llama, tools(llm.ToolChoice{Mode: llm.ChoiceRequired}), `,"toolConfig":{"tools":[` + weatherSpec + `],"toolChoice":{"auto":{}}}} | tool_choice adapted auto`},
		{"none", sonnet45, tools(llm.ToolChoice{Mode: llm.ChoiceNone}), `}`},
		{"names, free text and foreign tools", llama, odd, `,"toolConfig":{"tools":[{"toolSpec":{"name":"my_tool_gr__e_4d91a36f","inputSchema":{"json":{"type":"object","properties":{}}}}},{"toolSpec":{"name":"free","inputSchema":{"json":{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}}}}]}} | tools[2] dropped  | tools[1] adapted a function with one string parameter`},
		{"search of nova", nova2, llm.Request{Tools: odd.Tools[2:]}, `,"toolConfig":{"tools":[{"systemTool":{"name":"nova_grounding"}}]}}`},
		{"tools that Claude knows", sonnet45, computer, `,"additionalModelRequestFields":{"anthropic_beta":["computer-use-2025-01-24"],"tools":[{"type":"computer_20250124","name":"computer","display_width_px":800}]}}`},
		{"tools that others don't", nova, computer, `} | tools[0] dropped `},
		{"history without tools", llama, history, asked + `,"toolConfig":{"tools":[{"toolSpec":{"name":"unavailable","description":"Stands for tools that are no longer there. Never call it.","inputSchema":{"json":{"type":"object","properties":{}}}}}]}}`},
		{"a form that the model knows", sonnet45, form, `,"outputConfig":{"textFormat":{"type":"json_schema","structure":{"jsonSchema":{"schema":"{\"additionalProperties\":false,\"type\":\"object\",\"properties\":{\"age\":{\"type\":\"integer\"}}}","name":"person"}}}}} | response_format adapted without the constraints that the provider does not check`},
		{"a form by a forced tool", nova, form, `,"toolConfig":{"tools":[{"toolSpec":{"name":"json_response","description":"Gives the answer. Call it once, with the whole answer.","inputSchema":{"json":{"type":"object","properties":{"age":{"type":"integer","minimum":0}}}}}}],"toolChoice":{"tool":{"name":"json_response"}}}} | response_format adapted forced tool`},
		{"a form by a tool next to others", opus47, both, `,"toolConfig":{"tools":[` + weatherSpec + `,{"toolSpec":{"name":"json_response","description":"Gives the answer. Call it once, with the whole answer.","inputSchema":{"json":{"type":"object","properties":{"age":{"type":"integer","minimum":0}}}}}}],"toolChoice":{"any":{}}}} | response_format adapted forced tool`},
		{"a form as text", llama, form, `,"system":[{"text":"Answer with one JSON object and nothing else: no words around it, no code fence. It must be valid against this JSON Schema: {\"type\":\"object\",\"properties\":{\"age\":{\"type\":\"integer\",\"minimum\":0}}}"}]} | response_format adapted instruction`},
		{"a form as text without a system prompt", titan, llm.Request{Messages: []llm.Message{user(text("Who?"))}, Format: llm.Format{Kind: llm.FormatJSON}}, `{"messages":[{"role":"user","content":[{"text":"Answer with one JSON object and nothing else: no words around it, no code fence."},{"text":"Who?"}]}]} | response_format adapted instruction`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := encoded(tt.r, tt.model); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}
