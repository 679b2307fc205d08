package dataplane_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"modelgate/internal/base/bytepool"
	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/waittest"
)

// stallTimer is how long a test waits for what has to happen.
const stallTimer = waittest.Bound

const plainChat = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
const streamChat = `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`

// simChat returns a chat body for a model of the simulator.
func simChat(model string, stream bool) string {
	return fmt.Sprintf(`{"model":%q,"stream":%t,"messages":[{"role":"user","content":"hello"}]}`, model, stream)
}

// chunk is one event of a chat stream.
func chunk(text string) string {
	return `data: {"id":"c","object":"chat.completion.chunk","model":"served","choices":[{"index":0,"delta":{"content":"` + text + `"},"finish_reason":null}]}` + "\n\n"
}

const (
	finish   = `data: {"id":"c","object":"chat.completion.chunk","model":"served","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	done     = "data: [DONE]\n\n"
	chatBody = `{"id":"c","object":"chat.completion","model":"served","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`
)

// scripted is a provider that says what a test wants, event by event.
type scripted struct {
	t    *testing.T
	came chan *call // each request, once its body was read
}

// call is one request at the provider.
type call struct {
	*http.Request
	Body []byte
	w    http.ResponseWriter
	rc   *http.ResponseController
	end  chan struct{}
	mu   sync.Mutex // guards w against a handler that has returned
}

func newScripted(t *testing.T) *scripted { return &scripted{t, make(chan *call, 16)} }

// ServeHTTP hands the request to the test and waits until it is over.
func (u *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c := &call{Request: r, Body: body, w: w, rc: http.NewResponseController(w), end: make(chan struct{})}
	c.rc.EnableFullDuplex()
	u.came <- c
	select {
	case <-c.end:
	case <-r.Context().Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.w = nil
}

// next returns the next request.
func (u *scripted) next() *call {
	u.t.Helper()
	return receive(u.t, u.came, "a request at the provider")
}

// respond has do respond to the next request, if there is one before the test ends.
func (u *scripted) respond(do func(c *call)) {
	go func() {
		select {
		case c := <-u.came:
			do(c)
		case <-u.t.Context().Done():
		}
	}()
}

// send sends text and flushes it, unless the gateway is gone.
func (c *call) send(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.w == nil {
		return
	}
	io.WriteString(c.w, text)
	c.rc.Flush()
}

func (c *call) events() { c.w.Header().Set("Content-Type", "text/event-stream") }

// finish ends the response cleanly.
func (c *call) finish() { close(c.end) }

// receive waits for a value.
func receive[T any](t *testing.T, from <-chan T, what string) T {
	t.Helper()
	return waittest.Receive(t, from, what)
}

// raw sends bytes unchanged to every request and closes the connection.
func raw(response string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		io.WriteString(conn, response)
	})
}

// rawHead returns response headers with length n and this type.
func rawHead(contentType string, more ...string) string {
	return "HTTP/1.1 200 OK\r\nContent-Type: " + contentType + "\r\n" + strings.Join(append(more, ""), "\r\n") + "\r\n"
}

// rawComplete returns a complete response with a JSON body. It says that its connection
// ends: a gateway that keeps it could send the next request on it.
func rawComplete(body string) string {
	return rawHead("application/json", "Connection: close", fmt.Sprintf("Content-Length: %d", len(body))) + body
}

// open sends a request and returns the response headers with its body unread.
func open(t *testing.T, req *http.Request) (*http.Response, *bufio.Reader) {
	t.Helper()
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatalf("%s %s: %v", req.Method, req.URL, err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res, bufio.NewReader(res.Body)
}

// event reads one event, its blank line included.
func event(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	var b strings.Builder
	for {
		line, err := r.ReadString('\n')
		b.WriteString(line)
		if err != nil {
			t.Fatalf("reading an event: %v after %q", err, b.String())
		}
		if line == "\n" {
			return b.String()
		}
	}
}

// entryOf waits for the entry of the only exchange with the trace id.
func entryOf(t *testing.T, g *gatewaytest.Gateway, trace string) map[string]any {
	t.Helper()
	deadline := time.Now().Add(stallTimer)
	for {
		log := g.Get("/logs?trace_id=" + trace).JSON(t)
		if list := log["data"].([]any); len(list) > 0 {
			return list[0].(map[string]any)
		}
		if time.Now().After(deadline) {
			t.Fatalf("nothing was recorded with the trace id %s", trace)
		}
		<-time.After(2 * time.Millisecond)
	}
}

// errorOf returns the error object of a body or of an event.
func errorOf(t *testing.T, text string) map[string]any {
	t.Helper()
	var v struct{ Error map[string]any }
	text = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(text), "data:"))
	if err := json.Unmarshal([]byte(text), &v); err != nil || v.Error == nil {
		t.Fatalf("no error object in %q: %v", text, err)
	}
	return v.Error
}

// recorded checks fields of an entry; error fields are written error.code.
func recorded(t *testing.T, e map[string]any, want map[string]any) {
	t.Helper()
	for name, v := range want {
		got := e[name]
		if field, ok := strings.CutPrefix(name, "error."); ok {
			inner, _ := e["error"].(map[string]any)
			got = inner[field]
		}
		if fmt.Sprint(got) != fmt.Sprint(v) {
			t.Errorf("recorded %s = %v, want %v (entry %v)", name, got, v, e)
		}
	}
}

// dial opens a connection to the gateway for requests that no client sends.
func dial(t *testing.T, g *gatewaytest.Gateway) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(g.Root, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(stallTimer))
	return conn
}

// ask sends bytes and reads the response.
func ask(t *testing.T, g *gatewaytest.Gateway, text string) gatewaytest.Response {
	t.Helper()
	conn := dial(t, g)
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("reading the response to %.80q: %v", text, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return gatewaytest.Response{Status: res.StatusCode, Header: res.Header, Body: body, Err: err}
}

func bufferOf(res *http.Response) *bufio.Reader { return bufio.NewReader(res.Body) }

func hex(n int) string { return fmt.Sprintf("%x", n) }

func newPool() *bytepool.Pool { return bytepool.New(0) }

// expire lets a key end soon. On a loaded machine the time may pass before the request is
// read, which is then refused, so a later one is tried.
func expire(t *testing.T, g *gatewaytest.Gateway, id string) {
	t.Helper()
	for ahead := time.Second; ; ahead *= 2 {
		body := fmt.Sprintf(`{"expires_at":%q}`, time.Now().Add(ahead).UTC().Format(time.RFC3339Nano))
		res := g.Do(g.Request("PUT", "/api-keys/"+id, body, "x-gateway-provider", ""))
		if res.Status == 200 {
			return
		}
		if ahead > stallTimer {
			t.Fatalf("PUT /api-keys: %d %s", res.Status, res.Body)
		}
	}
}
