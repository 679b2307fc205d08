package dataplane_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/recorder"
)

// sessionBodies are requests of clients that go on after a call with the id ID.
var sessionBodies = map[string]string{
	"chat": `{"model":%q,"stream":%t,"x-unknown" : 1.0,"messages":[{"role":"user","content":"go"},{"role":"assistant","content":null,"tool_calls":[{"id":"ID","type":"function","function":{"name":"f","arguments":"{}"}}]},` +
		`{"role":"tool","tool_call_id" : "ID","content":"r"}],"tools":[{"type":"function","function":{"name":"f"}}]}`,
	"messages": `{"model":%q,"stream":%t,"max_tokens":100,"tools":[{"name":"f","input_schema":{"type":"object"}}],"messages":[{"role":"user","content":"go"},` +
		`{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"tool_use","id":"ID","name":"f","input":{"id":"as it: is"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id" : "ID","content":"r"}]}]}`,
	"responses": `{"model":%q,"stream":%t,"tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{}}}],"input":[{"role":"user","content":"go"},` +
		`{"type":"function_call","call_id":"ID","name":"f","arguments":"{}"},{"type":"function_call_output","call_id" : "ID","output":"r"}]}`,
	"converse": `{"toolConfig":{"tools":[{"toolSpec":{"name":"f","inputSchema":{"json":{"type":"object"}}}}]},"messages":[{"role":"user","content":[{"text":"go"}]},` +
		`{"role":"assistant","content":[{"toolUse":{"toolUseId":"ID","name":"f","input":{"toolUseId":"as it: is"}}}]},{"role":"user","content":[{"toolResult":{"toolUseId" : "ID","content":[{"text":"r"}]}}]}]}`,
}

// TestIDsOfOtherHostsAreSentAsTheProviderTakesThem goes on with a session that began at another
// host of the client's own protocol, whose ids the provider refuses.
func TestIDsOfOtherHostsAreSentAsTheProviderTakesThem(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{Settings: pairSettings, Simulator: recorder.Options{Record: 1}})
	long := "call_" + strings.Repeat("a", 60)
	for _, tt := range []struct {
		client, slug, model string
		refused, taken      string // ids
		fits                string // what is sent for the refused one
	}{
		{"chat", "chat", "gpt-4.1", long, long[:64], `call_a{50}_[0-9a-f]{8}`},
		{"responses", "chat", "gpt-5.2", long, long[:64], `call_a{50}_[0-9a-f]{8}`},
		{"messages", "messages", "claude-sonnet-4-5", "functions.x:0", long, `functions_x_0_[0-9a-f]{8}`},
		{"converse", "converse", "amazon.nova-pro-v1:0", "functions.x:0", "tooluse_A-b", `functions_x_0_[0-9a-f]{8}`},
		{"converse", "converse", "anthropic.claude-sonnet-4-5-20250929-v1:0", long, "tooluse_A-b", `call_a{50}_[0-9a-f]{8}`},
		{"converse", "converse", "mistral.mistral-large-2407-v1:0", "tooluse_A-b", "abcDEF123", `UA85gxrga`},
	} {
		client := clientFormats[slices.IndexFunc(clientFormats, func(c clientFormat) bool { return c.name == tt.client })]
		for _, id := range []string{tt.refused, tt.taken} {
			g.Sim.Reset()
			client.body = strings.ReplaceAll(sessionBodies[tt.client], "ID", id)
			_, body := client.request(tt.model, false)
			res := client.send(t, g, "@"+tt.slug, tt.model, false)
			where := tt.client + " to " + tt.model + " with " + id
			if res.Status != 200 {
				t.Errorf("%s: status %d: %s", where, res.Status, res.Body)
				continue
			}
			g.Entry(res)
			sent, params := string(g.Sim.Requests()[0].Body), res.Header.Get("x-gateway-params")
			if id == tt.taken {
				if sent != body || params != "" {
					t.Errorf("%s: sent %s\nannounced %q, want\n%s", where, sent, params, body)
				}
				continue
			}
			found := regexp.MustCompile(`"`+tt.fits+`"`).FindAllString(sent, -1)
			if len(found) != 2 || found[0] != found[1] || strings.Contains(sent, id) {
				t.Errorf("%s: sent with the ids %q: %s", where, found, sent)
			}
			if want := strings.ReplaceAll(body, `"`+id+`"`, found[0]); sent != want {
				t.Errorf("%s: sent\n%s\nwant\n%s", where, sent, want)
			}
			if !strings.Contains(params, "call ids that the provider refuses are replaced") {
				t.Errorf("%s: announced %q", where, params)
			}
		}
	}
}

// TestIDsOfOtherHostsAreCountedAsTheProviderTakesThem counts the tokens of such a session, and
// sends one of Bedrock's InvokeModel to the vendor.
func TestIDsOfOtherHostsAreCountedAsTheProviderTakesThem(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{Settings: pairSettings, Simulator: recorder.Options{Record: 1}})
	body := strings.ReplaceAll(sessionBodies["messages"], "ID", "functions.x:0")
	client := clientFormats[1]
	for path, head := range map[string]string{
		"/v1/messages/count_tokens":                            `"model":"claude-sonnet-4-5","tools"`,
		"/model/claude-sonnet-4-5/invoke":                      `"anthropic_version":"bedrock-2023-05-31","max_tokens":100,"tools"`,
		"/model/claude-sonnet-4-5/invoke-with-response-stream": `"anthropic_version":"bedrock-2023-05-31","max_tokens":100,"tools"`,
	} {
		g.Sim.Reset()
		client.plain, client.stream = path+"?%s", path // the model is not in the body's format
		client.body = strings.Replace(body, `"model":%q,"stream":%t,"max_tokens":100,"tools"`, head, 1)
		res := client.send(t, g, "@messages", "claude-sonnet-4-5", false)
		if res.Status != 200 {
			t.Errorf("%s: status %d: %s", path, res.Status, res.Body)
			continue
		}
		if sent := string(g.Sim.Requests()[0].Body); strings.Count(sent, `"functions_x_0_`) != 2 {
			t.Errorf("%s: sent %s", path, sent)
		}
	}
}
