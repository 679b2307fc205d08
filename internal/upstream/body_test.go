package upstream_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"modelgate/internal/base/bytepool"
	"modelgate/internal/upstream"
)

// countingConn counts the writes of a connection, each of which is a system call.
type countingConn struct {
	net.Conn
	writes *atomic.Int32
}

func (c countingConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

func TestShortRequestsAreSentInOneWrite(t *testing.T) {
	e := mustEcho(t)
	for name, o := range map[string]upstream.Options{"inline": {}, "transport": limited} {
		t.Run(name, func(t *testing.T) {
			var writes atomic.Int32
			o.TrustLoopback = true
			o.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				c, err := new(net.Dialer).DialContext(ctx, network, addr)
				return countingConn{c, &writes}, err
			}
			c := upstream.New(o)
			defer c.Close()
			pool := bytepool.New(0)
			body := strings.Repeat("a short body ", 400)
			b, err := pool.ReadAll(strings.NewReader(body), int64(len(body)), 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			req, err := http.NewRequest(http.MethodPost, e.URL, b.Reader())
			if err != nil {
				t.Fatal(err)
			}
			req.ContentLength, req.GetBody = int64(len(body)), b.Open
			if out := outcomeOf(c, req); out.Body != body {
				t.Errorf("the provider received %d bytes (%+v), want %d", len(out.Body), out, len(body))
			}
			if n := writes.Load(); n != 1 {
				t.Errorf("the request took %d writes, want 1", n)
			}
			b.Release()
			if used := pool.Used(); used != 0 {
				t.Errorf("%d bytes are still in use after the response", used)
			}
		})
	}
}
