package dataplane_test

import (
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/recorder"
)

// turnEnds are the end of a conversation: a turn of the assistant without thinking, and with that
// of the vendor, of which a later call has none.
var turnEnds = map[string]struct{ open, without, foreign, with, done, end string }{
	"messages": {
		open:    `"tools":[{"name":"f","input_schema":{"type":"object"}}],"messages":[{"role":"user","content":"go"}`,
		without: `,{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"tool_use","id":"a","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"r"}]}`,
		foreign: `,{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"mg1.openai.x"},{"type":"tool_use","id":"b","name":"f","input":{}}]},{"content":[{"type":"tool_result","tool_use_id":"b","content":"r"}, {"type":"text","text":"Go on."}],"role":"user"}`,
		with:    `,{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"` + hmSigned + `"},{"type":"tool_use","id":"c","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"r"}]}`,
		done:    `,{"role":"assistant","content":"done"},{"role":"user","content":"again"}`,
		end:     `]`,
	},
	"converse": {
		open:    `"toolConfig":{"tools":[{"toolSpec":{"name":"f","inputSchema":{"json":{"type":"object"}}}}]},"messages":[{"role":"user","content":[{"text":"go"}]}`,
		without: `,{"role":"assistant","content":[{"text":"a"},{"toolUse":{"toolUseId":"a","name":"f","input":{}}}]},{"role":"user","content":[{"toolResult":{"toolUseId":"a","content":[{"text":"r"}]}}]}`,
		foreign: `,{"role":"assistant","content":[{"reasoningContent":{"reasoningText":{"text":"hm","signature":"mg1.openai.x"}}},{"toolUse":{"toolUseId":"b","name":"f","input":{}}}]},{"content":[{"toolResult":{"toolUseId":"b","content":[{"text":"r"}]}},{"text":"Go on."}],"role":"user"}`,
		with:    `,{"role":"assistant","content":[{"reasoningContent":{"reasoningText":{"text":"hm","signature":"` + hmSigned + `"}}},{"toolUse":{"toolUseId":"c","name":"f","input":{}}}]},{"role":"user","content":[{"toolResult":{"toolUseId":"c","content":[{"text":"r"}]}}]}`,
		done:    `,{"role":"assistant","content":[{"text":"done"}]},{"role":"user","content":[{"text":"again"}]}`,
		end:     `]`,
	},
}

// hmSigned is the simulator's signature of the thinking "hm" by Claude.
const hmSigned = "WMPhDO/F5ceXf4Slt0yJ0rIftB3j4/ai"

// TestThinkingIsDisabledWhereTheTurnHasBegunWithout goes on with sessions whose calls came from
// another vendor's model. Claude refuses their results while thinking has a budget.
func TestThinkingIsDisabledWhereTheTurnHasBegunWithout(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{Settings: pairSettings + `
  - {slug: vertex, provider: vertex-ai, custom_host: SIMULATOR, api_key: "${PAIR_KEY}", options: {project_id: p, region: us-east5}}
`, Simulator: recorder.Options{Record: 1}})
	const (
		enabled  = `"thinking":{"type":"enabled","budget_tokens":1024},`
		managed  = enabled + `"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"},{"type":"clear_tool_uses_20250919"}]},`
		disabled = `"thinking":{"type":"disabled"}`
		claude   = "claude-sonnet-4-5"
		bedrock  = "anthropic.claude-sonnet-4-5-20250929-v1:0"
	)
	m, c := turnEnds["messages"], turnEnds["converse"]
	for _, tt := range []struct {
		name, client, slug, model string
		thinking, turns           string
		off                       bool
	}{
		{"calls without thinking", "messages", "messages", claude, enabled, m.without, true},
		{"thinking of another vendor", "messages", "messages", claude, enabled, m.done + m.foreign, true},
		{"strategies that clear thinking", "messages", "messages", claude, managed, m.without, true},
		{"later calls of such a turn", "messages", "messages", claude, enabled, m.without + m.with, true},
		{"at Vertex AI", "messages", "vertex", claude, enabled, m.without, true},
		{"at Bedrock, translated", "messages", "converse", bedrock, managed, m.without, true},
		{"invoked at the vendor", "invoke", "messages", claude, managed, m.without, true},
		{"invoked at Bedrock", "invoke", "converse", bedrock, enabled, m.without, true},
		{"counted", "count", "messages", claude, enabled, m.without, true},
		{"in converse", "converse", "converse", bedrock, enabled, c.without, true},
		{"another vendor's in converse", "converse", "converse", bedrock, managed, c.done + c.foreign, true},

		{"a turn that begins with thinking", "messages", "messages", claude, managed, m.with + m.without, false},
		{"a turn that has ended", "messages", "messages", claude, enabled, m.without + m.done, false},
		{"adaptive", "messages", "messages", "claude-sonnet-4-6", `"thinking":{"type":"adaptive"},`, m.without, false},
		{"no thinking", "messages", "messages", claude, "", m.without, false},
		{"a turn of converse that begins with thinking", "converse", "converse", bedrock, enabled, c.with + c.without, false},
		{"a turn of converse that has ended", "converse", "converse", bedrock, enabled, c.without + c.done, false},
	} {
		g.Sim.Reset()
		body := tt.thinking + m.open + tt.turns + m.end + "}"
		client := clientFormat{name: tt.client, plain: "/model/%s/invoke", stream: "-"}
		switch tt.client {
		case "messages":
			body = `{"model":"` + tt.model + `","max_tokens":2000,` + body
			client.plain = "/v1/messages?%s"
		case "count":
			body = `{"model":"` + tt.model + `",` + body
			client.plain = "/v1/messages/count_tokens?%s"
		case "invoke":
			body = `{"anthropic_version":"bedrock-2023-05-31","max_tokens":2000,` + body
		case "converse":
			fields := strings.TrimSuffix(tt.thinking, ",")
			body = `{"additionalModelRequestFields":{` + fields + `},"inferenceConfig":{"maxTokens":2000},` + c.open + tt.turns + c.end + "}"
			client.plain = "/model/%s/converse"
		}
		client.body = body
		res := client.send(t, g, "@"+tt.slug, tt.model, false)
		if res.Status != 200 {
			t.Errorf("%s: status %d: %s", tt.name, res.Status, res.Body)
			continue
		}
		sent, params := string(g.Sim.Requests()[0].Body), res.Header.Get("x-gateway-params")
		off := strings.Contains(sent, disabled) && !strings.Contains(sent, "clear_thinking") &&
			strings.Contains(sent, "clear_tool_uses") == strings.Contains(tt.thinking, "clear_tool_uses")
		switch {
		case tt.off && (!off || !strings.Contains(params, `thinking;adapted="disabled: `)):
			t.Errorf("%s: announced %q, sent %s", tt.name, params, sent)
		case !tt.off && (sent != body || params != ""):
			t.Errorf("%s: announced %q, sent\n%s\nwant\n%s", tt.name, params, sent, body)
		}
	}
}
