package messages_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/dialect/messages"
	"modelgate/internal/model/llm"
	"modelgate/internal/testing/dialecttest"
)

// asked is a request of a chat client, with changes.
func asked(change func(r *llm.Request)) *llm.Request {
	r := &llm.Request{
		Dialect: "chat", Names: map[llm.Field]string{llm.FieldStop: "stop"}, MaxTokens: new(int64(2000)),
		Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{llm.Text{Text: "Hello"}}}},
	}
	if change != nil {
		change(r)
	}
	return r
}

func says(role llm.Role, parts ...llm.Part) llm.Message { return llm.Message{Role: role, Parts: parts} }

// fates writes fates as "name" when dropped and "name=note" when adapted.
func fates(list []dialect.ParamChange) string {
	var out []string
	for _, f := range list {
		if f.Outcome == dialect.Adapted {
			f.Name += "=" + f.Note
		}
		out = append(out, f.Name)
	}
	return strings.Join(out, "; ")
}

// members encodes r and returns what was written of the names, and the fates.
func members(t *testing.T, r *llm.Request, to dialect.RequestTarget, names ...string) (string, string) {
	t.Helper()
	body, list, err := messages.Dialect{}.EncodeRequest(nil, r, to)
	if err != nil {
		t.Fatalf("EncodeRequest: %v", err)
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(body, &m); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	var out []string
	for _, name := range names {
		if v, ok := m[name]; ok {
			out = append(out, name+" "+string(v))
		}
	}
	return strings.Join(out, " "), fates(list)
}

func TestThinkingIsFittedToTheModel(t *testing.T) {
	for _, tt := range []struct {
		model string
		r     llm.Reasoning
		want  string
		fates string
	}{
		{"claude-3-5-haiku-latest", llm.Reasoning{Effort: "high"}, `max_tokens 2000`, "reasoning_effort"},
		{"claude-3-5-haiku-latest", llm.Reasoning{Effort: "none"}, `max_tokens 2000`, ""},
		{"claude-3-5-haiku-latest", llm.Reasoning{Mode: llm.ThinkingEnabled}, `max_tokens 2000`, "thinking"},
		{"claude-3-7-sonnet", llm.Reasoning{Effort: "low"}, `max_tokens 2000 thinking {"type":"enabled","budget_tokens":1024}`, "reasoning_effort=a budget of 1024 tokens"},
		{"claude-sonnet-4-5", llm.Reasoning{Effort: "medium"}, `max_tokens 10192 thinking {"type":"enabled","budget_tokens":8192}`,
			"reasoning_effort=a budget of 8192 tokens; max_tokens=10192"},
		{"claude-opus-4-20250514", llm.Reasoning{Effort: "max"}, `max_tokens 32000 thinking {"type":"enabled","budget_tokens":31999}`,
			"reasoning_effort=a budget of 32768 tokens; max_tokens=32000"},
		{"claude-sonnet-4.5", llm.Reasoning{Mode: llm.ThinkingAdaptive}, `max_tokens 10192 thinking {"type":"enabled","budget_tokens":8192}`,
			"thinking=a budget of 8192 tokens; max_tokens=10192"},
		{"claude-sonnet-4-5", llm.Reasoning{Mode: llm.ThinkingEnabled, Budget: new(int64(100))}, `max_tokens 2000 thinking {"type":"enabled","budget_tokens":1024}`,
			"thinking=a budget of 1024 tokens (minimum)"},
		{"claude-sonnet-4-5", llm.Reasoning{Mode: llm.ThinkingEnabled}, `max_tokens 2000 thinking {"type":"enabled","budget_tokens":1024}`, ""},
		{"claude-sonnet-4-5", llm.Reasoning{Mode: llm.ThinkingEnabled, Budget: new(int64(0))}, `max_tokens 2000 thinking {"type":"disabled"}`, ""},
		{"claude-sonnet-4-5", llm.Reasoning{Effort: "none"}, `max_tokens 2000 thinking {"type":"disabled"}`, ""},
		{"claude-opus-4-5", llm.Reasoning{Effort: "xhigh"}, `max_tokens 34768 thinking {"type":"enabled","budget_tokens":32768} output_config {"effort":"high"} anthropic_beta ["effort-2025-11-24"]`,
			"reasoning_effort=high; max_tokens=34768"},
		{"claude-opus-4-6", llm.Reasoning{Effort: "xhigh"}, `max_tokens 2000 thinking {"type":"adaptive","display":"summarized"} output_config {"effort":"max"}`, "reasoning_effort=max"},
		{"claude-opus-4-6", llm.Reasoning{Effort: "minimal"}, `max_tokens 2000 thinking {"type":"adaptive","display":"summarized"} output_config {"effort":"low"}`, "reasoning_effort=low"},
		{"claude-opus-4-6", llm.Reasoning{Mode: llm.ThinkingEnabled, Budget: new(int64(1500))}, `max_tokens 2000 thinking {"type":"enabled","budget_tokens":1500}`, ""},
		{"claude-opus-4-7", llm.Reasoning{Effort: "xhigh", Summary: "auto"}, `max_tokens 2000 thinking {"type":"adaptive","display":"summarized"} output_config {"effort":"xhigh"}`, "reasoning_summary=summarized"},
		{"claude-sonnet-5", llm.Reasoning{Mode: llm.ThinkingEnabled, Budget: new(int64(5000))}, `max_tokens 2000 thinking {"type":"adaptive","display":"summarized"} output_config {"effort":"medium"}`, "thinking=adaptive"},
		{"claude-sonnet-5", llm.Reasoning{Budget: new(int64(-1))}, `max_tokens 2000 thinking {"type":"adaptive","display":"summarized"}`, ""},
		{"claude-opus-5", llm.Reasoning{Mode: llm.ThinkingDisabled, Effort: "max"}, `max_tokens 2000 thinking {"type":"disabled"} output_config {"effort":"high"}`, "reasoning_effort=high"},
		{"claude-something-new", llm.Reasoning{Effort: "high", Summary: "omitted"}, `max_tokens 2000 thinking {"type":"adaptive","display":"omitted"} output_config {"effort":"high"}`, ""},
		{"claude-opus-4-10", llm.Reasoning{Effort: "low"}, `max_tokens 2000 thinking {"type":"adaptive","display":"summarized"} output_config {"effort":"low"}`, ""},
		{"claude-sonnet-5", llm.Reasoning{Summary: "auto"}, `max_tokens 2000`, "reasoning_summary"},
		{"claude-sonnet-5", llm.Reasoning{Effort: "enormous"}, `max_tokens 2000`, "reasoning_effort"},
	} {
		t.Run(fmt.Sprint(tt.model, tt.r.Mode, tt.r.Effort), func(t *testing.T) {
			got, told := members(t, asked(func(r *llm.Request) { r.Reasoning = tt.r }), dialecttest.TargetOf("anthropic", tt.model),
				"max_tokens", "thinking", "output_config", "anthropic_beta")
			if got != tt.want || told != tt.fates {
				t.Errorf("wrote %s, told %q\nwant  %s, told %q", got, told, tt.want, tt.fates)
			}
		})
	}
}

var aTool = llm.Tool{Name: "f", Schema: json.RawMessage(`{"type":"object","properties":{}}`), At: "tools[0]"}

func TestParametersOfOtherDialectsAreCarriedOrTold(t *testing.T) {
	sonnet := dialecttest.TargetOf("anthropic", "claude-sonnet-4-5")
	newest := dialecttest.TargetOf("anthropic", "claude-opus-4-7")
	for _, tt := range []struct {
		name   string
		to     dialect.RequestTarget
		change func(r *llm.Request)
		names  string
		want   string
		fates  string
	}{
		{"no limit is the longest answer", sonnet, func(r *llm.Request) { r.MaxTokens = nil }, "max_tokens", "max_tokens 64000", ""},
		{"a limit is clamped", sonnet, func(r *llm.Request) { r.MaxTokens = new(int64(1 << 20)) }, "max_tokens", "max_tokens 64000", "max_tokens=64000"},
		{"a limit of an unknown model is kept", dialecttest.TargetOf("minimax", "m2"), func(r *llm.Request) { r.MaxTokens = new(int64(1 << 20)) }, "max_tokens", "max_tokens 1048576", ""},
		{"temperature is at most 1", sonnet, func(r *llm.Request) { r.Temperature = new(1.5) }, "temperature", "temperature 1", "temperature=1 (maximum)"},
		{"top_p goes next to temperature", sonnet, func(r *llm.Request) { r.Temperature, r.TopP = new(0.5), new(0.5) }, "temperature top_p", "temperature 0.5", "top_p"},
		{"new models choose themselves", newest, func(r *llm.Request) { r.Temperature, r.TopP, r.TopK = new(0.5), new(0.5), new(int64(3)) }, "temperature top_p top_k", "", "temperature; top_p; top_k"},
		{"thinking models too", sonnet, func(r *llm.Request) { r.Reasoning.Mode, r.Temperature = llm.ThinkingEnabled, new(0.5) }, "temperature", "", "temperature"},
		{"blank stops go", sonnet, func(r *llm.Request) { r.Stop = []string{"\n", "END"} }, "stop_sequences", `stop_sequences ["END"]`, "stop=blank sequences removed"},
		{"an empty request is not a loss", sonnet, func(r *llm.Request) {
			r.FrequencyPenalty, r.Logprobs, r.N, r.Modalities, r.IncludeUsage = new(0.0), new(false), new(int64(1)), []string{"text"}, new(true)
		}, "n", "", ""},
		{"unknown members are reported", sonnet, func(r *llm.Request) {
			r.Seed, r.PresencePenalty, r.LogitBias, r.Logprobs, r.TopLogprobs = new(int64(1)), new(1.0), json.RawMessage(`{}`), new(true), new(int64(2))
			r.Verbosity, r.Speech, r.Metadata = "low", json.RawMessage(`{}`), json.RawMessage(`{"a":"b"}`)
			r.Extra = []llm.Member{{Name: "store", Value: json.RawMessage("true")}}
		}, "seed metadata store", "", "presence_penalty; seed; logit_bias; logprobs; top_logprobs; verbosity; audio; metadata; store"},
		{"user", sonnet, func(r *llm.Request) { r.User = "u1" }, "metadata", `metadata {"user_id":"u1"}`, ""},
		{"safety identifier", sonnet, func(r *llm.Request) {
			r.Extra = []llm.Member{{Name: "safety_identifier", Value: json.RawMessage(`"s1"`)}}
		}, "metadata", `metadata {"user_id":"s1"}`, "safety_identifier=metadata.user_id"},
		{"tier default", sonnet, func(r *llm.Request) { r.ServiceTier = "default" }, "service_tier", `service_tier "standard_only"`, ""},
		{"tier priority", sonnet, func(r *llm.Request) { r.ServiceTier = "priority" }, "service_tier", `service_tier "auto"`, "service_tier=auto"},
		{"tier flex", sonnet, func(r *llm.Request) { r.ServiceTier = "flex" }, "service_tier", "", "service_tier"},
		{"what is this dialect's is carried", sonnet, func(r *llm.Request) {
			r.Extra = []llm.Member{
				{Name: "anthropic_beta", Value: json.RawMessage(`"a, b"`)},
				{Name: "context_management", Value: json.RawMessage(`{"edits":[{"type":"clear_tool_uses_20250919"}]}`)},
				{Name: "output_config", Value: json.RawMessage(`{"task_budget":{"total":9}}`)},
				{Name: "mcp_servers", Value: json.RawMessage(`[]`)},
			}
		}, "context_management output_config anthropic_beta", `context_management {"edits":[{"type":"clear_tool_uses_20250919"}]} output_config {"task_budget":{"total":9}} ` +
			`anthropic_beta ["context-management-2025-06-27","mcp-client-2025-11-20","a","b"]`, ""},
		{"JSON as text", sonnet, func(r *llm.Request) { r.Format.Kind = llm.FormatJSON }, "system",
			`system [{"type":"text","text":"Answer with one valid JSON object and nothing else: no words before or after it, no code fence."}]`, "response_format=requested in the instructions"},
		{"a schema", sonnet, func(r *llm.Request) {
			r.Format = llm.Format{Kind: llm.FormatSchema, Name: "x", Schema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer","minimum":1,"description":"d"},"o":{"oneOf":[{"type":"string","format":"email"},{"$ref":"#/$defs/a","title":"t"}]}},"$defs":{"a":{"enum":[null]}}}`)}
		}, "output_config tool_choice", `output_config {"format":{"type":"json_schema","schema":{"type":"object","properties":{"n":{"type":"integer","description":"d\nminimum: 1"},"o":{"anyOf":[{"type":"string","format":"email"},{"$ref":"#/$defs/a"}]}},"$defs":{"a":{"enum":[null]}},"additionalProperties":false}}}`,
			"response_format=constraints of values are in the descriptions"},
		{"a schema by a forced tool", dialecttest.TargetOf("vertex-ai", "claude-sonnet-4-5"), func(r *llm.Request) {
			r.Format = llm.Format{Kind: llm.FormatSchema, Schema: json.RawMessage(`{"type":"object","properties":{}}`)}
			r.Reasoning.Effort = "high"
		}, "output_config tools tool_choice thinking", `tools [{"name":"json_response","description":"Give your answer with this tool.","input_schema":{"type":"object","properties":{}}}] ` +
			`tool_choice {"type":"tool","name":"json_response","disable_parallel_tool_use":true}`,
			"reasoning_effort; response_format=forced tool"},
		{"a schema by a forced tool among others", dialecttest.TargetOf("bedrock", "anthropic.claude-sonnet-5-v1:0"), func(r *llm.Request) {
			r.Format = llm.Format{Kind: llm.FormatSchema, Schema: json.RawMessage(`{"type":"object","properties":{}}`)}
			r.Tools = []llm.Tool{aTool}
		}, "tool_choice", `tool_choice {"type":"any"}`, "response_format=forced tool"},
		{"a choice without tools", sonnet, func(r *llm.Request) { r.ToolChoice.Mode = llm.ChoiceRequired }, "tools tool_choice", "", "tool_choice"},
		{"required", sonnet, func(r *llm.Request) { r.Tools, r.ToolChoice.Mode = []llm.Tool{aTool}, llm.ChoiceRequired }, "tool_choice", `tool_choice {"type":"any"}`, ""},
		{"one tool", sonnet, func(r *llm.Request) {
			r.Tools, r.ToolChoice = []llm.Tool{aTool}, llm.ToolChoice{Mode: llm.ChoiceTool, Names: []string{"f"}}
		}, "tool_choice", `tool_choice {"type":"tool","name":"f"}`, ""},
		{"none", sonnet, func(r *llm.Request) {
			r.Tools, r.ToolChoice.Mode, r.ParallelTools = []llm.Tool{aTool}, llm.ChoiceNone, new(false)
		}, "tool_choice", `tool_choice {"type":"none"}`, ""},
		{"one at a time", sonnet, func(r *llm.Request) { r.Tools, r.ParallelTools = []llm.Tool{aTool}, new(false) }, "tool_choice", `tool_choice {"type":"auto","disable_parallel_tool_use":true}`, ""},
		{"one at a time on a host that can't", dialecttest.TargetOf("bedrock", "claude-sonnet-4-5"), func(r *llm.Request) { r.Tools, r.ParallelTools = []llm.Tool{aTool}, new(false) }, "tool_choice", `tool_choice {"type":"auto"}`, "parallel_tool_calls"},
		{"several at a time", sonnet, func(r *llm.Request) { r.Tools, r.ParallelTools = []llm.Tool{aTool}, new(true) }, "tool_choice", "", ""},
		{"a forced tool while thinking", sonnet, func(r *llm.Request) {
			r.Tools, r.ToolChoice.Mode, r.Reasoning.Mode = []llm.Tool{aTool}, llm.ChoiceRequired, llm.ThinkingEnabled
		}, "tool_choice", `tool_choice {"type":"auto"}`, "tool_choice=auto (a forced tool is not allowed while thinking)"},
		{"allowed tools", sonnet, func(r *llm.Request) {
			r.Tools, r.ToolChoice = []llm.Tool{aTool, {Name: "g"}}, llm.ToolChoice{Mode: llm.ChoiceAuto, Names: []string{"g"}}
		}, "tools", `tools [{"name":"g","input_schema":{"type":"object","properties":{}}}]`, "tool_choice=only the allowed tools are sent"},
		{"strict within what models know", sonnet, func(r *llm.Request) {
			r.Tools = []llm.Tool{{Name: "f", Strict: new(true), Schema: json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`)}, {Name: "g", Strict: new(true), Schema: aTool.Schema, At: "tools[1]"}}
		}, "tools", `tools [{"name":"f","input_schema":{"type":"object","properties":{},"additionalProperties":false},"strict":true},{"name":"g","input_schema":{"type":"object","properties":{}}}]`, "tools[1].strict"},
		{"a tool of free text", sonnet, func(r *llm.Request) { r.Tools = []llm.Tool{{Name: "f", Custom: true, At: "tools[0]"}} }, "tools",
			`tools [{"name":"f","input_schema":{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}}]`, "tools[0]=a function with one string parameter"},
		{"a schema without type", sonnet, func(r *llm.Request) {
			r.Tools = []llm.Tool{{Name: "f", Schema: json.RawMessage(`{"required":["a"]}`)}}
		}, "tools", `tools [{"name":"f","input_schema":{"type":"object","properties":{},"required":["a"]}}]`, ""},
		{"alternatives at the top of a schema", sonnet, func(r *llm.Request) {
			r.Tools = []llm.Tool{{Name: "f", At: "tools[0]", Schema: json.RawMessage(`{"type":"object","description":"d","properties":{"a":{"anyOf":[{}]}},"anyOf":[{"required":["a"]}]}`)}}
		}, "tools", `tools [{"name":"f","input_schema":{"type":"object","properties":{"a":{"anyOf":[{}]}},"description":"d\nanyOf: [{\"required\":[\"a\"]}]"}}]`, "tools[0]=the alternatives of its schema are in the schema's description"},
		{"a server tool of another vendor", sonnet, func(r *llm.Request) {
			r.Tools = []llm.Tool{{Server: llm.WebSearch, At: "tools[0]", Native: &llm.Native{Dialect: "responses", Type: "web_search", Raw: json.RawMessage(`{"type":"web_search","filters":{"allowed_domains":["a.example"]},"user_location":{"type":"approximate","city":"Bern"}}`)}}}
		}, "tools", `tools [{"type":"web_search_20250305","name":"web_search","allowed_domains":["a.example"],"user_location":{"type":"approximate","city":"Bern"}}]`, "tools[0]=web_search_20250305"},
		{"a server tool that needs a feature", sonnet, func(r *llm.Request) { r.Tools = []llm.Tool{{Server: llm.CodeExecution, At: "tools[0]"}} }, "tools anthropic_beta",
			`tools [{"type":"code_execution_20250825","name":"code_execution"}] anthropic_beta ["code-execution-2025-08-25"]`, "tools[0]=code_execution_20250825"},
		{"a server tool that the host lacks", dialecttest.TargetOf("vertex-ai", "claude-sonnet-4-5"), func(r *llm.Request) { r.Tools = []llm.Tool{{Server: llm.CodeExecution, At: "tools[0]"}} }, "tools", "", "tools[0]"},
		{"web search options", sonnet, func(r *llm.Request) {
			r.Extra = []llm.Member{{Name: "web_search_options", Value: json.RawMessage(`{"user_location":{"approximate":{"country":"CH"}}}`)}}
		}, "tools", `tools [{"type":"web_search_20250305","name":"web_search","user_location":{"type":"approximate","country":"CH"}}]`, "web_search_options=web_search_20250305"},
		{"options of a web search that are lacking", sonnet, func(r *llm.Request) {
			r.Extra = []llm.Member{{Name: "web_search_options", Value: json.RawMessage(`{"search_context_size":"low"}`)}}
		}, "tools", `tools [{"type":"web_search_20250305","name":"web_search"}]`, "web_search_options=web_search_20250305; web_search_options.search_context_size"},
		{"a native tool of a chat client", sonnet, func(r *llm.Request) {
			r.Tools = []llm.Tool{
				{At: "tools[0]", Native: &llm.Native{Dialect: "chat", Type: "computer", Raw: json.RawMessage(`{"type":"computer","computer":{"name":"computer_20250124","display_width_px":9}}`)}},
				{At: "tools[1]", Native: &llm.Native{Dialect: "chat", Type: "bash_20250124", Raw: json.RawMessage(`{"type":"bash_20250124","name":"bash"}`)}},
				{At: "tools[2]", Native: &llm.Native{Dialect: "chat", Type: "retrieval", Raw: json.RawMessage(`{"type":"retrieval"}`)}},
			}
		}, "tools anthropic_beta", `tools [{"type":"computer_20250124","name":"computer","display_width_px":9},{"type":"bash_20250124","name":"bash"}] anthropic_beta ["computer-use-2025-01-24"]`, "tools[2]"},
		{"the envelope of a cloud", dialecttest.TargetOf("bedrock", "anthropic.claude-sonnet-4-5-v1:0"), func(r *llm.Request) { r.Stream = true },
			"model stream anthropic_version", `anthropic_version "bedrock-2023-05-31"`, ""},
		{"the envelope of another", dialecttest.TargetOf("vertex-ai", "claude-sonnet-4-5"), func(r *llm.Request) { r.Stream = true },
			"model stream anthropic_version", `stream true anthropic_version "vertex-2023-10-16"`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, told := members(t, asked(tt.change), tt.to, strings.Fields(tt.names)...)
			if got != tt.want || told != tt.fates {
				t.Errorf("wrote %s\nwant  %s\ntold %q\nwant %q", got, tt.want, told, tt.fates)
			}
		})
	}
}

func TestMessagesOfOtherDialectsAreFitted(t *testing.T) {
	thought := llm.Thinking{Text: "hm", Signature: llm.Signature{Vendor: llm.Anthropic, Value: "s"}}
	call := llm.ToolCall{ID: "functions.f:0", Name: "f", Arguments: ""}
	for _, tt := range []struct {
		name string
		list []llm.Message
		want string
	}{
		{"system words lead", []llm.Message{says(llm.System, llm.Text{Text: "a"}), says(llm.User, llm.Text{Text: "u"}), says(llm.Developer, llm.Text{Text: "b"})},
			`system [{"type":"text","text":"a"},{"type":"text","text":"b"}] messages [{"role":"user","content":[{"type":"text","text":"u"}]}]`},
		{"system words alone", []llm.Message{says(llm.System, llm.Text{Text: "a"})}, `messages [{"role":"user","content":[{"type":"text","text":"a"}]}]`},
		{"turns of one role are joined, results first", []llm.Message{says(llm.User, llm.Text{Text: "u"}), says(llm.Assistant, call),
			says(llm.User, llm.Text{Text: "look"}), says(llm.User, llm.ToolResult{ID: "functions.f:0", Failed: true, Parts: []llm.Part{llm.Text{Text: "r"}}})},
			`messages [{"role":"user","content":[{"type":"text","text":"u"}]},{"role":"assistant","content":[{"type":"tool_use","id":"functions_f_0_d6bdd4de","name":"f","input":{}}]},` +
				`{"role":"user","content":[{"type":"tool_result","tool_use_id":"functions_f_0_d6bdd4de","content":[{"type":"text","text":"r"}],"is_error":true},{"type":"text","text":"look"}]}]`},
		{"thinking of others and blank text go", []llm.Message{says(llm.User, llm.Text{Text: "u"}), says(llm.Assistant, thought,
			llm.Thinking{Text: "x", Signature: llm.Signature{Vendor: llm.OpenAI, Value: "s"}}, llm.Thinking{Text: "unsigned"}, llm.Text{Text: " "},
			llm.Native{Dialect: "chat", Type: "x", Raw: json.RawMessage(`{}`)}, llm.Refusal{Text: "no"}), says(llm.User, llm.Text{Text: "v"})},
			`messages [{"role":"user","content":[{"type":"text","text":"u"}]},{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"no"}]},` +
				`{"role":"user","content":[{"type":"text","text":"v"}]}]`},
		{"a prefill is trimmed", []llm.Message{says(llm.User, llm.Text{Text: "u"}), says(llm.Assistant, llm.Text{Text: "So \n"})},
			`messages [{"role":"user","content":[{"type":"text","text":"u"}]},{"role":"assistant","content":[{"type":"text","text":"So"}]}]`},
		{"text in data is text", []llm.Message{says(llm.User, llm.Media{Kind: llm.Document, Type: "text/csv", Data: "YSxi", Name: "t", Cite: true, Cache: &llm.Cache{TTL: "1h"}})},
			`messages [{"role":"user","content":[{"type":"document","source":{"type":"text","media_type":"text/plain","data":"a,b"},"title":"t","citations":{"enabled":true},"cache_control":{"type":"ephemeral","ttl":"1h"}}]}]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, _ := members(t, asked(func(r *llm.Request) { r.Messages = tt.list }), anthropic, "system", "messages")
			if got != tt.want {
				t.Errorf("wrote %s\nwant  %s", got, tt.want)
			}
		})
	}
}

func TestThinkingStopsWhereHistoryHasLostIt(t *testing.T) {
	r := asked(func(r *llm.Request) {
		r.Reasoning.Effort = "low"
		r.Messages = append(r.Messages, says(llm.Assistant, llm.ToolCall{ID: "a", Name: "f"}), says(llm.User, llm.ToolResult{ID: "a"}))
	})
	if got, told := members(t, r, anthropic, "thinking"); got != "" || !strings.Contains(told, "reasoning_effort") {
		t.Errorf("wrote %q, told %q, want no thinking and the effort told", got, told)
	}
}

func TestALaterVersionIsNotAnEarlierOne(t *testing.T) {
	for model, want := range map[string]string{"claude-sonnet-50": "max_tokens 128000", "claude-haiku-4-50": "max_tokens 128000", "claude-sonnet-4-5@20250929": "max_tokens 64000", "us.anthropic.claude-3-haiku-20240307-v1:0": "max_tokens 4096", "kimi-k2": "max_tokens 8192"} {
		r := asked(func(r *llm.Request) { r.MaxTokens = nil })
		if got, _ := members(t, r, dialecttest.TargetOf("anthropic", model), "max_tokens"); got != want {
			t.Errorf("%s gets %s, want %s", model, got, want)
		}
	}
}

func TestUnsupportedContentIsRefused(t *testing.T) {
	user := func(p llm.Part) func(r *llm.Request) {
		return func(r *llm.Request) { r.Messages[0].Parts = []llm.Part{p} }
	}
	vertex := dialecttest.TargetOf("vertex-ai", "claude-sonnet-4-5")
	for _, tt := range []struct {
		name   string
		to     dialect.RequestTarget
		change func(r *llm.Request)
		param  string
	}{
		{"several answers", anthropic, func(r *llm.Request) { r.N = new(int64(2)) }, "n"},
		{"speech alone", anthropic, func(r *llm.Request) { r.Modalities = []string{"audio"} }, "modalities"},
		{"audio", anthropic, user(llm.Media{Kind: llm.Audio, Data: "aa==", At: "messages[0].content[0]"}), "messages[0].content[0]"},
		{"an odd image", anthropic, user(llm.Media{Kind: llm.Image, Type: "image/tiff", Data: "aa==", At: "here"}), "here"},
		{"a bucket", anthropic, user(llm.Media{Kind: llm.Image, URL: "gs://a/b", At: "here"}), "here"},
		{"an address on a host without", vertex, user(llm.Media{Kind: llm.Image, URL: "https://a.example/b.png", At: "here"}), "here"},
		{"a file on a host without", vertex, user(llm.Media{Kind: llm.Document, FileID: "f", At: "here"}), "here"},
		{"arguments of an array", anthropic, func(r *llm.Request) {
			r.Tools = []llm.Tool{{Name: "f", Schema: json.RawMessage(`{"type":"array"}`), At: "here"}}
		}, "here"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := messages.Dialect{}.EncodeRequest(nil, asked(tt.change), tt.to)
			refusal, ok := err.(*apierr.Error)
			if !ok || refusal.Kind != apierr.Invalid || refusal.Param != tt.param {
				t.Errorf("EncodeRequest = %v, want it refused for %s", err, tt.param)
			}
		})
	}
}
