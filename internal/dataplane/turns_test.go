package dataplane_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/recorder"
)

const turnSettings = `providers:
  - {slug: deepseek, provider: deepseek, custom_host: SIMULATOR, api_key: "${PAIR_KEY}"}
  - {slug: mistral, provider: mistral-ai, custom_host: SIMULATOR, api_key: "${PAIR_KEY}"}
  - {slug: perplexity, provider: perplexity-ai, custom_host: SIMULATOR, api_key: "${PAIR_KEY}"}
  - {slug: openai, provider: openai, custom_host: SIMULATOR, api_key: "${PAIR_KEY}"}
  - {slug: converse, provider: bedrock, custom_host: SIMULATOR, api_key: "${PAIR_KEY}"}
  - {slug: messages, provider: anthropic, custom_host: SIMULATOR, api_key: "${PAIR_KEY}"}
`

// chatOf and messagesOf are bodies of clients with these messages.
func chatOf(messages string) string { return `{"model":%q,"stream":%t,"messages":[` + messages + `]}` }

func messagesOf(messages string) string {
	return `{"model":%q,"stream":%t,"max_tokens":2048,"tools":[{"name":"f","input_schema":{"type":"object","properties":{}}}],"messages":[` + messages + `]}`
}

const (
	calledInChat = `{"role":"user","content":"go"},{"role":"assistant","content":null,"tool_calls":[{"id":"abcdefghi","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"abcdefghi","content":"r"}`
	calledInTurn = `{"role":"user","content":"go"},{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"f","input":{}}]}`
)

// TestTurnsAreInTheOrderThatTheProviderDemands sends conversations that a provider would
// reject as they are, translated and in its own dialect.
func TestTurnsAreInTheOrderThatTheProviderDemands(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{Settings: turnSettings, Simulator: recorder.Options{Record: 1}})
	for _, tt := range []struct {
		name          string
		client        clientFormat
		body          string
		target, model string
		sent, told    string
	}{
		{"developer", clientFormats[0], chatOf(`{"role":"developer","content":"d"},{"role":"user","content":"hello"}`), "deepseek", "m+turns=system",
			`[{"role":"system","content":"d"},{"role":"user","content":"hello"}]`, "the role developer is sent as system"},
		{"developer to a provider that has it", clientFormats[0], chatOf(`{"role":"developer","content":"d"},{"role":"user","content":"hello"}`), "openai", "m",
			`[{"role":"developer","content":"d"},{"role":"user","content":"hello"}]`, ""},
		{"text next to a result", clientFormats[1], messagesOf(calledInTurn + `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"r"},{"type":"text","text":"and now"}]}`), "mistral", "m+turns=reply",
			`"content":"r"},{"role":"assistant","content":"Understood."},{"role":"user","content":"and now"}]`, "a reply of the assistant is inserted"},
		{"a result, then a user", clientFormats[0], chatOf(calledInChat + `,{"role":"user","content":"and now"}`), "mistral", "m+turns=reply",
			`"content":"r"},{"role":"assistant","content":"Understood."},{"role":"user","content":"and now"}]`, "a reply of the assistant is inserted"},
		{"ids of another provider", clientFormats[0], chatOf(strings.ReplaceAll(calledInChat, "abcdefghi", "call_of_another_provider")), "mistral", "m+turns=reply", `"tool_call_id":"wTjNC1tWu"`, "call ids that the provider refuses are replaced"},
		{"a result alone", clientFormats[0], chatOf(calledInChat), "mistral", "m+turns=reply", `"content":"r"}]`, ""},
		{"a beginning of the response", clientFormats[1], messagesOf(`{"role":"user","content":"go"},{"role":"assistant","content":"so"}`), "mistral", "m+turns=reply",
			`{"role":"assistant","content":"so","prefix":true}]`, "prefix: true"},
		{"a beginning in chat", clientFormats[0], chatOf(`{"role":"user","content":"go"},{"role":"assistant","content":"so"}`), "mistral", "m+turns=reply",
			`{"role":"assistant","content":"so","prefix":true}]`, "prefix: true"},
		{"two users", clientFormats[0], chatOf(`{"role":"system","content":"s"},{"role":"user","content":"one"},{"role":"user","content":"two"}`), "perplexity", "m+turns=alternate",
			`[{"role":"system","content":"s"},{"role":"user","content":"one\n\ntwo"}]`, "merged"},
		{"two users in parts", clientFormats[1], messagesOf(`{"role":"user","content":"one"},{"role":"user","content":[{"type":"text","text":"two"},{"type":"image","source":{"type":"url","url":"https://a.example/x.png"}}]}`), "perplexity", "m+turns=alternate",
			`{"type":"text","text":"one"},{"type":"text","text":"two"},{"type":"image_url"`, "merged"},
		{"a late system message and an assistant first", clientFormats[0], chatOf(`{"role":"assistant","content":"hi"},{"role":"user","content":"one"},{"role":"system","content":"s"}`), "perplexity", "m+turns=alternate",
			`[{"role":"user","content":"Begin."},{"role":"assistant","content":"hi"},{"role":"user","content":"one\n\ns"}]`, "a user message is inserted before the conversation"},
		{"an assistant first to converse", clientFormats[0], chatOf(`{"role":"assistant","content":"hi"},{"role":"user","content":"one"}`), "converse", "anthropic.claude-sonnet-4-5-20250929-v1:0",
			`[{"role":"user","content":[{"text":"Begin."}]},{"role":"assistant","content":[{"text":"hi"}]}`, "a user message is inserted before the conversation"},
		{"an assistant first to messages", clientFormats[0], chatOf(`{"role":"assistant","content":"hi"},{"role":"user","content":"one"}`), "messages", "claude-sonnet-4-5",
			`"Begin."`, "a user message is inserted before the conversation"},
		{"system text alone", clientFormats[0], chatOf(`{"role":"system","content":"s"}`), "openai", "gpt-5-codex", `"input":[{`, ""},
		{"system text of messages alone", clientFormats[1], strings.Replace(messagesOf(``), `"messages":[]`, `"system":"s","messages":[{"role":"user","content":[{"type":"text","text":" "}]}]`, 1), "openai", "gpt-5-codex", `"input"`, ""},
	} {
		for _, stream := range []bool{false, true} {
			g.Sim.Reset()
			tt.client.body = tt.body
			res := tt.client.send(t, g, "@"+tt.target, tt.model, stream)
			sent := ""
			if list := g.Sim.Requests(); len(list) > 0 {
				sent = string(list[0].Body)
			}
			if res.Status != http.StatusOK || !strings.Contains(sent, tt.sent) {
				t.Errorf("%s, stream %t: status %d, sent %s, want %s: %.300s", tt.name, stream, res.Status, sent, tt.sent, res.Body)
				continue
			}
			params := fmt.Sprint(g.Entry(res)["params"])
			if tt.told != "" && !strings.Contains(params, tt.told) {
				t.Errorf("%s: params %s, want %s", tt.name, params, tt.told)
			}
			if tt.told == "" && strings.Contains(params, "role") {
				t.Errorf("%s: params %s, want no change of roles", tt.name, params)
			}
		}
	}
}
