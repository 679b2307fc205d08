package dataplane_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"modelgate/internal/testing/gatewaytest"
	"modelgate/internal/testing/waittest"
)

// socketClient is a client of a WebSocket connection. It reads as soon as it is made.
type socketClient struct {
	t    *testing.T
	conn *websocket.Conn
	head http.Header // of the response to the handshake
	came chan socketMessage
}

// socketMessage is a message, or the error that ended the connection.
type socketMessage struct {
	kind websocket.MessageType
	data []byte
	err  error
}

// tryDial opens a connection, or returns the response that refuses it.
func tryDial(t *testing.T, g *gatewaytest.Gateway, path string, protocols []string, h ...string) (*socketClient, *http.Response) {
	t.Helper()
	header := g.Request(http.MethodGet, path, "", h...).Header
	ctx, cancel := context.WithTimeout(t.Context(), waittest.Bound)
	defer cancel()
	address := g.URL + path
	if strings.HasPrefix(path, "/ws/") {
		address = strings.TrimSuffix(g.URL, "/v1") + path
	}
	conn, res, err := websocket.Dial(ctx, address, &websocket.DialOptions{HTTPHeader: header, Subprotocols: protocols})
	if err != nil {
		if res == nil {
			t.Fatalf("dialling %s: %v", path, err)
		}
		return nil, res
	}
	conn.SetReadLimit(64 << 20)
	c := &socketClient{t: t, conn: conn, head: res.Header, came: make(chan socketMessage, 10_000)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			kind, data, err := conn.Read(context.Background())
			c.came <- socketMessage{kind, data, err}
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		conn.CloseNow()
		<-done
	})
	return c, res
}

// dialSocket opens a connection.
func dialSocket(t *testing.T, g *gatewaytest.Gateway, path string, h ...string) *socketClient {
	t.Helper()
	c, res := tryDial(t, g, path, nil, h...)
	if c == nil {
		body, _ := io.ReadAll(res.Body)
		t.Fatalf("the handshake was refused with %d: %s", res.StatusCode, body)
	}
	return c
}

// send sends a text.
func (c *socketClient) send(text string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), waittest.Bound)
	defer cancel()
	if err := c.conn.Write(ctx, websocket.MessageText, []byte(text)); err != nil {
		c.t.Fatalf("sending: %v", err)
	}
}

// message returns the next message, whatever it is.
func (c *socketClient) message() socketMessage {
	c.t.Helper()
	return waittest.Receive(c.t, c.came, "a message")
}

// event returns the next message as an object.
func (c *socketClient) event() map[string]any {
	c.t.Helper()
	m := c.message()
	if m.err != nil {
		c.t.Fatalf("the connection ended: %v", m.err)
	}
	var v map[string]any
	if err := json.Unmarshal(m.data, &v); err != nil {
		c.t.Fatalf("message %q: %v", m.data, err)
	}
	return v
}

// until returns the next event of this type, and the number of events before it.
func (c *socketClient) until(kind string) (event map[string]any, before int) {
	c.t.Helper()
	for ; ; before++ {
		if event = c.event(); event["type"] == kind {
			return event, before
		}
		if event["type"] == "error" {
			c.t.Fatalf("an error instead of %s: %v", kind, event)
		}
	}
}

// closed waits for the end of the connection and returns its code and reason, and the types of
// the messages before it.
func (c *socketClient) closed() (code websocket.StatusCode, reason string, before []string) {
	c.t.Helper()
	for {
		m := c.message()
		if m.err != nil {
			var e websocket.CloseError
			if end, ok := asClose(m.err); ok {
				e = end
			} else {
				e.Code = -1
			}
			return e.Code, e.Reason, before
		}
		var v struct {
			Type  string
			Error struct{ Code string }
		}
		json.Unmarshal(m.data, &v)
		before = append(before, strings.TrimSuffix(v.Type+" "+v.Error.Code, " "))
	}
}

func asClose(err error) (websocket.CloseError, bool) {
	for e := err; e != nil; {
		if end, ok := e.(websocket.CloseError); ok {
			return end, true
		}
		u, ok := e.(interface{ Unwrap() error })
		if !ok {
			break
		}
		e = u.Unwrap()
	}
	return websocket.CloseError{}, false
}

// faultOf returns the error of an event, with its status.
func faultOf(t *testing.T, event map[string]any) (status float64, code string) {
	t.Helper()
	if event["type"] != "error" {
		t.Fatalf("no error event: %v", event)
	}
	fault, _ := event["error"].(map[string]any)
	status, _ = event["status"].(float64)
	code, _ = fault["code"].(string)
	return status, code
}

// soon is how long something may take that is promised within two seconds, on a loaded machine.
const soon = 20 * time.Second
