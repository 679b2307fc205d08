package dataplane_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"modelgate/api"
	"modelgate/internal/format/eventstream"
	"modelgate/internal/provider"
	"modelgate/internal/testing/gatewaytest"
)

// chatCall is a chunk of chat with a piece of a call's arguments.
func chatCall(arguments string) string {
	return fmt.Sprintf(`data: {"id":"c","model":"served","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"f","arguments":%q}}]},"finish_reason":null}]}`+"\n\n", arguments)
}

// messagesCall is the start of a stream of messages with a piece of a call's
// arguments.
func messagesCall(arguments string) string {
	start, _, _ := strings.Cut(messageStart, "event: content_block_start")
	start += "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"toolu_1\",\"name\":\"f\",\"input\":{}}}\n\n"
	if arguments == "" {
		return start
	}
	return start + fmt.Sprintf("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":%q}}\n\n", arguments)
}

// awsMessage is a message of a binary stream.
func awsMessage(kind, typ, payload string) string {
	return string(eventstream.Append(nil, []eventstream.Header{{Name: ":" + kind + "-type", Text: typ}, {Name: ":message-type", Text: kind}}, []byte(payload)))
}

// callTarget is a provider whose streams break inside a call of f.
type callTarget struct {
	name string
	// call is a stream that begins the call, with a piece of its arguments.
	call func(arguments string) string
	// fails is an error event, and unfinished the end of a stream without a finish
	// reason; empty if the dialect has none.
	fails, unfinished string
	// length is the end of a stream at the token limit.
	length string
}

var callTargets = []callTarget{
	{"chat", chatCall, "data: {\"error\":{\"message\":\"boom\",\"type\":\"server_error\"}}\n\n", done,
		`data: {"id":"c","model":"served","choices":[{"index":0,"delta":{},"finish_reason":"length"}]}` + "\n\n" + done},
	{"messages", messagesCall, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"boom\"}}\n\n",
		"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
		"event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n" +
			"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"max_tokens\"},\"usage\":{\"output_tokens\":9}}\n\n" +
			"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"},
	{"responses", responsesCall, "event: error\ndata: {\"type\":\"error\",\"message\":\"boom\"}\n\n", "",
		`data: {"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","id":"fc","call_id":"call_1","name":"f","arguments":"ARGUMENTS","status":"incomplete"}}` + "\n\n" +
			`data: {"type":"response.incomplete","response":{"id":"r","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[{"type":"function_call","id":"fc","call_id":"call_1","name":"f","arguments":"ARGUMENTS","status":"incomplete"}]}}` + "\n\n"},
	{"converse", converseCall, awsMessage("exception", "modelStreamErrorException", `{"message":"boom"}`), "",
		awsMessage("event", "contentBlockStop", `{"contentBlockIndex":0}`) + awsMessage("event", "messageStop", `{"stopReason":"max_tokens"}`) + awsMessage("event", "metadata", `{"usage":{}}`)},
	{"cohere", cohereCall, `data: {"type":"message-end","delta":{"finish_reason":"ERROR","error":"boom"}}` + "\n\n", "",
		`data: {"type":"tool-call-end","index":0}` + "\n\n" + `data: {"type":"message-end","delta":{"finish_reason":"MAX_TOKENS","usage":{}}}` + "\n\n"},
	{"oracle", oracleCall, `data: {"code":"500","message":"boom"}` + "\n\n", "", `data: {"index":0,"finishReason":"length"}` + "\n\n"},
}

func responsesCall(arguments string) string {
	s := `data: {"type":"response.created","response":{"id":"r","status":"in_progress"}}` + "\n\n" +
		`data: {"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","id":"fc","call_id":"call_1","name":"f","arguments":""}}` + "\n\n"
	if arguments == "" {
		return s
	}
	return s + fmt.Sprintf(`data: {"type":"response.function_call_arguments.delta","output_index":0,"item_id":"fc","delta":%q}`+"\n\n", arguments)
}

func converseCall(arguments string) string {
	return awsMessage("event", "messageStart", `{"role":"assistant"}`) +
		awsMessage("event", "contentBlockStart", `{"contentBlockIndex":0,"start":{"toolUse":{"toolUseId":"call_1","name":"f"}}}`) +
		awsMessage("event", "contentBlockDelta", fmt.Sprintf(`{"contentBlockIndex":0,"delta":{"toolUse":{"input":%q}}}`, arguments))
}

func cohereCall(arguments string) string {
	return `data: {"type":"message-start","id":"m","delta":{"message":{"role":"assistant"}}}` + "\n\n" +
		`data: {"type":"tool-call-start","index":0,"delta":{"message":{"tool_calls":{"id":"call_1","type":"function","function":{"name":"f","arguments":""}}}}}` + "\n\n" +
		fmt.Sprintf(`data: {"type":"tool-call-delta","index":0,"delta":{"message":{"tool_calls":{"function":{"arguments":%q}}}}}`+"\n\n", arguments)
}

func oracleCall(arguments string) string {
	return fmt.Sprintf(`data: {"index":0,"message":{"role":"ASSISTANT","toolCalls":[{"type":"FUNCTION","id":"call_1","name":"f","arguments":%q}]}}`+"\n\n", arguments)
}

// body returns the provider's response: the call and an end.
func (c *callTarget) body(arguments, end string) string {
	quoted := fmt.Sprintf("%q", arguments)
	end = strings.ReplaceAll(end, "ARGUMENTS", quoted[1:len(quoted)-1])
	if c.name == "converse" {
		return rawHead(eventstream.ContentType) + c.call(arguments) + end
	}
	return sseOf(c.call(arguments), end)
}

// translatesFor reports whether a client's dialect is not the target's.
func (c *callTarget) translatesFor(client clientFormat) bool {
	return client.name != c.name && (client.name != "invoke" || c.name != "messages")
}

// newCallGateway returns a function that sends a request of a client to a provider
// that speaks one dialect only and returns these bytes.
func newCallGateway(t *testing.T) func(t *testing.T, client clientFormat, target, response string, stream bool) gatewaytest.Response {
	t.Helper()
	settings := strings.Replace(pairSettings, "provider: openai,", "provider: deepseek,", 1) +
		`  - {slug: oracle, provider: oracle, custom_host: SIMULATOR, options: {compartment_id: "ocid1.compartment.oc1..x"}}
  - {slug: responses, provider: only-responses, custom_host: SIMULATOR, api_key: "${PAIR_KEY}"}
  - {slug: ollama, provider: only-ollama, custom_host: SIMULATOR, api_key: "${PAIR_KEY}"}
  - {slug: cortex, provider: cortex, custom_host: SIMULATOR, api_key: "${PAIR_KEY}"}
`
	u := new(swapped)
	g := gatewaytest.New(t, gatewaytest.Options{Settings: settings, Upstream: u, Specs: []*provider.Spec{
		{ID: "only-responses", Name: "Only responses", Dialect: api.DialectResponses, Auth: provider.Bearer(), Paths: map[api.Operation]string{api.Responses: "/responses"}},
		{ID: "only-ollama", Name: "Only Ollama", Dialect: api.DialectOllama, Auth: provider.Bearer(), Paths: map[api.Operation]string{api.OllamaChat: "/api/chat"}},
	}})
	return func(t *testing.T, client clientFormat, target, response string, stream bool) gatewaytest.Response {
		t.Helper()
		u.set(raw(response))
		return client.send(t, g, "@"+target, "m", stream)
	}
}

// Clients run a call as soon as its end arrives, so one that broke off has none.
func TestCallThatBrokeOffIsNotReportedAsFinished(t *testing.T) {
	t.Parallel()
	send := newCallGateway(t)
	for _, target := range callTargets {
		for _, end := range []struct{ name, frames string }{{"cut", ""}, {"an error", target.fails}, {"no finish reason", target.unfinished}} {
			if end.frames == "" && end.name != "cut" {
				continue
			}
			for _, arguments := range []string{"", `{"a":`} {
				for _, client := range clientFormats {
					if !target.translatesFor(client) {
						continue
					}
					t.Run(fmt.Sprintf("%s, %s, %q for %s", target.name, end.name, arguments, client.name), func(t *testing.T) {
						res := send(t, client, target.name, target.body(arguments, end.frames), true)
						if h := client.readResponse(t, res); h.end != "error" && h.end != "error body" {
							t.Errorf("the client reads the end %s, want an error", h.end)
						}
						for _, finished := range []string{
							"content_block_stop", "message_stop", "arguments.done", "output_item.done", `"status":"completed"`, "functionCall",
							"contentBlockStop", "messageStop", `"finish_reason":"`, `{}"`,
						} {
							if strings.Contains(string(res.Body), finished) {
								t.Errorf("the client received %s:\n%s", finished, res.Body)
							}
						}
					})
				}
			}
		}
	}
}

// At the token limit providers end the call and say why. Each client reads the
// arguments as they are, or no call where its dialect only has complete ones.
func TestCallCutByTheTokenLimitHasNoInventedArguments(t *testing.T) {
	t.Parallel()
	send := newCallGateway(t)
	wants := map[string]struct {
		has, lacks []string
		arguments  string // path of a piece in an event
	}{
		"chat":      {[]string{`"finish_reason":"length"`}, nil, "choices.0.delta.tool_calls.0.function.arguments"},
		"messages":  {[]string{`"stop_reason":"max_tokens"`}, nil, "delta.partial_json"},
		"responses": {[]string{"event: response.incomplete", `"reason":"max_output_tokens"`, `"status":"incomplete"`}, []string{"arguments.done", "output_item.done", `"completed"`}, "delta"},
		"gemini":    {[]string{`"finishReason":"MAX_TOKENS"`, `"finishMessage":"The response ended inside the arguments of a call of f."`}, []string{"functionCall"}, ""},
		"converse":  {[]string{`"stopReason":"max_tokens"`}, nil, "delta.toolUse.input"},
	}
	for _, target := range callTargets {
		for _, arguments := range []string{"", `{"a":`} {
			for _, client := range clientFormats[:5] {
				if !target.translatesFor(client) {
					continue
				}
				t.Run(fmt.Sprintf("%s, %q for %s", target.name, arguments, client.name), func(t *testing.T) {
					res := send(t, client, target.name, target.body(arguments, target.length), true)
					want := wants[client.name]
					if h := client.readResponse(t, res); h.end != "done" {
						t.Errorf("end %s, want done", h.end)
					}
					for _, text := range want.has {
						if !strings.Contains(string(res.Body), text) {
							t.Errorf("the client did not receive %s", text)
						}
					}
					for _, text := range append(want.lacks, `"{}"`) {
						if strings.Contains(string(res.Body), text) {
							t.Errorf("the client received %s", text)
						}
					}
					events, sum := sseData(res.Body), ""
					if client.name == "converse" {
						events = binaryData(t, res.Body)
					}
					for _, e := range events {
						sum += str(at(e, want.arguments))
					}
					if want.arguments != "" && sum != arguments {
						t.Errorf("the arguments are %q, want %q", sum, arguments)
					}
					if t.Failed() {
						t.Logf("%s", res.Body)
					}
				})
			}
		}
	}
}

// completeCall is a complete response of the chat dialect that the token limit cut.
func completeCall(arguments string) string {
	body := fmt.Sprintf(`{"id":"c","model":"served","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":%q}}]},"finish_reason":"length"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`, arguments)
	return rawComplete(body)
}

// Protocols that only have complete calls leave out the one that was cut.
func TestCompleteResponseCutByTheTokenLimitHasNoInventedArguments(t *testing.T) {
	t.Parallel()
	send := newCallGateway(t)
	for _, arguments := range []string{"", `{"a":`} {
		for client, want := range map[int]struct{ reason, reasonPath, item, itemValue string }{
			1: {"max_tokens", "stop_reason", "content.0", "<nil>"},
			2: {"max_output_tokens", "incomplete_details.reason", "output.0.arguments", arguments},
			3: {"MAX_TOKENS", "candidates.0.finishReason", "candidates.0.content.parts.0.functionCall", "<nil>"},
			4: {"max_tokens", "stopReason", "output.message.content.0", "<nil>"},
		} {
			t.Run(fmt.Sprintf("%q for %s", arguments, clientFormats[client].name), func(t *testing.T) {
				res := send(t, clientFormats[client], "chat", completeCall(arguments), false)
				var body any
				if err := json.Unmarshal(res.Body, &body); err != nil || at(body, want.reasonPath) != want.reason || fmt.Sprint(at(body, want.item)) != want.itemValue {
					t.Errorf("%v, want %s and %s %s:\n%s", err, want.reason, want.item, want.itemValue, res.Body)
				}
				if strings.Contains(string(res.Body), `"completed"`) {
					t.Errorf("the call has the status completed:\n%s", res.Body)
				}
			})
		}
	}
}

// Clients add up the deltas of a call's arguments and compare them with its end.
func TestCallWithoutArgumentsHasADeltaForItsEmptyObject(t *testing.T) {
	t.Parallel()
	send := newCallGateway(t)
	responses := clientFormats[2]
	end := `data: {"id":"c","model":"served","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}` + "\n\n" + done
	res := send(t, responses, "chat", sseOf(chatCall(""), end), true)
	var sum, want string
	for _, e := range sseData(res.Body) {
		switch str(at(e, "type")) {
		case "response.function_call_arguments.delta":
			sum += str(at(e, "delta"))
		case "response.function_call_arguments.done":
			want = str(at(e, "arguments"))
		}
	}
	if sum != "{}" || want != "{}" {
		t.Errorf("the deltas are %q and the end is %q, want {} twice:\n%s", sum, want, res.Body)
	}
}

// halves are streams that end inside an event, by dialect: complete events, and
// the beginning of the next.
var halves = map[string][2]string{
	"chat":      {chatCall(`{"a":`), `data: {"id":"c","choices":[{"index":0,"delta":{"tool_c`},
	"messages":  {messagesCall(`{"a":`), "event: content_block_stop\ndata: {\"type\":\"content_blo"},
	"responses": {"event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\",\"status\":\"in_progress\"}}\n\n", "event: response.output_item.do"},
	"gemini":    {"data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\"}]}}]}\r\n\r\n", `data: {"candidates":[{"content":{"parts":[{"functionCall":{"na`},
}

// A parser takes what precedes the error for an event, and fails.
func TestHalfAnEventIsNotForwardedBeforeTheError(t *testing.T) {
	t.Parallel()
	for _, client := range clientFormats[:4] {
		half := halves[client.name]
		half[0] = strings.ReplaceAll(half[0], "served", "m") // as clients of messages get it
		for _, more := range []string{"", "\n"} {
			t.Run(fmt.Sprintf("%s %q", client.name, more), func(t *testing.T) {
				target := client.name
				if target == "responses" {
					target = "chat" // which speaks both
				}
				res, e := translated(t, client, target, sseOf(half[0], half[1], more), true)
				if h := client.readResponse(t, res); h.end != "error" || strings.Contains(string(res.Body), half[1]) {
					t.Errorf("end %s, want an error and no half event:\n%s", h.end, res.Body)
				}
				if rest, ok := strings.CutPrefix(string(res.Body), half[0]); !ok || !strings.HasPrefix(rest, "event: error\n") && !strings.HasPrefix(rest, `data: {"error":`) {
					t.Errorf("the error does not follow the complete events:\n%s", res.Body)
				}
				recorded(t, e, map[string]any{"error.code": "upstream_stream_incomplete"})
			})
		}
	}
}

// Some clients look for CR LF CR LF between events.
func TestErrorAfterACutLineEndBeginsOnItsOwnLine(t *testing.T) {
	t.Parallel()
	event := halves["gemini"][0]
	res, _ := translated(t, clientFormats[3], "gemini", sseOf(strings.TrimSuffix(event, "\n")), true)
	if !strings.HasPrefix(string(res.Body), event+`data: {"error":`) {
		t.Errorf("the error does not follow a complete line end:\n%q", res.Body)
	}
}

// A client of gemini reads one line of data for each event.
func TestGeminiEventsAreOneLine(t *testing.T) {
	t.Parallel()
	send := newCallGateway(t)
	gemini := clientFormats[3]
	end := `data: {"id":"c","model":"served","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}` + "\n\n" + done
	res := send(t, gemini, "chat", sseOf(chatCall("{\n  \"a\": \"x y\",\r\n  \"b\": [\n1]\n}"), end), true)
	for line := range strings.Lines(string(res.Body)) {
		if line != "\r\n" && !strings.HasPrefix(line, `data: {"candidates":[`) {
			t.Errorf("a line that no client reads: %q", line)
		}
	}
	call := at(sseData(res.Body)[0], "candidates.0.content.parts.0.functionCall")
	if str(at(call, "args.a")) != "x y" || fmt.Sprint(at(call, "args.b")) != "[1]" {
		t.Errorf("the call is %v:\n%s", call, res.Body)
	}
}

// Clients of converse take messageStop for the end.
func TestConverseClientsGetTheExceptionWithoutACleanEnd(t *testing.T) {
	t.Parallel()
	send := newCallGateway(t)
	converse := clientFormats[4]
	for _, finish := range []string{"", providerChoice(0, "", "stop")} {
		res := send(t, converse, "chat", sseOf(providerChoice(0, "hello", ""), finish, "data: {\"error\":{\"message\":\"boom\",\"type\":\"server_error\"}}\n\n", done), true)
		h := converse.readResponse(t, res)
		if h.end != "error" || h.text != "hello" || strings.Contains(string(res.Body), "messageStop") || strings.Contains(string(res.Body), "metadata") {
			t.Errorf("after %q: end %s, text %q, want only the exception:\n%s", finish, h.end, h.text, res.Body)
		}
	}
}
