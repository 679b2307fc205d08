package dataplane_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"modelgate/api"
	"modelgate/internal/format/eventstream"
	"modelgate/internal/provider"
	"modelgate/internal/testing/gatewaytest"
)

// newLines starts a gateway with the provider @lines, whose streams are lines of
// JSON, and events of at most 64 KB.
func newLines(t *testing.T, u http.Handler) *gatewaytest.Gateway {
	spec := &provider.Spec{ID: "lines", Name: "Lines", Dialect: api.DialectOllama, Auth: provider.Bearer(), Paths: map[api.Operation]string{api.OllamaChat: "/api/chat"}}
	settings := strings.Replace(pairSettings, "event: 1 MB", "event: 64 KB", 1) + `
  - {slug: lines, provider: lines, custom_host: SIMULATOR, api_key: "${PAIR_KEY}"}
`
	return gatewaytest.New(t, gatewaytest.Options{Upstream: u, Settings: settings, Specs: []*provider.Spec{spec}})
}

// ollamaLine is a line of a response of Ollama's own protocol, without its end.
func ollamaLine(text string) string {
	return `{"model":"m","message":{"role":"assistant","content":"` + text + `"},"done":false}`
}

const ollamaEnd = `{"model":"m","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","prompt_eval_count":3,"eval_count":4}`

// lineOf is a line of n bytes, its end included.
func lineOf(n int) string {
	return ollamaLine(strings.Repeat("x", n-len(ollamaLine(""))-1)) + "\n"
}

func TestStreamOfLinesIsReadAsEvents(t *testing.T) {
	t.Parallel()
	u := new(swapped)
	g := newLines(t, u)
	const limit = 64 << 10
	head := closing("application/x-ndjson", false)
	for _, tt := range []struct {
		name, response string
		end            string // as a client of chat hears it
		text           int    // bytes
	}{
		{"lines", head + ollamaLine("one") + "\n" + ollamaLine("two") + "\n" + ollamaEnd + "\n", "done", 6},
		{"with blank lines between", head + "\n\n" + ollamaLine("one") + "\n\r\n \n" + ollamaLine("two") + "\r\n" + ollamaEnd + "\n\n", "done", 6},
		{"without a last line end", head + ollamaLine("one") + "\n" + ollamaEnd, "done", 3},
		{"a line as long as the limit", head + lineOf(limit) + ollamaEnd + "\n", "done", limit - 1 - len(ollamaLine(""))},
		{"a first line over the limit", head + lineOf(limit+1) + ollamaEnd + "\n", "error body", 0},
		{"a later line over the limit", head + ollamaLine("one") + "\n" + lineOf(limit+1) + ollamaEnd + "\n", "error", 3},
		{"broken off within a line", closing("application/x-ndjson", true) + ollamaLine("one") + "\n" + ollamaLine("two"), "error", 3},
		{"broken off after a line", closing("application/x-ndjson", true) + ollamaLine("one") + "\n", "error", 3},
		{"no line", head + "\n\n", "error body", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u.set(raw(tt.response))
			res := clientFormats[0].send(t, g, "@lines", "m", true)
			if h := clientFormats[0].readResponse(t, res); h.end != tt.end || len(h.text) != tt.text {
				t.Errorf("status %d, the client read the end %q after %d bytes of text; want %q after %d: %.300s", res.Status, h.end, len(h.text), tt.end, tt.text, res.Body)
			}
		})
	}
}

func TestLineOfAStreamLeavesAtOnce(t *testing.T) {
	t.Parallel()
	u := newScripted(t)
	g := newLines(t, u)
	heads := begin(t, clientFormats[0].ask(t, g, "x-gateway-provider", "@lines", "m", true))
	c := u.next()
	c.w.Header().Set("Content-Type", "application/x-ndjson")
	c.send(ollamaLine("word 0") + "\n")
	r := bufferOf(receive(t, heads, "the head"))
	for i := range 5 {
		word := fmt.Sprintf("word %d", i)
		for got := ""; !strings.Contains(got, word); {
			got = event(t, r)
		}
		c.send(ollamaLine(fmt.Sprintf("word %d", i+1)) + "\n")
	}
	c.send(ollamaEnd + "\n")
	c.finish()
	if rest, err := io.ReadAll(r); !strings.HasSuffix(string(rest), done) || err != nil {
		t.Errorf("the stream ends with %q, %v", rest, err)
	}
}

// Clients of messages get what Bedrock says in its binary frames as the events
// of their protocol.
func TestBinaryFramesBecomeTheEventsInside(t *testing.T) {
	t.Parallel()
	u := new(swapped)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: u, Settings: pairSettings})
	frame := func(kind, typ, payload string) string {
		return string(eventstream.Append(nil, []eventstream.Header{{Name: ":" + kind + "-type", Text: typ}, {Name: ":message-type", Text: kind}}, []byte(payload)))
	}
	begins := chunkOf(`{"type":"message_start","message":{"model":"served","usage":{"input_tokens":3}}}`) +
		chunkOf(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"echo"}}`)
	ends := chunkOf(`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":4}}`) + chunkOf(`{"type":"message_stop"}`)
	exception := frame("exception", "modelStreamErrorException", `{"message":"it broke"}`)
	for _, tt := range []struct {
		name, response  string
		end, text, said string
	}{
		{"a whole stream", begins + ends, "done", "echo", ""},
		{"an exception", begins + exception, "error", "echo", "it broke"},
		{"an exception before anything", exception, "error body", "", "it broke"},
		{"an exception in capitals", begins + frame("exception", "modelStreamErrorException", `{"Message":"it broke"}`), "error", "echo", "it broke"},
		{"a frame whose bytes are no base64", begins + frame("event", "chunk", `{"bytes":"%%"}`), "error", "echo", "can't be read"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u.set(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", eventstream.ContentType)
				io.WriteString(w, tt.response)
			}))
			client := clientFormats[1]
			res := client.send(t, g, "@converse", claude, true)
			h := client.readResponse(t, res)
			if h.end != tt.end || h.text != tt.text || !strings.Contains(h.message, tt.said) {
				t.Errorf("status %d, the client read %+v; want the end %q after %q and %q: %.600s", res.Status, h, tt.end, tt.text, tt.said, res.Body)
			}
			if name := "event: content_block_delta\n"; tt.text != "" && !strings.Contains(string(res.Body), name) {
				t.Errorf("the client got %s, want an event that is named %q", res.Body, name)
			}
		})
	}
}
