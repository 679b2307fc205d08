package peer_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"modelgate/internal/base/secret"
	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/testing/toolservertest"
)

// mustPeers returns a Peers that ends with the test.
func mustPeers(t testing.TB, o peer.Options) *peer.Peers {
	t.Helper()
	p := peer.New(o)
	t.Cleanup(p.Close)
	return p
}

// mustServer returns the tool server at an address.
func mustServer(t testing.TB, address string) *toolserver.Server {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return &toolserver.Server{ID: "server-1", Slug: "one", Transport: toolserver.HTTP, URL: u,
		Headers: map[string]secret.String{"Authorization": secret.New("Bearer of-the-server"), "X-Team": secret.New("blue")}}
}

const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

// modernCall returns a call of a tool in the modern era.
func modernCall(s *toolserver.Server, tool, arguments string) *peer.Call {
	return &peer.Call{Server: s, Method: "tools/call", Name: tool,
		Message: []byte(`{"jsonrpc":"2.0","id":"c-1","method":"tools/call","params":{"name":"` + tool + `","arguments":` + arguments + `,` + meta + `}}`)}
}

// legacyCall returns a call of a tool in a session.
func legacyCall(s *toolserver.Server, session peer.Session, tool, arguments string) *peer.Call {
	return &peer.Call{Server: s, Session: session, Method: "tools/call", Name: tool,
		Message: []byte(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + arguments +
			`,"_meta":{"progressToken":"p-7"}}}`)}
}

// mustOpen begins a session.
func mustOpen(t testing.TB, p *peer.Peers, s *toolserver.Server) peer.Session {
	t.Helper()
	session, _, err := p.Open(t.Context(), s, peer.Credential{}, peer.Client{})
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	return session
}

// mustSend sends a call and returns all messages of its reply.
func mustSend(t testing.TB, p peer.Sender, c *peer.Call) []string {
	t.Helper()
	messages, err := send(t.Context(), p, c)
	if err != nil {
		t.Fatalf("Send(%s): %v (%v)", c.Method, err, errors.Unwrap(err))
	}
	return messages
}

// send sends a call and returns all messages of its reply.
func send(ctx context.Context, p peer.Sender, c *peer.Call) (messages []string, err error) {
	reply, err := p.Send(ctx, c)
	if err != nil {
		return nil, err
	}
	defer reply.Close()
	for {
		m, err := reply.Next()
		if err == io.EOF {
			return messages, nil
		}
		if err != nil {
			return messages, err
		}
		messages = append(messages, string(m))
	}
}

// failureOf returns the failure that an error is.
func failureOf(t testing.TB, err error) *peer.Failure {
	t.Helper()
	f, ok := errors.AsType[*peer.Failure](err)
	if !ok {
		t.Fatalf("the error is %v, want a *Failure", err)
	}
	return f
}

func TestModernCallsCarryTheHeadersOfTheProtocol(t *testing.T) {
	ts := toolservertest.New(t)
	p, s := mustPeers(t, peer.Options{}), mustServer(t, ts.URL)
	call := modernCall(s, "echo", `{"text":"hi"}`)
	call.Params = http.Header{"Mcp-Param-Region": {"eu"}, "X-Other": {"no"}, "Authorization": {"Bearer of-the-client"}}
	call.Credential = peer.Credential{Key: "u", Header: http.Header{"Authorization": {"Bearer of-the-user"}}}
	got := mustSend(t, p, call)
	want := `{"jsonrpc":"2.0","id":"c-1","result":{"resultType":"complete","content":[{"type":"text","text":"hi"}]}}`
	if len(got) != 1 || got[0] != want {
		t.Errorf("Send = %q, want %q", got, want)
	}
	r := ts.Requests("tools/call")[0]
	for name, value := range map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "echo",
		"Mcp-Param-Region": "eu", "Accept": "application/json, text/event-stream", "Content-Type": "application/json",
		"Authorization": "Bearer of-the-user", "X-Team": "blue", "X-Other": "", "Mcp-Session-Id": "", "Cookie": ""} {
		if got := strings.Join(r.Header.Values(name), ", "); got != value {
			t.Errorf("%s = %q, want %q", name, got, value)
		}
	}
	if string(r.Message.Raw) != string(call.Message) {
		t.Errorf("the server received %s, want %s", r.Message.Raw, call.Message)
	}
}

func TestNamesThatHeadersCannotCarryAreEncoded(t *testing.T) {
	ts := toolservertest.New(t)
	p, s := mustPeers(t, peer.Options{}), mustServer(t, ts.URL)
	for name, want := range map[string]string{
		"plain name":      "plain name",
		"grüße":           "=?base64?Z3LDvMOfZQ==?=",
		" space":          "=?base64?IHNwYWNl?=",
		"a\tb":            "=?base64?YQli?=",
		"=?base64?eA==?=": "=?base64?PT9iYXNlNjQ/ZUE9PT89?=",
	} {
		quoted := strings.ReplaceAll(name, "\t", `\t`)
		ts.Tools = []string{`{"name":"` + quoted + `"}`}
		call := modernCall(s, quoted, `{"text":"x"}`)
		call.Name = name
		mustSend(t, p, call)
		requests := ts.Requests("tools/call")
		if got := requests[len(requests)-1].Header.Get("Mcp-Name"); got != want {
			t.Errorf("Mcp-Name of %q = %q, want %q", name, got, want)
		}
	}
}

func TestRepliesAreReadAsJSONAndAsStreams(t *testing.T) {
	for _, json := range []bool{false, true} {
		ts := toolservertest.New(t)
		ts.JSON = json
		p, s := mustPeers(t, peer.Options{}), mustServer(t, ts.URL)
		reply, err := p.Send(t.Context(), modernCall(s, "add", `{"a":1,"b":2}`))
		if err != nil {
			t.Fatal(err)
		}
		if reply.Streams() == json || reply.Status() != http.StatusOK {
			t.Errorf("JSON %t: Streams = %t, Status = %d", json, reply.Streams(), reply.Status())
		}
		text, err := reply.Next()
		if err != nil || !strings.Contains(string(text), `"sum":3`) {
			t.Errorf("Next = %s, %v", text, err)
		}
		if _, err := reply.Next(); err != io.EOF {
			t.Errorf("Next after the response = %v, want io.EOF", err)
		}
		reply.Close()
		reply.Close()
	}
}

func TestSessionsAreOpenedUsedAndEnded(t *testing.T) {
	ts := toolservertest.New(t)
	p, s := mustPeers(t, peer.Options{}), mustServer(t, ts.URL)
	by := peer.Client{Info: []byte(`{"name":"editor","version":"9"}`), Capabilities: []byte(`{"elicitation":{}}`)}
	session, result, err := p.Open(t.Context(), s, peer.Credential{}, by)
	if err != nil {
		t.Fatal(err)
	}
	if session.ID == "" || session.Version != "2025-11-25" || !strings.HasPrefix(string(result), `{"protocolVersion":"2025-11-25"`) {
		t.Errorf("Open = %+v, %s", session, result)
	}
	first := ts.Requests("initialize")[0]
	if want := `"capabilities":{"elicitation":{}},"clientInfo":{"name":"editor","version":"9"}`; !strings.Contains(string(first.Message.Raw), want) ||
		first.Header.Get("Mcp-Protocol-Version") != "" {
		t.Errorf("initialize was %s with %v", first.Message.Raw, first.Header)
	}
	if ts.Count("notifications/initialized") != 1 {
		t.Error("the server was not sent notifications/initialized")
	}
	if got := mustSend(t, p, legacyCall(s, session, "echo", `{"text":"hi"}`)); len(got) != 1 || !strings.Contains(got[0], `"id":7,`) {
		t.Errorf("Send = %q", got)
	}
	r := ts.Requests("tools/call")[0]
	if r.Header.Get("Mcp-Session-Id") != session.ID || r.Header.Get("Mcp-Protocol-Version") != "2025-11-25" || r.Header.Get("Mcp-Method") != "" {
		t.Errorf("headers of a call in a session: %v", r.Header)
	}
	if err := p.End(t.Context(), s, peer.Credential{}, session); err != nil || ts.Sessions() != 0 {
		t.Errorf("End = %v, %d sessions left", err, ts.Sessions())
	}
	if err := p.End(t.Context(), s, peer.Credential{}, session); err != nil {
		t.Errorf("End of an ended session = %v", err)
	}
}

func TestRevisionsOfSessionsAreThoseOfTheLegacyEra(t *testing.T) {
	for version, ok := range map[string]bool{"2025-06-18": true, "2025-03-26": true, "2024-11-05": true, "2026-07-28": false, "2020-01-01": false} {
		ts := toolservertest.New(t)
		ts.Version = version
		p := mustPeers(t, peer.Options{})
		session, _, err := p.Open(t.Context(), mustServer(t, ts.URL), peer.Credential{}, peer.Client{})
		if (err == nil) != ok || ok && session.Version != version {
			t.Errorf("Open with %s = %+v, %v", version, session, err)
		}
	}
}

func TestSessionWithAnOfferedOlderRevision(t *testing.T) {
	ts := toolservertest.New(t)
	ts.Handle("initialize", toolservertest.Times(1, func(x *toolservertest.Exchange) {
		x.Fail(http.StatusOK, -32602, "Unsupported protocol version", `{"supported":["2024-11-05","2025-03-26"],"requested":"2025-11-25"}`)
	}))
	p := mustPeers(t, peer.Options{})
	if session := mustOpen(t, p, mustServer(t, ts.URL)); session.Version != "2025-03-26" {
		t.Errorf("Version = %s, want the newest that the server offers", session.Version)
	}
}

func TestSessionsWithBadIDsAreRefused(t *testing.T) {
	for _, id := range []string{"with space", "ümlaut", strings.Repeat("x", 1025)} {
		ts := toolservertest.New(t)
		ts.NoIDs = true
		ts.Handle("initialize", func(x *toolservertest.Exchange) {
			x.W.Header()["Mcp-Session-Id"] = []string{id}
			x.Default()
		})
		p := mustPeers(t, peer.Options{})
		if _, _, err := p.Open(t.Context(), mustServer(t, ts.URL), peer.Credential{}, peer.Client{}); err == nil || failureOf(t, err).Kind != peer.Invalid {
			t.Errorf("Open with the id %.20q: %v", id, err)
		}
	}
}
