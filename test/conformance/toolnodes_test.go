package conformance

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"modelgate/internal/testing/storetest"
	"modelgate/internal/testing/toolservertest"
	"modelgate/internal/testing/waittest"
)

// addTools adds a tool server to the default workspace, and waits until all nodes have it.
// more are further fields of its integration, with a comma in front.
func (s *nodes) addTools(t *testing.T, slug, address, more string) {
	t.Helper()
	s.change(t, "POST", "/v1/mcp-integrations", fmt.Sprintf(`{"name":%q,"slug":%q,"url":%q,"transport":"http","auth_type":"none","workspace_id":"default"%s}`, slug, slug, address, more))
	s.change(t, "POST", "/v1/mcp-servers", fmt.Sprintf(`{"name":%q,"slug":%q,"mcp_integration_id":%q,"workspace_id":"default"}`, slug, slug, slug))
	s.arrival(t, "the server "+slug+" is there", func(g *gateway) bool {
		return g.as(t, bootstrapKey, "POST", "/mcp/"+slug, `{"jsonrpc":"2.0","id":1,"method":"ping"}`).status == http.StatusOK
	})
}

// callText returns a call of a tool with a text.
func callText(tool, text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":%q,"arguments":{"text":%q}}}`, tool, text)
}

// echoes reports whether a tool returns its argument.
func (g *gateway) echoes(t *testing.T, tool string, header ...string) bool {
	t.Helper()
	got := g.do(t, "POST", "/mcp", callText(tool, "a word"), append(header, "x-gateway-api-key", bootstrapKey)...)
	if got.status == http.StatusNotFound {
		t.Fatalf("a call of %s: 404 %s", tool, got.body)
	}
	return got.status == http.StatusOK && strings.Contains(string(got.body), `"text":"a word"`)
}

// failsAlone fails the test unless a response to a call is an error of JSON-RPC for it that a
// client does not take for the end of its session.
func (r response) failsAlone(t *testing.T, what string) (message string) {
	t.Helper()
	e, _ := r.object(t)["error"].(map[string]any)
	message, _ = e["message"].(string)
	if r.status == http.StatusNotFound || r.status == http.StatusUnauthorized || message == "" || fmt.Sprint(r.object(t)["id"]) != "7" {
		t.Errorf("%s: %d %s, want an error of JSON-RPC for the call", what, r.status, r.body)
	}
	return message
}

// messages are what a gateway sends on a stream, until it ends. The channel is closed then.
type messages struct {
	list   chan string
	header http.Header
}

// open sends a message and reads the stream of the response.
func (g *gateway) open(t *testing.T, method, path, body string, header ...string) messages {
	t.Helper()
	header = append(header, "x-gateway-api-key", bootstrapKey, "Accept", "application/json, text/event-stream", "Content-Type", "application/json")
	req := g.request(t, method, path, strings.NewReader(body), header...)
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	if got := res.Header.Get("Content-Type"); res.StatusCode != http.StatusOK || got != "text/event-stream" {
		text, _ := io.ReadAll(res.Body)
		t.Fatalf("%s %s: %d %s %s", method, path, res.StatusCode, got, text)
	}
	m := messages{make(chan string, 100), res.Header}
	go func() {
		defer close(m.list)
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				m.list <- data
			}
		}
	}()
	return m
}

// slow calls a tool that reports progress and does not end, and returns its stream when the
// server has begun.
func (g *gateway) slow(t *testing.T, tool string) messages {
	t.Helper()
	m := g.open(t, "POST", "/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":%q,"arguments":{},"_meta":{"progressToken":"p"}}}`, tool))
	if first := waittest.Receive(t, m.list, "progress of "+tool); !strings.Contains(first, `"notifications/progress"`) {
		t.Fatalf("%s sends %s", tool, first)
	}
	return m
}

// failsInMidCall fails the test unless the stream of a call ends with an error of JSON-RPC.
func (m messages) failsInMidCall(t *testing.T, what string) {
	t.Helper()
	var last struct {
		ID    int
		Error struct {
			Code    int
			Message string
		}
	}
	text := waittest.Receive(t, m.list, what+": the end of the call")
	if err := json.Unmarshal([]byte(text), &last); err != nil || last.ID != 7 || last.Error.Code != -32603 || last.Error.Message == "" {
		t.Errorf("%s: the call ends with %s, want an error", what, text)
	}
	if more := waittest.Receive(t, m.list, what+": the end of the stream"); more != "" {
		t.Errorf("%s: %s follows the response", what, more)
	}
}

// TestToolServersThatGoAwayFailTheirOwnCalls kills and pauses tool servers of both eras in the
// middle of calls through two nodes. Only their calls fail, as errors that clients do not take
// for the end of their session, and they work again when the servers are back.
func TestToolServersThatGoAwayFailTheirOwnCalls(t *testing.T) {
	t.Parallel()
	s := launchNodes(t, 2, storetest.Postgres(t))
	steady := toolservertest.New(t)
	s.addTools(t, "steady", steady.URL, "")
	for era, env := range map[string][]string{"modern": nil, "legacy": {toolServerLegacy + "=1"}} {
		p := newToolProcess(t, env...)
		s.addTools(t, era, "http://"+p.at+"/mcp", `,"configurations":{"idle_timeout":1}`)
		for fault, f := range map[string]struct{ begin, end func() }{
			"paused": {func() { p.pause(true) }, func() { p.pause(false) }},
			"killed": {p.kill, func() { p.start(t) }},
		} {
			what := era + " " + fault
			var calls []messages
			for _, g := range s.list {
				calls = append(calls, g.slow(t, era+"__slow"))
			}
			f.begin()
			for i, g := range s.list {
				calls[i].failsInMidCall(t, what)
				message := g.as(t, bootstrapKey, "POST", "/mcp", callText(era+"__echo", "x")).failsAlone(t, what)
				for n := 0; fault == "killed" && !strings.Contains(message, "failed repeatedly"); n++ { // a slow server is asked again
					if message = g.as(t, bootstrapKey, "POST", "/mcp", callText(era+"__echo", "x")).failsAlone(t, what); n == 30 {
						t.Fatalf("%s: the breaker does not open: %s", what, message)
					}
				}
				if !g.echoes(t, "steady__echo") {
					t.Errorf("%s: another server does not answer", what)
				}
				list := g.as(t, bootstrapKey, "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
				if list.status != http.StatusOK || !strings.Contains(string(list.body), `"steady__echo"`) {
					t.Errorf("%s: the list is %d %s", what, list.status, list.body)
				}
				if got := g.as(t, bootstrapKey, "POST", "/mcp/"+era, `{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`); got.status == http.StatusNotFound {
					t.Errorf("%s: initialize at its own address: %d %s", what, got.status, got.body)
				}
			}
			f.end()
			s.arrival(t, what+": the server works again", func(g *gateway) bool { return g.echoes(t, era+"__echo") })
		}
	}
}

// TestSessionsOfToolsOutliveNodesAndServers begins a session of the legacy era on a node, and
// goes on with another one, with restarted nodes and with a restarted tool server.
func TestSessionsOfToolsOutliveNodesAndServers(t *testing.T) {
	t.Parallel()
	dsn := storetest.Postgres(t)
	s := launchNodes(t, 2, dsn)
	env := []string{"DATABASE_URL=" + dsn, "MODELGATE_TRUSTED_HOSTS=127.0.0.1", "MODELGATE_MASTER_KEY=the master key of a conformance test"}
	p := newToolProcess(t, toolServerLegacy+"=1")
	s.addTools(t, "old", "http://"+p.at+"/mcp", "")
	s.addTools(t, "new", toolservertest.New(t).URL, "")
	one, two := s.list[0], s.list[1]
	begun := one.as(t, bootstrapKey, "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`).wantOK(t)
	session := []string{"Mcp-Session-Id", begun.header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", "2025-11-25"}
	goesOn := func(what string, list ...*gateway) {
		t.Helper()
		for _, g := range list {
			waittest.Until(t, what+": "+g.url+" has the servers", func() bool {
				got := g.do(t, "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, append(session, "x-gateway-api-key", bootstrapKey)...)
				if got.status == http.StatusNotFound {
					t.Fatalf("%s: the session is lost: %s", what, got.body)
				}
				return strings.Contains(string(got.body), `"old__echo"`) && strings.Contains(string(got.body), `"new__echo"`)
			})
			for _, tool := range []string{"old__echo", "new__echo"} {
				waittest.Until(t, what+": "+tool+" answers through "+g.url, func() bool { return g.echoes(t, tool, session...) })
			}
		}
	}
	goesOn("on both nodes", one, two)
	one.again(t, env...)
	goesOn("after a restart", one, two)
	one.process.Process.Kill()
	waittest.Receive(t, one.exited, "the end of the node")
	if err := one.begin(env); err != nil {
		t.Fatal(err)
	}
	goesOn("after kill -9", one, two)

	p.kill()
	two.do(t, "POST", "/mcp", callText("old__echo", "x"), append(session, "x-gateway-api-key", bootstrapKey)...).failsAlone(t, "while the server is away")
	stream := two.request(t, "GET", "/mcp", nil, append(session, "x-gateway-api-key", bootstrapKey, "Accept", "text/event-stream")...)
	res, err := http.DefaultTransport.RoundTrip(stream)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("the stream of the session while a server is away: %d", res.StatusCode)
	}
	p.start(t) // which knows no session of before
	goesOn("after a restart of the tool server", one, two)
}

// listenModern is subscriptions/listen for changes of tools, with its headers.
const listenModern = `{"jsonrpc":"2.0","id":"sub","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`

// TestStreamsOfToolsEndWhenTheGatewayDrains stops a gateway with open streams and a call in
// progress: subscriptions end with a result, streams of sessions end, and the call has its
// result.
func TestStreamsOfToolsEndWhenTheGatewayDrains(t *testing.T) {
	t.Parallel()
	g := launchFor(t, "version: 1\n", "MODELGATE_TRUSTED_HOSTS=127.0.0.1", "MODELGATE_MASTER_KEY=the master key of a conformance test")
	s := &nodes{list: []*gateway{g}}
	tools := toolservertest.New(t)
	called, finish := make(chan struct{}), make(chan struct{})
	tools.Handle("tools/call echo", func(x *toolservertest.Exchange) {
		called <- struct{}{}
		<-finish
		x.Default()
	})
	s.addTools(t, "tools", tools.URL, "")
	subscribed := g.open(t, "POST", "/mcp", listenModern, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen")
	if first := waittest.Receive(t, subscribed.list, "the acknowledgement"); !strings.Contains(first, `"notifications/subscriptions/acknowledged"`) {
		t.Fatalf("the subscription begins with %s", first)
	}
	begun := g.as(t, bootstrapKey, "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`).wantOK(t)
	session := g.open(t, "GET", "/mcp", "", "Mcp-Session-Id", begun.header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", "2025-11-25")
	answered := make(chan response, 1)
	req := g.request(t, "POST", "/mcp", strings.NewReader(callText("tools__echo", "late")), "x-gateway-api-key", bootstrapKey, "Content-Type", "application/json")
	go func() { answered <- send(t, req) }()
	waittest.Receive(t, called, "the call")

	stopped := make(chan error, 1)
	go func() { stopped <- g.stop() }()
	var end struct {
		ID     string
		Result map[string]any
	}
	last := waittest.Receive(t, subscribed.list, "the end of the subscription")
	if err := json.Unmarshal([]byte(last), &end); err != nil || end.ID != "sub" || end.Result["resultType"] != "complete" {
		t.Errorf("the subscription ends with %s, want its result", last)
	}
	for name, m := range map[string]messages{"the subscription": subscribed, "the stream of the session": session} {
		if more := waittest.Receive(t, m.list, name+" ends"); more != "" {
			t.Errorf("%s has %s at its end", name, more)
		}
	}
	close(finish)
	if got := waittest.Receive(t, answered, "the result of the call"); got.status != http.StatusOK || !strings.Contains(string(got.body), `"text":"late"`) {
		t.Errorf("the call in progress: %d %s", got.status, got.body)
	}
	if err := waittest.Receive(t, stopped, "the end of the gateway"); err != nil {
		t.Error(err)
	}
	if err := g.begin([]string{"MODELGATE_TRUSTED_HOSTS=127.0.0.1", "MODELGATE_MASTER_KEY=the master key of a conformance test"}); err != nil { // which the end of the test stops
		t.Fatal(err)
	}
}
