package dataplane_test

import (
	"fmt"
	"strings"
	"testing"

	"modelgate/internal/format/eventstream"
)

// reasonless are streams with a complete call and without a finish reason, by
// the provider's dialect. ended is true if the provider ended the call itself.
var reasonless = []struct {
	target, name string
	ended        bool
	response     string
}{
	{"chat", "a terminator", false, sseOf(chatCall(`{"a":1}`), done)},
	{"chat", "nothing", false, sseOf(chatCall(`{"a":1}`))},
	{"chat", "a terminator after an empty reason", false, sseOf(chatCall(`{"a":1}`), providerChoice(0, "", ""), done)},
	{"chat", "a terminator after another choice's reason", false, sseOf(chatCall(`{"a":1}`), providerChoice(1, "hello", "stop"), done)},
	{"chat", "nothing after another choice's reason", false, sseOf(chatCall(`{"a":1}`), providerChoice(1, "hello", "stop"))},
	{"cortex", "nothing", false, sseOf(chatCall(`{"a":1}`))},
	{"cortex", "a terminator inside the arguments", false, sseOf(chatCall(`{"a":`), done)},
	{"messages", "a terminator", false, sseOf(messagesCall(`{"a":1}`), messagesStop)},
	{"messages", "a terminator after the block's end", true, sseOf(messagesCall(`{"a":1}`), messagesBlockStop, messagesStop)},
	{"messages", "an empty reason", true, sseOf(messagesCall(`{"a":1}`), messagesBlockStop,
		`data: {"type":"message_delta","delta":{"stop_reason":null},"usage":{"output_tokens":9}}`+"\n\n", messagesStop)},
	{"messages", "nothing", false, sseOf(messagesCall(`{"a":1}`))},
	{"messages", "nothing after the block's end", true, sseOf(messagesCall(`{"a":1}`), messagesBlockStop)},
	{"responses", "nothing", false, sseOf(responsesCall(`{"a":1}`))},
	{"responses", "nothing after the item's end", true, sseOf(responsesCall(`{"a":1}`), responsesItemDone)},
	{"gemini", "nothing", true, sseOf(geminiCall(`"args":{"a":1}`, ""))},
	{"gemini", "ratings", true, sseOf(geminiCall(`"args":{"a":1}`, `,"safetyRatings":[{"category":"HARM_CATEGORY_HARASSMENT","probability":"NEGLIGIBLE"}]`))},
	{"gemini", "nothing after another choice's reason", false, sseOf(geminiCall(`"partialArgs":[{"jsonPath":"$.a","numberValue":1}],"willContinue":true`, ""), `data: {"candidates":[{"index":1,"content":{"parts":[{"text":"hello"}]},"finishReason":"STOP"}]}`+"\n\n")},
	{"converse", "nothing", false, rawHead(eventstream.ContentType) + converseCall(`{"a":1}`)},
	{"converse", "nothing after the block's end", true, rawHead(eventstream.ContentType) + converseCall(`{"a":1}`) + converseBlockStop},
	{"converse", "a stop without a reason", true, rawHead(eventstream.ContentType) + converseCall(`{"a":1}`) + converseBlockStop +
		awsMessage("event", "messageStop", `{}`) + awsMessage("event", "metadata", `{"usage":{}}`)},
	{"cohere", "nothing", false, sseOf(cohereCall(`{"a":1}`))},
	{"cohere", "an end without a reason", true, sseOf(cohereCall(`{"a":1}`), `data: {"type":"tool-call-end","index":0}`+"\n\n", `data: {"type":"message-end","delta":{"usage":{}}}`+"\n\n")},
	{"ollama", "nothing", true, rawHead("application/x-ndjson") +
		`{"model":"m","message":{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":{"a":1}}}]},"done":false}` + "\n"},
	{"oracle", "nothing", false, sseOf(oracleCall(`{"a":1}`))},
}

const (
	messagesBlockStop = "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n"
	messagesStop      = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	responsesItemDone = `data: {"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","id":"fc","call_id":"call_1","name":"f","arguments":"{\"a\":1}","status":"completed"}}` + "\n\n"
)

var converseBlockStop = awsMessage("event", "contentBlockStop", `{"contentBlockIndex":0}`)

// geminiCall is a frame with a call and more members of its choice.
func geminiCall(arguments, members string) string {
	return fmt.Sprintf(`data: {"responseId":"r","candidates":[{"index":0,"content":{"role":"model","parts":[{"functionCall":{"name":"f",%s}}]}%s}]}`+"\n\n", arguments, members)
}

// Clients run the calls of a response that says that it is complete.
func TestResponseWithCallsAndWithoutAFinishReasonIsAnError(t *testing.T) {
	t.Parallel()
	send := newCallGateway(t)
	for _, r := range reasonless {
		target := callTarget{name: r.target}
		if r.target == "cortex" {
			target.name = "chat"
		}
		for _, client := range clientFormats {
			if !target.translatesFor(client) {
				continue
			}
			t.Run(fmt.Sprintf("%s with %s for %s", r.target, r.name, client.name), func(t *testing.T) {
				res := send(t, client, r.target, r.response, true)
				if h := client.readResponse(t, res); h.end != "error" && h.end != "error body" {
					t.Errorf("the client reads the end %s, want an error", h.end)
				}
				lacks := []string{
					"message_stop", "message_delta", "response.completed", `"completed","incomplete_details"`, "messageStop",
					`"finish_reason":"tool`, `"finishReason":"T`, "[DONE]",
				}
				if !r.ended {
					lacks = append(lacks, "arguments.done", "output_item.done", `"status":"completed"`, "functionCall", "content_block_stop", "contentBlockStop")
				}
				if strings.Contains(r.name, "another choice") { // which may have ended
					lacks = []string{"message_stop", "response.completed", "messageStop", "functionCall", "[DONE]", "content_block_stop", "arguments.done", "contentBlockStop"}
				}
				for _, finished := range lacks {
					if strings.Contains(string(res.Body), finished) {
						t.Errorf("the client received %s:\n%s", finished, res.Body)
					}
				}
			})
		}
	}
}

// Some providers send no finish reason at all, and their row says so.
func TestCompleteCallsOfAProviderWithoutFinishReasonsAreKept(t *testing.T) {
	t.Parallel()
	send := newCallGateway(t)
	for _, client := range clientFormats[1:5] {
		t.Run(client.name, func(t *testing.T) {
			res := send(t, client, "cortex", sseOf(chatCall(`{"a":1}`), done), true)
			if h := client.readResponse(t, res); h.end != "done" || !strings.Contains(string(res.Body), `a\":1`) && !strings.Contains(string(res.Body), `"a":1`) {
				t.Errorf("end %s: %s", h.end, res.Body)
			}
		})
	}
}

// A text is shown, not run: the terminator is enough.
func TestTextWithoutAFinishReasonIsCompleteWithTheTerminator(t *testing.T) {
	t.Parallel()
	send := newCallGateway(t)
	for _, client := range clientFormats[1:5] {
		for terminator, want := range map[string]string{done: "done", "": "error"} {
			res := send(t, client, "chat", sseOf(providerChoice(0, "hello", ""), terminator), true)
			if h := client.readResponse(t, res); h.end != want || h.text != "hello" {
				t.Errorf("%s and %q: end %s, text %q, want %s:\n%s", client.name, terminator, h.end, h.text, want, res.Body)
			}
		}
	}
}
