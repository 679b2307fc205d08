package tools_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"modelgate/internal/dataplane/tools"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/testing/toolservertest"
	"modelgate/internal/testing/waittest"
)

// withKey adds a key to each request.
type withKey string

// RoundTrip implements [http.RoundTripper].
func (k withKey) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(k))
	return http.DefaultTransport.RoundTrip(r)
}

// TestClientsOfTheOldTransport has the official client speak HTTP+SSE of 2024-11-05 to servers of
// both eras.
func TestClientsOfTheOldTransport(t *testing.T) {
	for name, up := range eras(t) {
		t.Run(name, func(t *testing.T) {
			asking(up)
			g := newGateway(t, options{servers: []*toolserver.Server{server("one", up.URL), server("two", up.URL)}, tools: tools.Options{OldTransport: true}})
			progress, changed := make(chan string, 16), make(chan string, 16)
			client := mcp.NewClient(&mcp.Implementation{Name: "old", Version: "1"}, &mcp.ClientOptions{
				ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"color": "red"}}, nil
				},
				ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) { progress <- "" },
				ToolListChangedHandler:      func(context.Context, *mcp.ToolListChangedRequest) { changed <- "" },
			})
			c, err := client.Connect(t.Context(), &mcp.SSEClientTransport{Endpoint: g.URL + "/mcp", HTTPClient: &http.Client{Transport: withKey(aliceKey)}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			list, err := c.ListTools(t.Context(), nil)
			if err != nil || len(list.Tools) != 8 || list.Tools[0].Name != "one__echo" {
				t.Fatalf("%+v, %v", list, err)
			}
			got, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "one__echo", Arguments: map[string]any{"text": "x"}})
			if err != nil || !strings.Contains(got.Content[0].(*mcp.TextContent).Text, "red") {
				t.Errorf("a call whose server asks: %+v, %v", got, err)
			}
			if _, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "one__nothing"}); err == nil {
				t.Error("an unknown tool was called")
			}
			ctx, leave := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				p := &mcp.CallToolParams{Name: "two__slow", Arguments: map[string]any{}}
				p.SetProgressToken("p")
				_, err := c.CallTool(ctx, p)
				ended <- err
			}()
			waittest.Receive(t, progress, "progress")
			leave()
			waittest.Receive(t, ended, "the end of the call")
			waittest.Until(t, "the server knows that the client has cancelled", func() bool { return up.Count("left") == 1 })
			if up.NoModern {
				waittest.Until(t, "the gateway listens", func() bool { return len(up.Requests("")) > 0 && up.Count("GET") > 0 })
				up.Tools = append(slices.Clone(up.Tools), `{"name":"more","inputSchema":{"type":"object"}}`)
				up.Notify(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
				waittest.Receive(t, changed, "the change of the list")
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// openOld opens a stream of the old transport, and returns its events and the address of its
// session.
func openOld(t *testing.T, g *gateway, h ...string) (lines chan string, address string) {
	t.Helper()
	res := g.open(t.Context(), "GET", "/mcp", "", h...)
	t.Cleanup(func() { res.Body.Close() })
	lines = make(chan string, 16)
	go func() {
		for m := range events(res.Body) {
			lines <- m
		}
	}()
	if res.StatusCode != 200 {
		return nil, fmt.Sprint(res.StatusCode)
	}
	return lines, "/mcp" + waittest.Receive(t, lines, "the endpoint")
}

// TestOldStreamsBelongToTheirCaller sends messages to the stream of somebody else, to one that is
// not initialized, to one that has ended, and where the transport is off.
func TestOldStreamsBelongToTheirCaller(t *testing.T) {
	up := legacyServer(t)
	o := options{servers: []*toolserver.Server{server("one", up.URL)}}
	if _, status := openOld(t, newGateway(t, o)); status != "405" {
		t.Errorf("the transport is off: %s, want 405", status)
	}
	o.tools.OldTransport = true
	g := newGateway(t, o)
	got, address := openOld(t, g)
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	const begin = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{}}}`
	for name, tt := range map[string]struct{ path, key string }{
		"another caller":       {address, bobKey},
		"another address":      {strings.Replace(address, "/mcp", "/mcp/one", 1), aliceKey},
		"a session of nobody":  {"/mcp?sessionId=x", aliceKey},
		"another organisation": {address, otherKey},
	} {
		if res := g.send("POST", tt.path, begin, "X-Gateway-Api-Key", tt.key); res.status != 404 {
			t.Errorf("%s: %d %q", name, res.status, res.messages)
		}
	}
	if res := g.send("POST", address, list); res.status != 202 {
		t.Errorf("before initialize: %d %q", res.status, res.messages)
	}
	if m := waittest.Receive(t, got, "an error"); !strings.Contains(m, `"error"`) || !strings.Contains(m, "initialize") {
		t.Errorf("before initialize: %s", m)
	}
	if res := g.send("POST", address, "[]"); res.status != 400 {
		t.Errorf("a batch: %d %q", res.status, res.messages)
	}
	g.send("POST", address, begin)
	if m := waittest.Receive(t, got, "the session"); !strings.Contains(m, `"protocolVersion":"2024-11-05"`) {
		t.Errorf("initialize: %s", m)
	}
	g.send("POST", address, list)
	if m := waittest.Receive(t, got, "a list"); !strings.Contains(m, "one__echo") {
		t.Errorf("a list: %s", m)
	}
	var others []string
	for range 20 {
		if _, status := openOld(t, g); len(status) == 3 {
			others = append(others, status)
		}
	}
	if len(others) != 1 || others[0] != "429" {
		t.Errorf("of 21 streams %q were refused", others)
	}
}

// TestLeavingAnOldStreamCancelsItsCalls calls a tool on a stream and closes the stream.
func TestLeavingAnOldStreamCancelsItsCalls(t *testing.T) {
	up := legacyServer(t)
	left := make(chan struct{}, 1)
	called := make(chan struct{}, 1)
	up.Handle("tools/call slow", func(x *toolservertest.Exchange) {
		called <- struct{}{}
		<-x.R.Context().Done()
		left <- struct{}{}
	})
	g := newGateway(t, options{servers: []*toolserver.Server{server("one", up.URL)}, tools: tools.Options{OldTransport: true}})
	ctx, leave := context.WithCancel(t.Context())
	res := g.open(ctx, "GET", "/mcp", "")
	got := make(chan string, 16)
	go func() {
		for m := range events(res.Body) {
			got <- m
		}
	}()
	address := "/mcp" + waittest.Receive(t, got, "the endpoint")
	g.send("POST", address, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{}}}`)
	waittest.Receive(t, got, "the session")
	if res := g.send("POST", address, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"one__slow","arguments":{}}}`); res.status != 202 {
		t.Fatalf("%d %q", res.status, res.messages)
	}
	waittest.Receive(t, called, "the call")
	leave()
	res.Body.Close()
	waittest.Receive(t, left, "the cancellation at the server")
}
