package peer_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"modelgate/internal/dataplane/tools/peer"
	"modelgate/internal/testing/waittest"
)

// sdkServer returns a server of the official SDK. Slow calls are reported on started, and on
// left when they are cancelled.
func sdkServer(started, left chan<- struct{}) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
	type in struct {
		Text string `json:"text"`
	}
	mcp.AddTool(s, &mcp.Tool{Name: "echo"}, func(_ context.Context, _ *mcp.CallToolRequest, a in) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: a.Text}}}, nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "slow"}, func(ctx context.Context, r *mcp.CallToolRequest, _ in) (*mcp.CallToolResult, any, error) {
		if token := r.Params.GetProgressToken(); token != nil {
			r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: 1})
		}
		started <- struct{}{}
		<-ctx.Done()
		left <- struct{}{}
		return nil, nil, ctx.Err()
	})
	return s
}

// mustSDK serves a server of the SDK over HTTP.
func mustSDK(t *testing.T, s *mcp.Server, o *mcp.StreamableHTTPOptions) string {
	t.Helper()
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, o))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return web.URL
}

func TestModernServerOfTheSDK(t *testing.T) {
	started, left := make(chan struct{}, 1), make(chan struct{}, 1)
	p, s := mustPeers(t, peer.Options{}), mustServer(t, mustSDK(t, sdkServer(started, left), &mcp.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true}))
	if era, err := p.Era(t.Context(), s, peer.Credential{}); era != peer.Modern || err != nil {
		t.Fatalf("Era = %d, %v, want Modern", era, err)
	}
	got := mustSend(t, p, modernCall(s, "echo", `{"text":"grüße"}`))
	if len(got) != 1 || !strings.Contains(got[0], `"text":"grüße"`) {
		t.Errorf("Send = %q", got)
	}
	if got := mustSend(t, p, modernCall(s, "nobody", `{}`)); !strings.Contains(got[0], `"error":`) {
		t.Errorf("Send to an unknown tool = %q", got)
	}
	ctx, leave := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := send(ctx, p, modernCall(s, "slow", `{"text":"x"}`))
		ended <- err
	}()
	waittest.Receive(t, started, "the call at the server")
	leave()
	if f := failureOf(t, waittest.Receive(t, ended, "the end of the call")); f.Kind != peer.Cancelled {
		t.Errorf("a call whose client left: %+v", f)
	}
	waittest.Receive(t, left, "the end of the call at the server")
}

func TestLegacyServerOfTheSDK(t *testing.T) {
	started, left := make(chan struct{}, 1), make(chan struct{}, 1)
	server := sdkServer(started, left)
	p, s := mustPeers(t, peer.Options{}), mustServer(t, mustSDK(t, server, nil))
	if era, err := p.Era(t.Context(), s, peer.Credential{}); era != peer.Legacy || err != nil {
		t.Fatalf("Era = %d, %v, want Legacy", era, err)
	}
	session := mustOpen(t, p, s)
	if session.ID == "" || session.Version != peer.LegacyVersion {
		t.Errorf("Open = %+v", session)
	}
	if got := mustSend(t, p, legacyCall(s, session, "echo", `{"text":"hi"}`)); !strings.Contains(got[0], `"text":"hi"`) {
		t.Errorf("Send = %q", got)
	}
	stream, err := p.Listen(t.Context(), &peer.Call{Server: s, Session: session})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	server.RemoveTools("echo")
	if text, err := stream.Next(); err != nil || !strings.Contains(string(text), "notifications/tools/list_changed") {
		t.Errorf("Next of the stream = %s, %v", text, err)
	}
	ctx, leave := context.WithCancel(t.Context())
	reply, err := p.Send(ctx, legacyCall(s, session, "slow", `{"text":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := reply.Next(); err != nil || !strings.Contains(string(text), `"progressToken":"p-7"`) {
		t.Errorf("Next = %s, %v, want progress", text, err)
	}
	leave()
	reply.Close()
	waittest.Receive(t, left, "the cancellation of the call at the server")
	if err := p.End(t.Context(), s, peer.Credential{}, session); err != nil {
		t.Errorf("End = %v", err)
	}
	if _, err := send(t.Context(), p, legacyCall(s, session, "echo", `{}`)); failureOf(t, err).Kind != peer.SessionLost {
		t.Errorf("Send in an ended session = %v", err)
	}
}

func TestServerOfTheSDKEndsAStreamEarly(t *testing.T) {
	server := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "long"}, func(_ context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		r.Extra.CloseSSEStream(mcp.CloseSSEStreamArgs{RetryAfter: 10 * time.Millisecond})
		<-time.After(50 * time.Millisecond)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil, nil
	})
	web := mustSDK(t, server, &mcp.StreamableHTTPOptions{EventStore: mcp.NewMemoryEventStore(nil)})
	p, s := mustPeers(t, peer.Options{}), mustServer(t, web)
	got := mustSend(t, p, legacyCall(s, mustOpen(t, p, s), "long", `{}`))
	if len(got) != 1 || !strings.Contains(got[0], `"text":"done"`) {
		t.Errorf("Send = %q", got)
	}
}
