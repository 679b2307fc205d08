package peer_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/provider/toolserver"
	"modelgate/internal/testing/toolservertest"
	"modelgate/internal/testing/waittest"
	"modelgate/internal/upstream"
)

func TestStatusesAreFailuresByKind(t *testing.T) {
	const session, none = true, false
	for _, tt := range []struct {
		name    string
		session bool
		handler toolservertest.Handler
		want    peer.Failure
	}{
		{"refused credential", none, toolservertest.Status(401, "WWW-Authenticate", `Bearer resource_metadata="https://a"`),
			peer.Failure{Kind: peer.Unauthorized, Status: 401, Challenge: `Bearer resource_metadata="https://a"`}},
		{"two challenges", none, toolservertest.Status(403, "WWW-Authenticate", "Bearer a", "WWW-Authenticate", "Basic b"),
			peer.Failure{Kind: peer.Unauthorized, Status: 403, Challenge: "Bearer a, Basic b"}},
		{"challenge beyond the limit", none, toolservertest.Status(401, "WWW-Authenticate", strings.Repeat("x", 9<<10)),
			peer.Failure{Kind: peer.Unauthorized, Status: 401}},
		{"lost session", session, toolservertest.Status(404), peer.Failure{Kind: peer.SessionLost, Status: 404}},
		{"lost session by an error", session, fail(404, -32001, "Session not found"), peer.Failure{Kind: peer.SessionLost, Status: 404}},
		{"lost session by code", session, fail(400, -32001, "gone"), peer.Failure{Kind: peer.SessionLost, Status: 400}},
		{"lost session by text", session, fail(400, -32000, "Bad Request: no valid Session ID"), peer.Failure{Kind: peer.SessionLost, Status: 400}},
		{"nothing there", none, toolservertest.Status(404), peer.Failure{Kind: peer.Invalid, Status: 404}},
		{"another method", none, toolservertest.Status(405), peer.Failure{Kind: peer.Invalid, Status: 405}},
		{"refused message", none, toolservertest.Status(400), peer.Failure{Kind: peer.Invalid, Status: 400}},
		{"rate limit", none, toolservertest.Status(429, "Retry-After", "7"), peer.Failure{Kind: peer.Unavailable, Status: 429, Wait: 7 * time.Second}},
		{"rate limit without a time", none, toolservertest.Status(429), peer.Failure{Kind: peer.Unavailable, Status: 429}},
		{"absurd wait", none, toolservertest.Status(429, "Retry-After", "99999999"), peer.Failure{Kind: peer.Unavailable, Status: 429, Wait: time.Hour}},
		{"unavailable for a time", none, toolservertest.Status(503, "Retry-After", "3"), peer.Failure{Kind: peer.Unavailable, Status: 503, Wait: 3 * time.Second}},
		{"unavailable", none, toolservertest.Status(503), peer.Failure{Kind: peer.Unreachable, Status: 503}},
		{"broken", none, toolservertest.Status(502), peer.Failure{Kind: peer.Unreachable, Status: 502}},
		{"redirect", none, toolservertest.Status(307, "Location", "http://127.0.0.1:1/"), peer.Failure{Kind: peer.Refused, Status: 307}},
		{"moved", none, toolservertest.Status(301, "Location", "/elsewhere"), peer.Failure{Kind: peer.Refused, Status: 301}},
		{"no response", none, toolservertest.Status(202), peer.Failure{Kind: peer.Invalid, Status: 202}},
		{"compressed", none, toolservertest.Status(200, "Content-Type", "application/json", "Content-Encoding", "br"), peer.Failure{Kind: peer.Invalid, Status: 200}},
		{"page", none, toolservertest.Status(200, "Content-Type", "text/html"), peer.Failure{Kind: peer.Invalid, Status: 200}},
		{"no type", none, toolservertest.Status(200), peer.Failure{Kind: peer.Invalid, Status: 200}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ts := toolservertest.New(t)
			p, s := mustPeers(t, peer.Options{}), mustServer(t, ts.URL)
			call := modernCall(s, "echo", `{}`)
			if tt.session {
				call = legacyCall(s, mustOpen(t, p, s), "echo", `{}`)
			}
			ts.Handle("tools/call", tt.handler)
			before := ts.Count("POST")
			_, err := send(t.Context(), p, call)
			got := *failureOf(t, err)
			if got.Reason == "" || strings.Contains(got.Error(), "127.0.0.1") || got.Unsent {
				t.Errorf("Reason = %q, Unsent = %t", got.Reason, got.Unsent)
			}
			got.Reason, got.Err = "", nil
			if got != tt.want {
				t.Errorf("Send = %+v, want %+v", got, tt.want)
			}
			if n := ts.Count("POST") - before; n != 1 {
				t.Errorf("the server received %d messages, want 1: nothing is sent twice or to another address", n)
			}
		})
	}
}

// fail answers with an error of JSON-RPC.
func fail(status, code int, message string) toolservertest.Handler {
	return func(x *toolservertest.Exchange) { x.Fail(status, code, message, "") }
}

func TestErrorsOfJSONRPCAreMessagesWhateverTheStatus(t *testing.T) {
	for _, tt := range []struct{ status, code int }{
		{404, -32601}, {400, -32602}, {400, -32020}, {400, -32021}, {400, -32022}, {409, -32000}, {200, -32603},
	} {
		ts := toolservertest.New(t)
		ts.Handle("tools/call", fail(tt.status, tt.code, "a session is not the problem"))
		p, s := mustPeers(t, peer.Options{}), mustServer(t, ts.URL)
		reply, err := p.Send(t.Context(), modernCall(s, "echo", `{}`))
		if err != nil {
			t.Errorf("%d with %d: %v", tt.status, tt.code, err)
			continue
		}
		text, err := reply.Next()
		if err != nil || !strings.HasPrefix(string(text), `{"jsonrpc":"2.0","id":"c-1","error":`) {
			t.Errorf("%d with %d: Next = %s, %v", tt.status, tt.code, text, err)
		}
		reply.Close()
	}
}

func TestBrokenAnswersAreFailures(t *testing.T) {
	for name, tt := range map[string]struct {
		handler toolservertest.Handler
		kind    peer.FailureKind
	}{
		"connection broken before the response": {toolservertest.Break, peer.Unreachable},
		"stream broken":                         {toolservertest.BreakStream, peer.Unreachable},
		"stream without a response":             {toolservertest.EndStream, peer.Unreachable},
		"not JSON":                              {toolservertest.Garbage, peer.Invalid},
		"message over the limit":                {toolservertest.Huge(70 << 10), peer.Invalid},
		"batch":                                 {func(x *toolservertest.Exchange) { x.Answer(`[{"jsonrpc":"2.0","id":"c-1","result":{}}]`) }, peer.Invalid},
	} {
		for _, json := range []bool{true, false} {
			ts := toolservertest.New(t)
			ts.JSON = json
			ts.Handle("tools/call", tt.handler)
			p, s := mustPeers(t, peer.Options{MaxMessage: 64 << 10}), mustServer(t, ts.URL)
			_, err := send(t.Context(), p, modernCall(s, "slow", `{}`))
			if f := failureOf(t, err); f.Kind != tt.kind || f.Unsent {
				t.Errorf("%s, JSON %t: %+v, want the kind %d", name, json, f, tt.kind)
			}
		}
	}
}

func TestOnlyUnsentMessagesAreReportedAsUnsent(t *testing.T) {
	closed := httptest.NewServer(nil)
	closed.Close()
	p := mustPeers(t, peer.Options{})
	_, err := send(t.Context(), p, modernCall(mustServer(t, closed.URL), "echo", `{}`))
	if f := failureOf(t, err); f.Kind != peer.Unreachable || !f.Unsent || strings.Contains(f.Error(), "127.0.0.1") {
		t.Errorf("Send to a closed port = %+v", f)
	}
	ts := toolservertest.New(t)
	ts.Handle("tools/call", toolservertest.Break)
	_, err = send(t.Context(), p, modernCall(mustServer(t, ts.URL), "echo", `{}`))
	if f := failureOf(t, err); f.Kind != peer.Unreachable || f.Unsent {
		t.Errorf("Send to a server that breaks the connection = %+v", f)
	}
}

func TestGuardedServersAreReachedOnlyAtPublicAddresses(t *testing.T) {
	ts := toolservertest.New(t)
	p, s := mustPeers(t, peer.Options{Client: upstream.New(upstream.Options{})}), mustServer(t, ts.URL)
	s.Guarded = true
	_, err := send(t.Context(), p, modernCall(s, "echo", `{}`))
	if f := failureOf(t, err); f.Kind != peer.Refused || !f.Unsent || strings.Contains(f.Error(), "127.0.0.1") {
		t.Errorf("Send = %+v, want Refused", f)
	}
	if _, err := p.Era(t.Context(), s, peer.Credential{}); err == nil || failureOf(t, err).Kind != peer.Refused {
		t.Errorf("Era = %v, want Refused", err)
	}
	if ts.Count("POST") != 0 {
		t.Error("the guarded server received a message")
	}
}

func TestMessagesGoThroughTheProxyOfTheGateway(t *testing.T) {
	ts := toolservertest.New(t)
	behind, err := url.Parse(ts.URL)
	if err != nil {
		t.Fatal(err)
	}
	var asked []string
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		asked = append(asked, r.In.Host)
		r.SetURL(&url.URL{Scheme: "http", Host: behind.Host})
	}})
	t.Cleanup(proxy.Close)
	at, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	client := upstream.New(upstream.Options{Proxy: http.ProxyURL(at)})
	p, s := mustPeers(t, peer.Options{Client: client}), mustServer(t, "http://tools.example/mcp")
	mustSend(t, p, modernCall(s, "echo", `{"text":"x"}`))
	mustSend(t, p, legacyCall(s, mustOpen(t, p, s), "echo", `{"text":"x"}`))
	if len(asked) != 4 || asked[0] != "tools.example" {
		t.Errorf("the proxy was asked for %q", asked)
	}
}

func TestServersThatCannotBeUsedAreNotAsked(t *testing.T) {
	ts := toolservertest.New(t)
	p := mustPeers(t, peer.Options{})
	faulty, openAPI := mustServer(t, ts.URL), mustServer(t, ts.URL)
	faulty.Fault = errors.New("the credential cannot be opened")
	openAPI.Transport = toolserver.OpenAPI
	for _, s := range []*toolserver.Server{faulty, openAPI} {
		_, err := send(t.Context(), p, modernCall(s, "echo", `{}`))
		if f := failureOf(t, err); f.Kind != peer.Unavailable || !f.Unsent {
			t.Errorf("Send = %+v, want Unavailable", f)
		}
	}
	if ts.Count("POST") != 0 {
		t.Error("the server received a message")
	}
}

func TestServerThatFailsIsNotAskedForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := peer.NewBreaker()
		down := &peer.Failure{Kind: peer.Unreachable, Reason: "no route"}
		for range 4 {
			b.Call(down)
		}
		if s := b.State(); s.Condition != peer.Failing || s.Reason != "no route" {
			t.Errorf("State after 4 failures = %+v", s)
		}
		b.Call(down)
		if s := b.State(); s.Condition != peer.Broken || s.Since != time.Now() {
			t.Errorf("State after 5 failures = %+v", s)
		}
		if f := b.Call(nil); f == nil || f.Kind != peer.Unavailable || !f.Unsent || f.Wait != time.Second {
			t.Errorf("call of a broken server = %+v", f)
		}
		for _, pause := range []time.Duration{1, 2, 4, 8, 16, 30, 30} { // of the probe that follows
			time.Sleep(pause*time.Second - 1)
			if f := b.Call(down); f == nil {
				t.Fatalf("the server was asked before the pause of %d s was over", pause)
			}
			time.Sleep(time.Nanosecond)
			if f := b.Call(down); f != nil {
				t.Fatalf("the server was not asked after %d s: %+v", pause, f)
			}
		}
		time.Sleep(30 * time.Second)
		first, second := b.Begin(), b.Begin()
		if first != nil || second == nil {
			t.Errorf("probes = %v, %v, want one only", first, second)
		}
		b.End(nil)
		if f := b.Call(nil); f != nil || b.State().Condition != peer.Working || b.State().Reason != "" {
			t.Errorf("after a probe that succeeded: %+v, %+v", f, b.State())
		}
	})
}

func TestBrokenServerIsReportedAndOthersWork(t *testing.T) {
	bad, good := toolservertest.New(t), toolservertest.New(t)
	bad.Handle("tools/call", toolservertest.Status(500))
	p := mustPeers(t, peer.Options{})
	s, other := mustServer(t, bad.URL), mustServer(t, good.URL)
	other.ID = "server-2"
	for range 5 {
		if _, err := send(t.Context(), p, modernCall(s, "echo", `{}`)); failureOf(t, err).Kind != peer.Unreachable {
			t.Fatal(err)
		}
	}
	_, err := send(t.Context(), p, modernCall(s, "echo", `{}`))
	if f := failureOf(t, err); f.Kind != peer.Unavailable || !f.Unsent || f.Wait <= 0 {
		t.Errorf("Send to a broken server = %+v", f)
	}
	if n := bad.Count("tools/call"); n != 5 {
		t.Errorf("the broken server received %d calls, want 5", n)
	}
	if st := p.State(s.ID); st.Condition != peer.Broken || st.Reason == "" || st.Since.IsZero() {
		t.Errorf("State = %+v", st)
	}
	mustSend(t, p, modernCall(other, "echo", `{"text":"x"}`))
	if st := p.State(other.ID); st.Condition != peer.Working {
		t.Errorf("State of the other server = %+v", st)
	}
	s = mustServer(t, good.URL) // moved
	mustSend(t, p, modernCall(s, "echo", `{"text":"x"}`))
}

func TestBrokenStreamsAreFailuresOfTheServer(t *testing.T) {
	ts := toolservertest.New(t)
	ts.Handle("tools/call", toolservertest.BreakStream)
	p, s := mustPeers(t, peer.Options{}), mustServer(t, ts.URL)
	if _, err := send(t.Context(), p, modernCall(s, "slow", `{}`)); failureOf(t, err).Kind != peer.Unreachable {
		t.Fatal(err)
	}
	if st := p.State(s.ID); st.Condition != peer.Failing || st.Reason == "" {
		t.Errorf("State after a broken stream = %+v", st)
	}
	for range 4 {
		send(t.Context(), p, modernCall(s, "slow", `{}`))
	}
	if _, err := send(t.Context(), p, modernCall(s, "slow", `{}`)); failureOf(t, err).Kind != peer.Unavailable {
		t.Errorf("Send after five broken streams = %v", err)
	}
	ts.Handle("tools/call", nil)
	waittest.Until(t, "the server is asked again", func() bool {
		_, err := send(t.Context(), p, modernCall(s, "echo", `{"text":"x"}`))
		return err == nil
	})
	if st := p.State(s.ID); st.Condition != peer.Working || st.Reason != "" {
		t.Errorf("State after a call that succeeded = %+v", st)
	}
}

func TestRefusalsDoNotBreakAServer(t *testing.T) {
	ts := toolservertest.New(t)
	ts.Handle("tools/call", toolservertest.Status(401))
	p, s := mustPeers(t, peer.Options{}), mustServer(t, ts.URL)
	for range 8 {
		send(t.Context(), p, modernCall(s, "echo", `{}`))
	}
	if n := ts.Count("tools/call"); n != 8 || p.State(s.ID).Condition != peer.Working {
		t.Errorf("the server received %d calls, want 8; its state is %+v", n, p.State(s.ID))
	}
}
