package upstream_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"modelgate/internal/upstream"
)

// TestFailuresTellWhetherAnythingWasSent ends requests before a connection is ready for
// them, and when the provider has them, on every way of sending.
func TestFailuresTellWhetherAnythingWasSent(t *testing.T) {
	cert, pool := mustCertificate(t, time.Now().Add(time.Hour))
	large := strings.Repeat("a", 100_000)
	for _, tt := range []struct {
		name, scheme string
		protocol     string // that the provider offers; empty without TLS
		body         func() io.Reader
	}{
		{"small", "http", "", func() io.Reader { return strings.NewReader("{}") }},
		{"large", "http", "", func() io.Reader { return strings.NewReader(large) }},
		{"TLS", "https", "http/1.1", func() io.Reader { return strings.NewReader("{}") }},
		{"HTTP/2", "https", "h2", func() io.Reader { return strings.NewReader("{}") }},
		{"upload", "http", "", func() io.Reader { return io.NopCloser(strings.NewReader(large)) }},
		{"upload over HTTP/2", "https", "h2", func() io.Reader { return io.NopCloser(strings.NewReader(large)) }},
		{"no body", "http", "", func() io.Reader { return nil }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			arrived, dialled := make(chan bool, 8), make(chan bool, 8)
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				arrived <- true
				<-r.Context().Done()
				panic(http.ErrAbortHandler) // a response could arrive while the client closes TLS
			}))
			s.EnableHTTP2 = tt.protocol == "h2"
			if tt.protocol == "" {
				s.Start()
			} else {
				s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{tt.protocol}}
				s.StartTLS()
			}
			defer s.Close()
			options := upstream.Options{RootCAs: pool}
			c := upstream.New(options)
			options.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
				dialled <- true
				<-ctx.Done()
				return nil, ctx.Err()
			}
			unconnected := upstream.New(options)
			defer c.Close()
			addr := tt.scheme + "://" + s.Listener.Addr().String()
			send := func(c *upstream.Client, when <-chan bool) *upstream.Failure {
				t.Helper()
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				if when == nil {
					leave()
				} else {
					go func() { <-when; leave() }()
				}
				_, err := c.Do(mustRequest(t, ctx, "POST", addr, tt.body()), false)
				f := mustFail(t, err, upstream.Canceled)
				if !errors.Is(f, context.Canceled) {
					t.Errorf("the cause of the failure is %v", f.Err)
				}
				return f
			}
			if !send(c, nil).Unsent {
				t.Error("a request that had ended before may have been sent")
			}
			if send(c, arrived).Unsent {
				t.Error("nothing was sent of a request that the provider has")
			}
			if !send(unconnected, dialled).Unsent {
				t.Error("a request without a connection may have been sent")
			}
		})
	}
}

// TestRequestsThatAreRefusedHereAreUnsent refuses a host by a rule, and a request that HTTP
// can't carry.
func TestRequestsThatAreRefusedHereAreUnsent(t *testing.T) {
	c := upstream.New(upstream.Options{})
	_, err := c.Do(mustRequest(t, t.Context(), "POST", "http://10.0.0.1", strings.NewReader("x")), true)
	if f := mustFail(t, err, upstream.Refused); !f.Unsent || f.Rule == "" {
		t.Errorf("a refused host: %+v", f)
	}
	req := mustRequest(t, t.Context(), "POST", "http://models.example.com", strings.NewReader("x"))
	req.Header["X A"] = []string{"b"}
	_, err = c.Do(req, false)
	if f := mustFail(t, err, upstream.BadRequest); !f.Unsent {
		t.Errorf("a header that can't be sent: %+v", f)
	}
}

// TestConnectionsThatBreakMayHaveTheRequest closes connections when the provider has read
// the request.
func TestConnectionsThatBreakMayHaveTheRequest(t *testing.T) {
	addr := mustServe(t, func(conn *net.TCPConn, r *bufio.Reader) { conn.SetLinger(0) })
	for _, body := range []io.Reader{strings.NewReader("{}"), strings.NewReader(strings.Repeat("a", 100_000))} {
		_, err := upstream.New(upstream.Options{}).Do(mustRequest(t, t.Context(), "POST", "http://"+addr, body), false)
		if f := mustFail(t, err, upstream.Reset); f.Unsent {
			t.Errorf("%+v", f)
		}
	}
}
