package peer_test

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/testing/toolservertest"
	"modelgate/internal/testing/waittest"
)

func TestClientLeavingEndsTheCallAtTheServer(t *testing.T) {
	for _, legacy := range []bool{false, true} {
		ts := toolservertest.New(t)
		p, s := mustPeers(t, peer.Options{}), mustServer(t, ts.URL)
		left := make(chan time.Time, 1)
		ts.Handle("tools/call slow", func(x *toolservertest.Exchange) {
			x.Progress(1)
			x.Comment()
			x.Left()
			left <- time.Now()
		})
		call := modernCall(s, "slow", `{}`)
		if legacy {
			call = legacyCall(s, mustOpen(t, p, s), "slow", `{}`)
		}
		fastest := time.Hour
		for range 5 {
			fastest = min(fastest, leaveCall(t, p, call, left))
		}
		if fastest > 100*time.Millisecond {
			t.Errorf("legacy %t: the server noticed after %v, want at most 100 ms", legacy, fastest)
		}
		want := 0
		if legacy {
			want = 5
			waittest.Until(t, "the server is sent notifications/cancelled", func() bool { return ts.Count("notifications/cancelled") == want })
			r := ts.Requests("notifications/cancelled")[0]
			if !strings.Contains(string(r.Message.Params), `"requestId":7,`) || r.Header.Get("Mcp-Session-Id") == "" {
				t.Errorf("notifications/cancelled was %s with %v", r.Message.Raw, r.Header)
			}
		}
		p.Close()
		if n := ts.Count("notifications/cancelled"); n != want {
			t.Errorf("legacy %t: the server was sent notifications/cancelled %d times, want %d", legacy, n, want)
		}
	}
}

// leaveCall ends a call while its reply is read, and returns after how long the server
// noticed.
func leaveCall(t *testing.T, p *peer.Peers, call *peer.Call, left <-chan time.Time) time.Duration {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	reply, err := p.Send(ctx, call)
	if err != nil {
		t.Fatal(err)
	}
	var began time.Time
	time.AfterFunc(10*time.Millisecond, func() {
		began = time.Now()
		leave()
	})
	for err == nil {
		_, err = reply.Next()
	}
	if f := failureOf(t, err); f.Kind != peer.Cancelled {
		t.Errorf("Next = %+v, want Cancelled", f)
	}
	reply.Close()
	return waittest.Receive(t, left, "the end of the call at the server").Sub(began)
}

func TestAnsweredCallsAreNotCancelled(t *testing.T) {
	for _, json := range []bool{true, false} {
		ts := toolservertest.New(t)
		ts.JSON = json
		p, s := mustPeers(t, peer.Options{}), mustServer(t, ts.URL)
		ctx, leave := context.WithCancel(t.Context())
		reply, err := p.Send(ctx, legacyCall(s, mustOpen(t, p, s), "echo", `{"text":"x"}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := reply.Next(); err != nil {
			t.Fatal(err)
		}
		leave()
		reply.Close()
		p.Close()
		if ts.Count("notifications/cancelled") != 0 {
			t.Errorf("JSON %t: a call was cancelled after its response", json)
		}
	}
}

func TestConnectionIsUsedAgainAfterAStream(t *testing.T) {
	ts := toolservertest.New(t)
	p, s := mustPeers(t, peer.Options{}), mustServer(t, ts.URL)
	for range 5 {
		reply, err := p.Send(t.Context(), modernCall(s, "echo", `{"text":"x"}`))
		if err != nil {
			t.Fatal(err)
		}
		reply.Next()
		reply.Close()
		waittest.Until(t, "the connection is idle", func() bool { return p.Background() == 0 })
	}
	addresses := map[string]bool{}
	for _, r := range ts.Requests("tools/call") {
		addresses[r.Client] = true
	}
	if len(addresses) != 1 {
		t.Errorf("5 calls used %d connections, want 1", len(addresses))
	}
}

func TestSilentServersAndLongCallsTimeOut(t *testing.T) {
	for name, tt := range map[string]struct {
		handler    toolservertest.Handler
		idle, call time.Duration
	}{
		"silent before the response": {toolservertest.Hang, 50 * time.Millisecond, time.Hour},
		"silent after progress":      {func(x *toolservertest.Exchange) { x.Progress(1); x.Comment(); x.Left() }, 50 * time.Millisecond, time.Hour},
		"progress without end": {func(x *toolservertest.Exchange) {
			for x.R.Context().Err() == nil {
				x.Comment()
				<-time.After(time.Millisecond)
			}
		}, time.Hour, 50 * time.Millisecond},
	} {
		ts := toolservertest.New(t)
		p, s := mustPeers(t, peer.Options{}), mustServer(t, ts.URL)
		session := mustOpen(t, p, s)
		ts.Handle("tools/call", tt.handler)
		s.IdleTimeout, s.CallTimeout = tt.idle, tt.call
		_, err := send(t.Context(), p, legacyCall(s, session, "slow", `{}`))
		if f := failureOf(t, err); f.Kind != peer.TimedOut || f.Unsent {
			t.Errorf("%s: %+v, want TimedOut", name, f)
		}
		waittest.Until(t, "the call is cancelled at the server", func() bool { return ts.Count("notifications/cancelled") == 1 })
	}
}

func TestProgressKeepsACallAlive(t *testing.T) {
	ts := toolservertest.New(t)
	ts.Handle("tools/call", func(x *toolservertest.Exchange) {
		for range 40 {
			x.Comment()
			<-time.After(10 * time.Millisecond)
		}
		x.Text("done")
	})
	p, s := mustPeers(t, peer.Options{}), mustServer(t, ts.URL)
	s.IdleTimeout = 300 * time.Millisecond
	if _, err := send(t.Context(), p, modernCall(s, "slow", `{}`)); err != nil {
		t.Errorf("Send = %v: each message must begin the idle time again", err)
	}
}

// Servers end streams during long calls, and expect the client to come back for the rest.
func TestStreamThatEndsEarlyIsResumed(t *testing.T) {
	ts := toolservertest.New(t)
	ts.Handle("tools/call", func(x *toolservertest.Exchange) {
		x.Write("id: 1/0\nretry: 5\ndata:\n\n")
		x.Write("id: 1/1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\n")
	})
	ts.Handle("GET", func(x *toolservertest.Exchange) {
		if ts.Count("GET") == 1 {
			x.Write("id: 1/2\ndata:\n\n")
			x.Break()
		}
		x.Write("id: 1/3\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n\n")
	})
	p, s := mustPeers(t, peer.Options{}), mustServer(t, ts.URL)
	session := mustOpen(t, p, s)
	if got := mustSend(t, p, legacyCall(s, session, "echo", `{}`)); len(got) != 2 || got[1] != `{"jsonrpc":"2.0","id":7,"result":{}}` {
		t.Errorf("Send = %q", got)
	}
	var ids []string
	for _, r := range ts.Requests("") {
		if r.HTTP == "GET" {
			ids = append(ids, r.Header.Get("Last-Event-Id"))
			if r.Header.Get("Mcp-Session-Id") != session.ID || r.Header.Get("Authorization") != "Bearer of-the-server" {
				t.Errorf("headers of a resumed stream: %v", r.Header)
			}
		}
	}
	if strings.Join(ids, " ") != "1/1 1/2" {
		t.Errorf("the stream was resumed after %q, want 1/1 and 1/2", ids)
	}
	if ts.Count("tools/call") != 1 {
		t.Errorf("the call was sent %d times", ts.Count("tools/call"))
	}
}

func TestStreamIsNotResumedWithoutEnd(t *testing.T) {
	ts := toolservertest.New(t)
	ts.Handle("tools/call", func(x *toolservertest.Exchange) { x.Write("id: 1\nretry: 1\ndata:\n\n") })
	ts.Handle("GET", func(x *toolservertest.Exchange) { x.Write("id: 2\nretry: 1\ndata:\n\n") })
	p, s := mustPeers(t, peer.Options{}), mustServer(t, ts.URL)
	_, err := send(t.Context(), p, legacyCall(s, mustOpen(t, p, s), "echo", `{}`))
	if f := failureOf(t, err); f.Kind != peer.Unreachable || f.Unsent || ts.Count("GET") != 5 {
		t.Errorf("Send = %+v after %d tries, want 5", f, ts.Count("GET"))
	}
}

func TestSilentStreamOfTheModernEraIsKept(t *testing.T) {
	ts := toolservertest.New(t)
	more := make(chan struct{})
	ts.Handle("subscriptions/listen", func(x *toolservertest.Exchange) {
		x.Send(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{}}`)
		<-more
		x.Result(`{}`)
	})
	p, s := mustPeers(t, peer.Options{}), mustServer(t, ts.URL)
	s.IdleTimeout, s.CallTimeout = 200*time.Millisecond, 200*time.Millisecond
	time.AfterFunc(500*time.Millisecond, func() { close(more) })
	call := &peer.Call{Server: s, Method: "subscriptions/listen", Message: []byte(`{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{` + meta + `}}`)}
	if got := mustSend(t, p, call); len(got) != 2 {
		t.Errorf("Send = %q", got)
	}
}

// Who asks for the response checks its id over HTTP; on a shared connection it leads nowhere.
func TestResponseWithAnotherIDReachesNobodyElse(t *testing.T) {
	ts := toolservertest.New(t)
	ts.Handle("tools/call fail", toolservertest.WrongID)
	p, s, old := mustPeers(t, peer.Options{}), mustServer(t, ts.URL), mustOld(t, ts.SSEURL())
	want := `{"jsonrpc":"2.0","id":"another","result":{"content":[]}}`
	if got := mustSend(t, p, modernCall(s, "fail", `{}`)); len(got) != 1 || got[0] != want {
		t.Errorf("Send = %q, want %s", got, want)
	}
	session := mustOpen(t, p, old)
	old.IdleTimeout = 200 * time.Millisecond
	if got, err := send(t.Context(), p, legacyCall(old, session, "fail", `{}`)); err == nil || failureOf(t, err).Kind != peer.TimedOut || len(got) > 0 {
		t.Errorf("Send on a shared connection = %q, %v, want TimedOut", got, err)
	}
}

// A transport may still read a message when its reply ends, and its memory is used again then.
func TestMessageIsNotReadAfterItsReply(t *testing.T) {
	request, release := peer.NewMessage(bytes.Repeat([]byte("x"), 8<<10))
	part := make([]byte, 3)
	if _, err := io.ReadFull(request.Body, part); err != nil {
		t.Fatal(err)
	}
	release()
	again, err := request.GetBody()
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []io.Reader{request.Body, again} {
		if n, err := body.Read(part); n > 0 || err == nil {
			t.Errorf("Read after the reply = %d, %v", n, err)
		}
	}
}
