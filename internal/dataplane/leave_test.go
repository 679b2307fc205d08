package dataplane_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"modelgate/internal/testing/gatewaytest"
)

// leave cancels and waits until the provider's request ends.
func leave(t *testing.T, cancel context.CancelFunc, c *call) {
	t.Helper()
	cancel()
	select {
	case <-c.Context().Done():
	case <-time.After(stallTimer):
		t.Fatal("the provider was never told that the client left")
	}
}

func TestAClientThatLeavesEndsTheProvidersWork(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, path, body string
		before           func(t *testing.T, c *call, heads <-chan *http.Response)
	}{
		{"before the head", "/chat/completions", plainChat, func(*testing.T, *call, <-chan *http.Response) {}},
		{"within a stream", "/chat/completions", streamChat, func(t *testing.T, c *call, heads <-chan *http.Response) {
			c.events()
			c.send(chunk("a"))
			event(t, bufferOf(receive(t, heads, "the head")))
		}},
		{"within a passed answer", "/any/path", plainChat, func(t *testing.T, c *call, heads <-chan *http.Response) {
			c.send("half")
			io.ReadFull(receive(t, heads, "the head").Body, make([]byte, 4))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			u := newScripted(t)
			g := gatewaytest.New(t, gatewaytest.Options{Upstream: u})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			req := g.Request("POST", tt.path, tt.body, "x-gateway-trace-id", "leaver").WithContext(ctx)
			heads := make(chan *http.Response, 1)
			go func() {
				if res, err := http.DefaultTransport.RoundTrip(req); err == nil {
					heads <- res
				}
			}()
			c := u.next()
			tt.before(t, c, heads)
			leave(t, cancel, c)
			recorded(t, entryOf(t, g, "leaver"), map[string]any{
				"status": 499, "error.source": "client", "error.code": "client_closed_request"})
		})
	}
}

func TestAClientThatLeavesWhileUploadingEndsTheProvidersWork(t *testing.T) {
	t.Parallel()
	reading := make(chan *http.Request, 1)
	ended := make(chan error, 1)
	u := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.ReadFull(r.Body, make([]byte, 5))
		reading <- r
		_, err := io.Copy(io.Discard, r.Body)
		ended <- err
	})
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: u})
	conn := dial(t, g)
	io.WriteString(conn, "POST /v1/files HTTP/1.1\r\nHost: gateway\r\nx-gateway-api-key: "+gatewaytest.Key+
		"\r\nx-gateway-provider: @simulator\r\nx-gateway-trace-id: uploader\r\nContent-Type: application/octet-stream\r\nContent-Length: 1000\r\n\r\nfirst")
	receive(t, reading, "the upload at the provider")
	conn.Close()
	if err := receive(t, ended, "the end of the upload"); err == nil {
		t.Error("the provider saw a whole upload, want a broken one")
	}
	recorded(t, entryOf(t, g, "uploader"), map[string]any{"status": 499, "error.code": "client_closed_request"})
}

// A connection is broken off as the provider's was, at the same byte.
func TestPassThroughBreaksOffWhereTheProviderDid(t *testing.T) {
	t.Parallel()
	for name, response := range map[string]string{
		"chunked":          rawHead("text/event-stream", "Transfer-Encoding: chunked") + sized("half a stream"),
		"announced length": rawHead("application/octet-stream", "Content-Length: 100") + "half a stream",
	} {
		t.Run(name, func(t *testing.T) {
			g := gatewaytest.New(t, gatewaytest.Options{Upstream: raw(response)})
			res := g.Post("/any/path", plainChat)
			if res.Status != 200 || string(res.Body) != "half a stream" || res.Err == nil {
				t.Errorf("got %d %q, %v; want 200, the same bytes and a broken end", res.Status, res.Body, res.Err)
			}
			recorded(t, g.Entry(res), map[string]any{"error.source": "gateway", "error.code": "upstream_reset"})
		})
	}
}

func TestUsageOfABrokenPassedStreamIsRecorded(t *testing.T) {
	t.Parallel()
	usage := `data: {"model":"served","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":4,"total_tokens":11}}` + "\n\n"
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: raw(rawHead("text/event-stream", "Content-Length: 5000") + usage)})
	res := g.Post("/any/path", plainChat)
	used, _ := g.Entry(res)["usage"].(map[string]any)
	if used["total_tokens"] != 11.0 {
		t.Errorf("recorded usage = %v, want 11 tokens", used)
	}
}

func TestAPassThroughResponseHasAnIdleLimit(t *testing.T) {
	t.Parallel()
	u := newScripted(t)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: u, Settings: "timeouts: {idle: 50ms}\n"})
	u.respond(func(c *call) { c.send("half") })
	res := g.Post("/any/path", strings.Repeat(" ", 10)+plainChat)
	if string(res.Body) != "half" || res.Err == nil {
		t.Errorf("got %q, %v; want the bytes that came and a broken end", res.Body, res.Err)
	}
	recorded(t, g.Entry(res), map[string]any{"error.code": "idle_timeout"})
}
