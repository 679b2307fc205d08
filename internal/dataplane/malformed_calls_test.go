package dataplane_test

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"modelgate/api"
	"modelgate/internal/provider"
	"modelgate/internal/testing/gatewaytest"
)

// dialectTargets are slugs of providers, each of which speaks one dialect only.
var dialectTargets = []string{"chat", "messages", "responses", "gemini", "converse", "cohere", "ollama", "oracle"}

const dialectTargetSettings = `providers:
  - {slug: chat, provider: deepseek, custom_host: SIMULATOR, api_key: "${PAIR_KEY}"}
  - {slug: messages, provider: anthropic, custom_host: SIMULATOR, api_key: "${PAIR_KEY}"}
  - {slug: responses, provider: only-responses, custom_host: SIMULATOR, api_key: "${PAIR_KEY}"}
  - {slug: gemini, provider: google, custom_host: SIMULATOR, api_key: "${PAIR_KEY}"}
  - {slug: converse, provider: bedrock, custom_host: SIMULATOR, api_key: "${PAIR_KEY}"}
  - {slug: cohere, provider: cohere, custom_host: SIMULATOR, api_key: "${PAIR_KEY}"}
  - {slug: ollama, provider: only-ollama, custom_host: SIMULATOR, api_key: "${PAIR_KEY}"}
  - {slug: oracle, provider: oracle, custom_host: SIMULATOR, options: {compartment_id: "ocid1.compartment.oc1..x"}}
`

// newRequestRecorder returns a function that sends a client's body to a target and
// returns the response, the body that the provider received and the log entry.
func newRequestRecorder(t *testing.T) func(client clientFormat, body, target, model string) (gatewaytest.Response, string, map[string]any) {
	t.Helper()
	var received string
	g := gatewaytest.New(t, gatewaytest.Options{
		Settings: dialectTargetSettings,
		Upstream: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			received = string(b)
			http.Error(w, `{"message":"enough"}`, http.StatusTeapot)
		}),
		Specs: []*provider.Spec{
			{ID: "only-responses", Name: "Only responses", Dialect: api.DialectResponses, Auth: provider.Bearer(), Paths: map[api.Operation]string{api.Responses: "/responses"}},
			{ID: "only-ollama", Name: "Only Ollama", Dialect: api.DialectOllama, Auth: provider.Bearer(), Paths: map[api.Operation]string{api.OllamaChat: "/api/chat"}},
		},
	})
	return func(client clientFormat, body, target, model string) (gatewaytest.Response, string, map[string]any) {
		client.body = body
		received = ""
		res := client.send(t, g, "@"+target, model, false)
		return res, received, g.Entry(res)
	}
}

// brokenHistories are conversations with a call whose arguments are not JSON, as
// clients send them; %[1]q is the model.
var brokenHistories = map[string]string{
	"chat":      `{"model":%q,"stream":%t,"messages":[{"role":"user","content":"hello"},{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"torn\":"}}]},{"role":"tool","tool_call_id":"call_1","content":"no JSON"}]}`,
	"messages":  `{"model":%q,"stream":%t,"max_tokens":100,"messages":[{"role":"user","content":"hello"},{"role":"assistant","content":[{"type":"tool_use","id":"call_1","name":"f","input":"{\"torn\":"}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":"no JSON"}]}]}`,
	"responses": `{"model":%q,"stream":%t,"input":[{"role":"user","content":"hello"},{"type":"function_call","call_id":"call_1","name":"f","arguments":"{\"torn\":"},{"type":"function_call_output","call_id":"call_1","output":"no JSON"}]}`,
	"gemini":    `{"contents":[{"role":"user","parts":[{"text":"hello"}]},{"role":"model","parts":[{"functionCall":{"name":"f","args":"{\"torn\":"}}]},{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"error":"no JSON"}}}]}]}`,
	"converse":  `{"messages":[{"role":"user","content":[{"text":"hello"}]},{"role":"assistant","content":[{"toolUse":{"toolUseId":"call_1","name":"f","input":"{\"torn\":"}}]},{"role":"user","content":[{"toolResult":{"toolUseId":"call_1","content":[{"text":"no JSON"}]}}]}]}`,
}

// A model can write arguments that are no JSON, and the gateway hands them out: the
// conversation must go on, at any target.
func TestMalformedArgumentsInHistoryReachEveryTarget(t *testing.T) {
	t.Parallel()
	send := newRequestRecorder(t)
	for _, client := range clientFormats[:5] {
		for _, target := range append(dialectTargets, "cohere at oracle") {
			if target == client.name {
				continue
			}
			t.Run(client.name+" to "+target, func(t *testing.T) {
				model := "m"
				if target == "cohere at oracle" {
					target, model = "oracle", "cohere.command-a-03-2025"
				}
				for _, arguments := range []string{`{"torn":`, `["complete"]`, `7`} { // not JSON, and JSON that is not an object
					history := strings.Replace(brokenHistories[client.name], strconv.Quote(`{"torn":`), strconv.Quote(arguments), 1)
					res, sent, e := send(client, history, target, model)
					object := `{"INVALID_JSON":` + strconv.Quote(arguments) + `}` // as JSON or as text of JSON
					if !strings.Contains(sent, object) && !strings.Contains(sent, strconv.Quote(object)) {
						t.Errorf("%s: status %d, sent %s\n%s", arguments, res.Status, sent, res.Body)
					}
					if notes := fmt.Sprint(e["params"]); !strings.Contains(notes, "text in an object") {
						t.Errorf("%s: the log names %s, want the arguments", arguments, notes)
					}
				}
			})
		}
	}
}
