package dialects

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"modelgate/api"
	"modelgate/internal/base/apierr"
	"modelgate/internal/dialect"
	"modelgate/internal/model/llm"
)

// targetsOf are the targets of other dialects than d.
func targetsOf(d api.Dialect) (list []*target) {
	for _, to := range historyTargets {
		if to.dialect != d {
			list = append(list, to)
		}
	}
	return list
}

func noted(changes []dialect.ParamChange, name string, outcome dialect.ChangeKind) bool {
	return slices.ContainsFunc(changes, func(c dialect.ParamChange) bool { return c.Name == name && c.Outcome == outcome })
}

// Blocks of text that a model wrote one after the other, as with citations, are
// one text.
func TestAssistantTextInPartsIsJoinedWithNothingBetween(t *testing.T) {
	body := mustObject(t, `{"max_tokens":4096,"messages":[{"role":"user","content":"Hello"},{"role":"assistant","content":[{"type":"text","text":"It is 21"},{"type":"text","text":" degrees"},{"type":"text","text":"."}]},{"role":"user","content":"And now?"}]}`)
	for _, to := range targetsOf(api.DialectMessages) {
		sent, _, err := encoded(t, api.DialectMessages, to, body)
		if err != nil {
			t.Fatal(err)
		}
		apart := strings.Contains(string(sent), `"It is 21"`) && strings.Contains(string(sent), `" degrees"`)
		if !apart && !strings.Contains(string(sent), "It is 21 degrees.") {
			t.Errorf("%s %s: %s", to.dialect, to.model, sent)
		}
	}
}

// More than one response is carried or refused, never left out.
func TestSeveralChoicesHaveOneRule(t *testing.T) {
	several := map[api.Dialect]string{
		api.DialectChat:   `{"n":2,"messages":[{"role":"user","content":"Hello"}]}`,
		api.DialectGemini: `{"contents":[{"role":"user","parts":[{"text":"Hello"}]}],"generationConfig":{"candidateCount":2}}`,
	}
	carry := map[string]string{"chat": `"n":2`, "gemini": `"candidateCount":2`, "oracle meta.llama-3.3-70b-instruct": `"numGenerations":2`}
	for from, body := range several {
		for _, to := range targetsOf(from) {
			sent, changes, err := encoded(t, from, to, mustObject(t, body))
			member := carry[string(to.dialect)]
			if member == "" {
				member = carry[string(to.dialect)+" "+to.model]
			}
			if member != "" {
				if err != nil || !strings.Contains(string(sent), member) {
					t.Errorf("%s to %s: %v, %s", from, to.model, err, sent)
				}
				continue
			}
			if e, ok := errors.AsType[*apierr.Error](err); !ok || !strings.Contains(e.Message, to.id) {
				t.Errorf("%s to %s %s: %v, %v; want a refusal", from, to.dialect, to.model, err, changes)
			}
		}
	}
}

// Unsigned thinking that a responses client gets is marked, and removed when it
// comes back to OpenAI.
func TestUnsignedThinkingIsMarkedForResponsesClients(t *testing.T) {
	r := &llm.Response{ID: "1", Choices: []llm.Choice{{Stop: llm.StopEnd, Parts: []llm.Part{llm.Thinking{Text: "hm"}, llm.Text{Text: "a"}}}}}
	to := dialect.ResponseTarget{Request: &llm.Request{Dialect: "responses"}, ID: strings.Repeat("0", 32)}
	codec := decoders[api.DialectResponses]
	whole := string(codec.EncodeResponse(nil, r, to))
	var stream []byte
	enc := codec.NewEncoder(to)
	for e := range dialect.Replay(r) {
		stream = enc.Encode(stream, &e)
	}
	for name, body := range map[string]string{"complete": whole, "streamed": string(stream)} {
		if want := `"encrypted_content":"` + dialect.Unsigned + `"`; !strings.Contains(body, want) {
			t.Errorf("%s: no %s in %s", name, want, body)
		}
	}
}

// Parameters are announced by the names that the client used.
func TestServerToolsAreAnnouncedByTheClientsName(t *testing.T) {
	cohere := targets[5]
	for _, tt := range []struct {
		from       api.Dialect
		body, want string
	}{
		{api.DialectGemini, `{"contents":[{"role":"user","parts":[{"text":"Hello"}]}],"tools":[{"googleSearch":{}}]}`, "tools[0].googleSearch"},
		{api.DialectGemini, `{"contents":[{"role":"user","parts":[{"text":"Hello"}]}],"tools":[{"codeExecution":{}}]}`, "tools[0].codeExecution"},
		{api.DialectResponses, `{"input":"Hello","tools":[{"type":"web_search"}]}`, "tools[0].web_search"},
		{api.DialectResponses, `{"input":"Hello","tools":[{"type":"code_interpreter","container":"c"}]}`, "tools[0].code_interpreter"},
		{api.DialectMessages, `{"max_tokens":9,"messages":[{"role":"user","content":"Hello"}],"tools":[{"type":"web_search_20250305","name":"web_search"}]}`, "tools[0].web_search_20250305"},
		{api.DialectConverse, `{"messages":[{"role":"user","content":[{"text":"Hello"}]}],"toolConfig":{"tools":[{"systemTool":{"name":"nova_grounding"}}]}}`, "toolConfig.tools[0].systemTool"},
	} {
		for _, to := range []*target{cohere, historyTargets[11], historyTargets[12], historyTargets[13]} {
			_, changes, err := encoded(t, tt.from, to, mustObject(t, tt.body))
			if err != nil || !slices.ContainsFunc(changes, func(c dialect.ParamChange) bool { return c.Name == tt.want && c.Outcome == dialect.Dropped }) {
				t.Errorf("%s to %s: %v, %v; want %s;dropped", tt.from, to.dialect, err, changes, tt.want)
			}
		}
	}
}

// Settings of thinking that a target does not have are announced.
func TestThinkingSettingsAreAnnouncedWhereDropped(t *testing.T) {
	for _, tt := range []struct {
		from       api.Dialect
		body, want string
		carried    string // in what is sent
	}{
		{api.DialectResponses, `{"input":"Hello","reasoning":{"effort":"low","context":"all_turns"}}`, "reasoning.context", `"all_turns"`},
		{api.DialectMessages, `{"max_tokens":4096,"messages":[{"role":"user","content":"Hello"}],"thinking":{"type":"enabled","budget_tokens":1024,"clear_thinking":true}}`, "thinking.clear_thinking", `"clear_thinking"`},
		{api.DialectMessages, `{"max_tokens":4096,"messages":[{"role":"user","content":"Hello"}],"thinking":{"type":"adaptive"}}`, "thinking", `hinking`},
		{api.DialectConverse, `{"messages":[{"role":"user","content":[{"text":"Hello"}]}],"additionalModelRequestFields":{"thinking":{"type":"adaptive"}}}`, "additionalModelRequestFields.thinking", `hinking`},
	} {
		for _, to := range targetsOf(tt.from) {
			sent, changes, err := encoded(t, tt.from, to, mustObject(t, tt.body))
			if err != nil {
				t.Errorf("%s to %s: %v", tt.from, to.model, err)
				continue
			}
			if !noted(changes, tt.want, dialect.Dropped) && !noted(changes, tt.want, dialect.Adapted) && !strings.Contains(string(sent), tt.carried) && !strings.Contains(string(sent), `"reasoning":{`) && !strings.Contains(string(sent), `"think":true`) {
				t.Errorf("%s to %s %s: %v, %s; want %s announced", tt.from, to.dialect, to.model, changes, sent, tt.want)
			}
		}
	}
}

// A budget for thinking leaves room for the response.
func TestThinkingBudgetsFitBelowTheLimitOfTokens(t *testing.T) {
	targets := append(targetsOf(""), &target{dialect: api.DialectChat, row: "dashscope", id: "dashscope", model: "qwen3-max"},
		&target{dialect: api.DialectGemini, row: "google", id: "google", model: "gemini-2.5-pro"})
	for _, limit := range []int{16, 300, 1024, 1025, 2048, 8192} {
		for _, thinking := range []string{
			`"thinking":{"type":"enabled","budget_tokens":4000}`, `"thinking":{"type":"enabled","budget_tokens":1024}`, `"reasoning_effort":"high"`, `"reasoning_effort":"low"`,
		} {
			body := mustObject(t, fmt.Sprintf(`{"max_tokens":%d,%s,"messages":[{"role":"user","content":"Hello"}]}`, limit, thinking))
			for _, to := range targets {
				if to.dialect == api.DialectChat && to.id != "openrouter" {
					continue // chat clients' own settings pass
				}
				sent, _, err := encoded(t, api.DialectChat, to, body)
				if err != nil {
					t.Errorf("%s %s: %v", to.model, thinking, err)
					continue
				}
				m := mustObject(t, string(sent))
				budget, most := budgetIn(m), limitIn(m)
				if budget > 0 && most > 0 && budget >= most {
					t.Errorf("%s %s, %s: a budget of %v with a limit of %v", to.dialect, to.model, thinking, budget, most)
				}
			}
		}
	}
}

// budgetIn and limitIn find the numbers wherever a dialect has them.
func budgetIn(m any) float64 { return numberIn(m, "budget_tokens", "thinkingBudget", "token_budget") }
func limitIn(m any) float64 {
	return numberIn(m, "max_tokens", "maxOutputTokens", "maxTokens", "max_completion_tokens")
}

func numberIn(v any, names ...string) float64 {
	m, ok := v.(object)
	if !ok {
		return 0
	}
	if reasoning, ok := m["reasoning"].(object); ok && slices.Contains(names, "budget_tokens") {
		if n, ok := reasoning["max_tokens"].(float64); ok {
			return n
		}
	}
	for _, name := range names {
		if n, ok := m[name].(float64); ok {
			return n
		}
	}
	for name, inner := range m {
		if name != "reasoning" {
			if n := numberIn(inner, names...); n != 0 {
				return n
			}
		}
	}
	return 0
}

// OpenRouter's object of chat clients means what it means there.
func TestOpenRoutersReasoningMeansAnEffort(t *testing.T) {
	for _, tt := range []struct{ reasoning, like string }{
		{`{"effort":"high"}`, `"reasoning_effort":"high"`},
		{`{"enabled":false}`, `"thinking":{"type":"disabled"}`},
		{`{"enabled":true}`, `"reasoning_effort":"medium"`},
		{`{"max_tokens":2000}`, `"thinking":{"type":"enabled","budget_tokens":2000}`},
	} {
		for _, to := range targetsOf(api.DialectChat) {
			want, _, _ := encoded(t, api.DialectChat, to, mustObject(t, `{"max_tokens":8000,"messages":[{"role":"user","content":"Hello"}],`+tt.like+`}`))
			got, changes, err := encoded(t, api.DialectChat, to, mustObject(t, `{"max_tokens":8000,"messages":[{"role":"user","content":"Hello"}],"reasoning":`+tt.reasoning+`}`))
			if err != nil || string(got) != string(want) || noted(changes, "reasoning", dialect.Dropped) && tt.reasoning != `{"enabled":false}` && strings.Contains(string(want), "hinking") {
				t.Errorf("%s to %s %s: %v, %v\n got %s\nwant %s", tt.reasoning, to.dialect, to.model, err, changes, got, want)
			}
		}
	}
}

// Claude's citations say nothing of the place in the text: they support the
// block that they are in.
func TestClaudesCitationsKeepTheirSpan(t *testing.T) {
	claude := encoders[api.DialectMessages]
	asked := &llm.Request{}
	to := targets[1].requestTarget()
	cite := `{"type":"web_search_result_location","url":"https://example.com","title":"t","cited_text":"x","encrypted_index":"e"}`
	r, err := claude.DecodeResponse([]byte(`{"id":"m","type":"message","role":"assistant","model":"c","stop_reason":"end_turn","content":[{"type":"text","text":"Voilà: "},{"type":"text","text":"21 °C","citations":[`+cite+`]}],"usage":{"input_tokens":1,"output_tokens":1}}`), asked, to)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(decoders[api.DialectChat].EncodeResponse(nil, r, dialect.ResponseTarget{Request: &llm.Request{Dialect: "chat"}})); !strings.Contains(got, `"start_index":7,"end_index":12`) {
		t.Errorf("chat: %s, want the span from 7 to 12", got)
	}
	if got := string(decoders[api.DialectResponses].EncodeResponse(nil, r, dialect.ResponseTarget{Request: &llm.Request{Dialect: "responses"}})); !strings.Contains(got, `"start_index":0,"end_index":5`) {
		t.Errorf("responses: %s, want the span from 0 to 5 of the second part", got)
	}
}

// Google's signatures of plain text come back through every client, streamed or
// not.
func TestSignaturesOfTextsComeBack(t *testing.T) {
	r := &llm.Response{ID: "1", Choices: []llm.Choice{{Stop: llm.StopEnd, Parts: []llm.Part{
		llm.Text{Text: "Sunny.", Signature: llm.Signature{Vendor: llm.Google, Value: "c2lnbmVk"}},
	}}}}
	google := targets[3]
	for _, tt := range []struct {
		from  api.Dialect
		items func(m object) any
		frame func(said any) object
	}{
		{api.DialectResponses, func(m object) any { return m["output"] }, func(said any) object {
			return object{"input": append(append([]any{object{"role": "user", "content": "Hello"}}, said.([]any)...), object{"role": "user", "content": "And now?"})}
		}},
		{api.DialectConverse, func(m object) any { return m["output"].(object)["message"] }, func(said any) object {
			return object{"messages": []any{object{"role": "user", "content": []any{object{"text": "Hello"}}}, said, object{"role": "user", "content": []any{object{"text": "And now?"}}}}}
		}},
	} {
		to := dialect.ResponseTarget{Request: &llm.Request{Dialect: string(tt.from)}, ID: strings.Repeat("0", 32)}
		whole := mustObject(t, string(decoders[tt.from].EncodeResponse(nil, r, to)))
		sent, _, err := encoded(t, tt.from, google, tt.frame(tt.items(whole)))
		if want := `{"text":"Sunny.","thoughtSignature":"c2lnbmVk"}`; err != nil || !strings.Contains(string(sent), want) {
			t.Errorf("%s: %v, %s; want %s", tt.from, err, sent, want)
		}
		var stream []byte
		enc := decoders[tt.from].NewEncoder(to)
		for e := range dialect.Replay(r) {
			stream = enc.Encode(stream, &e)
		}
		mark := map[api.Dialect]string{api.DialectResponses: "mg1.google.redacted.c2lnbmVk", api.DialectConverse: base64.StdEncoding.EncodeToString([]byte("mg1.google.c2lnbmVk"))}
		if !strings.Contains(string(stream), mark[tt.from]) {
			t.Errorf("%s: no signature in the stream %s", tt.from, stream)
		}
	}
}
