package conformance

import (
	"encoding/json"
	"strings"
	"testing"
)

// carried says what becomes of a parameter of a chat request at a provider of
// another protocol: where it stands and as what. Want is JSON; "absent" means
// that nothing may stand there.
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
	{"S-268", `"seed":12345678901`, "google", []any{"generationConfig", "seed"}, `12345678901`},
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
}

func byProvider(id string) tongue {
	for _, x := range tongues {
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
			x := byProvider(c.provider)
			p := newProvider(t, speaks(false))
			g.do(t, "POST", chatStream.path, x.ask(c.member), x.to(p)...).fine(t)
			var body any
			if err := json.Unmarshal(p.only(t).body, &body); err != nil {
				t.Fatal(err)
			}
			got := "absent"
			if v := at(body, c.path...); v != nil {
				b, _ := json.Marshal(v)
				got = string(b)
			}
			if got != c.want && !sameNumber(got, c.want) {
				t.Errorf("%v at the provider = %s, want %s", c.path, got, c.want)
			}
		})
	}
}

// sameNumber compares numbers however they are spelled.
func sameNumber(a, b string) bool {
	var x, y float64
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && x == y
}

// TestRolesReachProvidersOfOtherProtocols sends a system and a user turn.
func TestRolesReachProvidersOfOtherProtocols(t *testing.T) {
	g, _ := start(t)
	for _, x := range tongues {
		prove(t, "S-144", x.name, func(t *testing.T) {
			p := newProvider(t, speaks(false))
			body := `{"model":"` + x.model + `","messages":[{"role":"system","content":"be brief"},{"role":"user","content":"what is it?"},{"role":"assistant","content":"a thing"},{"role":"user","content":"which?"}]}`
			g.do(t, "POST", chatStream.path, body, x.to(p)...).fine(t)
			sent := string(p.only(t).body)
			last := -1
			for _, text := range []string{`"what is it?"`, `"a thing"`, `"which?"`} {
				at := strings.Index(sent, text)
				if at < last {
					t.Errorf("%s stands before its turn: %s", text, sent)
				}
				last = at
			}
			if last < 0 || strings.Count(sent, `"be brief"`) != 1 {
				t.Errorf("the provider got %s, want every turn once", sent)
			}
		})
	}
}

// TestUsersAreRecordedWhereTheyCanNotBeSent holds for every protocol.
func TestUsersAreRecordedWhereTheyCanNotBeSent(t *testing.T) {
	g, _ := start(t)
	for _, x := range tongues {
		prove(t, "S-284 S-287 S-288", x.name, func(t *testing.T) {
			p := newProvider(t, speaks(false))
			got := g.do(t, "POST", chatStream.path, x.ask(`"user":"u-1"`), x.to(p, "x-gateway-span-id", "s-2", "x-gateway-parent-span-id", "s-1",
				"x-gateway-span-name", "look", "x-gateway-metadata", `{"team":"a"}`, "x-gateway-cache-namespace", "n", "x-gateway-cache-force-refresh", "true")...).fine(t)
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
	prove(t, "S-268 S-275", "what is not carried is told", func(t *testing.T) {
		p := newProvider(t, speaks(false))
		got := g.do(t, "POST", chatStream.path, x.ask(`"seed":1`, `"logit_bias":{"1":2}`), x.to(p)...).fine(t)
		said := got.header.Get("x-gateway-params")
		for _, want := range []string{"seed;dropped", "logit_bias;dropped"} {
			if !strings.Contains(said, want) {
				t.Errorf("x-gateway-params = %q, want %s in it", said, want)
			}
		}
	})
	prove(t, "S-275", "thinking where no model thinks is told or taken", func(t *testing.T) {
		for _, x := range tongues {
			p := newProvider(t, speaks(false))
			got := g.do(t, "POST", chatStream.path, x.ask(`"thinking":{"type":"enabled","budget_tokens":2048}`), x.to(p)...).fine(t)
			sent, said := string(p.only(t).body), got.header.Get("x-gateway-params")
			if !strings.Contains(sent, "2048") && !strings.Contains(said, "thinking;") {
				t.Errorf("%s: thinking is neither sent nor told: %q, %s", x.name, said, sent)
			}
		}
	})
}
