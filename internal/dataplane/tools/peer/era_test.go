package peer_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/testing/toolservertest"
	"modelgate/internal/testing/waittest"
)

func TestEraIsThatOfTheAnswerToDiscover(t *testing.T) {
	supported := func(status, code int, versions string) toolservertest.Handler {
		return func(x *toolservertest.Exchange) { x.Fail(status, code, "unsupported", `{"supported":`+versions+`}`) }
	}
	const none = peer.FailureKind(255)
	for _, tt := range []struct {
		name    string
		handler toolservertest.Handler
		era     peer.Era
		failure peer.FailureKind
	}{
		{"modern", nil, peer.Modern, none},
		{"capability missing", fail(400, -32021, "needs elicitation"), peer.Modern, none},
		{"header refused", fail(400, -32020, "differs"), peer.Modern, none},
		{"bare 400", toolservertest.Status(400), peer.Legacy, none},
		{"bare 404", toolservertest.Status(404), peer.Legacy, none},
		{"bare 405", toolservertest.Status(405), peer.Legacy, none},
		{"no session", fail(400, -32000, "no valid session ID"), peer.Legacy, none},
		{"unknown method", fail(200, -32601, "Method not found"), peer.Legacy, none},
		{"unknown method with a status", fail(404, -32601, "Method not found"), peer.Legacy, none},
		{"older revisions", supported(400, -32022, `["2025-06-18"]`), peer.Legacy, none},
		{"other revisions too", supported(400, -32022, `["2027-01-01","2026-07-28"]`), peer.Modern, none},
		{"unknown revisions", supported(400, -32022, `["2027-01-01"]`), 0, peer.Invalid},
		{"discovered older revisions", func(x *toolservertest.Exchange) { x.Result(`{"supportedVersions":["2025-11-25"]}`) }, peer.Legacy, none},
		{"refused credential", toolservertest.Status(401), 0, peer.Unauthorized},
		{"forbidden", toolservertest.Status(403), 0, peer.Unauthorized},
		{"redirect", toolservertest.Status(308, "Location", "/other"), 0, peer.Refused},
		{"down", toolservertest.Status(500), 0, peer.Unreachable},
		{"broken", toolservertest.Break, 0, peer.Unreachable},
		{"page", toolservertest.Status(200, "Content-Type", "text/html"), 0, peer.Invalid},
		{"garbage", toolservertest.Garbage, 0, peer.Invalid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ts := toolservertest.New(t)
			ts.Handle("server/discover", tt.handler)
			p, s := mustPeers(t, peer.Options{}), mustServer(t, ts.URL)
			for range 2 {
				era, err := p.Era(t.Context(), s, peer.Credential{})
				if tt.failure != none {
					if err == nil || failureOf(t, err).Kind != tt.failure {
						t.Errorf("Era = %d, %v, want the kind %d", era, err, tt.failure)
					}
					continue
				}
				if err != nil || era != tt.era {
					t.Errorf("Era = %d, %v, want %d", era, err, tt.era)
				}
			}
			want := 1
			if tt.failure != none {
				want = 2 // failures are not remembered
			}
			if n := ts.Count("POST"); n != want || ts.Count("initialize") != 0 {
				t.Errorf("the server was asked %d times, want %d, and nothing else", n, want)
			}
		})
	}
}

func TestEraOfAServerWithSessionsOnly(t *testing.T) {
	ts := toolservertest.New(t)
	ts.NoModern = true
	p, s := mustPeers(t, peer.Options{}), mustServer(t, ts.URL)
	if era, err := p.Era(t.Context(), s, peer.Credential{}); era != peer.Legacy || err != nil {
		t.Errorf("Era = %d, %v", era, err)
	}
}

func TestEraIsAskedOncePerCredentialHoweverManyWait(t *testing.T) {
	ts := toolservertest.New(t)
	release := make(chan struct{})
	ts.Handle("server/discover", func(x *toolservertest.Exchange) { <-release; x.Default() })
	p, s := mustPeers(t, peer.Options{}), mustServer(t, ts.URL)
	var all sync.WaitGroup
	leaving, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := p.Era(leaving, s, peer.Credential{})
		left <- err
	}()
	waittest.Until(t, "the server is asked", func() bool { return ts.Count("server/discover") == 1 })
	leave() // the first caller
	if f := failureOf(t, waittest.Receive(t, left, "the caller who leaves")); f.Kind != peer.Cancelled {
		t.Errorf("the failure of the caller who left is %+v", f)
	}
	for range 20 {
		all.Go(func() {
			if era, err := p.Era(t.Context(), s, peer.Credential{}); era != peer.Modern || err != nil {
				t.Errorf("Era = %d, %v", era, err)
			}
		})
	}
	close(release)
	all.Wait()
	if n := ts.Count("server/discover"); n != 1 {
		t.Errorf("the server was asked %d times, want once", n)
	}
	p.Era(t.Context(), s, peer.Credential{Key: "user"})
	moved := mustServer(t, ts.URL+"?v=2")
	p.Era(t.Context(), moved, peer.Credential{})
	if n := ts.Count("server/discover"); n != 3 {
		t.Errorf("the server was asked %d times, want again for another credential and for another address", n)
	}
}

func TestEraIsAskedAgainAfterAFailureOfItsMessages(t *testing.T) {
	ts := toolservertest.New(t)
	p, s := mustPeers(t, peer.Options{}), mustServer(t, ts.URL)
	if era, _ := p.Era(t.Context(), s, peer.Credential{}); era != peer.Modern {
		t.Fatal("the server speaks the modern era")
	}
	ts.NoModern = true // an older release is installed
	send(t.Context(), p, modernCall(s, "echo", `{}`))
	if era, err := p.Era(t.Context(), s, peer.Credential{}); era != peer.Legacy || err != nil {
		t.Errorf("Era after a refused message = %d, %v, want Legacy", era, err)
	}
	session := mustOpen(t, p, s)
	ts.NoModern = false // and the newer one again, without its sessions
	ts.LoseSessions()
	if _, err := send(t.Context(), p, legacyCall(s, session, "echo", `{}`)); failureOf(t, err).Kind != peer.SessionLost {
		t.Errorf("Send in a lost session = %v", err)
	}
	if era, err := p.Era(t.Context(), s, peer.Credential{}); era != peer.Modern || err != nil {
		t.Errorf("Era after a lost session = %d, %v, want Modern", era, err)
	}
}

func TestEraIsAskedAgainAfterARefusedMessage(t *testing.T) {
	for _, status := range []int{400, 404, 405} {
		ts := toolservertest.New(t)
		ts.Handle("tools/call", toolservertest.Status(status))
		p, s := mustPeers(t, peer.Options{}), mustServer(t, ts.URL)
		p.Era(t.Context(), s, peer.Credential{})
		send(t.Context(), p, modernCall(s, "echo", `{}`))
		p.Era(t.Context(), s, peer.Credential{})
		if n := ts.Count("server/discover"); n != 2 {
			t.Errorf("%d: the server was asked %d times, want twice", status, n)
		}
	}
}

func TestErrorsOfCallsDoNotMakeTheEraDoubtful(t *testing.T) {
	ts := toolservertest.New(t)
	ts.Handle("tools/call", fail(400, -32602, "bad arguments"))
	p, s := mustPeers(t, peer.Options{}), mustServer(t, ts.URL)
	for range 3 {
		p.Era(t.Context(), s, peer.Credential{})
		send(t.Context(), p, modernCall(s, "echo", `{}`))
	}
	if n := ts.Count("server/discover"); n != 1 {
		t.Errorf("the server was asked %d times, want once", n)
	}
}

func TestLegacyEraIsAskedAgainAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m peer.EraMemory
		s := &toolserver.Server{ID: "a"}
		m.Remember(s, peer.Legacy)
		time.Sleep(5*time.Minute - 1)
		if _, ok := m.Known(s); !ok {
			t.Error("the legacy era was forgotten within 5 minutes")
		}
		time.Sleep(time.Nanosecond)
		if _, ok := m.Known(s); ok {
			t.Error("the legacy era is remembered for more than 5 minutes")
		}
		m.Remember(s, peer.Modern)
		time.Sleep(24 * time.Hour)
		if era, ok := m.Known(s); !ok || era != peer.Modern {
			t.Error("the modern era was forgotten without a failure")
		}
	})
}

// A server that answers GET with 405 is not asked again at once, as gateways did in a loop.
func TestServerWithoutAStreamIsNotAskedForItAgain(t *testing.T) {
	ts := toolservertest.New(t)
	ts.NoStream = true
	p, s := mustPeers(t, peer.Options{}), mustServer(t, ts.URL)
	session := mustOpen(t, p, s)
	for range 50 {
		_, err := p.Listen(t.Context(), &peer.Call{Server: s, Session: session})
		if f := failureOf(t, err); f.Status != http.StatusMethodNotAllowed {
			t.Fatalf("Listen = %+v, want the status 405", f)
		}
	}
	if n := ts.Count("GET"); n != 1 {
		t.Errorf("the server was asked %d times, want once", n)
	}
	mustSend(t, p, legacyCall(s, session, "echo", `{"text":"x"}`))
}

func TestRefusedStreams(t *testing.T) {
	for _, tt := range []struct {
		name    string
		handler toolservertest.Handler
		kind    peer.FailureKind
		status  int
	}{
		{"405", toolservertest.Status(405), peer.Invalid, 405},
		{"404 without a reason", toolservertest.Status(404), peer.Invalid, 405},
		{"404 of the TypeScript library", fail(404, -32001, "Session not found"), peer.SessionLost, 404},
		{"404 of the Go library", func(x *toolservertest.Exchange) { http.Error(x.W, "session not found", 404) }, peer.SessionLost, 404},
		{"JSON", func(x *toolservertest.Exchange) { x.W.Header().Set("Content-Type", "application/json") }, peer.Invalid, 200},
		{"bad request", toolservertest.Status(400), peer.Invalid, 400},
		{"refused credential", toolservertest.Status(401), peer.Unauthorized, 401},
	} {
		ts := toolservertest.New(t)
		ts.Handle("GET", tt.handler)
		p, s := mustPeers(t, peer.Options{}), mustServer(t, ts.URL)
		_, err := p.Listen(t.Context(), &peer.Call{Server: s, Session: mustOpen(t, p, s)})
		if f := failureOf(t, err); f.Kind != tt.kind || f.Status != tt.status {
			t.Errorf("%s: Listen = %+v", tt.name, f)
		}
	}
}

func TestMessagesOfAServerByItselfComeOnTheStream(t *testing.T) {
	ts := toolservertest.New(t)
	p, s := mustPeers(t, peer.Options{}), mustServer(t, ts.URL)
	s.IdleTimeout = 20 * time.Millisecond // not for streams without a call
	session := mustOpen(t, p, s)
	reply, err := p.Listen(t.Context(), &peer.Call{Server: s, Session: session})
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Close()
	<-time.After(60 * time.Millisecond)
	const changed = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	waittest.Until(t, "the stream is open", func() bool { return ts.Notify(changed) == 1 })
	if text, err := reply.Next(); string(text) != changed || err != nil {
		t.Errorf("Next = %s, %v", text, err)
	}
	ts.LoseSessions()
	if _, err := reply.Next(); err == nil {
		t.Error("Next after the end of the session returned a message")
	}
	if _, err := p.Listen(t.Context(), &peer.Call{Server: s, Session: session}); failureOf(t, err).Kind != peer.SessionLost {
		t.Errorf("Listen in a lost session = %v", err)
	}
}

func TestRequestsOfTheServerAreAnsweredWithinTheSession(t *testing.T) {
	ts := toolservertest.New(t)
	ts.Handle("tools/call", func(x *toolservertest.Exchange) {
		answer := x.Ask("elicitation/create", `{"message":"Which?"}`)
		x.Text("%s", answer.Result)
	})
	p, s := mustPeers(t, peer.Options{}), mustServer(t, ts.URL)
	session := mustOpen(t, p, s)
	reply, err := p.Send(t.Context(), legacyCall(s, session, "echo", `{}`))
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Close()
	asked, err := reply.Next()
	if want := `{"jsonrpc":"2.0","id":"server-2","method":"elicitation/create","params":{"message":"Which?"}}`; string(asked) != want || err != nil {
		t.Fatalf("Next = %s, %v, want %s", asked, err, want)
	}
	mustSend(t, p, &peer.Call{Server: s, Session: session, Notify: true, Message: []byte(`{"jsonrpc":"2.0","id":"server-2","result":{"action":"decline"}}`)})
	if text, err := reply.Next(); err != nil || string(text) != `{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"{\"action\":\"decline\"}"}]}}` {
		t.Errorf("Next = %s, %v", text, err)
	}
}
