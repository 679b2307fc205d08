package dataplane_test

import (
	"encoding/base64"
	"fmt"
	"io"
	"strings"
	"testing"

	"modelgate/internal/format/eventstream"
	"modelgate/internal/testing/gatewaytest"
)

const claude = "anthropic.claude-sonnet-4-5-v1:0"

// invoker is the client of InvokeModel.
func invoker() clientFormat { return clientFormats[len(clientFormats)-1] }

// chunkOf is an event of messages as InvokeModel sends it.
func chunkOf(event string) string {
	return string(eventstream.Append(nil, []eventstream.Header{
		{Name: ":event-type", Text: "chunk"}, {Name: ":content-type", Text: "application/json"}, {Name: ":message-type", Text: "event"},
	}, []byte(`{"bytes":"`+base64.StdEncoding.EncodeToString([]byte(event))+`","p":"abcd"}`)))
}

// A client of InvokeModel that asks for Claude at Bedrock sends and gets bytes.
func TestInvokeModelPassesToClaudeByteForByte(t *testing.T) {
	t.Parallel()
	g, u := newScriptedPairs(t)
	const body = `{ "anthropic_version":"bedrock-2023-05-31", "anthropic_beta":["x-2025"],"max_tokens":1e2,"unknown":{"a": 1.0},"messages":[{"role":"user","content":"hello"}]}`
	frames := chunkOf(`{"type":"message_start","message":{"model":"served","usage":{"input_tokens":3}}}`) +
		chunkOf(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"echo"}}`) +
		chunkOf(`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":4}}`) + chunkOf(`{"type":"message_stop","amazon-bedrock-invocationMetrics":{}}`)
	for stream, response := range map[bool]string{
		false: `{"content":[{"type":"text","text":"echo"}],  "model":"served","stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":4}}`,
		true:  frames,
	} {
		t.Run(fmt.Sprintf("stream %t", stream), func(t *testing.T) {
			client := invoker()
			client.body = body
			heads := begin(t, client.ask(t, g, "x-gateway-provider", "@converse", claude, stream))
			c := u.next()
			path := "/model/anthropic.claude-sonnet-4-5-v1%3A0/invoke" + map[bool]string{true: "-with-response-stream"}[stream]
			if string(c.Body) != body || c.RequestURI != path && c.RequestURI != "/v1"+path {
				t.Errorf("sent to %s: %s", c.RequestURI, c.Body)
			}
			kind := map[bool]string{false: "application/json", true: eventstream.ContentType}[stream]
			c.w.Header().Set("Content-Type", kind)
			c.send(response)
			c.finish()
			res := receive(t, heads, "the head")
			got, err := io.ReadAll(res.Body)
			if string(got) != response || err != nil || res.Header.Get("Content-Type") != kind {
				t.Errorf("the client got %q, %v of %s", got, err, res.Header.Get("Content-Type"))
			}
			e := g.Entry(gatewaytest.Response{Header: res.Header})
			if at(e, "usage.prompt_tokens") != 3.0 || at(e, "usage.completion_tokens") != 4.0 || at(e, "finish_reason") != "end_turn" {
				t.Errorf("recorded %v", e)
			}
		})
	}
}

func TestInvokeModelEndsInAnExceptionWhereItsStreamBreaks(t *testing.T) {
	t.Parallel()
	g := newPairs(t)
	for form, end := range map[string]string{"tokens=9": "done", "tokens=40+cut=6": "error", "tokens=40+cut=6,clean": "error", "tokens=40+error-event=6": "error", "status=429": "error body"} {
		for _, target := range []string{"converse", "messages"} {
			model := claude + "+" + form
			res := invoker().send(t, g, "@"+target, model, true)
			if h := invoker().readResponse(t, res); h.end != end || h.message == "" && end != "done" {
				t.Errorf("%s at %s: end %s, want %s; said %q: %.300q", form, target, h.end, end, h.message, res.Body)
			}
		}
	}
}

// Anything that is not a request for Claude is refused, and sent nowhere, where it would
// have to be translated.
func TestOtherBodiesOfInvokeModelAreRefusedElsewhere(t *testing.T) {
	t.Parallel()
	g := newPairs(t)
	for _, target := range []string{"converse", "chat", "messages"} {
		res := askPath(t, g, "/model/amazon.titan-embed-text-v2:0/invoke", `{"inputText":"a"}`, "x-gateway-provider", "@"+target)
		if v := res.JSON(t); res.Status != 400 || v["__type"] != "ValidationException" || !strings.Contains(str(v["message"]), "messages") || len(g.Sim.Requests()) != 0 {
			t.Errorf("%s: status %d, %d requests: %s", target, res.Status, len(g.Sim.Requests()), res.Body)
		}
	}
}

// A conversation that only the vendor keeps is refused at Bedrock before anything
// is sent, with the error by which clients know to send complete ones.
func TestAKeptConversationIsRefusedAtBedrock(t *testing.T) {
	t.Parallel()
	g := newPairs(t)
	const body = `{"model":"` + claude + `","max_tokens":9,%s"messages":[{"role":"user","content":"hello"}]}`
	for thread, status := range map[string]int{`"thread":{"type":"create"},`: 400, ``: 200} {
		g.Sim.Reset()
		res := askPath(t, g, "/v1/messages", fmt.Sprintf(body, thread), "x-gateway-provider", "@converse")
		refused := at(res.JSON(t), "error.details.error_code") == "thread_unsupported_request"
		if res.Status != status || refused != (status == 400) || (len(g.Sim.Requests()) == 0) != refused {
			t.Errorf("thread %s: status %d, %d requests: %s", thread, res.Status, len(g.Sim.Requests()), res.Body)
		}
	}
}

// What belongs to Bedrock's envelope is nothing that another host leaves out.
func TestTheEnvelopeOfInvokeModelIsNoParameter(t *testing.T) {
	t.Parallel()
	g := newPairs(t)
	if res := invoker().send(t, g, "@chat", "sim-1", false); res.Status != 200 || res.Header.Get("x-gateway-params") != "" {
		t.Errorf("status %d, params %q", res.Status, res.Header.Get("x-gateway-params"))
	}
}

// Flags of beta features go where the host reads them.
func TestBetaFlagsInABodyOfInvokeModelReachOtherHosts(t *testing.T) {
	t.Parallel()
	g, u := newScriptedPairs(t)
	client := invoker()
	client.body = `{"anthropic_version":"bedrock-2023-05-31","anthropic_beta":["x-2025"],"max_tokens":9,"messages":[{"role":"user","content":"hello"}]}`
	c := sent(t, u, client.ask(t, g, "x-gateway-provider", "@messages", claude, true))
	if c.Header.Get("Anthropic-Beta") != "x-2025" || strings.Contains(string(c.Body), "anthropic_") || !strings.Contains(string(c.Body), `"stream":true`) || !strings.Contains(string(c.Body), `"model":"`+claude) {
		t.Errorf("sent %v: %s", c.Header, c.Body)
	}
}
