package dataplane_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"modelgate/internal/testing/gatewaytest"
)

func TestEachEventLeavesBeforeTheNextIsMade(t *testing.T) {
	t.Parallel()
	u := newScripted(t)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: u})
	heads := make(chan *http.Response, 1)
	go func() {
		res, err := http.DefaultTransport.RoundTrip(g.Request("POST", "/chat/completions", streamChat))
		if err != nil {
			t.Error(err)
		}
		heads <- res
	}()
	c := u.next()
	c.events()
	c.send(chunk("0"))
	res := receive(t, heads, "the head")
	defer res.Body.Close()
	for name, want := range map[string]string{
		"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "X-Accel-Buffering": "no",
	} {
		if got := res.Header.Get(name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	r := bufferOf(res)
	for i := range 20 { // the provider makes no event before the client has the one before
		want := chunk(string(rune('0' + i)))
		if got := event(t, r); got != want {
			t.Fatalf("event %d = %q, want %q", i, got, want)
		}
		c.send(chunk(string(rune('0' + i + 1))))
	}
	event(t, r)
	c.send(finish + done)
	c.finish()
	rest, err := io.ReadAll(r)
	if string(rest) != finish+done || err != nil {
		t.Errorf("the rest = %q, %v; want the finish and the terminator", rest, err)
	}
}

func TestHowAStreamMayEnd(t *testing.T) {
	t.Parallel()
	head := rawHead("text/event-stream")
	chunked := rawHead("text/event-stream", "Transfer-Encoding: chunked")
	for _, tt := range []struct {
		name, response string
		want           string // the bytes before an error event
		code           string // of the error event; empty for none
		source         any    // recorded
	}{
		{"complete", head + chunk("a") + finish + done, chunk("a") + finish + done, "", nil},
		{"without a terminator after the finish reason", head + chunk("a") + finish, chunk("a") + finish + done, "", nil},
		{"without a final blank line", head + chunk("a") + finish + "data: [DONE]", chunk("a") + finish + done, "", nil},
		{"without a finish reason", head + chunk("a"), chunk("a"), "upstream_stream_incomplete", "provider"},
		{"in the middle of an event", head + chunk("a") + `data: {"choi`, chunk("a"), "upstream_stream_incomplete", "provider"},
		{"broken off", chunked + sized(chunk("a")), chunk("a"), "upstream_reset", "gateway"},
		{"broken off after the terminator", chunked + sized(chunk("a")+finish+done), chunk("a") + finish + done, "", nil},
		{"by the provider's own error", head + chunk("a") + midError, chunk("a") + midError, "", "provider"},
		{"with line ends of two bytes", head + crlf(chunk("a")+finish+done), crlf(chunk("a") + finish + done), "", nil},
		{"after a byte order mark", head + "\ufeff" + chunk("a") + finish + done, "\ufeff" + chunk("a") + finish + done, "", nil},
		{"with an event line", head + "event: message\n" + chunk("a") + finish + done, "event: message\n" + chunk("a") + finish + done, "", nil},
		{"after comments", head + ": one\n\n: two\n\n" + chunk("a") + finish + done, ": one\n\n: two\n\n" + chunk("a") + finish + done, "", nil},
		{"after an event that is no JSON", head + chunk("a") + "data: {no\n\n" + finish + done, chunk("a") + "data: {no\n\n" + finish + done, "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := gatewaytest.New(t, gatewaytest.Options{Upstream: raw(tt.response)})
			res := g.Post("/chat/completions", streamChat)
			if res.Status != 200 || res.Err != nil {
				t.Fatalf("status %d, %v; want 200 and a proper end: %s", res.Status, res.Err, res.Body)
			}
			rest, ok := strings.CutPrefix(string(res.Body), tt.want)
			if !ok {
				t.Fatalf("body = %q, want it to begin with %q", res.Body, tt.want)
			}
			if tt.code == "" && rest != "" {
				t.Errorf("after the stream came %q, want nothing", rest)
			}
			if tt.code != "" {
				if e := errorOf(t, rest); e["code"] != tt.code {
					t.Errorf("error event = %v, want the code %q", e, tt.code)
				}
				if strings.Contains(rest, "[DONE]") {
					t.Errorf("a broken stream ended in a terminator: %q", rest)
				}
			}
			e := g.Entry(res)
			recorded(t, e, map[string]any{"status": 200, "error.source": tt.source})
			if code := tt.code; code != "" {
				recorded(t, e, map[string]any{"error.code": code})
			}
		})
	}
}

const midError = `data: {"error":{"message":"the model fell over","type":"server_error"}}` + "\n\n"

func crlf(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }

// sized writes s as one chunk of a chunked body, without the last one.
func sized(s string) string { return strings.ToLower(hex(len(s))) + "\r\n" + s + "\r\n" }

// Its first event is the provider's response: it has the status and the words of the error.
func TestAStreamThatBeginsWithAnErrorIsTheProvidersError(t *testing.T) {
	t.Parallel()
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: raw(rawHead("text/event-stream") + midError)})
	res := g.Post("/chat/completions", streamChat)
	if e := errorOf(t, string(res.Body)); res.Status != 500 || e["message"] != "the model fell over" || e["type"] != "server_error" || e["source"] != "provider" {
		t.Errorf("answer = %d %s; want 500 with the words of the provider", res.Status, res.Body)
	}
	recorded(t, g.Entry(res), map[string]any{"status": 500, "error.code": "status_500", "error.source": "provider"})
}

func TestAStreamThatFailsBeforeItsFirstEventIsARealError(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, response, code string
	}{
		{"no event at all", rawHead("text/event-stream"), "upstream_unreadable"},
		{"comments alone", rawHead("text/event-stream") + ": hello\n\n", "upstream_unreadable"},
		{"broken off before the first event", rawHead("text/event-stream", "Content-Length: 100") + ": hello\n\n", "upstream_reset"},
		{"a first event over the limit", rawHead("text/event-stream") + chunk(strings.Repeat("x", 1<<20)), "upstream_unreadable"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := gatewaytest.New(t, gatewaytest.Options{Upstream: raw(tt.response), Settings: "limits: {event: 64 KB}\n"})
			res := g.Post("/chat/completions", streamChat)
			if res.Status != 502 || errorOf(t, string(res.Body))["code"] != tt.code {
				t.Errorf("answer = %d %s; want 502 with the code %s", res.Status, res.Body, tt.code)
			}
			recorded(t, g.Entry(res), map[string]any{"status": 502, "error.code": tt.code, "error.source": "gateway"})
		})
	}
}

func TestALaterEventOverTheLimitEndsTheStreamInAnError(t *testing.T) {
	t.Parallel()
	u := raw(rawHead("text/event-stream") + chunk("a") + chunk(strings.Repeat("x", 1<<20)) + finish + done)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: u, Settings: "limits: {event: 64 KB}\n"})
	res := g.Post("/chat/completions", streamChat)
	rest, ok := strings.CutPrefix(string(res.Body), chunk("a"))
	if !ok || errorOf(t, rest)["code"] != "upstream_unreadable" || len(rest) > 1000 {
		t.Errorf("body = %.300q, want the first event and an error upstream_unreadable", res.Body)
	}
}

func TestLimitsOfTimeHaveEachTheirOwnError(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, settings string
		before         func(c *call) // what the provider does before it falls silent
		status         int
		code           string
	}{
		{"header", "header: 50ms", func(c *call) {}, 504, "header_timeout"},
		{"first token", "first_token: 50ms", func(c *call) { c.events(); c.send(": waiting\n\n") }, 504, "first_event_timeout"},
		{"idle", "idle: 50ms", func(c *call) { c.events(); c.send(chunk("a")) }, 200, "idle_timeout"},
		{"total before the head", "total: 50ms", func(c *call) {}, 504, "total_timeout"},
		{"idle in a plain answer", "idle: 50ms", func(c *call) {
			c.w.Header().Set("Content-Type", "application/json")
			c.send(`{"id":`)
		}, 504, "idle_timeout"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			u := newScripted(t)
			g := gatewaytest.New(t, gatewaytest.Options{Upstream: u, Settings: "timeouts: {" + tt.settings + "}\n"})
			u.respond(tt.before)
			res := g.Post("/chat/completions", streamChat)
			if res.Status != tt.status {
				t.Fatalf("status = %d, want %d: %s", res.Status, tt.status, res.Body)
			}
			if e := errorOf(t, strings.TrimPrefix(string(res.Body), chunk("a"))); e["code"] != tt.code {
				t.Errorf("error = %v, want the code %s", e, tt.code)
			}
			recorded(t, g.Entry(res), map[string]any{"status": tt.status, "error.code": tt.code, "error.source": "gateway"})
		})
	}
}

// inTime tries with ever longer times, of which one is enough for the first event on
// any machine, until ok.
func inTime(t *testing.T, try func(limit time.Duration) (ok bool)) {
	t.Helper()
	for limit := 100 * time.Millisecond; !try(limit); limit *= 2 {
		if limit > 20*time.Second {
			t.Fatalf("not within %v", limit)
		}
	}
}

func TestTotalTimeoutEndsAStreamInAnError(t *testing.T) {
	t.Parallel()
	inTime(t, func(limit time.Duration) bool {
		u := newScripted(t)
		g := gatewaytest.New(t, gatewaytest.Options{Upstream: u, Settings: fmt.Sprintf("timeouts: {total: %v}\n", limit)})
		u.respond(func(c *call) { c.events(); c.send(chunk("a")) })
		res := g.Post("/chat/completions", streamChat)
		if res.Status != 200 {
			t.Logf("total: %v: %d %s", limit, res.Status, res.Body)
			return false
		}
		if e := errorOf(t, strings.TrimPrefix(string(res.Body), chunk("a"))); e["code"] != "total_timeout" {
			t.Errorf("error = %v, want the code total_timeout", e)
		}
		recorded(t, g.Entry(res), map[string]any{"status": 200, "error.code": "total_timeout", "error.source": "gateway"})
		return true
	})
}

func TestTheAttemptTimeoutEndsWithTheFirstEvent(t *testing.T) {
	t.Parallel()
	u := newScripted(t)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: u})
	u.respond(func(c *call) { c.events(); c.send(": waiting\n\n") })
	res := g.Post("/chat/completions", streamChat, "x-gateway-attempt-timeout", "50")
	if res.Status != 408 || errorOf(t, string(res.Body))["type"] != "timeout_error" {
		t.Errorf("before the first event: %d %s; want 408", res.Status, res.Body)
	}
	recorded(t, g.Entry(res), map[string]any{"status": 408, "error.code": "timeout"})

	want := chunk("a") + finish + done
	inTime(t, func(limit time.Duration) bool {
		u := newScripted(t)
		g := gatewaytest.New(t, gatewaytest.Options{Upstream: u})
		u.respond(func(c *call) {
			c.events()
			c.send(chunk("a"))
			for began := time.Now(); time.Since(began) <= limit; { // the provider's own time, longer than the timeout
				<-time.After(100 * time.Millisecond)
			}
			c.send(finish + done)
			c.finish()
		})
		res := g.Post("/chat/completions", streamChat, "x-gateway-attempt-timeout", fmt.Sprint(limit.Milliseconds()))
		if res.Status == 408 {
			return false // not even the first event was in time
		}
		if res.Status != 200 || string(res.Body) != want {
			t.Errorf("after the first event: %d %q, want 200 %q", res.Status, res.Body, want)
		}
		return true
	})
}

func TestSilenceIsFilledWithCommentsBetweenEvents(t *testing.T) {
	t.Parallel()
	u := newScripted(t)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: u, Settings: "timeouts: {keep_alive: 20ms}\n"})
	heads := make(chan *http.Response, 1)
	go func() {
		res, _ := http.DefaultTransport.RoundTrip(g.Request("POST", "/chat/completions", streamChat))
		heads <- res
	}()
	c := u.next()
	c.events()
	c.send(": held\n\ndata: {\"a\":")
	select { // well over the silence: nothing may leave before the first event is complete
	case <-heads:
		t.Fatal("the head left before the first event")
	case <-time.After(100 * time.Millisecond):
	}
	c.send("1}\n\n")
	res := receive(t, heads, "the head")
	defer res.Body.Close()
	r := bufferOf(res)
	for _, want := range []string{": held\n\n", "data: {\"a\":1}\n\n", ": keep-alive\n\n", ": keep-alive\n\n"} {
		if got := event(t, r); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	c.send(chunk("b")[:10]) // half an event: comments go before it, never into it
	event(t, r)
	c.send(chunk("b")[10:] + finish + done)
	c.finish()
	rest, _ := io.ReadAll(r)
	if got := strings.ReplaceAll(string(rest), ": keep-alive\n\n", ""); got != chunk("b")+finish+done {
		t.Errorf("the rest without comments = %q", got)
	}
}

// Without a flush of its own a comment waits for the 4 KB of a buffer, which 290
// of them fill: at this pace in more than the minute that the connection lasts.
func TestKeepAliveCommentsReachTheClient(t *testing.T) {
	t.Parallel()
	u := newScripted(t)
	g := gatewaytest.New(t, gatewaytest.Options{Upstream: u, Settings: "timeouts: {keep_alive: 500ms}\n"})
	conn := dial(t, g)
	if err := g.Request("POST", "/chat/completions", streamChat).Write(conn); err != nil {
		t.Fatal(err)
	}
	c := u.next()
	c.events()
	c.send(chunk("a"))
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	r := bufferOf(res)
	for _, want := range []string{chunk("a"), ": keep-alive\n\n", ": keep-alive\n\n"} {
		if got := event(t, r); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	c.finish()
}

func TestAClientThatDoesNotReadStopsTheProvider(t *testing.T) {
	t.Parallel()
	const events, size, idle = 800, 32 << 10, 1500 * time.Millisecond
	for _, path := range []string{"/chat/completions", "/passed/through"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			u := newScripted(t)
			g := gatewaytest.New(t, gatewaytest.Options{Upstream: u, Settings: "timeouts: {idle: 1500ms, keep_alive: 100ms}\n"})
			conn := dial(t, g)
			if err := g.Request("POST", path, streamChat).Write(conn); err != nil {
				t.Fatal(err)
			}
			c := u.next()
			c.events()
			event := chunk(strings.Repeat("x", size))
			var sent atomic.Int64
			go func() {
				defer c.finish()
				for range events {
					c.send(event)
					sent.Add(1)
				}
				c.send(finish + done)
			}()
			stands(&sent, idle+idle/4)
			if n := sent.Load(); n == events {
				t.Fatalf("the provider could send all %d events to a client that reads nothing", n)
			}
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(res.Body)
			got := strings.ReplaceAll(string(body), ": keep-alive\n\n", "")
			if want := events*len(event) + len(finish+done); len(got) != want || !strings.HasSuffix(got, done) || err != nil {
				t.Errorf("got %d bytes, %v; want %d; recorded %v", len(got), err, want, g.Get("/logs").JSON(t)["data"].([]any)[0])
			}
		})
	}
}

// stands waits until n has not grown for d.
func stands(n *atomic.Int64, d time.Duration) {
	last, since := n.Load(), time.Now()
	for time.Since(since) < d {
		<-time.After(20 * time.Millisecond)
		if now := n.Load(); now != last {
			last, since = now, time.Now()
		}
	}
}
