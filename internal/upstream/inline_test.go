package upstream_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"modelgate/internal/testing/waittest"
	"modelgate/internal/upstream"
)

// limited are options with which no request is sent inline.
var limited = upstream.Options{MaxPerHost: 1 << 20}

// outcome is what a caller sees of a response.
type outcome struct {
	Kind    string // of the failure of Do
	Status  string
	Proto   string
	Header  http.Header
	Length  int64
	Coding  []string
	Body    string
	Broken  string // kind of the failure of reading the body
	Trailer http.Header
}

// outcomeOf sends a POST and reads its response.
func outcomeOf(c *upstream.Client, req *http.Request) (out outcome) {
	resp, err := c.Do(req, false)
	if f, ok := errors.AsType[*upstream.Failure](err); ok {
		out.Kind = f.Kind.String()
		return out
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if f := upstream.Classify(req, err); f != nil {
		out.Broken = f.Kind.String()
	}
	out.Status, out.Proto, out.Header = resp.Status, resp.Proto, resp.Header
	out.Length, out.Coding, out.Body, out.Trailer = resp.ContentLength, resp.TransferEncoding, string(body), resp.Trailer
	return out
}

// Small requests without TLS take another way than the others, on which a response
// has to look the same, whatever the provider sends.
func TestInlineResponsesEqualThoseOfATransport(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	for name, text := range map[string]string{
		"with a length":                    ok + "Content-Length: 2\r\n\r\nok",
		"without a body":                   ok + "Content-Length: 0\r\n\r\n",
		"no content":                       "HTTP/1.1 204 No Content\r\n\r\n",
		"not modified":                     "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
		"in chunks":                        ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n3;x=y\r\n yo\r\n0\r\n\r\n",
		"in chunks with a trailer":         ok + "Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 7\r\n\r\n",
		"until the connection ends":        ok + "Content-Type: text/plain\r\n\r\nok and more",
		"of HTTP/1.0":                      "HTTP/1.0 200 OK\r\n\r\nold",
		"of HTTP/1.0 with a length":        "HTTP/1.0 200 OK\r\nContent-Length: 3\r\nConnection: keep-alive\r\n\r\nold",
		"with Connection: close":           ok + "Content-Length: 2\r\nConnection: close\r\n\r\nok",
		"after informational ones":         "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n" + ok + "Content-Length: 2\r\n\r\nok",
		"after 100 Continue":               "HTTP/1.1 100 Continue\r\n\r\n" + ok + "Content-Length: 2\r\n\r\nok",
		"with repeated and folded headers": ok + "X-A: 1\r\nx-a: 2\r\nX-B: a\r\n b\r\nContent-Length: 2\r\n\r\nok",
		"with line feeds alone":            "HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
		"an error":                         "HTTP/1.1 529 Overloaded\r\nRetry-After: 3\r\nContent-Length: 2\r\n\r\n{}",
		"a redirect":                       "HTTP/1.1 307 Temporary Redirect\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n",
		"without a reason":                 "HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok",
		"with more than its length":        ok + "Content-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
		"of events":                        ok + "Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n9\r\ndata: 2\n\n\r\n0\r\n\r\n",
		"shorter than its length":          ok + "Content-Length: 9\r\n\r\nok",
		"cut in a chunk":                   ok + "Transfer-Encoding: chunked\r\n\r\n9\r\nok",
		"cut after a chunk":                ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",
		"cut before the last line":         ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n",
		"with a malformed chunk":           ok + "Transfer-Encoding: chunked\r\n\r\nzz\r\nok\r\n0\r\n\r\n",
		"with an unknown coding":           ok + "Transfer-Encoding: gzip\r\n\r\nok",
		"with two lengths":                 ok + "Content-Length: 2\r\nContent-Length: 3\r\n\r\nok",
		"with a length and chunks":         ok + "Content-Length: 99\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
		"without headers":                  "",
		"cut in the headers":               ok + "Content-Le",
		"with malformed headers":           ok + "no colon\r\n\r\n",
		"that is not HTTP":                 "SSH-2.0-x\r\n",
		"with headers beyond the limit":    ok + strings.Repeat("X-A: "+strings.Repeat("a", 1000)+"\r\n", 400) + "\r\n",
		"with headers below the limit":     ok + strings.Repeat("X-A: "+strings.Repeat("a", 1000)+"\r\n", 200) + "Content-Length: 2\r\n\r\nok",
		"with endless informational ones":  strings.Repeat("HTTP/1.1 103 Early Hints\r\nX-A: "+strings.Repeat("a", 8<<10)+"\r\n\r\n", 80),
	} {
		t.Run(name, func(t *testing.T) {
			addr := mustServe(t, func(conn *net.TCPConn, r *bufio.Reader) {
				r.Discard(2)
				io.WriteString(conn, text)
			})
			post := func(o upstream.Options) outcome {
				c := upstream.New(o)
				defer c.Close()
				return outcomeOf(c, mustRequest(t, t.Context(), "POST", "http://"+addr, strings.NewReader("{}")))
			}
			if diff := cmp.Diff(post(limited), post(upstream.Options{})); diff != "" {
				t.Errorf("the inline response differs (-transport +inline):\n%s", diff)
			}
		})
	}
}

func TestInlineRequestsEqualThoseOfATransport(t *testing.T) {
	var got []string
	for _, o := range []upstream.Options{limited, {}} {
		sent := make(chan string, 1)
		addr := mustListen(t, func(conn *net.TCPConn) {
			b := make([]byte, 1<<10)
			n, _ := conn.Read(b)
			sent <- string(b[:n])
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		})
		c := upstream.New(o)
		req := mustRequest(t, t.Context(), "POST", "http://"+addr+"/a%2Fb/c?x=1&x=%20#f", strings.NewReader(`{"a":1}`))
		req.Host = "models.example"
		req.Header = http.Header{"X-B": {"1", "2"}, "Accept": {"*/*"}, "Content-Type": {"application/json"}, "User-Agent": {"ua"}}
		resp, err := c.Do(req, false)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		got = append(got, waittest.Receive(t, sent, "the request at the provider"))
	}
	if diff := cmp.Diff(got[0], got[1]); diff != "" || !strings.HasPrefix(got[1], "POST /a%2Fb/c?x=1&x=%20 HTTP/1.1\r\nHost: models.example\r\n") {
		t.Errorf("the inline request differs (-transport +inline):\n%s\n%q", diff, got[1])
	}
}

// echo is a provider that responds with the request's body, and counts connections
// and requests.
type echo struct {
	conns, requests atomic.Int64
	*httptest.Server
}

func mustEcho(t testing.TB) *echo {
	t.Helper()
	e := new(echo)
	e.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.requests.Add(1)
		body, _ := io.ReadAll(r.Body)
		if r.URL.Query().Has("stream") {
			for range 20 {
				w.Write(body)
				w.(http.Flusher).Flush()
			}
			return
		}
		w.Write(body)
	}))
	e.Config.ErrorLog = discardLog
	e.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			e.conns.Add(1)
		}
	}
	e.Start()
	t.Cleanup(e.Close)
	return e
}

func mustPost(t testing.TB, c *upstream.Client, url, body string) string {
	t.Helper()
	resp, err := c.Do(mustRequest(t, t.Context(), "POST", url, strings.NewReader(body)), true)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestInlineConnectionsAreUsedAgain(t *testing.T) {
	e := mustEcho(t)
	c := upstream.New(upstream.Options{TrustLoopback: true})
	defer c.Close()
	for i := range 20 {
		if want := fmt.Sprint("body ", i); mustPost(t, c, e.URL, want) != want {
			t.Fatalf("request %d has the response of another", i)
		}
	}
	if n := e.conns.Load(); n != 1 {
		t.Errorf("20 requests in a row took %d connections, want 1", n)
	}
	c.Close()
	mustPost(t, c, e.URL, "x")
	if n := e.conns.Load(); n != 2 {
		t.Errorf("after Close there were %d connections, want a second one", n)
	}
}

// A client that has left, or an attempt whose time is over, costs no call.
func TestRequestsOfAnEndedContextAreNotSent(t *testing.T) {
	e := mustEcho(t)
	c := upstream.New(upstream.Options{TrustLoopback: true})
	defer c.Close()
	mustPost(t, c, e.URL, "x") // leaves an idle connection
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 50 {
		_, err := c.Do(mustRequest(t, ctx, "POST", e.URL, strings.NewReader("x")), true)
		mustFail(t, err, upstream.Canceled)
	}
	mustPost(t, c, e.URL, "x")
	if n := e.requests.Load(); n != 2 {
		t.Errorf("the provider got %d requests, want 2", n)
	}
}

// A provider may close a connection at any time between two requests. The second one
// is sent once, on a new connection.
func TestClosedIdleConnectionsAreReplaced(t *testing.T) {
	e := mustEcho(t)
	c := upstream.New(upstream.Options{TrustLoopback: true})
	defer c.Close()
	for range 5 {
		mustPost(t, c, e.URL, "x")
		e.CloseClientConnections()
	}
	if conns, requests := e.conns.Load(), e.requests.Load(); conns != 5 || requests != 5 {
		t.Errorf("%d requests on %d connections, want 5 on 5", requests, conns)
	}
}

// What a provider sends after a response must not become the response to the next
// request, which may be of another tenant, nor any part of it.
func TestBytesAfterAResponseAreNotTheNextResponse(t *testing.T) {
	const good, evil = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
	for name, writes := range map[string][]string{
		"at once":         {good + evil},
		"later":           {good, evil},
		"a part at once":  {good + "HTTP/1.1"},
		"a line end only": {good + "\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var conns atomic.Int64
			sent := make(chan struct{}, 10)
			addr := mustListen(t, func(conn *net.TCPConn) {
				conns.Add(1)
				r := bufio.NewReader(conn)
				for {
					if _, err := http.ReadRequest(r); err != nil {
						return
					}
					r.Discard(1)
					for _, text := range writes {
						io.WriteString(conn, text)
					}
					sent <- struct{}{}
				}
			})
			c := upstream.New(upstream.Options{TrustLoopback: true})
			defer c.Close()
			for i := range 5 {
				if got := mustPost(t, c, "http://"+addr, "x"); got != "good" {
					t.Fatalf("response %d is %q", i, got)
				}
				waittest.Receive(t, sent, "the second response")
			}
			if n := conns.Load(); n != 5 {
				t.Errorf("5 requests took %d connections: one was used again", n)
			}
		})
	}
}

func TestInlineBodiesEndWithTheirContext(t *testing.T) {
	quit := make(chan struct{})
	defer close(quit)
	addr := mustServe(t, func(conn *net.TCPConn, _ *bufio.Reader) {
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok")
		<-quit
	})
	c := upstream.New(upstream.Options{})
	for name, end := range map[string]func(*http.Response, context.CancelFunc){
		"context": func(_ *http.Response, cancel context.CancelFunc) { cancel() },
		"Close":   func(resp *http.Response, _ context.CancelFunc) { resp.Body.Close() },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		req := mustRequest(t, ctx, "POST", "http://"+addr, strings.NewReader("x"))
		resp, err := c.Do(req, false)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.ReadFull(resp.Body, make([]byte, 2)); n != 2 || err != nil {
			t.Fatal(n, err)
		}
		go end(resp, cancel)
		_, err = io.ReadAll(resp.Body) // would wait for ever
		if f := upstream.Classify(req, err); f == nil || name == "context" && f.Kind != upstream.Canceled {
			t.Errorf("%s: reading the body ended with %v", name, err)
		}
		resp.Body.Close()
		if n, err := resp.Body.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("%s: a closed body returns %d bytes and %v", name, n, err)
		}
	}
}

func TestWatchdogEndsInlineRequests(t *testing.T) {
	quit := make(chan struct{})
	defer close(quit)
	addr := mustServe(t, func(*net.TCPConn, *bufio.Reader) { <-quit })
	w := upstream.NewWatchdog(t.Context(), upstream.Timeouts{Header: 20 * time.Millisecond})
	defer w.Stop()
	_, err := upstream.New(upstream.Options{}).Do(mustRequest(t, w.Context(), "POST", "http://"+addr, strings.NewReader("x")), false)
	mustFail(t, err, upstream.HeaderTimeout)
}

// A proxy is there for a reason: small requests without TLS go through it too.
func TestProxiedRequestsAreNotSentInline(t *testing.T) {
	e := mustEcho(t)
	var asked atomic.Int64
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		io.WriteString(w, "proxy")
	}))
	defer proxy.Close()
	to, _ := url.Parse(proxy.URL)
	c := upstream.New(upstream.Options{Proxy: http.ProxyURL(to)})
	defer c.Close()
	resp, err := c.Do(mustRequest(t, t.Context(), "POST", e.URL, strings.NewReader("x")), false)
	if err != nil {
		t.Fatal(err)
	}
	if got := mustRead(t, resp); got != "proxy" || asked.Load() != 1 || e.requests.Load() != 0 {
		t.Errorf("got %q; the proxy was asked %d times, the provider %d times", got, asked.Load(), e.requests.Load())
	}
}

func TestIdleInlineConnectionsAreBounded(t *testing.T) {
	ended := make(chan struct{}, 100)
	serve := func(conn *net.TCPConn) {
		r := bufio.NewReader(conn)
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				ended <- struct{}{}
				return
			}
			io.Copy(io.Discard, req.Body)
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	}
	var hosts []string
	for range 8 {
		hosts = append(hosts, "http://"+mustListen(t, serve))
	}
	c := upstream.New(upstream.Options{TrustLoopback: true, MaxIdlePerHost: 3})
	for _, h := range hosts {
		mustPost(t, c, h, "x")
	}
	mustEnd(t, ended, 5)
	c.Close()
	mustEnd(t, ended, 3)

	c = upstream.New(upstream.Options{TrustLoopback: true, IdleConnTimeout: 10 * time.Millisecond})
	for _, h := range hosts {
		mustPost(t, c, h, "x")
	}
	mustEnd(t, ended, 8)
}

// mustEnd waits until n connections have ended, and no further one.
func mustEnd(t *testing.T, ended <-chan struct{}, n int) {
	t.Helper()
	for i := range n {
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Fatalf("%d connections ended, want %d", i, n)
		}
	}
	if len(ended) > 0 {
		t.Fatalf("%d connections more than %d ended", len(ended), n)
	}
}

// Clients leave in the middle of responses, close bodies or read them completely, all
// at once. No response may ever have a byte of another request.
func TestInlineResponsesAreNeverMixed(t *testing.T) {
	e := mustEcho(t)
	c := upstream.New(upstream.Options{TrustLoopback: true, MaxIdlePerHost: 20})
	defer c.Close()
	var all sync.WaitGroup
	for worker := range 16 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(7, uint64(worker)))
			for i := range 150 {
				exchangeOnce(t, c, e.URL, fmt.Sprintf("<%d.%d>%s", worker, i, strings.Repeat("x", random.IntN(9000))), random)
			}
		})
	}
	all.Wait()
	if n := e.conns.Load(); n > 1500 {
		t.Errorf("%d connections for 2400 requests: they are not used again", n)
	}
}

// exchangeOnce sends body and reads all or a part of its echo.
func exchangeOnce(t *testing.T, c *upstream.Client, url, body string, random *rand.Rand) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	want, behaviour := body, random.IntN(5)
	if random.IntN(2) == 0 {
		url, want = url+"?stream", strings.Repeat(body, 20)
	}
	if behaviour == 0 {
		time.AfterFunc(time.Duration(random.IntN(2000))*time.Microsecond, cancel)
	}
	resp, err := c.Do(mustRequest(t, ctx, "POST", url, strings.NewReader(body)), true)
	if err != nil {
		if behaviour != 0 {
			t.Errorf("Do = %v", err)
		}
		return
	}
	defer resp.Body.Close()
	part := int64(len(want))
	if behaviour == 1 {
		part = random.Int64N(part)
	}
	got, err := io.ReadAll(io.LimitReader(resp.Body, part))
	if err == nil && behaviour > 1 {
		_, err = resp.Body.Read(make([]byte, 1))
		if err == io.EOF {
			err = nil
		}
	}
	if !strings.HasPrefix(want, string(got)) || behaviour != 0 && (err != nil || int64(len(got)) != part) {
		t.Errorf("got %.40q… (%d bytes, %v), want %.40q… (%d bytes)", got, len(got), err, want, part)
	}
}
