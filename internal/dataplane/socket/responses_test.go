package socket_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/bytepool"
	"modelgate/internal/dataplane/socket"
	"modelgate/internal/testing/waittest"
)

// completed answers a turn with an event that ends it.
func completed(_ context.Context, w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_%d\",\"output\":[]}}\n\n", len(body))
}

// serveResponses listens with a server for responses and returns it with its address.
func serveResponses(t *testing.T, o socket.Options, r socket.Responses) (*socket.Server, string) {
	t.Helper()
	s := socket.New(o)
	if r.Check == nil {
		r.Check = func() error { return nil }
	}
	if r.MaxMessage == 0 {
		r.MaxMessage = 1 << 20
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if _, err := s.ServeResponses(w, req, r); err != nil && !socket.IsAnswered(err) {
			http.Error(w, err.Error(), apierr.From(err).Status())
		}
	}))
	t.Cleanup(func() {
		server.Close()
		ctx, cancel := context.WithTimeout(context.Background(), waittest.Bound)
		defer cancel()
		if err := s.Wait(ctx); err != nil {
			t.Errorf("%d sessions are open at the end", s.Sessions())
		}
	})
	return s, server.URL
}

func mustDial(t *testing.T, address string) *websocket.Conn {
	t.Helper()
	c, _, err := websocket.Dial(t.Context(), address, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.CloseNow() })
	return c
}

// readUntilEnd reads all messages and returns the close code.
func readUntilEnd(t *testing.T, c *websocket.Conn) (messages []string, code websocket.StatusCode) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waittest.Bound)
	defer cancel()
	for {
		_, b, err := c.Read(ctx)
		if err != nil {
			if ctx.Err() != nil {
				t.Fatalf("the connection is open after %q", messages)
			}
			return messages, websocket.CloseStatus(err)
		}
		messages = append(messages, string(b))
	}
}

func write(t *testing.T, c *websocket.Conn, text string) {
	t.Helper()
	if err := c.Write(t.Context(), websocket.MessageText, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

func TestAConnectionEndsAfterItsLifetimeBetweenTurns(t *testing.T) {
	t.Parallel()
	begun, release := make(chan struct{}), make(chan struct{})
	s, address := serveResponses(t, socket.Options{Lifetime: 200 * time.Millisecond, Check: time.Millisecond},
		socket.Responses{Serve: func(ctx context.Context, w http.ResponseWriter, body []byte) {
			close(begun)
			<-release
			completed(ctx, w, body)
		}})
	c, idle := mustDial(t, address), mustDial(t, address)
	write(t, c, `{"type":"response.create"}`)
	waittest.Receive(t, begun, "the turn")
	if messages, code := readUntilEnd(t, idle); code != websocket.StatusGoingAway || len(messages) != 1 ||
		!strings.Contains(messages[0], "websocket_connection_limit_reached") {
		t.Errorf("an idle connection is closed with %d after %q", code, messages)
	}
	if s.Sessions() == 0 {
		t.Error("a connection is closed during its turn")
	}
	close(release)
	messages, code := readUntilEnd(t, c)
	if code != websocket.StatusGoingAway || len(messages) != 2 || !strings.Contains(messages[0], "response.completed") ||
		!strings.Contains(messages[1], "websocket_connection_limit_reached") {
		t.Errorf("closed with %d after %q", code, messages)
	}
}

func TestAClientThatMayNotGoOnGetsTheReason(t *testing.T) {
	t.Parallel()
	var revoked atomic.Bool
	_, address := serveResponses(t, socket.Options{Check: time.Millisecond}, socket.Responses{Serve: completed, Check: func() error {
		if revoked.Load() {
			return apierr.New(apierr.Unauthenticated, "%s", strings.Repeat("é", 200))
		}
		return nil
	}})
	c := mustDial(t, address)
	write(t, c, `{"type":"response.create"}`)
	if _, _, err := c.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	revoked.Store(true)
	messages, code := readUntilEnd(t, c)
	if code != websocket.StatusPolicyViolation || len(messages) != 1 || !strings.Contains(messages[0], `"status":401`) {
		t.Errorf("closed with %d after %q", code, messages)
	}
}

func TestAClientThatAnswersNoPingIsGone(t *testing.T) {
	t.Parallel()
	s, address := serveResponses(t, socket.Options{Check: time.Millisecond, Ping: 10 * time.Millisecond}, socket.Responses{Serve: completed})
	silent := mustDial(t, address) // nobody reads, so nothing answers
	waittest.Until(t, "the end of the silent session", func() bool { return s.Sessions() == 0 })
	silent.CloseNow()
	alive := mustDial(t, address)
	pinged := make(chan error, 1)
	go func() {
		_, _, err := alive.Read(context.Background())
		pinged <- err
	}()
	for range 3 { // each silent session is dropped after more than one ping of the other
		mustDial(t, address)
		waittest.Until(t, "the end of a silent session", func() bool { return s.Sessions() <= 1 })
	}
	if s.Sessions() != 1 {
		t.Error("a client that answers is dropped")
	}
	alive.CloseNow()
	waittest.Receive(t, pinged, "the end of reading")
}

func TestASlowClientStopsItsTurn(t *testing.T) {
	t.Parallel()
	var sent atomic.Int64
	ended := make(chan error, 1)
	_, address := serveResponses(t, socket.Options{Check: time.Millisecond, Stall: 200 * time.Millisecond}, socket.Responses{
		Serve: func(ctx context.Context, w http.ResponseWriter, _ []byte) {
			w.Header().Set("Content-Type", "text/event-stream")
			event := "data: {\"type\":\"x\",\"delta\":\"" + strings.Repeat("x", 64<<10) + "\"}\n\n"
			for {
				n, err := io.WriteString(w, event)
				if err != nil {
					ended <- err
					return
				}
				sent.Add(int64(n))
			}
		}})
	c := mustDial(t, address)
	write(t, c, `{"type":"response.create"}`)
	if err := waittest.Receive(t, ended, "the end of the turn"); err == nil || sent.Load() > 64<<20 {
		t.Errorf("ended with %v after %d bytes that nobody read", err, sent.Load())
	}
}

func TestTurnsThatAreHeldCountAsMemory(t *testing.T) {
	t.Parallel()
	pool := bytepool.New(1 << 20)
	s, address := serveResponses(t, socket.Options{}, socket.Responses{Serve: completed, Memory: pool.Organisation("o")})
	c := mustDial(t, address)
	c.SetReadLimit(1 << 20)
	write(t, c, `{"type":"response.create","generate":false,"input":"`+strings.Repeat("x", 100<<10)+`"}`)
	for range 2 {
		if _, _, err := c.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	waittest.Until(t, "the turn is kept, and its message is not", func() bool { return pool.Used() > 100<<10 && pool.Used() < 110<<10 })
	for range 20 { // more than the pool holds
		write(t, c, `{"type":"response.create","generate":false,"input":"`+strings.Repeat("x", 100<<10)+`"}`)
		for range 2 {
			if _, _, err := c.Read(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	c.CloseNow()
	waittest.Until(t, "nothing is counted", func() bool { return pool.Used() == 0 && s.Sessions() == 0 })
}

func TestADrainingServerAcceptsNoSessions(t *testing.T) {
	t.Parallel()
	s, address := serveResponses(t, socket.Options{}, socket.Responses{Serve: completed})
	open := mustDial(t, address)
	waittest.Until(t, "an open session", func() bool { return s.Sessions() == 1 })
	s.Drain()
	if _, code := readUntilEnd(t, open); code != websocket.StatusServiceRestart {
		t.Errorf("closed with %d, want 1012", code)
	}
	_, res, err := websocket.Dial(t.Context(), address, nil)
	if err == nil || res == nil || res.StatusCode != 503 {
		t.Errorf("a new session: %v, %v", res, err)
	}
	if err := s.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestADrainDuringAHandshakeIsOneOfAnOpenSession(t *testing.T) {
	t.Parallel()
	for range 100 { // some are accepted, but not yet open, when the drain begins
		s, address := serveResponses(t, socket.Options{}, socket.Responses{Serve: completed})
		c := mustDial(t, address)
		s.Drain()
		if _, code := readUntilEnd(t, c); code != websocket.StatusServiceRestart {
			t.Fatalf("closed with %d, want 1012", code)
		}
	}
}

func TestIncompleteHandshakesAreRefused(t *testing.T) {
	t.Parallel()
	_, address := serveResponses(t, socket.Options{MaxSessions: 1}, socket.Responses{Serve: completed})
	for _, tt := range []struct {
		name, version, key string
		want               int
	}{
		{"an old version", "8", "dGhlIHNhbXBsZSBub25jZQ==", 426},
		{"no key", "13", "", 400},
		{"a short key", "13", "eA==", 400},
		{"a key that is none", "13", "!!!!!!!!!!!!!!!!!!!!!!!!", 400},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {tt.version}, "Sec-Websocket-Key": {tt.key}}
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != tt.want {
			t.Errorf("%s: status %d, want %d", tt.name, res.StatusCode, tt.want)
		}
	}
	mustDial(t, address)
	waittest.Until(t, "the limit of sessions", func() bool {
		c, res, err := websocket.Dial(t.Context(), address, nil)
		if err == nil {
			c.CloseNow()
		}
		return err != nil && res != nil && res.StatusCode == 503
	})
}

func TestAWaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s, address := serveResponses(t, socket.Options{}, socket.Responses{Serve: completed})
	mustDial(t, address)
	waittest.Until(t, "an open session", func() bool { return s.Sessions() == 1 })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait = %v", err)
	}
}
