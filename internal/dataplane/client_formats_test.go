package dataplane_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"modelgate/internal/format/eventstream"
	"modelgate/internal/testing/gatewaytest"
)

// clientFormat is a protocol as its clients know it, written down without the codecs.
type clientFormat struct {
	name          string
	plain, stream string // paths below the root; %s is the model
	body          string // %q is the model, %t whether to stream
	text          string // path of the response's text in a complete response
	message       string // path of the message in an error body
	errorType     string // path of a word that every error body has
}

// clientFormats are the protocols of clients.
var clientFormats = []clientFormat{
	{"chat", "/v1/chat/completions", "", `{"model":%q,"stream":%t,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hello"}]}`,
		"choices.0.message.content", "error.message", "error.type"},
	{"messages", "/v1/messages", "", `{"model":%q,"stream":%t,"max_tokens":100,"messages":[{"role":"user","content":"hello"}]}`,
		"content.0.text", "error.message", "error.type"},
	{"responses", "/v1/responses", "", `{"model":%q,"stream":%t,"input":"hello"}`,
		"output.0.content.0.text", "error.message", "error.type"},
	{"gemini", "/v1beta/models/%s:generateContent", "/v1beta/models/%s:streamGenerateContent?alt=sse", `{"contents":[{"role":"user","parts":[{"text":"hello"}]}]}`,
		"candidates.0.content.parts.0.text", "error.message", "error.status"},
	{"converse", "/model/%s/converse", "/model/%s/converse-stream", `{"messages":[{"role":"user","content":[{"text":"hello"}]}]}`,
		"output.message.content.0.text", "message", "__type"},
	{"invoke", "/model/%s/invoke", "/model/%s/invoke-with-response-stream", `{"anthropic_version":"bedrock-2023-05-31","max_tokens":100,"messages":[{"role":"user","content":"hello"}]}`,
		"content.0.text", "message", "__type"},
}

// request is where and what a client of the protocol sends.
func (g clientFormat) request(model string, stream bool) (path, body string) {
	path, body = g.plain, g.body
	if g.stream == "" {
		body = fmt.Sprintf(body, model, stream)
		if !stream {
			body = strings.Replace(body, `"stream_options":{"include_usage":true},`, "", 1)
		}
		return path, body
	}
	if stream {
		path = g.stream
	}
	return fmt.Sprintf(path, url.PathEscape(model)), body
}

// send asks a target for a response as a client of the protocol does.
func (g clientFormat) send(t *testing.T, to *gatewaytest.Gateway, target, model string, stream bool) gatewaytest.Response {
	t.Helper()
	return to.Do(g.ask(t, to, "x-gateway-provider", target, model, stream))
}

// ask makes the request of send. The header names who is called.
func (g clientFormat) ask(t *testing.T, to *gatewaytest.Gateway, header, value, model string, stream bool) *http.Request {
	t.Helper()
	path, body := g.request(model, stream)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, to.Root+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("x-gateway-api-key", gatewaytest.Key)
	req.Header.Set(header, value)
	req.Header.Set("Content-Type", "application/json")
	return req
}

// clientView is what a client makes of a response.
type clientView struct {
	end     string // complete, error body, done (a stream that is complete), error (one that says so) or broken
	text    string
	message string // of an error
	tail    string // what the stream ended in, for failures
}

// readResponse reads a response as a client of the protocol does.
func (g clientFormat) readResponse(t *testing.T, res gatewaytest.Response) clientView {
	t.Helper()
	kind := res.Header.Get("Content-Type")
	switch {
	case strings.HasPrefix(kind, "text/event-stream"):
		return g.stop(t, sseData(res.Body))
	case kind == "application/vnd.amazon.eventstream":
		return g.stop(t, binaryData(t, res.Body))
	}
	var v any
	if err := json.Unmarshal(res.Body, &v); err != nil {
		return clientView{end: "raw", tail: fmt.Sprintf("%.80q", res.Body)}
	}
	if list, ok := v.([]any); ok {
		return g.stop(t, list)
	}
	if res.Status >= 400 {
		h := clientView{end: "error body", message: str(at(v, g.message))}
		if at(v, g.errorType) == nil {
			h.end = fmt.Sprintf("foreign error body %.200s", res.Body)
		}
		return h
	}
	return clientView{end: "complete", text: str(at(v, g.text))}
}

// stop reads a stream.
func (g clientFormat) stop(t *testing.T, events []any) clientView {
	t.Helper()
	h := clientView{end: "broken"}
	for i, e := range events {
		if h.end == "error" && at(e, "type") != "response.failed" {
			t.Errorf("%s: event %d of %d after the error: %v", g.name, i, len(events), e)
		}
		text, done, failed := g.event(e)
		h.tail = fmt.Sprintf("%.200v", e)
		h.text += text
		h.ends(done, failed)
	}
	return h
}

// event tells what an event adds, whether it completes the response, and the
// message of an error.
func (g clientFormat) event(e any) (text string, done bool, failed string) {
	kind := str(at(e, "type"))
	switch g.name {
	case "chat":
		return str(at(e, "choices.0.delta.content")), e == "[DONE]", str(at(e, "error.message"))
	case "messages":
		return str(at(e, "delta.text")), kind == "message_stop", str(at(e, "error.message"))
	case "responses":
		if kind == "response.output_text.delta" {
			text = str(at(e, "delta"))
		}
		if kind == "error" {
			failed = str(at(e, "message")) + str(at(e, "error.message"))
		}
		return text, kind == "response.completed" || kind == "response.incomplete", failed + str(at(e, "response.error.message"))
	case "gemini":
		if at(e, "candidates.0.content.parts.0.thought") != true {
			text = str(at(e, "candidates.0.content.parts.0.text"))
		}
		return text, str(at(e, "candidates.0.finishReason")) != "", str(at(e, "error.message"))
	}
	if strings.HasSuffix(str(at(e, ":type")), "Exception") {
		failed = str(at(e, "message"))
	}
	if g.name == "invoke" {
		var inner any
		data, _ := base64.StdEncoding.DecodeString(str(at(e, "bytes")))
		json.Unmarshal(data, &inner)
		return str(at(inner, "delta.text")), at(inner, "type") == "message_stop", failed
	}
	return str(at(e, "delta.text")), at(e, ":type") == "messageStop", failed
}

// ends notes an end.
func (h *clientView) ends(done bool, failed string) {
	if done {
		h.end = "done"
	}
	if failed != "" {
		h.end, h.message = "error", failed
	}
}

func str(v any) string { s, _ := v.(string); return s }

// at returns what is at a path of names and numbers.
func at(v any, path string) any {
	for name := range strings.SplitSeq(path, ".") {
		switch in := v.(type) {
		case map[string]any:
			v = in[name]
		case []any:
			var n int
			if _, err := fmt.Sscan(name, &n); err != nil || n >= len(in) {
				return nil
			}
			v = in[n]
		default:
			return nil
		}
	}
	return v
}

// sseData returns the data of the events of a stream.
func sseData(b []byte) (list []any) {
	text := strings.TrimPrefix(strings.ReplaceAll(string(b), "\r\n", "\n"), "\ufeff")
	for block := range strings.SplitSeq(text, "\n\n") {
		var data []string
		for line := range strings.SplitSeq(block, "\n") {
			if d, ok := strings.CutPrefix(line, "data:"); ok {
				data = append(data, strings.TrimPrefix(d, " "))
			}
		}
		if data == nil {
			continue
		}
		var v any
		if json.Unmarshal([]byte(strings.Join(data, "\n")), &v) != nil {
			v = strings.Join(data, "\n")
		}
		list = append(list, v)
	}
	return list
}

// binaryData returns the payloads of the messages of a binary stream, each
// with its type.
func binaryData(t *testing.T, b []byte) (list []any) {
	t.Helper()
	r := eventstream.NewReader(bytes.NewReader(b), 0)
	for {
		m, err := r.Next()
		if err != nil {
			if err.Error() != "EOF" {
				list = append(list, "unreadable: "+err.Error())
			}
			return list
		}
		v := map[string]any{}
		json.Unmarshal(m.Payload, &v)
		v[":type"] = string(m.Type())
		list = append(list, v)
	}
}
