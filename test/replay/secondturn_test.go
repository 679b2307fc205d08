package replay

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"modelgate/internal/simulator"
	"modelgate/internal/testing/gatewaytest"
)

// strictProviders are the simulated providers by dialect: slug and model. The
// simulator refuses what the vendors refuse.
var strictProviders = []struct{ dialect, slug, model string }{
	{"chat", "chat", "gpt-audio"},
	{"messages", "messages", "claude-sonnet-4-5"},
	{"responses", "chat", "gpt-5-codex"},
	{"gemini", "gemini", "gemini-3-flash-preview"},
	{"converse", "converse", "anthropic.claude-sonnet-4-5-20250929-v1:0"},
	{"cohere", "cohere", "command-a-03-2025"},
}

const strictSettings = `providers:
  - {slug: chat, provider: openai, custom_host: SIMULATOR, api_key: "${STRICT_KEY}"}
  - {slug: messages, provider: anthropic, custom_host: SIMULATOR, api_key: "${STRICT_KEY}"}
  - {slug: gemini, provider: google, custom_host: SIMULATOR, api_key: "${STRICT_KEY}"}
  - {slug: converse, provider: bedrock, custom_host: SIMULATOR, api_key: "${STRICT_KEY}"}
  - {slug: cohere, provider: cohere, custom_host: SIMULATOR, api_key: "${STRICT_KEY}"}
`

// refusals are the errors of a simulated provider since the last call.
type refusals struct {
	next http.Handler
	seen []string
}

func (r *refusals) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	rec := httptest.NewRecorder()
	r.next.ServeHTTP(rec, req)
	if rec.Code >= 400 {
		r.seen = append(r.seen, fmt.Sprintf("%d %.300s", rec.Code, rec.Body))
	}
	maps.Copy(w.Header(), rec.Header())
	w.WriteHeader(rec.Code)
	w.Write(rec.Body.Bytes())
}

// jsonObject is a JSON object.
type jsonObject = map[string]any

// A client sends back what the provider answered. Whoever serves the second
// turn accepts it, or the gateway refuses it by name. Streamed responses are put
// together first, as clients do.
func TestRecordedResponsesAreHistoryForEveryOtherProvider(t *testing.T) {
	t.Setenv("STRICT_KEY", gatewaytest.SimulatorKey)
	tapes := mustTapes(t, "chat-completions", "messages", "responses", "generate-content", "stream-generate-content", "converse", "converse-stream")
	up := &refusals{next: simulator.New(simulator.Options{})}
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: up, Settings: strictSettings})
	accepted, refused, signed, streams := map[string]int{}, map[string]int{}, map[string]int{}, map[string]int{}
	for _, p := range tapes {
		for _, x := range p.Exchanges {
			client, path, body := x.secondTurn()
			if body == nil {
				continue
			}
			if !json.Valid(x.body()) {
				streams[client]++
			}
			for _, to := range strictProviders {
				if to.dialect == client {
					continue
				}
				up.seen = nil
				address := strings.ReplaceAll(path, "{model}", url.PathEscape(to.model))
				body["model"] = to.model
				if client == "gemini" || client == "converse" {
					delete(body, "model")
				}
				req := newRequest(t, http.MethodPost, g.Root+address, []byte(jsonText(body)))
				req.Header = http.Header{"Content-Type": {"application/json"}, "X-Gateway-Api-Key": {gatewaytest.Key}, "X-Gateway-Provider": {"@" + to.slug}}
				res := send(t, req)
				switch {
				case len(up.seen) > 0 && recordedSignature(up.seen[0]) && slices.Contains(sameVendor, client+" to "+to.dialect):
					signed[client+" to "+to.dialect]++
				case len(up.seen) > 0:
					t.Errorf("%s to %s: the provider refuses the second turn: %s", x.name, to.dialect, up.seen)
				case res.Status == http.StatusBadRequest:
					refused[client+" to "+to.dialect]++
					t.Logf("%s to %s: %.200s", x.name, to.dialect, res.Body)
				case res.Status != http.StatusOK:
					t.Errorf("%s to %s: status %d: %.300s", x.name, to.dialect, res.Status, res.Body)
				default:
					accepted[client+" to "+to.dialect]++
				}
			}
		}
	}
	for _, pair := range slices.Sorted(maps.Keys(accepted)) {
		t.Logf("%s: %d accepted, %d with a vendor's own signature, %d refused by the gateway", pair, accepted[pair], signed[pair], refused[pair])
		if refused[pair] > 1 {
			t.Errorf("%s: the gateway refuses %d second turns, want at most 1: audio of another vendor", pair, refused[pair])
		}
	}
	t.Logf("streamed responses by dialect: %v", streams)
	if len(streams) < 5 {
		t.Errorf("streamed responses of %d dialects were played, want 5", len(streams))
	}
	if len(accepted) < 20 {
		t.Errorf("%d pairs of dialects were played, want at least 20", len(accepted))
	}
}

// sameVendor are the pairs of dialects between which a signature of the
// recording stays with its vendor: Claude at Anthropic, Bedrock and OpenRouter,
// and OpenAI's models at OpenRouter.
var sameVendor = []string{"messages to converse", "converse to messages", "chat to messages", "chat to converse", "chat to responses"}

// recordedSignature reports whether an error is about a signature, which the
// simulator accepts only if it made it.
func recordedSignature(refusal string) bool {
	return strings.Contains(refusal, "Invalid `signature` in `thinking` block") ||
		strings.Contains(refusal, "Invalid `data` in `redacted_thinking` block") ||
		strings.Contains(refusal, "The encrypted content could not be verified")
}

// secondTurn returns a request with the response as history, in the protocol of
// the response: its client, its path and its body. It returns none for a response
// that is not complete.
func (x *exchange) secondTurn() (client, path string, body jsonObject) {
	if x.Response.Status != http.StatusOK {
		return "", "", nil
	}
	v := x.assembled()
	switch x.API {
	case "chat-completions":
		choices := list(v, "choices")
		if len(choices) == 0 || object(choices[0], "message") == nil {
			return "", "", nil
		}
		return "chat", "/v1/chat/completions", chatTurn(object(choices[0], "message"))
	case "messages":
		if len(list(v, "content")) == 0 {
			return "", "", nil
		}
		return "messages", "/v1/messages", messagesTurn(list(v, "content"))
	case "responses":
		if len(list(v, "output")) == 0 {
			return "", "", nil
		}
		return "responses", "/v1/responses", responsesTurn(list(v, "output"))
	case "generate-content", "stream-generate-content":
		if candidates := list(v, "candidates"); len(candidates) > 0 && len(list(candidates[0], "content.parts")) > 0 {
			return "gemini", "/v1beta/models/{model}:generateContent", geminiTurn(object(candidates[0], "content"))
		}
	case "converse", "converse-stream":
		if m := object(v, "output.message"); m != nil && len(list(m, "content")) > 0 {
			return "converse", "/model/{model}/converse", converseTurn(m)
		}
	}
	return "", "", nil
}

func chatTurn(message jsonObject) jsonObject {
	var tools []any
	turn := []any{jsonObject{"role": "user", "content": "Go."}, message}
	for _, c := range list(message, "tool_calls") {
		tools = append(tools, jsonObject{"type": "function", "function": jsonObject{"name": text(c, "function.name"), "parameters": jsonObject{"type": "object"}}})
		turn = append(turn, jsonObject{"role": "tool", "tool_call_id": text(c, "id"), "content": "done"})
	}
	if call := object(message, "function_call"); text(call, "name") != "" {
		turn = append(turn, jsonObject{"role": "function", "name": text(call, "name"), "content": "done"})
	}
	return withTools(jsonObject{"messages": append(turn, jsonObject{"role": "user", "content": "Go on."})}, "tools", tools)
}

func messagesTurn(content []any) jsonObject {
	var tools, results []any
	for _, c := range content {
		if text(c, "type") == "tool_use" {
			tools = append(tools, jsonObject{"name": text(c, "name"), "input_schema": jsonObject{"type": "object"}})
			results = append(results, jsonObject{"type": "tool_result", "tool_use_id": text(c, "id"), "content": "done"})
		}
	}
	turn := []any{jsonObject{"role": "user", "content": "Go."}, jsonObject{"role": "assistant", "content": content},
		jsonObject{"role": "user", "content": append(results, jsonObject{"type": "text", "text": "Go on."})}}
	return withTools(jsonObject{"max_tokens": 1000, "messages": turn}, "tools", tools)
}

func responsesTurn(output []any) jsonObject {
	var tools []any
	turn := append([]any{jsonObject{"role": "user", "content": "Go."}}, output...)
	for _, item := range output {
		switch id := text(item, "call_id"); text(item, "type") {
		case "function_call":
			tools = append(tools, jsonObject{"type": "function", "name": text(item, "name"), "parameters": jsonObject{"type": "object"}, "strict": false})
			turn = append(turn, jsonObject{"type": "function_call_output", "call_id": id, "output": "done"})
		case "custom_tool_call":
			tools = append(tools, jsonObject{"type": "custom", "name": text(item, "name")})
			turn = append(turn, jsonObject{"type": "custom_tool_call_output", "call_id": id, "output": "done"})
		case "tool_search_call":
			if text(item, "execution") == "client" {
				turn = append(turn, jsonObject{"type": "tool_search_output", "call_id": id, "execution": "client", "tools": []any{}})
			}
		}
	}
	return withTools(jsonObject{"input": append(turn, jsonObject{"role": "user", "content": "Go on."})}, "tools", tools)
}

func geminiTurn(content jsonObject) jsonObject {
	var functions, parts []any
	for _, p := range list(content, "parts") {
		if call := object(p, "functionCall"); call != nil {
			functions = append(functions, jsonObject{"name": text(call, "name")})
			result := jsonObject{"name": text(call, "name"), "response": jsonObject{"result": "done"}}
			if id := text(call, "id"); id != "" {
				result["id"] = id
			}
			parts = append(parts, jsonObject{"functionResponse": result})
		}
	}
	var tools []any
	if functions = distinct(functions); len(functions) > 0 {
		tools = []any{jsonObject{"functionDeclarations": functions}}
	}
	content["role"] = "model"
	return withTools(jsonObject{"contents": []any{jsonObject{"role": "user", "parts": []any{jsonObject{"text": "Go."}}}, content,
		jsonObject{"role": "user", "parts": append(parts, jsonObject{"text": "Go on."})}}}, "tools", tools)
}

func converseTurn(message jsonObject) jsonObject {
	var tools, results []any
	for _, c := range list(message, "content") {
		if call := object(c, "toolUse"); call != nil && text(call, "type") != "server_tool_use" {
			tools = append(tools, jsonObject{"toolSpec": jsonObject{"name": text(call, "name"), "inputSchema": jsonObject{"json": jsonObject{"type": "object"}}}})
			results = append(results, jsonObject{"toolResult": jsonObject{"toolUseId": text(call, "toolUseId"), "content": []any{jsonObject{"text": "done"}}}})
		}
	}
	body := jsonObject{"messages": []any{jsonObject{"role": "user", "content": []any{jsonObject{"text": "Go."}}}, message,
		jsonObject{"role": "user", "content": append(results, jsonObject{"text": "Go on."})}}}
	if tools = distinct(tools); len(tools) > 0 {
		body["toolConfig"] = jsonObject{"tools": tools}
	}
	return body
}

// withTools adds the tools that were called, each once.
func withTools(body jsonObject, name string, tools []any) jsonObject {
	if tools = distinct(tools); len(tools) > 0 {
		body[name] = tools
	}
	return body
}

func distinct(all []any) (once []any) {
	seen := map[string]bool{}
	for _, v := range all {
		if key := jsonText(v); !seen[key] {
			seen[key], once = true, append(once, v)
		}
	}
	return once
}
