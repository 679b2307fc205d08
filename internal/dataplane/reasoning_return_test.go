package dataplane_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

// reasonedCalls is a response of the responses endpoint with two calls, each
// after encrypted thinking.
const reasonedCalls = `{"id":"resp_1","object":"response","created_at":1,"status":"completed","model":"gpt-5.6-sol","output":[
{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"First."}],"encrypted_content":"ENC-A"},
{"type":"function_call","id":"fc_1","call_id":"call_1","name":"f","arguments":"{\"n\":1}","status":"completed"},
{"type":"reasoning","id":"rs_2","summary":[],"encrypted_content":"ENC-B"},
{"type":"function_call","id":"fc_2","call_id":"call_2","name":"f","arguments":"{\"n\":2}","status":"completed"}],
"usage":{"input_tokens":5,"output_tokens":7,"total_tokens":12}}`

// secondTurns are the second requests of clients: %s is what they got of the
// assistant's turn.
var secondTurns = map[string]struct{ first, turn, body string }{
	"chat": {`{"model":"gpt-5-codex","messages":[{"role":"user","content":"go"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]}`,
		"choices.0.message",
		`{"model":"gpt-5-codex","messages":[{"role":"user","content":"go"},%s,{"role":"tool","tool_call_id":"call_1","content":"one"},{"role":"tool","tool_call_id":"call_2","content":"two"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]}`},
	"messages": {`{"model":"gpt-5-codex","max_tokens":4000,"messages":[{"role":"user","content":"go"}],"tools":[{"name":"f","input_schema":{"type":"object"}}]}`,
		"content",
		`{"model":"gpt-5-codex","max_tokens":4000,"messages":[{"role":"user","content":"go"},{"role":"assistant","content":%s},{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":"one"},{"type":"tool_result","tool_use_id":"call_2","content":"two"}]}],"tools":[{"name":"f","input_schema":{"type":"object"}}]}`},
	"gemini": {`{"contents":[{"role":"user","parts":[{"text":"go"}]}],"tools":[{"functionDeclarations":[{"name":"f"}]}]}`,
		"candidates.0.content",
		`{"contents":[{"role":"user","parts":[{"text":"go"}]},%s,{"role":"user","parts":[{"functionResponse":{"id":"call_1","name":"f","response":{"result":"one"}}},{"functionResponse":{"id":"call_2","name":"f","response":{"result":"two"}}}]}],"tools":[{"functionDeclarations":[{"name":"f"}]}]}`},
	"converse": {`{"messages":[{"role":"user","content":[{"text":"go"}]}],"toolConfig":{"tools":[{"toolSpec":{"name":"f","inputSchema":{"json":{"type":"object"}}}}]}}`,
		"output.message",
		`{"messages":[{"role":"user","content":[{"text":"go"}]},%s,{"role":"user","content":[{"toolResult":{"toolUseId":"call_1","content":[{"text":"one"}]}},{"toolResult":{"toolUseId":"call_2","content":[{"text":"two"}]}}]}],"toolConfig":{"tools":[{"toolSpec":{"name":"f","inputSchema":{"json":{"type":"object"}}}}]}}`},
}

// Nothing is stored at the provider, so clients carry its encrypted thinking
// and send it back in front of the calls that it led to.
func TestEncryptedThinkingComesBackFromEveryClient(t *testing.T) {
	t.Parallel()
	bodies := make(chan string, 4)
	up := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- string(body)
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, reasonedCalls)
	})
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: up, Settings: pairSettings})
	for _, client := range clientFormats[:5] {
		turns, ok := secondTurns[client.name]
		if !ok {
			continue // its own protocol
		}
		t.Run(client.name, func(t *testing.T) {
			send := func(body string) gatewaytest.Response {
				path, _ := client.request("gpt-5-codex", false)
				req := request(t, g, path, body)
				req.Header.Set("x-gateway-strict-vendora-compliance", "false") // chat has no field for thinking
				return g.Do(req)
			}
			res := send(turns.first)
			var first struct {
				Store   *bool
				Include []string
			}
			if err := json.Unmarshal([]byte(receive(t, bodies, "the first request")), &first); err != nil {
				t.Fatal(err)
			}
			if first.Store == nil || *first.Store || len(first.Include) != 1 || first.Include[0] != "reasoning.encrypted_content" {
				t.Errorf("the first request has store %v, include %v, want false and encrypted thinking", first.Store, first.Include)
			}
			turn, err := json.Marshal(at(res.JSON(t), turns.turn))
			if err != nil {
				t.Fatal(err)
			}
			send(strings.Replace(turns.body, "%s", string(turn), 1))
			var second struct {
				Input []struct {
					Type    string
					Content string `json:"encrypted_content"`
					Text    any    `json:"content"`
					Call    string `json:"call_id"`
				}
			}
			sent := receive(t, bodies, "the second request")
			var got []string
			if err := json.Unmarshal([]byte(sent), &second); err != nil {
				got = append(got, err.Error())
			}
			for _, i := range second.Input {
				if i.Type == "reasoning" && i.Text != nil { // the vendor accepts a summary only
					t.Errorf("a reasoning item has content: %s", sent)
				}
				got = append(got, strings.TrimSpace(i.Type+" "+i.Content+i.Call))
			}
			want := "message, reasoning ENC-A, function_call call_1, reasoning ENC-B, function_call call_2, function_call_output call_1, function_call_output call_2"
			if client.name == "chat" { // whose messages have their calls at the end
				want = "message, reasoning ENC-A, reasoning ENC-B, function_call call_1, function_call call_2, function_call_output call_1, function_call_output call_2"
			}
			if all := strings.Join(got, ", "); all != want {
				t.Errorf("the second request has %s, want %s; the client got %s", all, want, res.Body)
			}
		})
	}
}

// request makes a request of a client at @chat.
func request(t *testing.T, g *gatewaytest.Gateway, path, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.Root+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("x-gateway-api-key", gatewaytest.Key)
	req.Header.Set("x-gateway-provider", "@chat")
	req.Header.Set("Content-Type", "application/json")
	return req
}
