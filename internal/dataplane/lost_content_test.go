package dataplane_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"modelgate/api"
	"modelgate/internal/format/eventstream"
	"modelgate/internal/provider"
	"modelgate/internal/testing/gatewaytest"
)

// strange are responses with content that only their dialect has and that holds
// no text for its reader: complete and streamed, with the type of the content.
var strange = []struct{ target, typ, complete, streamed string }{
	{
		"chat", "hologram", `{"id":"c","choices":[{"index":0,"message":{"role":"assistant","content":[{"type":"hologram","hologram":{"x":1}},{"type":"text","text":"hello"}]},"finish_reason":"stop"}]}`,
		sseOf(`data: {"id":"c","choices":[{"index":0,"delta":{"content":[{"type":"hologram","hologram":{"x":1}}]}}]}`+"\n\n", providerChoice(0, "hello", "stop"), done),
	},
	{
		"messages", "web_search_tool_result", `{"id":"m","type":"message","role":"assistant","content":[{"type":"web_search_tool_result","tool_use_id":"s","content":[]},{"type":"text","text":"hello"}],"stop_reason":"end_turn"}`,
		sseOf(`data: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant","content":[]}}`+"\n\n",
			`data: {"type":"content_block_start","index":0,"content_block":{"type":"web_search_tool_result","tool_use_id":"s","content":[]}}`+"\n\n", messagesBlockStop,
			`data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":"hello"}}`+"\n\n", `data: {"type":"content_block_stop","index":1}`+"\n\n",
			`data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}`+"\n\n", messagesStop),
	},
	{
		"responses", "web_search_call", `{"id":"r","object":"response","status":"completed","output":[{"type":"web_search_call","id":"ws","status":"completed"},{"type":"message","id":"m","role":"assistant","content":[{"type":"output_text","text":"hello"}]}]}`,
		sseOf(`data: {"type":"response.created","response":{"id":"r","status":"in_progress"}}`+"\n\n",
			`data: {"type":"response.output_item.done","output_index":0,"item":{"type":"web_search_call","id":"ws","status":"completed"}}`+"\n\n",
			`data: {"type":"response.output_text.delta","output_index":1,"content_index":0,"delta":"hello"}`+"\n\n",
			`data: {"type":"response.completed","response":{"id":"r","status":"completed","output":[{"type":"web_search_call","id":"ws","status":"completed"},{"type":"message","id":"m","role":"assistant","content":[{"type":"output_text","text":"hello"}]}]}}`+"\n\n"),
	},
	{
		"gemini", "executableCode", `{"candidates":[{"content":{"parts":[{"executableCode":{"language":"PYTHON","code":"1"}},{"text":"hello"}]},"finishReason":"STOP"}]}`,
		sseOf(`data: {"candidates":[{"content":{"parts":[{"executableCode":{"language":"PYTHON","code":"1"}}]}}]}`+"\n\n",
			`data: {"candidates":[{"content":{"parts":[{"text":"hello"}]},"finishReason":"STOP"}]}`+"\n\n"),
	},
	{
		"converse", "hologram", `{"output":{"message":{"role":"assistant","content":[{"hologram":{"x":1}},{"text":"hello"}]}},"stopReason":"end_turn","usage":{}}`,
		rawHead(eventstream.ContentType) + awsMessage("event", "messageStart", `{"role":"assistant"}`) +
			awsMessage("event", "contentBlockStart", `{"contentBlockIndex":0,"start":{"hologram":{"x":1}}}`) + converseBlockStop +
			awsMessage("event", "contentBlockDelta", `{"contentBlockIndex":1,"delta":{"text":"hello"}}`) + awsMessage("event", "contentBlockStop", `{"contentBlockIndex":1}`) +
			awsMessage("event", "messageStop", `{"stopReason":"end_turn"}`) + awsMessage("event", "metadata", `{"usage":{}}`),
	},
	{
		"cohere", "hologram", `{"id":"c","message":{"role":"assistant","content":[{"type":"hologram","x":1},{"type":"text","text":"hello"}]},"finish_reason":"COMPLETE"}`,
		sseOf(`data: {"type":"message-start","id":"m","delta":{"message":{"role":"assistant"}}}`+"\n\n",
			`data: {"type":"content-start","index":0,"delta":{"message":{"content":{"type":"hologram","x":1}}}}`+"\n\n", `data: {"type":"content-end","index":0}`+"\n\n",
			`data: {"type":"content-delta","index":1,"delta":{"message":{"content":{"text":"hello"}}}}`+"\n\n", `data: {"type":"message-end","delta":{"finish_reason":"COMPLETE"}}`+"\n\n"),
	},
}

// The header leaves before a stream's content is known, so the log alone names it.
func TestContentThatAClientDoesNotReceiveIsNamed(t *testing.T) {
	t.Parallel()
	u := new(swapped)
	g := gatewaytest.New(t, gatewaytest.Options{
		Upstream: u, Settings: pairSettings + `  - {slug: responses, provider: only-responses, custom_host: SIMULATOR, api_key: "${PAIR_KEY}"}` + "\n",
		Specs: []*provider.Spec{{ID: "only-responses", Name: "Only responses", Dialect: api.DialectResponses, Auth: provider.Bearer(), Paths: map[api.Operation]string{api.Responses: "/responses"}}},
	})
	for _, r := range strange {
		target := callTarget{name: r.target}
		for _, client := range clientFormats {
			if !translates(client.name, r.target) || !target.translatesFor(client) {
				continue
			}
			for _, stream := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s for %s, stream %t", r.target, client.name, stream), func(t *testing.T) {
					response := r.streamed
					if !stream {
						response = rawComplete(r.complete)
					}
					u.set(raw(response))
					res := client.send(t, g, "@"+r.target, "m", stream)
					if h := client.readResponse(t, res); h.text != "hello" {
						t.Errorf("text %q, want hello: %s", h.text, res.Body)
					}
					want := "response." + r.typ + ";dropped"
					announced := strings.Split(res.Header.Get(api.HeaderParams), ", ")
					if slices.Contains(announced, want) == stream {
						t.Errorf("header %q, want %s only where the response is complete", announced, want)
					}
					if list, _ := g.Entry(res)["params"].([]any); !slices.Contains(list, any(want)) {
						t.Errorf("the log has %v, want %s", list, want)
					}
				})
			}
		}
	}
}

// A client of chat that receives content_blocks misses nothing.
func TestContentInContentBlocksIsNotNamed(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{Settings: pairSettings, Upstream: raw(rawComplete(strange[1].complete))})
	req := clientFormats[0].ask(t, g, "x-gateway-provider", "@messages", "m", false)
	req.Header.Set("x-gateway-strict-vendora-compliance", "false")
	res := g.Do(req)
	if !strings.Contains(string(res.Body), "web_search_tool_result") || strings.Contains(res.Header.Get(api.HeaderParams), "response.") {
		t.Errorf("header %s: %s", res.Header.Get(api.HeaderParams), res.Body)
	}
}
