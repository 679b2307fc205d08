package tools_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"modelgate/internal/provider/toolserver"
	"modelgate/internal/testing/toolservertest"
	"modelgate/internal/testing/waittest"
)

// TestSessionsAreServedByEveryNode uses a session at another gateway with the same master
// key, which is also what a restart is.
func TestSessionsAreServedByEveryNode(t *testing.T) {
	up := legacyServer(t)
	o := options{servers: []*toolserver.Server{server("one", up.URL)}}
	first, second := newGateway(t, o), newGateway(t, o)
	s := first.initialize("/mcp", "{}")
	began := up.Count("initialize")
	s.gateway = second
	if m := s.call("tools/call", `{"name":"one__add","arguments":{"a":1,"b":2}}`).last(t); m.Error != nil {
		t.Fatalf("%+v", m.Error)
	}
	if n := up.Count("initialize"); n != began {
		t.Errorf("the other node began %d sessions", n-began)
	}
	sent := up.Requests("tools/call")
	if id := sent[0].Header.Get("Mcp-Session-Id"); id == "" || strings.Contains(s.id, id) {
		t.Errorf("the session at the server is %q", id)
	}
}

func TestSessionsBelongToTheirCaller(t *testing.T) {
	up := legacyServer(t)
	g := newGateway(t, options{servers: []*toolserver.Server{server("one", up.URL), server("two", up.URL)}})
	s := g.initialize("/mcp/one", "{}")
	before := up.Count("tools/call")
	altered := []byte(s.id)
	altered[len(altered)/2] ^= 1
	for name, try := range map[string]*session{
		"another caller":  {gateway: g, path: s.path, id: s.id, key: bobKey},
		"another address": {gateway: g, path: "/mcp/two", id: s.id, key: aliceKey},
		"altered":         {gateway: g, path: s.path, id: string(altered), key: aliceKey},
		"invented":        {gateway: g, path: s.path, id: "1234", key: aliceKey},
	} {
		res := try.call("tools/call", `{"name":"echo","arguments":{}}`)
		if res.status != 404 {
			t.Errorf("%s: %d %q", name, res.status, res.messages)
		}
	}
	if n := up.Count("tools/call"); n != before {
		t.Errorf("the server got %d calls", n-before)
	}
	if res := s.call("ping", "{}"); res.status != 200 {
		t.Errorf("its own: %d %q", res.status, res.messages)
	}
	if res := g.send("DELETE", s.path, "", "Mcp-Session-Id", s.id); res.status != 204 {
		t.Errorf("the end: %d %q", res.status, res.messages)
	}
	waittest.Until(t, "the server has no session but the gateway's", func() bool { return up.Count("DELETE") > 0 })
	if res := s.call("ping", "{}"); res.status != 404 {
		t.Errorf("after its end: %d %q", res.status, res.messages)
	}
}

// TestLostSessionsBeginAgain lets the server restart: it knows no session any more.
func TestLostSessionsBeginAgain(t *testing.T) {
	up := legacyServer(t)
	g := newGateway(t, options{servers: []*toolserver.Server{server("one", up.URL)}})
	s := g.initialize("/mcp/one", "{}")
	for range 2 {
		up.LoseSessions()
		for range 2 {
			if m := s.call("tools/call", `{"name":"add","arguments":{"a":1,"b":2}}`).last(t); m.Error != nil {
				t.Fatalf("%+v", m.Error)
			}
		}
		if m := g.modern("/mcp/one", "tools/call", `"name":"add","arguments":{"a":1,"b":2}`, "{}").last(t); m.Error != nil {
			t.Fatalf("modern: %+v", m.Error)
		}
	}
}

// TestCallersDoNotShareSessions looks at the sessions that the server sees.
func TestCallersDoNotShareSessions(t *testing.T) {
	up := legacyServer(t)
	g := newGateway(t, options{servers: []*toolserver.Server{server("one", up.URL)}})
	seen := map[string]string{}
	for _, key := range []string{aliceKey, bobKey, aliceKey} {
		g.modern("/mcp/one", "tools/call", `"name":"echo","arguments":{}`, "{}", "X-Gateway-Api-Key", key)
		all := up.Requests("tools/call")
		id := all[len(all)-1].Header.Get("Mcp-Session-Id")
		if of, ok := seen[id]; ok && of != key {
			t.Error("two callers share a session")
		}
		seen[id] = key
	}
	if len(seen) != 2 {
		t.Errorf("%d sessions for two callers", len(seen))
	}
	for _, r := range up.Requests("") {
		for name, values := range r.Header {
			if strings.Contains(strings.Join(values, " "), aliceKey) || strings.Contains(strings.Join(values, " "), bobKey) {
				t.Errorf("the header %s has the gateway key", name)
			}
		}
	}
}

// TestLeavingCancelsTheCall closes the connection in one era, and sends a notification in the
// other.
func TestLeavingCancelsTheCall(t *testing.T) {
	for name, up := range eras(t) {
		t.Run(name, func(t *testing.T) {
			reached, left := make(chan bool, 1), make(chan time.Time, 1)
			up.Handle("tools/call slow", func(x *toolservertest.Exchange) {
				x.Progress(1)
				reached <- true
				x.Left()
				left <- time.Now()
			})
			g := newGateway(t, options{servers: []*toolserver.Server{server("one", up.URL)}})
			check := func(what string, since time.Time) {
				t.Helper()
				if took := waittest.Receive(t, left, "the server to see that the client has gone").Sub(since); took > time.Second {
					t.Errorf("%s: the server sees it after %v", what, took)
				}
			}
			ctx, leave := context.WithCancel(t.Context())
			go func() {
				body := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"slow","arguments":{},"_meta":{"progressToken":1,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
				req, _ := http.NewRequestWithContext(ctx, "POST", g.URL+"/mcp/one", strings.NewReader(body))
				for name, value := range map[string]string{"X-Gateway-Api-Key": aliceKey, "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "slow"} {
					req.Header.Set(name, value)
				}
				if res, err := http.DefaultClient.Do(req); err == nil {
					<-ctx.Done()
					res.Body.Close()
				}
			}()
			waittest.Receive(t, reached, "the call")
			began := time.Now()
			leave()
			check("closed", began)

			s := g.initialize("/mcp/one", "{}")
			done := make(chan response, 1)
			go func() {
				done <- s.post(`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"slow","arguments":{},"_meta":{"progressToken":1}}}`)
			}()
			waittest.Receive(t, reached, "the call")
			began = time.Now()
			if res := s.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x"}}`); res.status != 202 {
				t.Errorf("%d %q", res.status, res.messages)
			}
			check("cancelled", began)
			for _, m := range waittest.Receive(t, done, "the end of the request").messages {
				if strings.Contains(m, `"result"`) || strings.Contains(m, `"error"`) {
					t.Errorf("a cancelled request got %s", m)
				}
			}
		})
	}
}

func TestProgressIsPassedAtOnce(t *testing.T) {
	for name, up := range eras(t) {
		t.Run(name, func(t *testing.T) {
			next := make(chan bool)
			up.Handle("tools/call slow", func(x *toolservertest.Exchange) {
				x.Progress(1)
				<-next
				x.Text("done")
			})
			g := newGateway(t, options{servers: []*toolserver.Server{server("one", up.URL)}})
			s := g.initialize("/mcp/one", "{}")
			res := g.open(t.Context(), "POST", "/mcp/one", `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"slow","arguments":{},"_meta":{"progressToken":"p"}}}`, "Mcp-Session-Id", s.id)
			defer res.Body.Close()
			var got []string
			for m := range events(res.Body) {
				if got = append(got, m); len(got) == 1 {
					next <- true // the server goes on once the client has the first event
				}
			}
			if len(got) != 2 || !strings.Contains(got[0], `"progressToken":"p"`) || !strings.Contains(got[1], "done") {
				t.Errorf("%q", got)
			}
		})
	}
}

func TestStreamsOfSessionsTellRealChangesOnly(t *testing.T) {
	for name, up := range eras(t) {
		t.Run(name, func(t *testing.T) {
			up.TTL = 60_000
			notify := notifierOf(up)
			g := newGateway(t, options{servers: []*toolserver.Server{server("one", up.URL)}})
			s := g.initialize("/mcp/one", "{}")
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			res := g.open(ctx, "GET", "/mcp/one", "", "Mcp-Session-Id", s.id)
			defer res.Body.Close()
			if res.StatusCode != 200 {
				t.Fatalf("status %d", res.StatusCode)
			}
			got := make(chan string, 16)
			go func() {
				for m := range events(res.Body) {
					got <- m
				}
			}()
			const changed = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
			waittest.Until(t, "the gateway listens", func() bool { return notify(changed) > 0 })
			for range 5 { // nothing has changed
				notify(changed)
			}
			notify(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"test://a"}}`)
			if m := waittest.Receive(t, got, "a message"); !strings.Contains(m, "resources/updated") {
				t.Errorf("first %s", m)
			}
			up.Tools = append(up.Tools, `{"name":"brandnew","inputSchema":{"type":"object"}}`)
			notify(changed)
			if m := waittest.Receive(t, got, "the change"); !strings.Contains(m, "tools/list_changed") {
				t.Errorf("then %s", m)
			}
			found := false
			for _, name := range names(t, s.call("tools/list", "{}"), "tools", "name") {
				found = found || name == "brandnew"
			}
			if !found {
				t.Error("the new tool is not listed")
			}
		})
	}
}

// TestStreamsFollowRights changes what the caller may use while its stream is open.
func TestStreamsFollowRights(t *testing.T) {
	up := modernServer(t)
	o := options{servers: []*toolserver.Server{server("one", up.URL)}}
	g := newGateway(t, o)
	s := g.initialize("/mcp/one", "{}")
	res := g.open(t.Context(), "GET", "/mcp/one", "", "Mcp-Session-Id", s.id)
	defer res.Body.Close()
	got := make(chan string, 16)
	go func() {
		defer close(got)
		for m := range events(res.Body) {
			got <- m
		}
	}()
	waittest.Until(t, "the gateway listens", func() bool { return up.Count("subscriptions/listen") > 0 })
	o.limits = map[string][]string{"alice": {"one/tool/echo"}}
	waittest.Until(t, "the lists are read", func() bool { return up.Count("tools/list") > 0 })
	g.publish(o)
	if m := waittest.Receive(t, got, "the change"); !strings.Contains(m, "tools/list_changed") {
		t.Errorf("%s", m)
	}
	o.limits = map[string][]string{"alice": {}}
	g.publish(o)
	for end := time.After(waittest.Bound); ; {
		select {
		case m, open := <-got:
			if !open {
				return
			}
			if !strings.Contains(m, "list_changed") {
				t.Errorf("%s", m)
			}
		case <-end:
			t.Fatal("the stream goes on without any rights")
		}
	}
}

// notifier sends messages to those who listen to a server.
type notifier struct {
	mu      sync.Mutex
	streams map[chan string]bool
}

// listenTo makes a server of the modern era send what notify is given.
func listenTo(up *toolservertest.Server) *notifier {
	n := &notifier{streams: map[chan string]bool{}}
	up.Handle("subscriptions/listen", func(x *toolservertest.Exchange) {
		var p struct{ Notifications json.RawMessage }
		json.Unmarshal(x.Message.Params, &p)
		tag := `"_meta":{"io.modelcontextprotocol/subscriptionId":` + string(x.Message.ID) + `}`
		x.Send(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":` + string(p.Notifications) + `,` + tag + `}}`)
		stream := make(chan string, 16)
		n.mu.Lock()
		n.streams[stream] = true
		n.mu.Unlock()
		for {
			select {
			case m := <-stream:
				x.Send(m)
			case <-x.R.Context().Done():
				n.mu.Lock()
				delete(n.streams, stream)
				n.mu.Unlock()
				return
			}
		}
	})
	return n
}

// notify sends a message, and returns to how many.
func (n *notifier) notify(m string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	for s := range n.streams {
		s <- m
	}
	return len(n.streams)
}

// notifierOf returns how a server sends messages by itself.
func notifierOf(up *toolservertest.Server) func(string) int {
	if up.NoLegacy {
		return listenTo(up).notify
	}
	return up.Notify
}

func TestSubscriptionsAreAcknowledgedOnce(t *testing.T) {
	for name, up := range eras(t) {
		t.Run(name, func(t *testing.T) {
			notify := notifierOf(up)
			var list struct {
				URI string `json:"uri"`
			}
			json.Unmarshal([]byte(up.Resources[0]), &list)
			g := newGateway(t, options{servers: []*toolserver.Server{server("one", up.URL)}})
			body := `{"jsonrpc":"2.0","id":"sub","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["` + list.URI + `"]},` +
				`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
			res := g.open(t.Context(), "POST", "/mcp/one", body, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen")
			defer res.Body.Close()
			got := make(chan string, 16)
			go func() {
				for m := range events(res.Body) {
					got <- m
				}
			}()
			first := waittest.Receive(t, got, "the acknowledgement")
			for _, want := range []string{"notifications/subscriptions/acknowledged", `"toolsListChanged":true`, `"resourceSubscriptions":["` + list.URI, `"io.modelcontextprotocol/subscriptionId":"sub"`} {
				if !strings.Contains(first, want) {
					t.Errorf("%s\nhas not %s", first, want)
				}
			}
			waittest.Until(t, "the gateway listens", func() bool {
				return notify(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"`+list.URI+`"}}`) > 0
			})
			if m := waittest.Receive(t, got, "an update"); !strings.Contains(m, "resources/updated") || !strings.Contains(m, `"io.modelcontextprotocol/subscriptionId":"sub"`) {
				t.Errorf("%s", m)
			}
		})
	}
}

// TestListsBelongToTheCredentialsOfTheIntegration changes a server's integration while its list is
// fresh.
func TestListsBelongToTheCredentialsOfTheIntegration(t *testing.T) {
	for name, up := range eras(t) {
		t.Run(name, func(t *testing.T) {
			up.TTL = 3_600_000
			s := server("one", up.URL)
			g := newGateway(t, options{servers: []*toolserver.Server{s}})
			ask := func() { g.modern("/mcp", "tools/list", "", "{}") }
			ask()
			ask()
			if n := up.Count("tools/list"); n != 1 {
				t.Fatalf("the server was asked %d times, want 1", n)
			}
			changed := *s
			changed.Revision = 2
			g.publish(options{servers: []*toolserver.Server{&changed}})
			if ask(); up.Count("tools/list") != 2 {
				t.Error("the list of the old credentials is used")
			}
		})
	}
}
