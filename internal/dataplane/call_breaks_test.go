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
	for _, client := range tongues[:4] {
		half := halves[client.name]
		for _, more := range []string{"", "\n"} {
			t.Run(fmt.Sprintf("%s %q", client.name, more), func(t *testing.T) {
				target := client.name
				if target == "responses" {
					target = "chat" // which speaks both
				}
				res, e := translated(t, client, target, sseOf(half[0], half[1], more), true)
				if h := client.hear(t, res); h.end != "error" || strings.Contains(string(res.Body), half[1]) {
					t.Errorf("end %s, want an error and no half event:\n%s", h.end, res.Body)
				}
				if rest, ok := strings.CutPrefix(string(res.Body), half[0]); !ok || !strings.HasPrefix(rest, "event: error\n") && !strings.HasPrefix(rest, `data: {"error":`) {
					t.Errorf("the error does not follow the complete events:\n%s", res.Body)
				}
				recorded(t, e, map[string]any{"error.code": "upstream_unreadable"})
			})
		}
	}
}

// Some clients look for CR LF CR LF between events.
func TestErrorAfterACutLineEndBeginsOnItsOwnLine(t *testing.T) {
	t.Parallel()
	event := halves["gemini"][0]
	res, _ := translated(t, tongues[3], "gemini", sseOf(strings.TrimSuffix(event, "\n")), true)
	if !strings.HasPrefix(string(res.Body), event+`data: {"error":`) {
		t.Errorf("the error does not follow a complete line end:\n%q", res.Body)
	}
}

// A client of gemini reads one line of data for each event.
func TestGeminiEventsAreOneLine(t *testing.T) {
	t.Parallel()
	gemini := tongues[3]
	end := `data: {"id":"c","model":"served","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}` + "\n\n" + done
	res := translatedCall(t, gemini, "chat", sseOf(chatCall("{\n  \"a\": \"x y\",\r\n  \"b\": [\n1]\n}"), end))
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
	converse := tongues[4]
	for _, finish := range []string{"", providerChoice(0, "", "stop")} {
		res := translatedCall(t, converse, "chat", sseOf(providerChoice(0, "hello", ""), finish, "data: {\"error\":{\"message\":\"boom\",\"type\":\"server_error\"}}\n\n", done))
		h := converse.hear(t, res)
		if h.end != "error" || h.text != "hello" || strings.Contains(string(res.Body), "messageStop") || strings.Contains(string(res.Body), "metadata") {
			t.Errorf("after %q: end %s, text %q, want only the exception:\n%s", finish, h.end, h.text, res.Body)
		}
	}
}
