package peer_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/testing/toolservertest"
	"modelgate/internal/testing/waittest"
)

// mustOld returns a server that speaks the older HTTP with server-sent events.
func mustOld(t testing.TB, address string) *toolserver.Server {
	t.Helper()
	s := mustServer(t, address)
	s.Transport = toolserver.SSE
	return s
}

func TestOlderStreamsCarryAllMessagesOfASession(t *testing.T) {
	ts := toolservertest.New(t)
	p, s := mustPeers(t, peer.Options{}), mustOld(t, ts.SSEURL())
	if era, err := p.Era(t.Context(), s, peer.Credential{}); era != peer.Legacy || err != nil {
		t.Errorf("Era = %d, %v", era, err)
	}
	session := mustOpen(t, p, s)
	if session.Version != peer.LegacyVersion || session.ID == "" {
		t.Errorf("Open = %+v", session)
	}
	var all sync.WaitGroup
	for i := range 20 { // all with the same id
		all.Go(func() {
			got, err := send(t.Context(), p, legacyCall(s, session, "echo", fmt.Sprintf(`{"text":"%d"}`, i)))
			want := fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"%d"}]}}`, i)
			if err != nil || len(got) != 1 || got[0] != want {
				t.Errorf("Send = %q, %v, want %s", got, err, want)
			}
		})
	}
	all.Wait()
	for _, r := range ts.Requests("tools/call") {
		if r.Header.Get("Mcp-Session-Id") != "" || r.Header.Get("Authorization") != "Bearer of-the-server" {
			t.Errorf("headers of a message: %v", r.Header)
		}
	}
	if err := p.End(t.Context(), s, peer.Credential{}, session); err != nil {
		t.Error(err)
	}
	waittest.Until(t, "the stream ends", func() bool { return ts.Sessions() == 0 })
	_, err := send(t.Context(), p, legacyCall(s, session, "echo", `{}`))
	if f := failureOf(t, err); f.Kind != peer.SessionLost || !f.Unsent {
		t.Errorf("Send in an ended session = %+v", f)
	}
}

func TestOlderStreamsPassOnWhatTheServerSendsByItself(t *testing.T) {
	ts := toolservertest.New(t)
	p, s := mustPeers(t, peer.Options{}), mustOld(t, ts.SSEURL())
	session := mustOpen(t, p, s)
	listener, err := p.Listen(t.Context(), &peer.Call{Server: s, Session: session})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	const changed = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	ts.Notify(changed)
	if text, err := listener.Next(); string(text) != changed || err != nil {
		t.Errorf("Next = %s, %v", text, err)
	}
	ts.Handle("tools/call", func(x *toolservertest.Exchange) {
		x.Progress(1)
		x.Text("%s", x.Ask("elicitation/create", `{}`).Result)
	})
	reply, err := p.Send(t.Context(), legacyCall(s, session, "echo", `{}`))
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Close()
	if text, err := reply.Next(); err != nil || !strings.Contains(string(text), `"progressToken":"p-7"`) {
		t.Errorf("Next = %s, %v, want progress with the token of the caller", text, err)
	}
	asked, err := listener.Next()
	if err != nil || !strings.Contains(string(asked), `"method":"elicitation/create"`) {
		t.Fatalf("Next = %s, %v", asked, err)
	}
	id := strings.Split(string(asked), `"`)[7]
	mustSend(t, p, &peer.Call{Server: s, Session: session, Notify: true, Message: []byte(`{"jsonrpc":"2.0","id":"` + id + `","result":{}}`)})
	if text, err := reply.Next(); err != nil || !strings.Contains(string(text), `"id":7,`) {
		t.Errorf("Next = %s, %v", text, err)
	}
}

func TestOlderStreamCancelsByMessage(t *testing.T) {
	ts := toolservertest.New(t)
	p, s := mustPeers(t, peer.Options{}), mustOld(t, ts.SSEURL())
	session := mustOpen(t, p, s)
	ctx, leave := context.WithCancel(t.Context())
	reply, err := p.Send(ctx, legacyCall(s, session, "slow", `{}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reply.Next(); err != nil {
		t.Fatal(err)
	}
	leave()
	if _, err := reply.Next(); failureOf(t, err).Kind != peer.Cancelled {
		t.Errorf("Next = %v", err)
	}
	reply.Close()
	waittest.Until(t, "the call is cancelled", func() bool { return ts.Count("notifications/cancelled") == 1 })
	number := string(ts.Requests("tools/call")[0].Message.ID)
	if got := string(ts.Requests("notifications/cancelled")[0].Message.Params); !strings.Contains(got, `"requestId":`+number+`,`) {
		t.Errorf("the parameters are %s, want the id %s", got, number)
	}
}

func TestBrokenOlderStreamFailsItsCalls(t *testing.T) {
	ts := toolservertest.New(t)
	p, s := mustPeers(t, peer.Options{}), mustOld(t, ts.SSEURL())
	session := mustOpen(t, p, s)
	reply, err := p.Send(t.Context(), legacyCall(s, session, "slow", `{}`))
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Close()
	reply.Next()
	ts.Break()
	if _, err := reply.Next(); failureOf(t, err).Kind != peer.Unreachable || failureOf(t, err).Unsent {
		t.Errorf("Next = %+v", err)
	}
	_, err = send(t.Context(), p, legacyCall(s, session, "echo", `{}`))
	if f := failureOf(t, err); f.Kind != peer.SessionLost || !f.Unsent {
		t.Errorf("Send after the end of the stream = %+v", f)
	}
	mustSend(t, p, legacyCall(s, mustOpen(t, p, s), "echo", `{"text":"again"}`))
}

func TestSessionsOfOthersAreNotUsed(t *testing.T) {
	ts := toolservertest.New(t)
	p, s := mustPeers(t, peer.Options{}), mustOld(t, ts.SSEURL())
	session := mustOpen(t, p, s)
	other := mustOld(t, ts.SSEURL())
	other.ID = "server-2"
	foreign := legacyCall(other, session, "echo", `{}`)
	user := legacyCall(s, session, "echo", `{}`)
	user.Credential.Key = "user"
	guessed := legacyCall(s, peer.Session{ID: "AAAA.1", Version: session.Version}, "echo", `{}`)
	for _, c := range []*peer.Call{foreign, user, guessed} {
		if _, err := send(t.Context(), p, c); failureOf(t, err).Kind != peer.SessionLost {
			t.Errorf("Send = %v, want SessionLost", err)
		}
	}
	if ts.Count("tools/call") != 0 {
		t.Error("the server received a call in the session of another")
	}
}

func TestAddressForMessagesMustBeOfTheServer(t *testing.T) {
	var stolen, posted atomic.Int32
	thief := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { stolen.Add(1) }))
	t.Cleanup(thief.Close)
	for name, event := range map[string]string{
		"another host":       "event: endpoint\ndata: " + thief.URL + "/messages\n\n",
		"without a scheme":   "event: endpoint\ndata: //" + strings.TrimPrefix(thief.URL, "http://") + "/\n\n",
		"another scheme":     "event: endpoint\ndata: file:///etc/passwd\n\n",
		"malformed":          "event: endpoint\ndata: http://[::1\n\n",
		"long":               "event: endpoint\ndata: /" + strings.Repeat("x", 9<<10) + "\n\n",
		"another event":      "event: message\ndata: {}\n\n",
		"end of the stream":  "",
		"only comments":      ": alive\n\n: alive\n\n",
		"with a user's name": "event: endpoint\ndata: http://user:password@HOST/\n\n",
	} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				posted.Add(1)
			}
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, strings.ReplaceAll(event, "HOST", r.Host))
		}))
		t.Cleanup(web.Close)
		p := mustPeers(t, peer.Options{})
		if _, _, err := p.Open(t.Context(), mustOld(t, web.URL), peer.Credential{}, peer.Client{}); err == nil {
			t.Errorf("%s: Open succeeded", name)
		}
	}
	if stolen.Load() > 0 || posted.Load() > 0 {
		t.Errorf("another host received %d messages, and the server %d at a bad address", stolen.Load(), posted.Load())
	}
}

func TestUsedConnectionsDoNotEnd(t *testing.T) {
	ts := toolservertest.New(t)
	child, o := mustStdio(t, "sdk")
	o.IdleEnd = 20 * time.Millisecond
	p := mustPeers(t, o)
	for _, s := range []*toolserver.Server{mustOld(t, ts.SSEURL()), child} {
		session := mustOpen(t, p, s)
		listener, err := p.Listen(t.Context(), &peer.Call{Server: s, Session: session})
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(100 * time.Millisecond)
		mustSend(t, p, legacyCall(s, session, "echo", `{"text":"x"}`))
		ctx, leave := context.WithCancel(t.Context())
		reply, err := p.Send(ctx, legacyCall(s, session, "slow", `{"text":"x"}`))
		if err != nil {
			t.Fatal(err)
		}
		listener.Close()
		<-time.After(100 * time.Millisecond)
		if text, err := reply.Next(); err != nil {
			t.Errorf("Next during a call = %s, %v", text, err)
		}
		leave()
		if _, err := reply.Next(); failureOf(t, err).Kind != peer.Cancelled {
			t.Errorf("Next = %v, want the call in progress until it is cancelled", err)
		}
		reply.Close()
	}
}

func TestUnusedOlderStreamsEnd(t *testing.T) {
	ts := toolservertest.New(t)
	p, s := mustPeers(t, peer.Options{IdleEnd: 20 * time.Millisecond}), mustOld(t, ts.SSEURL())
	mustOpen(t, p, s)
	waittest.Until(t, "the stream ends", func() bool { return ts.Sessions() == 0 })
}
