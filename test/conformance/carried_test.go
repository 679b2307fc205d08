package conformance

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// carried says what happens to a parameter of a chat request at a provider of
// another protocol: where it appears and as what. The provider may be followed by
// a model. Want is JSON; "absent" means that the member must not be set.
type carried struct {
	of, member, provider string
	path                 []any
	want                 string
}

const (
	lookTool   = `"tools":[{"type":"function","function":{"name":"look","description":"d","parameters":{"type":"object","properties":{"q":{"type":"integer"}}}}}]`
	schemaForm = `"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}}}`
	wantSchema = `{"additionalProperties":false,"properties":{"a":{"type":"string"}},"required":["a"],"type":"object"}`
	wantLook   = `{"properties":{"q":{"type":"integer"}},"type":"object"}`

	twoTools     = `"tools":[{"type":"function","function":{"name":"look","description":"looks","parameters":{"type":"object","properties":{}}}},{"type":"function","function":{"name":"find","description":"finds","parameters":{"type":"object","properties":{}}}}]`
	twoFunctions = `"functions":[{"name":"look","parameters":{"type":"object","properties":{}}},{"name":"find","parameters":{"type":"object","properties":{}}}]`
	namedLook    = `"tool_choice":{"type":"function","function":{"name":"look"}}`
	fourStops    = `"stop":["A","B","C","D"]`
	wantStops    = `["A","B","C","D"]`
	thinkLess    = `"thinking":{"type":"disabled"}`
	bedrockMind  = "bedrock anthropic.claude-sonnet-4-5-20250929-v1:0"
)

var carriedParameters = []carried{
	{"S-277", `"temperature":0.5`, "anthropic", []any{"temperature"}, `0.5`},
	{"S-277", `"temperature":0.5`, "google", []any{"generationConfig", "temperature"}, `0.5`},
	{"S-277", `"temperature":0.5`, "bedrock", []any{"inferenceConfig", "temperature"}, `0.5`},
	{"S-277", `"temperature":0.5`, "cohere", []any{"temperature"}, `0.5`},
	{"S-277", `"temperature":0.5`, "oracle", []any{"chatRequest", "temperature"}, `0.5`},
	{"S-277", `"seed":1`, "anthropic", []any{"temperature"}, `absent`},
	{"S-278", `"top_p":0.25`, "anthropic", []any{"top_p"}, `0.25`},
	{"S-278", `"top_p":0.25`, "google", []any{"generationConfig", "topP"}, `0.25`},
	{"S-278", `"top_p":0.25`, "bedrock", []any{"inferenceConfig", "topP"}, `0.25`},
	{"S-278", `"top_p":0.25`, "cohere", []any{"p"}, `0.25`},
	{"S-268", `"seed":12345678901`, "google", []any{"generationConfig", "seed"}, `-539222987`},
	{"S-268", `"seed":12345678901`, "cohere", []any{"seed"}, `12345678901`},
	{"S-269", `"stop":"END"`, "anthropic", []any{"stop_sequences"}, `["END"]`},
	{"S-269", `"stop":["A","B"]`, "google", []any{"generationConfig", "stopSequences"}, `["A","B"]`},
	{"S-269", `"stop":["A","B"]`, "bedrock", []any{"inferenceConfig", "stopSequences"}, `["A","B"]`},
	{"S-269", `"stop":"END"`, "cohere", []any{"stop_sequences"}, `["END"]`},
	{"S-273", `"thinking":{"type":"enabled","budget_tokens":2048}`, "anthropic", []any{"thinking"}, `{"budget_tokens":2048,"type":"enabled"}`},
	{"S-273", `"thinking":{"type":"enabled","budget_tokens":2048}`, "google", []any{"generationConfig", "thinkingConfig", "thinkingBudget"}, `2048`},
	{"S-273", `"thinking":{"type":"enabled","budget_tokens":2048}`, "cohere", []any{"thinking", "token_budget"}, `2048`},
	{"S-267", schemaForm, "google", []any{"generationConfig", "responseMimeType"}, `"application/json"`},
	{"S-267", schemaForm, "cohere", []any{"response_format", "json_schema"}, wantSchema},
	{"S-267", schemaForm, "anthropic", []any{"output_config", "format", "schema"}, wantSchema},
	{"S-267", schemaForm, "oracle", []any{"chatRequest", "responseFormat", "jsonSchema", "schema"}, wantSchema},
	{"S-279", lookTool, "anthropic", []any{"tools", 0, "input_schema"}, wantLook},
	{"S-279", lookTool, "google", []any{"tools", 0, "functionDeclarations", 0, "name"}, `"look"`},
	{"S-279", lookTool, "bedrock", []any{"toolConfig", "tools", 0, "toolSpec", "inputSchema", "json"}, wantLook},
	{"S-279", lookTool, "cohere", []any{"tools", 0, "function", "parameters"}, wantLook},
	{"S-279", lookTool, "oracle", []any{"chatRequest", "tools", 0, "parameters"}, wantLook},
	{"S-282", lookTool, "anthropic", []any{"tool_choice"}, `absent`},
	{"S-282", lookTool, "google", []any{"toolConfig"}, `absent`},
	{"S-282", lookTool, "bedrock", []any{"toolConfig", "toolChoice"}, `absent`},
	{"S-282", lookTool, "cohere", []any{"tool_choice"}, `absent`},
	{"S-282", `"seed":1`, "anthropic", []any{"tool_choice"}, `absent`},
	{"S-281", lookTool + `,"tool_choice":"auto"`, "anthropic", []any{"tool_choice", "type"}, `"auto"`},
	{"S-281", lookTool + `,"tool_choice":"none"`, "anthropic", []any{"tool_choice", "type"}, `"none"`},
	{"S-281", lookTool + `,"tool_choice":"required"`, "anthropic", []any{"tool_choice", "type"}, `"any"`},
	{"S-281", lookTool + `,"tool_choice":{"type":"function","function":{"name":"look"}}`, "anthropic", []any{"tool_choice"}, `{"name":"look","type":"tool"}`},
	{"S-281", lookTool + `,"tool_choice":"auto"`, "google", []any{"toolConfig", "functionCallingConfig", "mode"}, `"AUTO"`},
	{"S-281", lookTool + `,"tool_choice":"none"`, "google", []any{"toolConfig", "functionCallingConfig", "mode"}, `"NONE"`},
	{"S-281", lookTool + `,"tool_choice":"required"`, "google", []any{"toolConfig", "functionCallingConfig", "mode"}, `"ANY"`},
	{"S-281", lookTool + `,"tool_choice":{"type":"function","function":{"name":"look"}}`, "google", []any{"toolConfig", "functionCallingConfig", "allowedFunctionNames"}, `["look"]`},
	{"S-281", lookTool + `,"tool_choice":"required"`, "bedrock", []any{"toolConfig", "toolChoice"}, `{"any":{}}`},
	{"S-281", lookTool + `,"tool_choice":{"type":"function","function":{"name":"look"}}`, "bedrock", []any{"toolConfig", "toolChoice"}, `{"tool":{"name":"look"}}`},
	{"S-281", lookTool + `,"tool_choice":"required"`, "cohere", []any{"tool_choice"}, `"REQUIRED"`},
	{"S-281", lookTool + `,"tool_choice":"none"`, "cohere", []any{"tool_choice"}, `"NONE"`},
	{"S-283", lookTool + `,"parallel_tool_calls":false`, "anthropic", []any{"tool_choice", "disable_parallel_tool_use"}, `true`},
	{"S-284", `"user":"u-1"`, "anthropic", []any{"metadata", "user_id"}, `"u-1"`},

	// No value is too small to be sent: 0 and false are not the same as nothing.
	{"S-277", `"temperature":0`, "anthropic", []any{"temperature"}, `0`},
	{"S-277", `"temperature":0`, "google", []any{"generationConfig", "temperature"}, `0`},
	{"S-277", `"temperature":0`, "bedrock", []any{"inferenceConfig", "temperature"}, `0`},
	{"S-277", `"temperature":0`, "cohere", []any{"temperature"}, `0`},
	{"S-277", `"temperature":0`, "oracle", []any{"chatRequest", "temperature"}, `0`},
	{"S-278", `"top_p":0`, "google", []any{"generationConfig", "topP"}, `0`},
	{"S-278", `"top_p":0.25`, "oracle", []any{"chatRequest", "topP"}, `0.25`},
	{"S-259", `"frequency_penalty":-1.5`, "google", []any{"generationConfig", "frequencyPenalty"}, `-1.5`},
	{"S-259", `"frequency_penalty":0.5`, "cohere", []any{"frequency_penalty"}, `0.5`},
	{"S-259", `"frequency_penalty":-1.5`, "oracle", []any{"chatRequest", "frequencyPenalty"}, `-1.5`},
	{"S-260", `"presence_penalty":-1.5`, "google", []any{"generationConfig", "presencePenalty"}, `-1.5`},
	{"S-260", `"presence_penalty":0.5`, "cohere", []any{"presence_penalty"}, `0.5`},
	{"S-260", `"presence_penalty":-1.5`, "oracle", []any{"chatRequest", "presencePenalty"}, `-1.5`},
	{"S-261", `"logit_bias":{"11":0.5,"50256":-100}`, "oracle", []any{"chatRequest", "logitBias"}, `{"11":0.5,"50256":-100}`},
	{"S-262", `"logprobs":true`, "google", []any{"generationConfig", "responseLogprobs"}, `true`},
	{"S-262", `"logprobs":true`, "cohere", []any{"logprobs"}, `true`},
	{"S-262", `"logprobs":true`, "oracle", []any{"chatRequest", "logProbs"}, `1`},
	{"S-263", `"logprobs":true,"top_logprobs":3`, "google", []any{"generationConfig", "logprobs"}, `3`},
	{"S-263", `"logprobs":true,"top_logprobs":3`, "oracle", []any{"chatRequest", "logProbs"}, `3`},
	{"S-265", `"max_tokens":77`, "anthropic", []any{"max_tokens"}, `77`},
	{"S-265", `"max_tokens":77`, "google", []any{"generationConfig", "maxOutputTokens"}, `77`},
	{"S-265", `"max_tokens":77`, "bedrock", []any{"inferenceConfig", "maxTokens"}, `77`},
	{"S-265", `"max_tokens":77`, "cohere", []any{"max_tokens"}, `77`},
	{"S-265", `"max_tokens":77`, "oracle", []any{"chatRequest", "maxTokens"}, `77`},
	{"S-266", `"n":2`, "google", []any{"generationConfig", "candidateCount"}, `2`},
	{"S-266", `"n":2`, "oracle", []any{"chatRequest", "numGenerations"}, `2`},
	{"S-268", `"seed":9007199254740993`, "google", []any{"generationConfig", "seed"}, `1`},
	{"S-268", `"seed":9007199254740993`, "cohere", []any{"seed"}, `9007199254740993`},
	{"S-268", `"seed":9007199254740993`, "oracle", []any{"chatRequest", "seed"}, `9007199254740993`},
	{"S-269", `"stop":["A","B"]`, "anthropic", []any{"stop_sequences"}, `["A","B"]`},
	{"S-269", `"stop":["A","B"]`, "cohere", []any{"stop_sequences"}, `["A","B"]`},
	{"S-269", `"stop":["A","B"]`, "oracle", []any{"chatRequest", "stop"}, `["A","B"]`},
	{"S-269", fourStops, "anthropic", []any{"stop_sequences"}, wantStops},
	{"S-269", fourStops, "google", []any{"generationConfig", "stopSequences"}, wantStops},
	{"S-269", fourStops, "bedrock", []any{"inferenceConfig", "stopSequences"}, wantStops},
	{"S-269", fourStops, "cohere", []any{"stop_sequences"}, wantStops},
	{"S-269", fourStops, "oracle", []any{"chatRequest", "stop"}, wantStops},
	{"S-269", `"stop":"END"`, "bedrock", []any{"inferenceConfig", "stopSequences"}, `["END"]`},
	{"S-273", `"thinking":{"type":"enabled","budget_tokens":2048}`, bedrockMind, []any{"additionalModelRequestFields", "thinking"}, `{"budget_tokens":2048,"type":"enabled"}`},
	{"S-273", thinkLess, "anthropic", []any{"thinking"}, `{"type":"disabled"}`},
	{"S-273", thinkLess, "google", []any{"generationConfig", "thinkingConfig", "thinkingBudget"}, `0`},
	{"S-273", thinkLess, "cohere", []any{"thinking"}, `{"type":"disabled"}`},
	{"S-273", thinkLess, "oracle", []any{"chatRequest", "reasoningEffort"}, `"NONE"`},
	{"S-267", schemaForm, "google", []any{"generationConfig", "responseJsonSchema"}, wantSchema},
	{"S-267", schemaForm, "oracle", []any{"chatRequest", "responseFormat", "jsonSchema", "name"}, `"n"`},
	{"S-267", `"response_format":{"type":"json_object"}`, "google", []any{"generationConfig", "responseMimeType"}, `"application/json"`},
	{"S-267", `"response_format":{"type":"json_object"}`, "cohere", []any{"response_format"}, `{"type":"json_object"}`},
	{"S-267", `"response_format":{"type":"json_object"}`, "oracle", []any{"chatRequest", "responseFormat"}, `{"type":"JSON_OBJECT"}`},
	{"S-279", twoTools, "anthropic", []any{"tools", 1, "name"}, `"find"`},
	{"S-279", twoTools, "anthropic", []any{"tools", 1, "description"}, `"finds"`},
	{"S-279", twoTools, "google", []any{"tools", 0, "functionDeclarations", 1, "name"}, `"find"`},
	{"S-279", twoTools, "google", []any{"tools", 0, "functionDeclarations", 1, "description"}, `"finds"`},
	{"S-279", twoTools, "bedrock", []any{"toolConfig", "tools", 1, "toolSpec", "name"}, `"find"`},
	{"S-279", twoTools, "bedrock", []any{"toolConfig", "tools", 1, "toolSpec", "description"}, `"finds"`},
	{"S-279", twoTools, "cohere", []any{"tools", 1, "function", "name"}, `"find"`},
	{"S-279", twoTools, "cohere", []any{"tools", 1, "function", "description"}, `"finds"`},
	{"S-279", twoTools, "oracle", []any{"chatRequest", "tools", 1, "name"}, `"find"`},
	{"S-279", twoTools, "oracle", []any{"chatRequest", "tools", 1, "description"}, `"finds"`},
	{"S-281", twoTools + "," + namedLook, "google", []any{"toolConfig", "functionCallingConfig", "mode"}, `"ANY"`},
	{"S-281", lookTool + `,"tool_choice":"auto"`, "bedrock", []any{"toolConfig", "toolChoice"}, `{"auto":{}}`},
	{"S-281", lookTool + `,"tool_choice":"none"`, "bedrock", []any{"toolConfig"}, `absent`},
	{"S-281", twoTools + "," + namedLook, "cohere", []any{"tool_choice"}, `"REQUIRED"`},
	{"S-281", twoTools + "," + namedLook, "cohere", []any{"tools", 1}, `absent`},
	{"S-281", lookTool + `,"tool_choice":"auto"`, "oracle", []any{"chatRequest", "toolChoice"}, `{"type":"AUTO"}`},
	{"S-281", lookTool + `,"tool_choice":"none"`, "oracle", []any{"chatRequest", "toolChoice"}, `{"type":"NONE"}`},
	{"S-281", lookTool + `,"tool_choice":"required"`, "oracle", []any{"chatRequest", "toolChoice"}, `{"type":"REQUIRED"}`},
	{"S-281", twoTools + "," + namedLook, "oracle", []any{"chatRequest", "toolChoice"}, `{"name":"look","type":"FUNCTION"}`},
	{"S-282", lookTool, "oracle", []any{"chatRequest", "toolChoice"}, `absent`},
	{"S-283", lookTool + `,"parallel_tool_calls":true`, "anthropic", []any{"tool_choice", "disable_parallel_tool_use"}, `absent`},
	{"S-283", lookTool + `,"parallel_tool_calls":false`, "oracle", []any{"chatRequest", "isParallelToolCalls"}, `false`},
	{"S-283", lookTool + `,"parallel_tool_calls":true`, "oracle", []any{"chatRequest", "isParallelToolCalls"}, `true`},
	{"S-284", `"user":"u-1"`, bedrockMind, []any{"additionalModelRequestFields", "metadata", "user_id"}, `"u-1"`},
	{"S-285", twoFunctions + `,"function_call":"none"`, "anthropic", []any{"tool_choice", "type"}, `"none"`},
	{"S-285", twoFunctions + `,"function_call":"auto"`, "google", []any{"toolConfig", "functionCallingConfig", "mode"}, `"AUTO"`},
	{"S-285", twoFunctions + `,"function_call":{"name":"find"}`, "anthropic", []any{"tool_choice"}, `{"name":"find","type":"tool"}`},
	{"S-285", twoFunctions + `,"function_call":{"name":"find"}`, "google", []any{"toolConfig", "functionCallingConfig", "allowedFunctionNames"}, `["find"]`},
	{"S-286", twoFunctions, "anthropic", []any{"tools", 0, "name"}, `"look"`},
	{"S-286", twoFunctions, "anthropic", []any{"tools", 1, "name"}, `"find"`},
	{"S-286", twoFunctions, "google", []any{"tools", 0, "functionDeclarations", 1, "name"}, `"find"`},
	{"S-274", `"thinking":{"type":"enabled","budget_tokens":2048}`, "google", []any{"generationConfig", "thinkingConfig", "includeThoughts"}, `true`},
	{"S-267", schemaForm, "bedrock", []any{"toolConfig", "tools", 0, "toolSpec", "inputSchema", "json"}, wantSchema},
	{"S-267", schemaForm, "cohere", []any{"response_format", "type"}, `"json_object"`},
}

func byProvider(id string) providerFormat {
	for _, x := range providerFormats {
		if x.provider == id {
			return x
		}
	}
	panic("no protocol of " + id)
}

func TestParametersReachProvidersOfOtherProtocols(t *testing.T) {
	g, _ := start(t)
	for _, c := range carriedParameters {
		prove(t, c.of, c.provider+" "+brief(c.member), func(t *testing.T) {
			id, model, _ := strings.Cut(c.provider, " ")
			x := byProvider(id)
			if model != "" {
				x.model = model
			}
			p := newProvider(t, speaks(false))
			g.do(t, "POST", chatStream.path, x.ask(c.member), x.to(p)...).wantOK(t)
			body := exactly(t, p.only(t).body)
			got := "absent"
			if v := at(body, c.path...); v != nil {
				b, _ := json.Marshal(v)
				got = string(b)
			}
			if got != c.want {
				t.Errorf("%v at the provider = %s, want %s", c.path, got, c.want)
			}
		})
	}
}

// exactly decodes JSON and keeps every digit of its numbers.
func exactly(t *testing.T, text []byte) (v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestRolesReachProvidersOfOtherProtocols sends a system and a user turn.
func TestRolesReachProvidersOfOtherProtocols(t *testing.T) {
	g, _ := start(t)
	for _, x := range providerFormats {
		prove(t, "S-144", x.name, func(t *testing.T) {
			p := newProvider(t, speaks(false))
			body := `{"model":"` + x.model + `","messages":[{"role":"system","content":"be brief"},{"role":"system","content":"be kind"},{"role":"developer","content":"be right"},{"role":"user","content":"what is it?"},{"role":"assistant","content":"a thing"},{"role":"system","content":"be quick"},{"role":"user","content":"which?"}]}`
			g.do(t, "POST", chatStream.path, body, x.to(p)...).wantOK(t)
			sent := string(p.only(t).body)
			last := -1
			for _, text := range []string{`"what is it?"`, `"a thing"`, `"which?"`} {
				at := strings.Index(sent, text)
				if at < last {
					t.Errorf("%s comes before its turn: %s", text, sent)
				}
				last = at
			}
			for _, text := range []string{"what is it?", "be brief", "be kind", "be right", "be quick"} {
				if last < 0 || strings.Count(sent, text) != 1 {
					t.Errorf("the provider got %s, want %q in it once", sent, text)
				}
			}
			if member := map[string]string{"anthropic": "system", "google": "systemInstruction", "bedrock": "system"}[x.provider]; member != "" {
				prompt, _ := json.Marshal(at(exactly(t, []byte(sent)), member))
				for _, text := range []string{"be brief", "be kind", "be right"} {
					if !strings.Contains(string(prompt), text) {
						t.Errorf("%s = %s, want %q in it", member, prompt, text)
					}
				}
			}
		})
	}
}

// TestUsersAreRecordedWhereTheyCanNotBeSent holds for every protocol.
func TestUsersAreRecordedWhereTheyCanNotBeSent(t *testing.T) {
	g, _ := start(t)
	for _, x := range providerFormats {
		prove(t, "S-284 S-287 S-288", x.name, func(t *testing.T) {
			p := newProvider(t, speaks(false))
			got := g.do(t, "POST", chatStream.path, x.ask(`"user":"u-1"`), x.to(p, "x-gateway-span-id", "s-2", "x-gateway-parent-span-id", "s-1",
				"x-gateway-span-name", "look", "x-gateway-metadata", `{"team":"a"}`, "x-gateway-cache-namespace", "n", "x-gateway-cache-force-refresh", "true")...).wantOK(t)
			e := g.entry(t, got)
			if at(e, "metadata", "_user") != "u-1" || at(e, "metadata", "team") != "a" {
				t.Errorf("recorded metadata %v", e["metadata"])
			}
			if e["span_id"] != "s-2" || e["parent_span_id"] != "s-1" || e["span_name"] != "look" {
				t.Errorf("recorded spans %v %v %v", e["span_id"], e["parent_span_id"], e["span_name"])
			}
			if in := p.only(t); strings.Contains(in.head, "s-2") {
				t.Errorf("the provider got\n%s", in.head)
			}
		})
	}
}

// TestUnsupportedParametersAreAnnounced holds for the parameters that another
// protocol can't say.
func TestUnsupportedParametersAreAnnounced(t *testing.T) {
	g, _ := start(t)
	x := byProvider("anthropic")
	prove(t, "S-268 S-275", "dropped parameters are reported", func(t *testing.T) {
		p := newProvider(t, speaks(false))
		got := g.do(t, "POST", chatStream.path, x.ask(`"seed":1`, `"logit_bias":{"1":2}`), x.to(p)...).wantOK(t)
		said := got.header.Get("x-gateway-params")
		for _, want := range []string{"seed;dropped", "logit_bias;dropped"} {
			if !strings.Contains(said, want) {
				t.Errorf("x-gateway-params = %q, want %s in it", said, want)
			}
		}
	})
	prove(t, "S-275", "thinking that no model supports is reported or forwarded", func(t *testing.T) {
		for _, x := range providerFormats {
			p := newProvider(t, speaks(false))
			got := g.do(t, "POST", chatStream.path, x.ask(`"thinking":{"type":"enabled","budget_tokens":2048}`), x.to(p)...).wantOK(t)
			sent, said := string(p.only(t).body), got.header.Get("x-gateway-params")
			if !strings.Contains(sent, "2048") && !strings.Contains(said, "thinking;") {
				t.Errorf("%s: thinking is neither sent nor told: %q, %s", x.name, said, sent)
			}
		}
	})
}

// TestDeprecatedParametersAreAccepted sends the older form of tools: to a provider of the
// chat protocol as it is, to another as tools.
func TestDeprecatedParametersAreAccepted(t *testing.T) {
	g, _ := start(t)
	body := `{"model":"claude-sonnet-4-5","messages":[{"role":"user","content":"hi"}],"functions":[{"name":"look","parameters":{}}],"function_call":{"name":"look"}}`
	prove(t, "S-597", "by a provider of the chat protocol", func(t *testing.T) {
		p := newProvider(t, nil)
		g.do(t, "POST", "/v1/chat/completions", body, to(p)...).wantOK(t)
		if in := p.only(t); string(in.body) != body {
			t.Errorf("the provider got %s, want what was sent", in.body)
		}
	})
	prove(t, "S-597", "by a provider of another protocol", func(t *testing.T) {
		p := newProvider(t, speaks(false))
		g.do(t, "POST", "/v1/chat/completions", body, byProvider("anthropic").to(p)...).wantOK(t)
		in := p.only(t)
		if choice, tools := in.field(t, "tool_choice"), in.field(t, "tools"); !strings.Contains(choice, `"look"`) || !strings.Contains(tools, `"look"`) {
			t.Errorf("the provider got the tools %s and the choice %s, want look", tools, choice)
		}
	})
}
