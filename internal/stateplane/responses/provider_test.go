package responses_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"modelgate/internal/testing/gatewaytest"
)

const settings = `
version: 1
upstream: {trusted_hosts: [127.0.0.1]}
providers:
  - {slug: claude, provider: anthropic, custom_host: SIMULATOR, api_key: "${RESPONSES_TEST_KEY}"}
  - {slug: openai, provider: openai, custom_host: SIMULATOR, api_key: "${RESPONSES_TEST_KEY}"}
`

// vendor is a provider of two protocols: messages, of which it stores nothing, and
// responses, which it stores. It repeats the last text of a message.
type vendor struct {
	mu     sync.Mutex
	bodies []string                  // of POST requests; guarded by mu
	paths  []string                  // of all requests; guarded by mu
	stored map[string]map[string]any // responses; guarded by mu
	made   int                       // responses; guarded by mu

	hold chan struct{} // if not nil, streams wait for it after their first text
	gone chan struct{} // has an element for each stream whose client has left
}

func newVendor() *vendor {
	return &vendor{stored: make(map[string]map[string]any), gone: make(chan struct{}, 100)}
}

func (v *vendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	v.mu.Lock()
	v.paths = append(v.paths, r.Method+" "+r.URL.RequestURI())
	if r.Method == http.MethodPost {
		v.bodies = append(v.bodies, string(b))
	}
	v.mu.Unlock()
	switch {
	case r.URL.Path == "/v1/messages":
		v.messages(w, r, b)
	case r.URL.Path == "/v1/responses":
		v.respond(w, b)
	case strings.HasPrefix(r.URL.Path, "/v1/responses/"):
		v.read(w, r)
	default:
		http.NotFound(w, r)
	}
}

func (v *vendor) messages(w http.ResponseWriter, r *http.Request, b []byte) {
	var in struct {
		Stream   bool
		Messages []struct{ Content any }
	}
	json.Unmarshal(b, &in)
	text := fmt.Sprintf("turn %d", len(in.Messages))
	if strings.Contains(string(b), "please fail") {
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, `{"type":"error","error":{"type":"invalid_request_error","message":"that fails"}}`)
		return
	}
	if !in.Stream {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"msg_same","type":"message","role":"assistant","model":"claude-x","content":[{"type":"text","text":%q}],"stop_reason":"end_turn","usage":{"input_tokens":7,"output_tokens":2}}`, text)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(typ, data string) {
		fmt.Fprintf(w, "event: %s\ndata: {\"type\":%q,%s}\n\n", typ, typ, data)
		http.NewResponseController(w).Flush()
	}
	send("message_start", `"message":{"id":"msg_same","type":"message","role":"assistant","model":"claude-x","content":[],"usage":{"input_tokens":7,"output_tokens":1}}`)
	send("content_block_start", `"index":0,"content_block":{"type":"text","text":""}`)
	send("content_block_delta", fmt.Sprintf(`"index":0,"delta":{"type":"text_delta","text":%q}`, text))
	if v.hold != nil {
		select {
		case <-v.hold:
		case <-r.Context().Done():
			v.gone <- struct{}{}
			return
		}
	}
	send("content_block_delta", `"index":0,"delta":{"type":"text_delta","text":" done"}`)
	send("content_block_stop", `"index":0`)
	send("message_delta", `"delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}`)
	send("message_stop", `"x":1`)
}

func (v *vendor) respond(w http.ResponseWriter, b []byte) {
	var in struct {
		Store  *bool
		Stream bool
	}
	json.Unmarshal(b, &in)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.made++
	id := fmt.Sprintf("resp_vendor%d", v.made)
	res := map[string]any{"id": id, "object": "response", "created_at": 1_760_000_000, "status": "completed", "model": "gpt-x", "store": in.Store == nil || *in.Store,
		"output": []any{map[string]any{"type": "message", "id": "msg_v", "role": "assistant", "status": "completed", "content": []any{map[string]any{"type": "output_text", "text": "hello", "annotations": []any{}}}}},
		"usage":  map[string]any{"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}}
	v.stored[id] = res
	text, _ := json.Marshal(res)
	if in.Stream {
		w.Header().Set("Content-Type", "text/event-stream")
		begun := strings.Replace(string(text), `"completed"`, `"in_progress"`, 1)
		fmt.Fprintf(w, "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":%s}\n\n", begun)
		fmt.Fprintf(w, "event: response.completed\ndata: {\"type\":\"response.completed\",\"sequence_number\":1,\"response\":%s}\n\n", text)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(text)
}

func (v *vendor) read(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	id, action, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1/responses/"), "/")
	res := v.stored[id]
	w.Header().Set("Content-Type", "application/json")
	switch {
	case res == nil:
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, `{"error":{"message":"not there","type":"invalid_request_error"}}`)
	case r.Method == http.MethodDelete:
		delete(v.stored, id)
		fmt.Fprintf(w, `{"id":%q,"object":"response","deleted":true}`, id)
	case action == "input_items":
		io.WriteString(w, `{"object":"list","data":[],"has_more":false}`)
	default:
		json.NewEncoder(w).Encode(res)
	}
}

// last returns the last body that a client of the provider has sent.
func (v *vendor) last() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.bodies) == 0 {
		return ""
	}
	return v.bodies[len(v.bodies)-1]
}

// calls returns the number of requests so far.
func (v *vendor) calls() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.paths)
}

// start starts a gateway in front of v. More are settings in addition to those of all tests.
func start(t *testing.T, v *vendor, o gatewaytest.Options, more string) *gatewaytest.Gateway {
	t.Helper()
	t.Setenv("RESPONSES_TEST_KEY", "sk-responses-test-key-0123456789")
	o.Upstream, o.MasterKey = v, "the master key of a test of responses"
	o.Settings = settings + more
	return gatewaytest.New(t, o)
}

// ask sends a request for a response and returns the response, which must have this status.
func ask(t *testing.T, g *gatewaytest.Gateway, status int, body string, h ...string) map[string]any {
	t.Helper()
	return answer(t, g.Do(g.Request("POST", "/responses", body, append([]string{"x-gateway-provider", ""}, h...)...)), status)
}

func get(t *testing.T, g *gatewaytest.Gateway, status int, method, path string, h ...string) map[string]any {
	t.Helper()
	return answer(t, g.Do(g.Request(method, path, "", append([]string{"x-gateway-provider", ""}, h...)...)), status)
}

func post(t *testing.T, g *gatewaytest.Gateway, status int, path, body string) map[string]any {
	t.Helper()
	return answer(t, g.Do(g.Request("POST", path, body, "x-gateway-provider", "")), status)
}

func answer(t *testing.T, res gatewaytest.Response, status int) map[string]any {
	t.Helper()
	if res.Status != status {
		t.Fatalf("status %d, want %d: %s", res.Status, status, res.Body)
	}
	return res.JSON(t)
}

// code returns the code of an error.
func code(res map[string]any) string {
	e, _ := res["error"].(map[string]any)
	return fmt.Sprint(e["code"])
}

func ids(t *testing.T, list map[string]any) (out []string) {
	t.Helper()
	for _, item := range list["data"].([]any) {
		out = append(out, item.(map[string]any)["id"].(string))
	}
	return out
}
