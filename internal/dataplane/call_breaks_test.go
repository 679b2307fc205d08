package dataplane_test

import (
	"fmt"
	"strings"
	"testing"

	"modelgate/internal/gatewaytest"
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

// translatedCall returns the response of a provider that speaks one dialect only.
func translatedCall(t *testing.T, client tongue, target, answer string) gatewaytest.Response {
	t.Helper()
	settings := strings.Replace(pairSettings, "provider: openai,", "provider: deepseek,", 1)
	g := gatewaytest.New(t, gatewaytest.Options{Settings: settings, Upstream: raw(answer)})
	return client.send(t, g, "@"+target, "m", true)
}

// Clients run a call as soon as its end arrives, so one that broke off has none.
func TestCallThatBrokeOffIsNotReportedAsFinished(t *testing.T) {
	t.Parallel()
	type ending struct{ name, frames string }
	for _, target := range []struct {
		name    string
		call    func(arguments string) string
		endings []ending
	}{
		{"chat", chatCall, []ending{
			{"cut", ""},
			{"an error", "data: {\"error\":{\"message\":\"boom\",\"type\":\"server_error\"}}\n\n"},
			{"no finish reason", done},
		}},
		{"messages", messagesCall, []ending{
			{"cut", ""},
			{"an error", "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"boom\"}}\n\n"},
			{"no finish reason", "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"},
		}},
	} {
		for _, end := range target.endings {
			for _, arguments := range []string{"", `{"a":`} {
				for _, client := range tongues {
					if client.name == target.name || client.name == "invoke" && target.name == "messages" {
						continue
					}
					t.Run(fmt.Sprintf("%s, %s, %q for %s", target.name, end.name, arguments, client.name), func(t *testing.T) {
						res := translatedCall(t, client, target.name, sseOf(target.call(arguments)+end.frames))
						if h := client.hear(t, res); h.end != "error" && h.end != "error body" {
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

// Clients add up the deltas of a call's arguments and compare them with its end.
func TestCallWithoutArgumentsHasADeltaForItsEmptyObject(t *testing.T) {
	t.Parallel()
	responses := tongues[2]
	end := `data: {"id":"c","model":"served","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}` + "\n\n" + done
	res := translatedCall(t, responses, "chat", sseOf(chatCall(""), end))
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

// A provider may leave out the finish reason after calls that are complete.
func TestCompleteCallsWithoutAFinishReasonAreKept(t *testing.T) {
	t.Parallel()
	for _, client := range tongues[1:5] {
		t.Run(client.name, func(t *testing.T) {
			res := translatedCall(t, client, "chat", sseOf(chatCall(`{"a":1}`), done))
			if h := client.hear(t, res); h.end != "done" || !strings.Contains(string(res.Body), `a\":1`) && !strings.Contains(string(res.Body), `"a":1`) {
				t.Errorf("end %s: %s", h.end, res.Body)
			}
		})
	}
}
