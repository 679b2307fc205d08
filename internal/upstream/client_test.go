package upstream_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"modelgate/internal/upstream"
)

func TestAResponseArrivesUnchanged(t *testing.T) {
	var seen http.Header
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(http.StatusTeapot)
		io.WriteString(w, "not really gzip")
	}))
	defer s.Close()
	c := upstream.New(upstream.Options{})
	defer c.Close()
	resp, err := c.Do(mustRequest(t, t.Context(), "POST", s.URL, strings.NewReader("{}")), false)
	if err != nil {
		t.Fatal(err)
	}
	if got := mustRead(t, resp); got != "not really gzip" || resp.StatusCode != http.StatusTeapot || resp.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("got %d %v %q", resp.StatusCode, resp.Header, got)
	}
	if seen.Get("User-Agent") != "modelgate" || seen.Get("Accept-Encoding") != "" || len(seen) != 2 {
		t.Errorf("the provider saw %v, want User-Agent and Content-Length alone", seen)
	}
}

func TestRedirectsAreReturned(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/" {
				t.Errorf("the redirect to %s was followed", r.URL.Path)
			}
			http.Redirect(w, r, "/elsewhere", status)
		}))
		resp, err := upstream.New(upstream.Options{}).Do(mustRequest(t, t.Context(), "GET", s.URL+"/", nil), false)
		if err != nil || resp.StatusCode != status || resp.Header.Get("Location") != "/elsewhere" {
			t.Errorf("status %d: got %v, %v", status, resp, err)
		}
		resp.Body.Close()
		s.Close()
	}
}

func TestInformationalResponsesAreSkipped(t *testing.T) {
	addr := mustServeText(t, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n"+
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	resp, err := upstream.New(upstream.Options{}).Do(mustRequest(t, t.Context(), "GET", "http://"+addr, nil), false)
	if err != nil {
		t.Fatal(err)
	}
	if got := mustRead(t, resp); got != "ok" || resp.StatusCode != 200 || resp.Header.Get("Link") != "" {
		t.Errorf("got %d %v %q, want the final answer alone", resp.StatusCode, resp.Header, got)
	}
}

func TestHTTP2IsSpokenWhereOffered(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/abort" {
			panic(http.ErrAbortHandler)
		}
		io.WriteString(w, r.Proto)
	}))
	s.EnableHTTP2 = true
	s.Config.ErrorLog = discardLog
	s.StartTLS()
	defer s.Close()
	c := upstream.New(upstream.Options{RootCAs: poolOf(s), TrustLoopback: true})
	defer c.Close()
	for _, guarded := range []bool{false, true} {
		resp, err := c.Do(mustRequest(t, t.Context(), "GET", s.URL, nil), guarded)
		if err != nil {
			t.Fatal(err)
		}
		if got := mustRead(t, resp); got != "HTTP/2.0" {
			t.Errorf("guarded %t: spoke %s, want HTTP/2.0", guarded, got)
		}
	}
	_, err := c.Do(mustRequest(t, t.Context(), "POST", s.URL+"/abort", strings.NewReader("x")), false)
	mustFail(t, err, upstream.Reset)
	body := &blockingBody{closed: make(chan struct{}), returned: make(chan struct{})}
	_, err = c.Do(mustRequest(t, t.Context(), "POST", s.URL+"/abort", body), false)
	mustFail(t, err, upstream.Reset)
}

// blockingBody is an upload that stands still until it is closed.
type blockingBody struct{ closed, returned chan struct{} }

func (b *blockingBody) Read([]byte) (int, error) {
	<-b.closed
	defer close(b.returned)
	return 0, io.ErrClosedPipe
}

func (b *blockingBody) Close() error {
	close(b.closed)
	<-b.returned
	return nil
}

// Each way in which a provider can fail has its kind, and no text of a failure
// quotes the URL, the headers or what the provider sent.
func TestFailuresHaveAKindAndHoldNoCredential(t *testing.T) {
	const planted = "pl4nted-s3cret"
	expired, pool := mustCertificate(t, time.Now().Add(-time.Hour))
	known, _ := mustCertificate(t, time.Now().Add(time.Hour))
	pool.AddCert(known.Leaf)
	unknown, _ := mustCertificate(t, time.Now().Add(time.Hour))
	closed := mustClosedPort(t)
	text := func(s string) string { return "http://" + mustServeText(t, s) }
	for _, tt := range []struct {
		name string
		url  string
		kind upstream.FailureKind
		want string // part of the text
	}{
		{"reset before the header", "http://" + mustServe(t, func(conn *net.TCPConn, _ *bufio.Reader) { conn.SetLinger(0) }), upstream.Reset, "connection reset by peer"},
		{"closed before the header", text(""), upstream.Reset, "ended early"},
		{"closed inside the header", text("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"), upstream.Reset, "unexpected end"},
		{"no HTTP at all", text("SSH-2.0-" + planted + "\r\n"), upstream.BadResponse, "is not valid HTTP"},
		{"a malformed status", text("HTTP/1.1 " + planted + " OK\r\n\r\n"), upstream.BadResponse, "is not valid HTTP"},
		{"a malformed header", text("HTTP/1.1 200 OK\r\n" + planted + "\r\n\r\n"), upstream.BadResponse, "is not valid HTTP"},
		{"conflicting lengths", text("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok" + planted), upstream.BadResponse, "is not valid HTTP"},
		{"a length that is no number", text("HTTP/1.1 200 OK\r\nContent-Length: " + planted + "\r\n\r\n"), upstream.BadResponse, "is not valid HTTP"},
		{"a huge header", text("HTTP/1.1 200 OK\r\nX-A: " + strings.Repeat(planted, 64<<10) + "\r\n\r\n"), upstream.BadResponse, "is not valid HTTP"},
		{"informational responses without end", text(strings.Repeat("HTTP/1.1 103 Early Hints\r\nX-A: "+strings.Repeat("a", 8<<10)+"\r\n\r\n", 80)), upstream.BadResponse, "is not valid HTTP"},
		{"nobody listens", "http://" + closed, upstream.Dial, "connection refused"},
		{"a name that cannot be", "http://a..example.com", upstream.DNS, "could not be resolved"},
		{"a client certificate is wanted", "https://" + mustServeTLS(t, &tls.Config{Certificates: []tls.Certificate{known}, ClientAuth: tls.RequireAnyClientCert}), upstream.TLS, "certificate required"},
		{"an expired certificate", "https://" + mustServeTLS(t, &tls.Config{Certificates: []tls.Certificate{expired}}), upstream.TLS, "expired"},
		{"an unknown authority", "https://" + mustServeTLS(t, &tls.Config{Certificates: []tls.Certificate{unknown}}), upstream.TLS, "unknown authority"},
		{"plain HTTP where TLS is expected", "https://" + mustPlain(t), upstream.TLS, "does not speak TLS"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := upstream.New(upstream.Options{RootCAs: pool})
			defer c.Close()
			req := mustRequest(t, t.Context(), "POST", tt.url+"/"+planted+"?key="+planted, strings.NewReader(planted))
			req.Header.Set("Authorization", "Bearer "+planted)
			_, err := c.Do(req, false)
			f := mustFail(t, err, tt.kind)
			if f.Host != req.URL.Host || f.Err == nil || !strings.Contains(f.Error(), tt.want) {
				t.Errorf("got %q for host %q, want the host and %q", f, f.Host, tt.want)
			}
			for _, s := range []string{f.Error(), fmt.Sprintf("%v %+v %s %q", err, err, err, err)} {
				if strings.Contains(s, planted) {
					t.Errorf("the text holds the credential: %s", s)
				}
			}
		})
	}
}

func TestAProxyThatFailsGivesNoPasswordAway(t *testing.T) {
	for _, tt := range []struct {
		name  string
		proxy func(*http.Request) (*url.URL, error)
	}{
		{"cannot be reached", http.ProxyURL(&url.URL{Scheme: "http", Host: mustClosedPort(t), User: url.UserPassword("u", "pl4nted")})},
		//lint:ignore SA1007 the address is meant to be wrong
		{"is misconfigured", func(*http.Request) (*url.URL, error) { return url.Parse("http://u:pl4nted@[::1") }},
	} {
		c := upstream.New(upstream.Options{Proxy: tt.proxy})
		_, err := c.Do(mustRequest(t, t.Context(), "GET", "http://models.example.com/?key=pl4nted", nil), false)
		f, ok := errors.AsType[*upstream.Failure](err)
		if !ok || strings.Contains(f.Error(), "pl4nted") {
			t.Errorf("a proxy that %s: got %v, want a failure without the password", tt.name, err)
		}
		if _, ok := errors.AsType[*url.Error](f.Err); ok {
			t.Errorf("a proxy that %s: the cause still is a *url.Error: %v", tt.name, f.Err)
		}
	}
}

func TestTLSThroughAProxyFailsAsTLS(t *testing.T) {
	expired, pool := mustCertificate(t, time.Now().Add(-time.Hour))
	addr := mustServeTLS(t, &tls.Config{Certificates: []tls.Certificate{expired}})
	proxy := mustServe(t, func(conn *net.TCPConn, r *bufio.Reader) {
		to, err := net.Dial("tcp", addr)
		if err != nil {
			return
		}
		defer to.Close()
		io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
		go io.Copy(conn, to)
		io.Copy(to, r)
	})
	c := upstream.New(upstream.Options{RootCAs: pool, Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: proxy})})
	_, err := c.Do(mustRequest(t, t.Context(), "GET", "https://"+addr, nil), false)
	if f := mustFail(t, err, upstream.TLS); !strings.Contains(f.Error(), "expired") {
		t.Errorf("got %v, want the reason", f)
	}
}

func TestARequestThatCannotBeSentIsDistinguishedFromABadResponse(t *testing.T) {
	c := upstream.New(upstream.Options{})
	for name, change := range map[string]func(*http.Request){
		"header value": func(r *http.Request) { r.Header["X-A"] = []string{"a\r\nX-B: pl4nted"} },
		"header name":  func(r *http.Request) { r.Header["X A"] = []string{"pl4nted"} },
		"scheme":       func(r *http.Request) { r.URL.Scheme = "ftp" },
		"host":         func(r *http.Request) { r.URL.Host = "" },
		"nil header":   func(r *http.Request) { r.Header = nil },
		"nil URL":      func(r *http.Request) { r.URL = nil },
	} {
		req := mustRequest(t, t.Context(), "POST", "http://models.example.com", strings.NewReader("x"))
		change(req)
		_, err := c.Do(req, false)
		if f := mustFail(t, err, upstream.BadRequest); strings.Contains(f.Error(), "pl4nted") {
			t.Errorf("%s: the text quotes the request: %v", name, f)
		}
	}
}

func TestAProviderThatNeverRespondsEndsInTheHeaderTimeout(t *testing.T) {
	quit := make(chan struct{})
	defer close(quit)
	addr := mustServe(t, func(*net.TCPConn, *bufio.Reader) { <-quit })
	w := upstream.NewWatchdog(t.Context(), upstream.Timeouts{Header: 20 * time.Millisecond, Total: time.Minute})
	defer w.Stop()
	_, err := upstream.New(upstream.Options{}).Do(mustRequest(t, w.Context(), "POST", "http://"+addr, strings.NewReader("{}")), false)
	f := mustFail(t, err, upstream.HeaderTimeout)
	if !f.Timeout() || !strings.Contains(f.Error(), "header timeout of 20ms") {
		t.Errorf("got %v, want the limit and its length", f)
	}
	if phase, ok := w.Expired(); !ok || phase != upstream.Header {
		t.Errorf("Expired() = %v, %t, want header, true", phase, ok)
	}
}

func TestAStreamThatStandsStillEndsInTheIdleTimeout(t *testing.T) {
	quit := make(chan struct{})
	defer close(quit)
	addr := mustServe(t, func(conn *net.TCPConn, _ *bufio.Reader) {
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n")
		<-quit
	})
	w := upstream.NewWatchdog(t.Context(), upstream.Timeouts{Header: time.Minute, FirstEvent: time.Minute, Idle: 20 * time.Millisecond})
	defer w.Stop()
	req := mustRequest(t, w.Context(), "POST", "http://"+addr+"/?key=pl4nted", strings.NewReader("{}"))
	resp, err := upstream.New(upstream.Options{}).Do(req, false)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	w.Phase(upstream.FirstEvent)
	if _, err := io.ReadFull(resp.Body, make([]byte, len("data: 1\n\n"))); err != nil {
		t.Fatal(err)
	}
	w.Phase(upstream.Idle)
	_, err = resp.Body.Read(make([]byte, 1))
	f := mustFail(t, upstream.Classify(req, err), upstream.IdleTimeout)
	if strings.Contains(f.Error(), "pl4nted") {
		t.Errorf("the text holds the credential: %v", f)
	}
}

func TestABodyThatBreaksOffIsAReset(t *testing.T) {
	for name, response := range map[string]string{
		"before its length": "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
		"inside a chunk":    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf",
		"between chunks":    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
	} {
		req := mustRequest(t, t.Context(), "GET", "http://"+mustServeText(t, response), nil)
		resp, err := upstream.New(upstream.Options{}).Do(req, false)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if string(got) != "half" {
			t.Errorf("%s: read %q before the break, want all that came", name, got)
		}
		mustFail(t, upstream.Classify(req, err), upstream.Reset)
	}
}

func TestTheEndOfABodyIsNotAFailure(t *testing.T) {
	req := mustRequest(t, t.Context(), "GET", "http://models.example.com", nil)
	if f := upstream.Classify(req, io.EOF); f != nil {
		t.Errorf("Classify(io.EOF) = %v, want nil", f)
	}
	if f := upstream.Classify(req, nil); f != nil {
		t.Errorf("Classify(nil) = %v, want nil", f)
	}
}

func TestAClientThatLeavesCancels(t *testing.T) {
	quit, arrived := make(chan struct{}), make(chan struct{})
	defer close(quit)
	addr := mustServe(t, func(*net.TCPConn, *bufio.Reader) { close(arrived); <-quit })
	ctx, leave := context.WithCancel(t.Context())
	go func() { <-arrived; leave() }()
	_, err := upstream.New(upstream.Options{}).Do(mustRequest(t, ctx, "POST", "http://"+addr, strings.NewReader("{}")), false)
	if f := mustFail(t, err, upstream.Canceled); !errors.Is(f, context.Canceled) || f.Timeout() {
		t.Errorf("got %v with cause %v, want one that is context.Canceled", f, f.Err)
	}
}

func TestAKeptConnectionThatEndsIsAReset(t *testing.T) {
	for _, maxPerHost := range []int{0, 9} { // requests go inline, or through a transport
		addr := mustServe(t, func(conn *net.TCPConn, r *bufio.Reader) {
			r.Discard(2)
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			http.ReadRequest(r)
		})
		c := upstream.New(upstream.Options{MaxPerHost: maxPerHost})
		post := func() *http.Request {
			return mustRequest(t, t.Context(), "POST", "http://"+addr, strings.NewReader("{}"))
		}
		resp, err := c.Do(post(), false)
		if err != nil {
			t.Fatal(err)
		}
		mustRead(t, resp)
		_, err = c.Do(post(), false)
		mustFail(t, err, upstream.Reset)
	}
}

func TestAnHTTP2ConnectionThatSaysGoodbyeIsAReset(t *testing.T) {
	cert, pool := mustCertificate(t, time.Now().Add(time.Hour))
	addr := mustServeGoAway(t, cert)
	c := upstream.New(upstream.Options{RootCAs: pool})
	_, err := c.Do(mustRequest(t, t.Context(), "POST", "https://"+addr, strings.NewReader("{}")), false)
	if f := mustFail(t, err, upstream.Reset); strings.Contains(f.Error(), "pl4nted") {
		t.Errorf("the text quotes the provider: %v", f)
	}
}

func TestTheConnectionLimitMakesRequestsWaitWithinTheirTimeout(t *testing.T) {
	quit := make(chan struct{})
	defer close(quit)
	addr := mustServe(t, func(conn *net.TCPConn, _ *bufio.Reader) {
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n")
		<-quit
	})
	c := upstream.New(upstream.Options{MaxPerHost: 1})
	resp, err := c.Do(mustRequest(t, t.Context(), "GET", "http://"+addr, nil), false)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	w := upstream.NewWatchdog(t.Context(), upstream.Timeouts{Header: 20 * time.Millisecond})
	defer w.Stop()
	_, err = c.Do(mustRequest(t, w.Context(), "GET", "http://"+addr, nil), false)
	mustFail(t, err, upstream.HeaderTimeout)
}

func poolOf(s *httptest.Server) *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	return pool
}

// mustClosedPort returns an address on which nobody listens.
func mustClosedPort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// mustPlain speaks HTTP/1.1 without TLS: it answers anything with an error.
func mustPlain(t *testing.T) string {
	t.Helper()
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = discardLog
	s.Start()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}
